package histogram

import (
	"math"
	"math/bits"

	"github.com/pkg/errors"
)

// Validate says whether h makes sense, by the rules for what is appended. The error wraps
// one of the sentinels of this package and says which numbers do not fit. A count may exceed
// the buckets only if Sum is NaN: observations of NaN are in no bucket.
func (h *Histogram) Validate() error {
	if !h.plain() {
		v := shape{
			schema: h.Schema, threshold: h.ZeroThreshold, zero: float64(h.ZeroCount),
			spans:   [2][]Span{h.PositiveSpans, h.NegativeSpans},
			buckets: [2]int{len(h.PositiveBuckets), len(h.NegativeBuckets)},
			custom:  h.CustomValues,
		}
		if err := v.check(); err != nil {
			return err
		}
	}
	positive, err := sumDeltas(h.PositiveBuckets, sides[0])
	if err != nil {
		return err
	}
	negative, err := sumDeltas(h.NegativeBuckets, sides[1])
	if err != nil {
		return err
	}
	all, more := bits.Add64(positive, negative, 0)
	all, more2 := bits.Add64(all, h.ZeroCount, 0)
	fits := more+more2 == 0
	switch {
	case math.IsNaN(h.Sum) && (!fits || h.Count < all):
		return h.miscounted(ErrCountNotBigEnough, positive, negative)
	case !math.IsNaN(h.Sum) && (!fits || h.Count != all):
		return h.miscounted(ErrCountMismatch, positive, negative)
	default:
		return nil
	}
}

// plain reports whether the shape of h is the one that most have, and right: exponential buckets
// side by side, positive ones only.
func (h *Histogram) plain() bool {
	n := len(h.PositiveBuckets)
	if h.Schema < MinSchema || h.Schema > MaxSchema || n > MaxBuckets || len(h.PositiveSpans) != 1 ||
		len(h.NegativeSpans)+len(h.NegativeBuckets)+len(h.CustomValues) > 0 {
		return false
	}
	s := h.PositiveSpans[0]
	return int(s.Length) == n && int64(s.Offset)+int64(n) <= math.MaxInt32+1
}

func (h *Histogram) miscounted(err error, positive, negative uint64) error {
	return errors.WithMessagef(err, "count %d, but %d in the zero bucket, %d in positive ones, "+
		"%d in negative ones", h.Count, h.ZeroCount, positive, negative)
}

// Validate says whether h makes sense, by the rules for what is appended. The error wraps
// one of the sentinels of this package and says which numbers do not fit. Counts are not
// compared with each other: floats are often the results of calculations.
func (h *FloatHistogram) Validate() error {
	v := shape{
		schema: h.Schema, threshold: h.ZeroThreshold, zero: h.ZeroCount,
		spans:   [2][]Span{h.PositiveSpans, h.NegativeSpans},
		buckets: [2]int{len(h.PositiveBuckets), len(h.NegativeBuckets)},
		custom:  h.CustomValues,
	}
	if err := v.check(); err != nil {
		return err
	}
	if h.Count < 0 {
		return errors.WithMessagef(ErrNegativeCount, "count %g", h.Count)
	}
	if h.ZeroCount < 0 {
		return errors.WithMessagef(ErrNegativeBucketCount, "zero bucket: %g", h.ZeroCount)
	}
	for side, counts := range [2][]float64{h.PositiveBuckets, h.NegativeBuckets} {
		for i, c := range counts {
			if c < 0 {
				return errors.WithMessagef(ErrNegativeBucketCount, "%s bucket %d: %g",
					sides[side], i, c)
			}
		}
	}
	return nil
}

// Normalize drops what the schema does not have: the zero bucket and negative buckets beside
// custom ones, bounds beside exponential ones. It is what Append does before it validates, so
// a histogram that Validate refuses for one of these only is taken without it. Slices are cut,
// not written to.
func (h *Histogram) Normalize() {
	if !h.Custom() {
		h.CustomValues = h.CustomValues[:0]
		return
	}
	h.ZeroThreshold, h.ZeroCount = 0, 0
	h.NegativeSpans, h.NegativeBuckets = h.NegativeSpans[:0], h.NegativeBuckets[:0]
}

// Normalize drops what the schema does not have: the zero bucket and negative buckets beside
// custom ones, bounds beside exponential ones. It is what Append does before it validates, so
// a histogram that Validate refuses for one of these only is taken without it. Slices are cut,
// not written to.
func (h *FloatHistogram) Normalize() {
	if !h.Custom() {
		h.CustomValues = h.CustomValues[:0]
		return
	}
	h.ZeroThreshold, h.ZeroCount = 0, 0
	h.NegativeSpans, h.NegativeBuckets = h.NegativeSpans[:0], h.NegativeBuckets[:0]
}

// sides are the names of the two lists of buckets, in their order.
var sides = [2]string{"positive", "negative"}

// shape is what both kinds of histograms are checked for.
type shape struct {
	schema          int32
	threshold, zero float64
	spans           [2][]Span
	buckets         [2]int
	custom          []float64
}

func (v *shape) check() error {
	buckets, spans := v.buckets[0]+v.buckets[1], len(v.spans[0])+len(v.spans[1])
	custom := v.schema == CustomBuckets
	switch {
	case max(buckets, spans, len(v.custom)) > MaxBuckets:
		return errors.WithMessagef(ErrTooManyBuckets, "%d buckets, %d spans, %d bounds",
			buckets, spans, len(v.custom))
	case !custom && (v.schema < MinSchema || v.schema > MaxSchema):
		return errors.WithMessagef(ErrInvalidSchema, "schema %d", v.schema)
	}
	if err := CheckLayout(v.schema, v.spans, v.custom); err != nil {
		return err
	}
	if custom {
		if err := v.checkCustom(); err != nil {
			return err
		}
	}
	for i, spans := range v.spans {
		n := int64(0)
		for _, s := range spans {
			n += int64(s.Length)
		}
		if n != int64(v.buckets[i]) {
			return errors.WithMessagef(ErrSpansBucketsMismatch,
				"%s spans of %d buckets, %d buckets", sides[i], n, v.buckets[i])
		}
	}
	return nil
}

// checkCustom checks that there is nothing beside custom buckets.
func (v *shape) checkCustom() error {
	switch {
	case v.zero != 0:
		return errors.WithMessagef(ErrCustomBucketsZeroCount, "zero count %g", v.zero)
	case v.threshold != 0:
		return errors.WithMessagef(ErrCustomBucketsZeroThreshold, "zero threshold %g", v.threshold)
	case v.buckets[1] > 0:
		return errors.WithMessagef(ErrCustomBucketsNegativeBuckets, "%d buckets", v.buckets[1])
	default:
		return nil
	}
}

// sumDeltas returns the sum of the counts that deltas say, all of which fit 63 bits. A sum
// that does not fit 64 bits is the largest number.
func sumDeltas(deltas []int64, side string) (uint64, error) {
	var count, signs int64
	var sum, carry, carries uint64
	for _, d := range deltas {
		count += d
		signs |= count
		sum, carry = bits.Add64(sum, uint64(count), 0)
		carries |= carry
	}
	if signs >= 0 && carries == 0 {
		return sum, nil
	}
	count = 0
	for i, d := range deltas {
		if count += d; count < 0 {
			return 0, errors.WithMessagef(ErrNegativeBucketCount, "%s bucket %d: %d",
				side, i, count)
		}
	}
	return math.MaxUint64, nil
}
