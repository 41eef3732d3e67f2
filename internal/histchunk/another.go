package histchunk

import (
	"math"

	"github.com/seed347100a3/tsdb/histogram"
)

// another is room for what is done when a sample has other buckets than its chunk: both get
// the buckets of either.
type another struct {
	sides [2]fit
	wide  sample  // the sample with the buckets of both
	past  sample  // one of the chunk, likewise; its slices are its own
	dec   Decoder // of the chunk
	spare []byte  // its bytes
}

// fit is the buckets of one side of the chunk beside those of a sample.
type fit struct {
	union   histogram.SpanBuilder
	places  []int     // for each bucket of the chunk its place in the union
	ints    []int64   // deltas of the sample in the union; while they are put together, counts
	floats  []float64 // counts of the sample in the union
	missing bool      // the sample lacks one that the chunk has
	added   bool      // the chunk lacks one that the sample has
	fell    bool      // one that was in use is gone, or has a lower count
}

// compare puts the buckets of one side together. cols are those of the chunk.
func (f *fit) compare(spans []histogram.Span, cols []column, s *sample, side int) {
	*f = fit{
		union:  histogram.SpanBuilder{Spans: f.union.Spans[:0]},
		places: f.places[:0], ints: f.ints[:0], floats: f.floats[:0],
	}
	have, want := histogram.NewIndexes(spans), histogram.NewIndexes(s.spans[side])
	a, inChunk := have.Next()
	b, inSample := want.Next()
	var was, is int64 // counts of integers
	i, j := 0, 0
	for n := 0; inChunk || inSample; n++ {
		old := inChunk && (!inSample || a <= b)
		now := inSample && (!inChunk || b <= a)
		var before, count uint64
		f.missing, f.added = f.missing || !now, f.added || !old
		if old {
			f.union.Add(a)
			f.places = append(f.places, n)
			was += int64(cols[i].v)
			if before = uint64(was); s.float {
				before = cols[i].v
			}
			i++
			a, inChunk = have.Next()
		} else {
			f.union.Add(b)
		}
		if now {
			if s.float {
				count = math.Float64bits(s.floats[side][j])
			} else {
				is += s.ints[side][j]
				count = uint64(is)
			}
			j++
			b, inSample = want.Next()
		}
		f.add(s.float, before, count, now)
	}
	deltas(f.ints)
}

// add adds one bucket of the union: what it had in the chunk and has in the sample, 0 where
// it is not.
//
//go:noinline
func (f *fit) add(float bool, before, count uint64, now bool) {
	if !float {
		f.fell = f.fell || int64(count) < int64(before) || !now && before != 0
		f.ints = append(f.ints, int64(count))
		return
	}
	was, is := math.Float64frombits(before), math.Float64frombits(count)
	f.fell = f.fell || is < was || !now && was != 0
	f.floats = append(f.floats, is)
}

// size returns how many buckets both have together.
func (f *fit) size() int { return len(f.ints) + len(f.floats) }

// deltas turns counts into the differences between neighbours.
func deltas(counts []int64) {
	before := int64(0)
	for i, c := range counts {
		counts[i] = c - before
		before = c
	}
}

// widened returns the sample with the buckets of both. It is good until the next call.
func (o *another) widened(s *sample) *sample {
	o.wide = *s
	for side := range o.sides {
		o.wide.ints[side], o.wide.floats[side] = o.sides[side].ints, o.sides[side].floats
	}
	return &o.wide
}

// setLayout gives the chunk the buckets of both. If the sample has all of them, spans are
// written as it writes them, else as few as there can be: of counters only where the two
// differ.
func (o *another) setLayout(l *layout, s *sample, gauge bool) {
	missing := o.sides[0].missing || o.sides[1].missing
	for side := range o.sides {
		f := &o.sides[side]
		if missing && (gauge || f.missing || f.added) {
			l.setSpans(side, f.union.Spans)
		} else {
			l.setSpans(side, s.spans[side])
		}
	}
}

// recode encodes the chunk again: with the buckets of a sample added, if there are new ones,
// and with room for start timestamps, if st is true.
func (e *Encoder) recode(s *sample, grown, st bool) {
	if e.other == nil {
		e.other = &another{}
	}
	o := e.other
	o.spare = e.AppendTo(o.spare[:0])
	must(o.dec.Reset(e.Encoding(), o.spare)) // these bytes are our own
	if grown {
		o.setLayout(&e.layout, s, e.header == HeaderGauge)
	}
	e.st = e.st || st
	e.starts = starts{}
	e.restart()
	for o.dec.Next() {
		e.write(o.dec.T(), o.dec.ST(), o.again(e.float, grown))
	}
	must(o.dec.Err())
}

// again returns the present sample of the decoder, with the buckets that the chunk gets. It
// is good until the next call.
func (o *another) again(float, grown bool) *sample {
	d, s := &o.dec, &o.past
	s.float, s.stale = float, d.Stale()
	s.count, s.zero, s.sum = d.count().v, d.zero().v, d.sum.v
	cols := d.cols
	if s.stale {
		s.count, s.zero, cols = 0, 0, nil
	}
	for side := range o.sides {
		n := min(d.layout.buckets[side], len(cols))
		var places []int
		room := n
		if f := &o.sides[side]; grown && !s.stale {
			places, room = f.places, f.size()
		}
		s.ints[side], s.floats[side] = s.ints[side][:0], s.floats[side][:0]
		if float {
			s.floats[side] = spreadFloats(s.floats[side], cols[:n], places, room)
		} else {
			s.ints[side] = spreadInts(s.ints[side], cols[:n], places, room)
		}
		cols = cols[n:]
	}
	return s
}

// spreadInts appends room deltas to dst: those of cols, whose counts go to their places, or
// stay where they are if there are no places.
func spreadInts(dst []int64, cols []column, places []int, room int) []int64 {
	dst = append(dst, make([]int64, room)...)
	count := int64(0)
	for i := range cols {
		count += int64(cols[i].v)
		dst[place(places, i)] = count
	}
	deltas(dst)
	return dst
}

// spreadFloats is spreadInts of floats.
func spreadFloats(dst []float64, cols []column, places []int, room int) []float64 {
	dst = append(dst, make([]float64, room)...)
	for i := range cols {
		dst[place(places, i)] = math.Float64frombits(cols[i].v)
	}
	return dst
}

// place returns where bucket i goes.
func place(places []int, i int) int {
	if places == nil {
		return i
	}
	return places[i]
}
