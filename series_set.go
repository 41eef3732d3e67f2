package tsdb

import (
	"iter"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/read"
	"github.com/seed347100a3/tsdb/labels"
)

// SeriesSet is the result of Select, a cursor for one goroutine:
//
//	for set.Next() {
//		s := set.At()
//		...
//	}
//	if set.Err() != nil ...
type SeriesSet struct {
	set  *read.Set
	cur  *Series
	room []Series // for the next ones
	last int      // how many there was room for at first
}

// seriesSlab is how many series are allocated together at most: 480 bytes, for a quarter of the
// time of ten times 48 (BenchmarkSelectHead/labels).
const seriesSlab = 10

// Next moves to the next series. Once it has returned false it always does.
func (ss *SeriesSet) Next() bool {
	next, ok := ss.set.Next()
	if !ok {
		return false
	}
	if ss.cur == nil || !ss.set.Transient() {
		ss.cur = ss.place()
	}
	ss.cur.series = next
	ss.set.Place(&ss.cur.series)
	return true
}

// place returns the memory of a series that the caller may hold on to. A set of few has
// little more than they need.
func (ss *SeriesSet) place() *Series {
	if len(ss.room) == 0 {
		ss.last = min(2*ss.last+1, seriesSlab)
		ss.room = make([]Series, ss.last)
	}
	s := &ss.room[0]
	ss.room = ss.room[1:]
	return s
}

// At returns the series that the set stands on. It stays valid when the set moves on,
// unless SelectHints.Transient was set.
func (ss *SeriesSet) At() *Series { return ss.cur }

// Err returns what ended the set, nil for its end.
func (ss *SeriesSet) Err() error { return ss.set.Err() }

// Warnings returns what is to be known about the result; ask at its end.
func (ss *SeriesSet) Warnings() Warnings { return ss.set.Warnings() }

// All ranges over the series that are left; an error comes last, with a nil series.
func (ss *SeriesSet) All() iter.Seq2[*Series, error] {
	return func(yield func(*Series, error) bool) {
		for ss.Next() {
			if !yield(ss.At(), nil) {
				return
			}
		}
		if err := ss.Err(); err != nil {
			yield(nil, err)
		}
	}
}

// Series is one series of a result. It may be iterated any number of times until its
// Querier is closed, then iterators give ErrClosed.
type Series struct{ series read.Series }

// Labels returns the labels; none when the Querier is closed. The result belongs to the
// caller for ever.
func (s *Series) Labels() labels.Labels { return s.series.Labels() }

// AppendLabels appends the labels to dst, sorted by name, without allocating anything
// else. The strings stay valid for as long as anybody holds them.
func (s *Series) AppendLabels(dst []labels.Label) []labels.Label {
	return s.series.AppendLabels(dst)
}

// Iterator returns an iterator before the first sample. A reuse that an earlier call returned is
// used again, with its memory; anything else is ignored. The iterator is for one goroutine.
func (s *Series) Iterator(reuse chunkenc.Iterator) chunkenc.Iterator {
	return s.series.Iterator(reuse)
}

// Samples ranges over the samples from the oldest to the newest; times are in milliseconds. Ask Err
// behind the loop. Histograms are left out: an Iterator has samples of every kind. The loop
// allocates nothing for the series.
func (s *Series) Samples() iter.Seq2[int64, float64] {
	return func(yield func(int64, float64) bool) { s.series.Samples(yield) } // inlined: a loop has it for nothing
}

// Err returns what ended the last loop over Samples too early, nil if nothing did: ErrClosed,
// ErrCorrupt. Of a series that several goroutines range over it is that of the last one.
func (s *Series) Err() error { return s.series.Broken() }

// Last returns the newest sample in the range of the Querier, of any kind; false if there is none.
// Only chunks are decoded that may have it: one, as a rule. ErrClosed, ErrCorrupt.
func (s *Series) Last() (last Sample, ok bool, err error) {
	of, ok, err := s.series.Last()
	return Sample(of), ok, err
}

// Bounds returns the times of the oldest and the newest sample in the range of the Querier, in
// milliseconds; mint > maxt: there is none. They are taken from the bounds of chunks: only where
// the range or a delete cuts into the first or the last one it is decoded. ErrClosed, ErrCorrupt.
func (s *Series) Bounds() (mint, maxt int64, err error) { return s.series.Bounds() }
