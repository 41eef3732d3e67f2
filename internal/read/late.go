package read

import (
	"context"
	"math"

	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/internal/late"
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/internal/samplemerge"
	"github.com/seed347100a3/tsdb/labels"
)

// Late is what there is to read of the late samples of a head as of one snapshot. They have no
// place in files, and deletes are taken off them already.
type Late struct {
	Place    PlaceID
	Series   *memseries.Directory
	Store    *late.Store
	Snapshot uint64
	From, To int64 // closed bounds of the samples that are read
}

// Walk returns a walk through series that has not begun, as Head.Walk does.
func (l *Late) Walk(series []*memseries.Series, mint, maxt int64) *LateWalk {
	w := &LateWalk{found: series}
	w.series.r = &lateReader{Late: *l, mint: mint, maxt: maxt}
	return w
}

// LateWalk reads the chunks of some series with late samples, one after the other, as a flush does.
// It belongs to one goroutine.
type LateWalk struct {
	gate   Gate // which nobody closes
	found  []*memseries.Series
	series lateSeries // the one that it is at
	chunks ChunkIterator
}

// Next moves to the next series, which must be there, and returns its chunks. They are gone with
// the call for the series behind it.
func (w *LateWalk) Next() *ChunkIterator {
	w.series.s = w.found[0]
	w.found = w.found[1:]
	w.chunks.begin(&w.gate, &mergedSeries{first: &w.series})
	return &w.chunks
}

// lateReader reads late samples in a range.
type lateReader struct {
	Late
	mint, maxt int64
	whole      bool // chunks in the range may be seen beyond it
}

// narrow implements source.
func (r *lateReader) narrow(mint, maxt int64, whole bool) source {
	n := *r
	n.whole = whole
	n.mint, n.maxt = max(r.mint, mint), min(r.maxt, maxt)
	if n.mint > n.maxt {
		return nil
	}
	return &n
}

// visible returns the closed bounds of what may be seen of chunks in the range.
func (r *lateReader) visible() (mint, maxt int64) {
	if r.whole {
		return math.MinInt64, math.MaxInt64
	}
	return r.mint, r.maxt
}

// reach implements source.
func (r *lateReader) reach() (mint, maxt int64) { return r.mint, r.maxt }

// selectSeries implements source.
func (r *lateReader) selectSeries(ctx context.Context, ms []*labels.Matcher, transient bool, _ *[]error) (seriesCursor, error) {
	found, err := r.selected(ctx, ms)
	if err != nil {
		return nil, err
	}
	index.SortByLabels(r.Series.Postings(), found, r.Series.Pairs)
	return &lateCursor{r: r, found: found, transient: transient}, nil
}

// anySeries implements source.
func (r *lateReader) anySeries(ctx context.Context, ms []*labels.Matcher, _ *[]error) (seriesCursor, error) {
	found, err := r.selected(ctx, ms)
	return &lateCursor{r: r, found: found, transient: true}, err
}

// selected returns the matching series that may have late samples in the range.
func (r *lateReader) selected(ctx context.Context, ms []*labels.Matcher) (found []*memseries.Series, err error) {
	err = r.Series.Postings().Selected(ctx, func(refs []uint64) error {
		for i, ref := range refs {
			if i%pollEvery == 0 && ctx.Err() != nil {
				break
			}
			if r.Store.Overlaps(ref, r.mint, r.maxt) {
				if s := r.Series.ByRef(ref); s != nil {
					found = append(found, s)
				}
			}
		}
		return ctx.Err()
	}, ms...)
	return found, err
}

// labelNames implements source.
func (r *lateReader) labelNames(ctx context.Context, ms []*labels.Matcher, passed *[]error) ([]string, error) {
	return labelsOfSet(ctx, r, ms, passed, func(l labels.Label) (string, bool) { return l.Name, true })
}

