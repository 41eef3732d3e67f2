package tsdb

import (
	"iter"

	"github.com/seed347100a3/tsdb/chunkenc"
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
	q      *Querier
	series *seriesMerger // nil after an error
	cur    *Series
	room   []Series // for the next ones
	last   int      // how many there was room for at first
	err    error
}

// seriesSlab is how many series are allocated together at most: 480 bytes, for a quarter of the
// time of ten times 48 (BenchmarkSelectHead/labels).
const seriesSlab = 10

// Next moves to the next series. Once it has returned false it always does.
func (ss *SeriesSet) Next() bool {
	ss.q.iterators.withdraw()
	for {
		merged, ok := ss.q.nextSeries(ss.series, &ss.err)
		if !ok {
			return false
		}
		var it *seriesIterator
		if ss.series.mustLook(&merged) {
			if it = ss.q.iterators.next(); !it.prime(ss.q, &merged) {
				ss.q.iterators.back(it)
				ss.err = ss.series.ctx.Err()
				continue
			}
		}
		if !ss.series.admit() {
			return false
		}
		if ss.cur == nil || !ss.series.transient {
			ss.cur = ss.place()
		}
		*ss.cur = Series{q: ss.q, merged: merged}
		if it != nil {
			ss.q.iterators.offer(ss.cur, it)
		}
		return true
	}
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

// nextSeries returns the next series of both kinds of sets; whether it has a sample is not
// known yet.
func (q *Querier) nextSeries(series *seriesMerger, err *error) (merged mergedSeries, ok bool) {
	if *err != nil || series.ended {
		return mergedSeries{}, false
	}
	series.turns.Step(seriesATurn)
	if !q.begin() {
		*err = ErrClosed
		return mergedSeries{}, false
	}
	defer q.end()
	merged, ok, *err = series.next()
	if failure := q.failure.Load(); failure != nil && *err == nil {
		*err = *failure
	}
	return merged, ok && *err == nil
}

// At returns the series that the set stands on. It stays valid when the set moves on,
// unless SelectHints.Transient was set.
func (ss *SeriesSet) At() *Series { return ss.cur }

// Err returns what ended the set, nil for its end.
func (ss *SeriesSet) Err() error { return ss.err }

// Warnings returns what is to be known about the result; ask at its end.
func (ss *SeriesSet) Warnings() Warnings {
	if ss.series == nil {
		return nil
	}
	return ss.series.warnings
}

// All ranges over the series that are left; an error comes last, with a nil series.
func (ss *SeriesSet) All() iter.Seq2[*Series, error] {
	return func(yield func(*Series, error) bool) {
		for ss.Next() {
			if !yield(ss.At(), nil) {
				return
			}
		}
		if ss.err != nil {
			yield(nil, ss.err)
		}
	}
}

// Series is one series of a result. It may be iterated any number of times until its
// Querier is closed, then iterators give ErrClosed.
type Series struct {
	q      *Querier
	merged mergedSeries
}

// Labels returns the labels; none when the Querier is closed. The result belongs to the
// caller for ever.
func (s *Series) Labels() labels.Labels {
	if !s.q.begin() {
		return labels.Labels{}
	}
	defer s.q.end()
	return s.merged.first.labels()
}

// AppendLabels appends the labels to dst, sorted by name, without allocating anything
// else. The strings stay valid for as long as anybody holds them.
func (s *Series) AppendLabels(dst []labels.Label) []labels.Label {
	if !s.q.begin() {
		return dst
	}
	defer s.q.end()
	return s.merged.first.appendLabels(dst)
}

// Iterator returns an iterator before the first sample. A reuse that an earlier call
// returned is used again, with its memory; anything else is ignored. The iterator is
// for one goroutine.
func (s *Series) Iterator(reuse chunkenc.Iterator) chunkenc.Iterator {
	it, ok := reuse.(*seriesIterator)
	if prepared := s.q.iterators.take(s, it); prepared != nil {
		return prepared
	}
	if !ok {
		it = &seriesIterator{}
	}
	it.begin(s.q, &s.merged)
	return it
}
