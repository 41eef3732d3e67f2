package histchunk

import (
	"math"

	"github.com/seed347100a3/tsdb/histogram"
)

// sample is a histogram of either kind on its way into a chunk. Its slices are those of the
// caller. Of a stale marker there is nothing but that.
type sample struct {
	hint   histogram.ResetHint
	float  bool
	stale  bool
	schema int32
	// Bits of floats; the counts are integers in integer histograms.
	threshold, count, zero, sum uint64
	spans                       [2][]histogram.Span // positive, negative
	ints                        [2][]int64          // deltas
	floats                      [2][]float64        // counts
	custom                      []float64
}

func fromInts(h *histogram.Histogram) sample {
	if h.Stale() {
		return sample{hint: h.Hint, stale: true, sum: histogram.StaleNaN}
	}
	return sample{
		hint: h.Hint, schema: h.Schema, threshold: math.Float64bits(h.ZeroThreshold),
		count: h.Count, zero: h.ZeroCount, sum: math.Float64bits(h.Sum),
		spans:  [2][]histogram.Span{h.PositiveSpans, h.NegativeSpans},
		ints:   [2][]int64{h.PositiveBuckets, h.NegativeBuckets},
		custom: h.CustomValues,
	}
}

func fromFloats(h *histogram.FloatHistogram) sample {
	if h.Stale() {
		return sample{hint: h.Hint, float: true, stale: true, sum: histogram.StaleNaN}
	}
	return sample{
		hint: h.Hint, float: true, schema: h.Schema, threshold: math.Float64bits(h.ZeroThreshold),
		count: math.Float64bits(h.Count), zero: math.Float64bits(h.ZeroCount),
		sum:    math.Float64bits(h.Sum),
		spans:  [2][]histogram.Span{h.PositiveSpans, h.NegativeSpans},
		floats: [2][]float64{h.PositiveBuckets, h.NegativeBuckets},
		custom: h.CustomValues,
	}
}

// whole reports whether spans and buckets agree, without which nothing can be encoded.
func (s *sample) whole() bool {
	for i, spans := range s.spans {
		if histogram.NumBuckets(spans) != len(s.ints[i])+len(s.floats[i]) {
			return false
		}
	}
	return true
}

// less compares two counts of the sample's kind.
func (s *sample) less(a, b uint64) bool {
	if s.float {
		return math.Float64frombits(a) < math.Float64frombits(b)
	}
	return a < b
}
