package read

import (
	"math"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/wal"
)

// Samples gives all floats to yield, until that returns false; other samples are passed over.
// Broken tells what else ended them. The memory is that of the Query, so nothing is allocated for
// a series (BenchmarkSeriesLast).
func (s *Series) Samples(yield func(t int64, v float64) bool) {
	it := s.q.iterators.next()
	it.begin(&s.q.Gate, &s.merged)
	stopped := false
	for !stopped && it.refill() != chunkenc.ValNone {
		if it.kind != chunkenc.ValFloat {
			continue
		}
		for i, t := range it.batch.T[:it.n] {
			if stopped = !yield(t, it.batch.V[i]); stopped {
				break
			}
		}
	}
	noteBroken(s, it.err)
	s.q.iterators.back(it)
}

// Broken returns what ended the last loop over Samples before the end of the series.
func (s *Series) Broken() error {
	t := holdTools(s.q)
	defer s.q.tools.Unlock()
	if len(t.broken) == 0 {
		return nil
	}
	return t.broken[s.merged.key()]
}

// Sample is one sample of any kind: a float, unless it is one of the histograms.
type Sample struct {
	T, ST int64
	V     float64
	H     *histogram.Histogram
	FH    *histogram.FloatHistogram
}

// read makes it the sample that an iterator stands on.
func (s *Sample) read(it *iterator, kind chunkenc.ValueType) {
	*s = Sample{T: it.AtT(), ST: it.AtST(), H: s.H, FH: s.FH}
	switch kind {
	case chunkenc.ValHistogram:
		if s.FH = nil; s.H == nil {
			s.H = new(histogram.Histogram)
		}
		it.AtHistogram(s.H)
	case chunkenc.ValFloatHistogram:
		if s.H = nil; s.FH == nil {
			s.FH = new(histogram.FloatHistogram)
		}
		it.AtFloatHistogram(s.FH)
	default:
		s.H, s.FH = nil, nil
		_, s.V = it.At()
	}
}

// Last returns the newest sample; false if there is none. Its time is found without it, as a rule,
// so only chunks are decoded that reach there.
func (s *Series) Last() (last Sample, ok bool, err error) {
	f, open := findEnds(s)
	if !open {
		return Sample{}, false, wal.ErrClosed
	}
	newest, err := f.newest(noSample)
	f.leave(s.q)
	if err != nil || newest == noSample {
		return Sample{}, false, err
	}
	it := s.q.iterators.next()
	defer s.q.iterators.back(it)
	for _, from := range []int64{newest, math.MinInt64} { // of a foreign block, bounds may be wrong
		it.begin(&s.q.Gate, &s.merged)
		for kind := it.Seek(from); kind != chunkenc.ValNone; kind = it.Next() {
			last.read(it, kind)
			ok = true
		}
		if err := it.Err(); err != nil {
			return Sample{}, false, err
		}
		if ok {
			break
		}
	}
	return last, ok, nil
}

// Bounds returns the times of the oldest and the newest sample; mint > maxt: there is none. Chunks
// are decoded only where the range or a delete cuts into one.
func (s *Series) Bounds() (mint, maxt int64, err error) {
	f, ok := findEnds(s)
	if !ok {
		return math.MaxInt64, noSample, wal.ErrClosed
	}
	defer f.leave(s.q)
	return f.bounds(math.MaxInt64, noSample)
}

// noteBroken keeps what ended a loop, which may be nothing.
func noteBroken(s *Series, err error) {
	t := holdTools(s.q)
	defer s.q.tools.Unlock()
	switch {
	case err != nil && t.broken == nil:
		t.broken = map[seriesKey]error{s.merged.key(): err}
	case err != nil:
		t.broken[s.merged.key()] = err
	case len(t.broken) > 0:
		delete(t.broken, s.merged.key())
	}
}

// seriesKey is one series of a Query: what its first place has is used again only for another
// series of that place.
type seriesKey struct {
	first  sourceSeries
	number uint64
}

func (m *mergedSeries) key() seriesKey { return seriesKey{m.first, m.first.number()} }

// queryTools is what only some programs need of a Query, all series of it together.
type queryTools struct {
	finder *endFinder // that nobody uses; nil: there is none
	// broken is what loops over samples have met: a place in each series would take a sixth more of
	// memory for what hardly ever happens.
	broken map[seriesKey]error
}

// holdTools returns the tools of a Query, which the caller holds until it unlocks them.
func holdTools(q *Query) *queryTools {
	q.tools.Lock()
	t, ok := q.toolsOf.(*queryTools)
	if !ok {
		t = new(queryTools)
		q.toolsOf = t
	}
	return t
}
