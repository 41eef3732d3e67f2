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
	q        *Querier
	series   []mergedSeries
	at       int
	cur      *Series
	warnings Warnings
	err      error
}

// Next moves to the next series.
func (ss *SeriesSet) Next() bool {
	if ss.err == nil && ss.q.closed.Load() {
		ss.err = ErrClosed
	}
	if ss.err != nil || ss.at == len(ss.series) {
		return false
	}
	ss.cur = &Series{q: ss.q, merged: ss.series[ss.at]}
	ss.at++
	return true
}

// At returns the series that the set stands on. It stays valid when the set moves on.
func (ss *SeriesSet) At() *Series { return ss.cur }

// Len returns the number of series in the set, wherever it stands.
func (ss *SeriesSet) Len() int { return len(ss.series) }

// Err returns what ended the set, nil for its end.
func (ss *SeriesSet) Err() error { return ss.err }

// Warnings returns what is to be known about the result.
func (ss *SeriesSet) Warnings() Warnings { return ss.warnings }

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

// Labels returns the labels. The result belongs to the caller for ever.
func (s *Series) Labels() labels.Labels {
	var few [32]labels.Label // what most series need; more are allocated
	return labels.New(s.AppendLabels(few[:0])...)
}

// AppendLabels appends the labels to dst, sorted by name, without allocating anything
// else. The strings stay valid for as long as anybody holds them.
func (s *Series) AppendLabels(dst []labels.Label) []labels.Label {
	return s.merged.first.appendLabels(dst)
}

// Iterator returns an iterator before the first sample. A reuse that an earlier call
// returned is used again, with its memory; anything else is ignored. The iterator is
// for one goroutine.
func (s *Series) Iterator(reuse chunkenc.Iterator) chunkenc.Iterator {
	if len(s.merged.more) == 0 {
		it, ok := reuse.(*seriesIterator)
		if !ok {
			it = &seriesIterator{}
		}
		s.q.iterate(s.merged.first, it)
		return it
	}
	parts := make([]chunkenc.Iterator, 1+len(s.merged.more))
	for i := range parts {
		it := &seriesIterator{}
		src := s.merged.first
		if i > 0 {
			src = s.merged.more[i-1]
		}
		s.q.iterate(src, it)
		parts[i] = it
	}
	return newMergeIterator(parts)
}

// iterate points an iterator at what one source has.
func (q *Querier) iterate(s sourceSeries, it *seriesIterator) {
	if q.closed.Load() {
		it.reset(nil, bounds{}, &q.closed)
		it.fail(ErrClosed)
		return
	}
	src, b := s.open(it.src)
	it.reset(src, b, &q.closed)
}
