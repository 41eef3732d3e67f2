package tsdb_test

import (
	"hash/maphash"
	"math"
	"math/rand/v2"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/histtest"
)

// Samples of every kind for tests that are about something else: crashes, faults, damage. They
// compare points, and a point stands for a sample of any kind.

var pointSeed = maphash.MakeSeed()

// value is the V of a sample's point: the bits of a float, or a sum of all that another sample
// says. The kind of a stale marker is left out: among histograms a float that is one becomes a
// histogram (TestHistograms_AFloatThatIsAStaleMarkerBecomesOne).
func (s *anySample) value() uint64 {
	kind, v := s.kind(), s.digest()
	if v == histogram.StaleNaN {
		kind = chunkenc.ValFloat
	}
	if kind == chunkenc.ValFloat && s.ST == 0 {
		return v
	}
	return maphash.Comparable(pointSeed, [3]uint64{uint64(kind), uint64(s.ST), v})
}

// digest says what makes two samples of one time the same: start timestamps do not count.
func (s *anySample) digest() uint64 {
	switch {
	case s.H != nil:
		return s.H.Digest()
	case s.FH != nil:
		return s.FH.Digest()
	default:
		return s.V
	}
}

func (s *anySample) point() point { return point{s.T, s.value()} }

// sample returns it as Appender.AppendSample takes it.
func (s *anySample) sample() tsdb.Sample {
	return tsdb.Sample{T: s.T, ST: s.ST, V: math.Float64frombits(s.V), H: s.H, FH: s.FH}
}

// pointAt returns the sample on which an iterator stands.
func pointAt(it chunkenc.Iterator, kind chunkenc.ValueType) point {
	s := anyAt(it, kind)
	return s.point()
}

// pointsOf reads all that an iterator has.
func pointsOf(it chunkenc.Iterator) (all []point, err error) {
	for kind := it.Next(); kind != chunkenc.ValNone; kind = it.Next() {
		all = append(all, pointAt(it, kind))
	}
	return all, it.Err()
}

// mixedSeries draws the samples of a series that has all kinds. The zero value begins one.
type mixedSeries struct {
	kind chunkenc.ValueType
	h    *histogram.Histogram
	st   int64
}

// next draws a sample: most often one of the kind of the one before, which counts on.
func (m *mixedSeries) next(r *rand.Rand, t int64) *anySample {
	if m.h == nil || r.IntN(6) == 0 {
		m.kind = some(r, chunkenc.ValFloat, chunkenc.ValHistogram, chunkenc.ValFloatHistogram)
		m.h, m.st = histtest.Draw(r.Int64N), some(r, 0, t-5, t-5)
	}
	m.h = histtest.Follow(r.Int64N, m.h)
	s := &anySample{T: t, ST: m.st}
	switch m.kind {
	case chunkenc.ValHistogram:
		s.H = m.h
	case chunkenc.ValFloatHistogram:
		s.FH = histtest.Floats(m.h)
	default:
		s.V = math.Float64bits(r.NormFloat64())
	}
	return s
}

// sampleAt is the sample of a series at a time, whoever writes it, so whoever writes it twice
// repeats it. Of three stretches of eight milliseconds one has samples of all kinds.
func sampleAt(i int, t int64) *anySample {
	if floatsAt(t) {
		return &anySample{T: t, V: math.Float64bits(float64(t) + float64(i)/16)}
	}
	return (&mixedSeries{}).next(rand.New(rand.NewPCG(uint64(t), uint64(i))), t)
}

func floatsAt(t int64) bool { return t>>3%3 != 0 }