// labelValues implements source.
func (r *lateReader) labelValues(ctx context.Context, name string, ms []*labels.Matcher, passed *[]error) ([]string, error) {
	return labelsOfSet(ctx, r, ms, passed, func(l labels.Label) (string, bool) { return l.Value, l.Name == name })
}

// lateCursor goes through sorted series.
type lateCursor struct {
	r         *lateReader
	found     []*memseries.Series // those that are left
	transient bool
	room      lateSeries // the next one, if they are transient
}

func (c *lateCursor) next(context.Context) (sourceSeries, error) {
	if len(c.found) == 0 {
		return nil, nil
	}
	s := &c.room
	if !c.transient {
		s = new(lateSeries)
	}
	s.r, s.s = c.r, c.found[0]
	c.found = c.found[1:]
	return s, nil
}

func (c *lateCursor) most() int        { return len(c.found) }
func (c *lateCursor) allPresent() bool { return false }
func (c *lateCursor) place() PlaceID   { return c.r.Place }

// lateSeries is the late samples of one series in a snapshot.
type lateSeries struct {
	r *lateReader
	s *memseries.Series
}

func (ls *lateSeries) labels() labels.Labels { return labelsOf(ls.r.Series, ls.s) }

func (ls *lateSeries) appendLabels(dst []labels.Label) []labels.Label {
	return appendPairs(dst, ls.r.Series, ls.s)
}

func (ls *lateSeries) number() uint64 { return ls.s.Ref() }

func (ls *lateSeries) labelKeys(dst []uint64) []uint64 { return appendPairKeys(dst, ls.r.Series, ls.s) }

func (ls *lateSeries) labelText(dst []byte, key uint64) ([]byte, int, error) {
	return appendPairText(dst, ls.r.Series, key)
}

// present knows nothing without a look: what overlaps the range may be deleted, or not yet there.
func (ls *lateSeries) present() bool { return false }

func (ls *lateSeries) span() (mint, maxt int64) { return ls.r.visible() }

// outline implements sourceSeries. What cannot be read is found out by who reads it.
func (ls *lateSeries) outline(room *outlineRoom, _ bool) (chunks []index.ChunkMeta, in samplemerge.Bounds, coarse bool) {
	in = samplemerge.Everything()
	in.From, in.To = ls.r.visible()
	if err := ls.take(&room.late); err != nil {
		return nil, in, false
	}
	for _, c := range room.late.Chunks {
		room.chunks = append(room.chunks, index.ChunkMeta{MinT: c.MinT, MaxT: c.MaxT})
	}
	return room.chunks, in, false
}

func (ls *lateSeries) take(e *late.Excerpt) error {
	return e.Take(ls.r.Store, ls.s.Ref(), ls.r.Snapshot, ls.r.mint, ls.r.maxt)
}

func (ls *lateSeries) open(reuse chunkSource) chunkSource {
	src, ok := reuse.(*lateChunks)
	if !ok {
		src = &lateChunks{}
	}
	src.at = 0
	src.in = samplemerge.Everything()
	src.in.From, src.in.To = ls.r.visible()
	src.err = ls.take(&src.excerpt)
	return src
}

// lateChunks gives the chunks of an excerpt.
type lateChunks struct {
	excerpt late.Excerpt
	in      samplemerge.Bounds
	at      int
	err     error
}

// Next implements chunkSource.
func (lc *lateChunks) Next(from int64, out *samplemerge.Chunk) (bool, error) {
	chunks := lc.excerpt.Chunks
	for lc.err == nil && lc.at < len(chunks) && chunks[lc.at].MaxT < from {
		lc.at++
	}
	if lc.err != nil || lc.at == len(chunks) {
		return false, lc.err
	}
	c := &chunks[lc.at]
	lc.at++
	*out = samplemerge.Chunk{Encoding: c.Encoding, Data: c.Data, MinT: c.MinT, MaxT: c.MaxT, Bounds: lc.in}
	return true, nil
}

// Place implements chunkSource: what is in memory has no place.
func (lc *lateChunks) Place(err error) error { return err }
