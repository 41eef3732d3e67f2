package read

import (
	"context"
	"math"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/internal/late"
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/internal/samplemerge"
	"github.com/seed347100a3/tsdb/labels"
)

// The times of the oldest and the newest sample of a series are mostly known without a look at any:
// the ends of a chunk are samples. Only a chunk whose end is outside of the range, or deleted, is
// decoded, and only if nothing else is known of what lies behind it (BenchmarkSeriesLast).

// outline is what one place has of a series: the bounds of its chunks, oldest first and without
// overlap, and what of them may be seen. Chunks have no Ref if they are of the head.
type outline struct {
	series sourceSeries
	chunks []index.ChunkMeta
	in     samplemerge.Bounds
	coarse bool // the head: all its chunks are one, whose ends are samples
}

// outlineRoom is memory for the outline of a place that has none at hand. Chunks are empty.
type outlineRoom struct {
	chunks  []index.ChunkMeta
	excerpt memseries.Excerpt
	late    late.Excerpt
}

// noSample is the newest time of no samples; no sample can have it. The oldest is math.MaxInt64.
const noSample = math.MinInt64

// endFinder finds the oldest and the newest sample of series that may be seen. It keeps its memory
// from series to series. The zero value is ready. Whoever uses it holds the Gate.
type endFinder struct {
	parts  []sourceSeries
	places []outline
	rooms  []*outlineRoom // by place
	src    chunkSource
	chunk  samplemerge.Chunk
	runs   samplemerge.Runs
	run    chunkenc.Batch
}

// begin goes to a series.
func (f *endFinder) begin(m *mergedSeries) {
	f.parts, f.places = m.appendParts(f.parts[:0]), f.places[:0]
	for i, s := range f.parts {
		if i == len(f.rooms) {
			f.rooms = append(f.rooms, new(outlineRoom))
		}
		f.rooms[i].chunks = f.rooms[i].chunks[:0]
		o := outline{series: s}
		o.chunks, o.in, o.coarse = s.outline(f.rooms[i], false)
		f.places = append(f.places, o)
	}
}

// refine gives a place that is coarse its chunks one by one, and reports whether it was.
func (f *endFinder) refine(i int) bool {
	o := &f.places[i]
	if !o.coarse {
		return false
	}
	f.rooms[i].chunks = f.rooms[i].chunks[:0]
	o.chunks, o.in, o.coarse = o.series.outline(f.rooms[i], true)
	return true
}

// newest returns the time of the newest sample that may be seen, if it is behind a time: that of
// others, or noSample. Otherwise it returns that.
func (f *endFinder) newest(behind int64) (t int64, err error) {
	for i := range f.places { // what needs no decoding comes first
		o := &f.places[i]
		if n := len(o.chunks); n > 0 && o.chunks[n-1].MaxT > behind && o.in.Shows(o.chunks[n-1].MaxT) {
			behind = o.chunks[n-1].MaxT
		}
	}
	for i := len(f.places) - 1; i >= 0 && err == nil; i-- {
		behind, err = f.newestOf(i, behind)
	}
	return behind, err
}

// newestOf is newest for one place.
func (f *endFinder) newestOf(i int, behind int64) (int64, error) {
	o := &f.places[i]
	for n := len(o.chunks); n > 0 && min(o.chunks[n-1].MaxT, o.in.To) > behind; n-- {
		c := &o.chunks[n-1]
		switch {
		case o.in.Shows(c.MaxT):
			return c.MaxT, nil
		case o.in.Hides(c.MinT, c.MaxT):
		case f.refine(i):
			n = len(o.chunks) + 1
		default:
			if _, last, err := f.inside(o, c); last > behind || err != nil {
				return last, err
			}
		}
	}
	return behind, nil
}

