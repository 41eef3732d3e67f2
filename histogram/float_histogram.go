package histogram

import (
	"iter"
	"math"
)

// FloatHistogram is a histogram with float counts, as calculations have them. Its buckets
// are counts, not differences. The zero value is valid and counts nothing.
type FloatHistogram struct {
	Hint   ResetHint
	Schema int32
	// ZeroThreshold says how far the zero bucket reaches: it has what was observed from
	// -ZeroThreshold to ZeroThreshold, both included.
	ZeroThreshold float64
	ZeroCount     float64 // observations in the zero bucket
	Count         float64 // all observations
	Sum           float64 // of all observations
	// PositiveSpans and NegativeSpans say which buckets there are. Bucket i of the negative
	// ones is the mirror image of bucket i of the positive ones.
	PositiveSpans, NegativeSpans []Span
	// PositiveBuckets and NegativeBuckets have the count of each bucket.
	PositiveBuckets, NegativeBuckets []float64
	// CustomValues are the bounds of custom buckets, ascending; empty with other schemas.
	CustomValues []float64
}

// Stale reports whether h is a stale marker.
func (h *FloatHistogram) Stale() bool { return math.Float64bits(h.Sum) == StaleNaN }

// Custom reports whether h has custom buckets.
func (h *FloatHistogram) Custom() bool { return h.Schema == CustomBuckets }

// Copy returns a copy that shares nothing with h.
func (h *FloatHistogram) Copy() *FloatHistogram {
	dst := &FloatHistogram{}
	h.CopyTo(dst)
	return dst
}

// CopyTo makes dst a copy that shares nothing with h. Slices of dst that have room are used
// again, and then nothing is allocated.
//
//go:noinline
func (h *FloatHistogram) CopyTo(dst *FloatHistogram) {
	dst.Hint, dst.Schema = h.Hint, h.Schema
	dst.ZeroThreshold, dst.ZeroCount = h.ZeroThreshold, h.ZeroCount
	dst.Count, dst.Sum = h.Count, h.Sum
	dst.PositiveSpans = append(dst.PositiveSpans[:0], h.PositiveSpans...)
	dst.NegativeSpans = append(dst.NegativeSpans[:0], h.NegativeSpans...)
	dst.PositiveBuckets = append(dst.PositiveBuckets[:0], h.PositiveBuckets...)
	dst.NegativeBuckets = append(dst.NegativeBuckets[:0], h.NegativeBuckets...)
	dst.CustomValues = append(dst.CustomValues[:0], h.CustomValues...)
}

// Clear makes h a histogram that counts nothing. It keeps the room of its slices.
//
//go:noinline
func (h *FloatHistogram) Clear() {
	*h = FloatHistogram{
		PositiveSpans: h.PositiveSpans[:0], NegativeSpans: h.NegativeSpans[:0],
		PositiveBuckets: h.PositiveBuckets[:0], NegativeBuckets: h.NegativeBuckets[:0],
		CustomValues: h.CustomValues[:0],
	}
}

// SetStale makes h a stale marker and nothing else. It keeps the room of its slices.
func (h *FloatHistogram) SetStale() {
	h.Clear()
	h.Sum = math.Float64frombits(StaleNaN)
}

// Buckets gives the buckets that are not empty, in the order of their bounds: negative ones
// from the lowest on, the zero bucket, positive ones.
func (h *FloatHistogram) Buckets() iter.Seq[Bucket] {
	return func(yield func(Bucket) bool) { eachBucket(h, yield) }
}

// Compact writes the spans as few as there can be for the same buckets, in place. No bucket
// comes or goes.
func (h *FloatHistogram) Compact() {
	h.PositiveSpans = compactSpans(h.PositiveSpans)
	h.NegativeSpans = compactSpans(h.NegativeSpans)
}

// ReduceResolution brings h to a schema of wider buckets, in place, by joining buckets. It
// returns ErrResolution for custom buckets and for a schema that is not exponential, or is
// finer than that of h; the same schema changes nothing.
func (h *FloatHistogram) ReduceResolution(schema int32) error {
	if err := checkReduction(h.Schema, schema); err != nil {
		return err
	}
	h.reduce(schema)
	return nil
}

// reduce is ReduceResolution to a schema that can be.
func (h *FloatHistogram) reduce(schema int32) {
	if schema == h.Schema {
		return
	}
	to := wider(h.Schema - schema)
	h.Schema = schema
	h.PositiveSpans, h.PositiveBuckets = joinFloats(h.PositiveSpans, h.PositiveBuckets, to)
	h.NegativeSpans, h.NegativeBuckets = joinFloats(h.NegativeSpans, h.NegativeBuckets, to)
}

// Equal reports whether both are literally the same, floats by their bits and spans as they
// are written. Hints are not compared.
func (h *FloatHistogram) Equal(o *FloatHistogram) bool {
	return h.sameButBuckets(o) &&
		EqualSpans(h.PositiveSpans, o.PositiveSpans) &&
		EqualSpans(h.NegativeSpans, o.NegativeSpans) &&
		equalFloats(h.PositiveBuckets, o.PositiveBuckets) &&
		equalFloats(h.NegativeBuckets, o.NegativeBuckets)
}

// EqualByIndex reports whether both say the same: as Equal, but buckets are compared by
// their index, and one that is not there has a count of 0. What a chunk gives back may have
// more buckets and other spans than what was appended, and is still the same. All stale
// markers are.
func (h *FloatHistogram) EqualByIndex(o *FloatHistogram) bool {
	if h.Stale() || o.Stale() {
		return h.Stale() && o.Stale()
	}
	return h.sameButBuckets(o) &&
		sameCounts(floatWalk(h.PositiveSpans, h.PositiveBuckets),
			floatWalk(o.PositiveSpans, o.PositiveBuckets)) &&
		sameCounts(floatWalk(h.NegativeSpans, h.NegativeBuckets),
			floatWalk(o.NegativeSpans, o.NegativeBuckets))
}

// sameButBuckets compares everything but buckets and hints.
func (h *FloatHistogram) sameButBuckets(o *FloatHistogram) bool {
	return h.Schema == o.Schema && sameBits(h.ZeroThreshold, o.ZeroThreshold) &&
		sameBits(h.ZeroCount, o.ZeroCount) && sameBits(h.Count, o.Count) &&
		sameBits(h.Sum, o.Sum) && equalFloats(h.CustomValues, o.CustomValues)
}

// Digest returns the same of a histogram with float counts. It is another one than that of the
// integer histogram that says the same.
func (h *FloatHistogram) Digest() uint64 {
	if h.Stale() {
		return StaleNaN
	}
	d := digestFloats
	d.add(uint64(h.Schema))
	d.addFloats([]float64{h.ZeroThreshold, h.Sum, h.ZeroCount, h.Count})
	d.addCounts(h.PositiveSpans, h.PositiveBuckets)
	d.addCounts(h.NegativeSpans, h.NegativeBuckets)
	d.addFloats(h.CustomValues)
	return uint64(d)
}
