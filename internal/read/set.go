package read

import (
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/wal"
)

// Set is the result of Select or SelectChunks, a cursor over series for one goroutine. Whoever has
// one keeps the series: Next gives it away, and Place tells where it lies.
type Set struct {
	series seriesMerger
	chunks bool // the reader wants chunks
	// What Next has begun to read the last series with, to see whether it has anything; for Place.
	begun       *iterator
	begunChunks *ChunkIterator
	err         error
}

// Next moves to the next series, and returns it; ok is false at the end and on an error. Once it
// is, it stays so.
func (s *Set) Next() (next Series, ok bool) {
	if s.err != nil {
		return Series{}, false
	}
	q := s.series.q
	s.begun, s.begunChunks = nil, nil // of a series that has no place
	if s.chunks {
		q.chunkIterators.withdraw()
	} else {
		q.iterators.withdraw()
	}
	for s.err == nil && !s.series.ended {
		s.series.pauses.Step(seriesAPause)
		merged, ok, err := s.nextMerged()
		if failure := q.failure.Load(); failure != nil && err == nil {
			err = *failure
		}
		if s.err = err; !ok || err != nil {
			break
		}
		if s.series.look && !s.shows(merged) {
			s.err = s.series.ctx.Err()
			continue
		}
		if !s.series.admit() {
			break
		}
		return Series{q: q, merged: merged}, true
	}
	return Series{}, false
}

// nextMerged returns the next series of all places.
func (s *Set) nextMerged() (next mergedSeries, ok bool, err error) {
	if !s.series.q.begin() {
		return mergedSeries{}, false, wal.ErrClosed
	}
	defer s.series.q.end()
	return s.series.next()
}

// shows reports whether a series has a sample that may be seen. Where nothing else tells it is
// begun to be read.
func (s *Set) shows(m mergedSeries) bool {
	q := s.series.q
	switch {
	case m.present():
		return true
	case s.chunks:
		it := q.chunkIterators.next()
		if !it.prime(&q.Gate, &m) {
			q.chunkIterators.back(it)
			return false
		}
		s.begunChunks = it
	default:
		it := q.iterators.next()
		if !it.prime(&q.Gate, &m) {
			q.iterators.back(it)
			return false
		}
		s.begun = it
	}
	return true
}

// Place tells where the series that Next returned lies from now on, until the next one, or for
// ever.
func (s *Set) Place(at *Series) {
	if s.begun != nil || s.begunChunks != nil {
		s.offer(at)
	}
}

// offer lets the first who reads the series have what Next has begun.
func (s *Set) offer(at *Series) {
	q := s.series.q
	if s.begunChunks != nil {
		q.chunkIterators.offer(at, s.begunChunks)
	} else {
		q.iterators.offer(at, s.begun)
	}
	s.begun, s.begunChunks = nil, nil
}

// Transient reports whether a series is good until the next one only.
func (s *Set) Transient() bool { return s.series.transient }

// Err returns what ended the set, nil for its end.
func (s *Set) Err() error { return s.err }

// Warnings returns what is to be known about the result so far.
func (s *Set) Warnings() []error { return s.series.warnings }

// Series is one series of a result, with what each place has of it. It may be read by any number of
// goroutines.
type Series struct {
	q      *Query
	merged mergedSeries
}

// Labels returns the labels; none when the Query is closed. The result belongs to the
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

// Iterator returns an iterator before the first sample, for one goroutine. A reuse that an earlier
// call returned is used again, with its memory; anything else is ignored.
func (s *Series) Iterator(reuse chunkenc.Iterator) chunkenc.Iterator {
	it, ok := reuse.(*iterator)
	if prepared := s.q.iterators.take(s, it); prepared != nil {
		return prepared
	}
	if !ok {
		it = &iterator{}
	}
	it.begin(&s.q.Gate, &s.merged)
	return it
}

// Chunks returns a cursor over the chunks, oldest first; they do not overlap. A reuse
// that an earlier call returned is used again; nil is fine.
func (s *Series) Chunks(reuse *ChunkIterator) *ChunkIterator {
	if prepared := s.q.chunkIterators.take(s, reuse); prepared != nil {
		return prepared
	}
	if reuse == nil {
		reuse = &ChunkIterator{}
	}
	reuse.begin(&s.q.Gate, &s.merged)
	return reuse
}