// oldest is newest for the other end: before a time, or math.MaxInt64.
func (f *endFinder) oldest(before int64) (t int64, err error) {
	for i := range f.places {
		o := &f.places[i]
		if len(o.chunks) > 0 && o.chunks[0].MinT < before && o.in.Shows(o.chunks[0].MinT) {
			before = o.chunks[0].MinT
		}
	}
	for i := 0; i < len(f.places) && err == nil; i++ {
		before, err = f.oldestOf(i, before)
	}
	return before, err
}

// oldestOf is oldest for one place.
func (f *endFinder) oldestOf(i int, before int64) (int64, error) {
	o := &f.places[i]
	for n := 0; n < len(o.chunks) && max(o.chunks[n].MinT, o.in.From) < before; n++ {
		c := &o.chunks[n]
		switch {
		case o.in.Shows(c.MinT):
			return c.MinT, nil
		case o.in.Hides(c.MinT, c.MaxT):
		case f.refine(i):
			n = -1
		default:
			if first, _, err := f.inside(o, c); first < before || err != nil {
				return first, err
			}
		}
	}
	return before, nil
}

// inside decodes a chunk, and returns the times of its first and last sample that may be seen;
// math.MaxInt64 and noSample if there is none. A flush may have split the chunk since its outline
// was taken: then its parts are decoded, one after the other.
func (f *endFinder) inside(o *outline, c *index.ChunkMeta) (first, last int64, _ error) {
	first, last = math.MaxInt64, noSample
	f.src = o.series.open(f.src)
	for {
		ok, err := f.src.Next(c.MinT, &f.chunk)
		if !ok || f.chunk.MinT > c.MaxT { // or nothing is left of one that was damaged
			return first, last, err
		}
		from, to, err := f.decode()
		first, last = min(first, from), max(last, to)
		if err != nil || f.chunk.MaxT >= c.MaxT { // the next chunk is not read: it may be damaged
			return first, last, err
		}
	}
}

// decode is inside for the chunk that was read last.
func (f *endFinder) decode() (first, last int64, err error) {
	first, last = math.MaxInt64, noSample
	if err = f.runs.Reset(&f.chunk); err != nil {
		return first, last, f.src.Place(err)
	}
	for {
		if err = f.runs.Next(&f.run); err != nil {
			return first, last, f.src.Place(err)
		}
		if f.run.Len() == 0 {
			return first, last, nil
		}
		if f.chunk.Clip(&f.run); f.run.Len() > 0 {
			first, last = min(first, f.run.T[0]), f.run.T[f.run.Len()-1]
		}
	}
}

// bounds widens closed bounds to those of the series.
func (f *endFinder) bounds(mint, maxt int64) (_, _ int64, err error) {
	if mint, err = f.oldest(mint); err == nil {
		maxt, err = f.newest(maxt)
	}
	return mint, maxt, err
}

// findEnds returns a finder that is at a series, and is to leave it; false if the Query is closed.
func findEnds(s *Series) (*endFinder, bool) {
	if !s.q.begin() {
		return nil, false
	}
	t := holdTools(s.q)
	f := t.finder
	t.finder = nil
	s.q.tools.Unlock()
	if f == nil {
		f = new(endFinder)
	}
	f.begin(&s.merged)
	return f, true
}

// leave ends what findEnds began.
func (f *endFinder) leave(q *Query) {
	holdTools(q).finder = f
	q.tools.Unlock()
	q.end()
}

// boundsOf widens closed bounds to those of the series of a place, until there is nothing more that
// it could have.
func (f *endFinder) boundsOf(ctx context.Context, src source, mint, maxt int64, warnings *[]error, ms []*labels.Matcher) (_, _ int64, err error) {
	early, late := src.reach()
	if mint <= early && maxt >= late {
		return mint, maxt, nil
	}
	c, err := src.anySeries(ctx, ms, warnings)
	for err == nil && (mint > early || maxt < late) {
		var s sourceSeries
		if s, err = c.next(ctx); s == nil {
			break
		}
		f.begin(&mergedSeries{first: s})
		mint, maxt, err = f.bounds(mint, maxt)
	}
	return mint, maxt, err
}
