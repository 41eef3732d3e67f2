// Package histogram has native histograms as values: what one sample of a series is when it
// is not a float. It knows which of them are valid, when two are the same, what a counter
// reset is, and how they are added. It does not know times, series or bytes.
//
// A Histogram counts with integers, a FloatHistogram with floats. Both have a zero bucket,
// positive and negative buckets, and a schema that says where buckets end:
//
//   - Schemas MinSchema to MaxSchema are exponential. The bucket of index i ends at
//     2^(i * 2^-schema), and begins where the one before it ends. Schemas from
//     MinReadSchema to MaxReadSchema are found in files of other programs; Append of a
//     database does not take them.
//   - The schema CustomBuckets has its bounds in CustomValues: bucket i ends at CustomValues[i],
//     and one more bucket behind them ends at +Inf. It has neither a zero bucket nor negative
//     buckets.
//
// Only buckets that spans name are there; all others have a count of 0.
//
// Values own their slices: functions copy, and never keep what they were given. One value is
// for one goroutine; what is only read may be read by many.
package histogram

import (
	"math"
	"slices"
	"strconv"
)

// Span lists and schemas are those of the formats: docs/format/chunks.md.
const (
	MinSchema     int32 = -4  // widest exponential buckets that Append takes
	MaxSchema     int32 = 8   // narrowest ones
	MinReadSchema int32 = -9  // widest ones that readers take
	MaxReadSchema int32 = 52  // narrowest ones; they are read as MaxSchema
	CustomBuckets int32 = -53 // bounds are listed in CustomValues
)

// MaxBuckets is the most buckets that a histogram has, positive and negative ones together,
// and the most spans and bounds. No schema that Append takes has more buckets for all floats
// that there are.
const MaxBuckets = 1 << 21

// StaleNaN has the bits of the NaN that says that a series ended. A histogram whose Sum has
// these bits is a stale marker, whatever else it says.
const StaleNaN uint64 = 0x7ff0000000000002

// ResetHint says how a histogram compares with the one before it in its series. The numbers
// are those of the log.
type ResetHint uint8

// What is known of counter resets.
const (
	HintUnknown  ResetHint = 0 // compare the two
	HintReset    ResetHint = 1 // the counter was reset before this one
	HintNotReset ResetHint = 2 // it was not
	HintGauge    ResetHint = 3 // it is no counter; counts go up and down
)

// String returns the hint's name, or its number when it has none.
func (r ResetHint) String() string {
	switch r {
	case HintUnknown:
		return "unknown"
	case HintReset:
		return "reset"
	case HintNotReset:
		return "not reset"
	case HintGauge:
		return "gauge"
	default:
		return "hint " + strconv.Itoa(int(r))
	}
}

// Exponential reports whether readers take the schema as one of exponential buckets.
func Exponential(schema int32) bool { return schema >= MinReadSchema && schema <= MaxReadSchema }

// KnownSchema reports whether readers take the schema.
func KnownSchema(schema int32) bool { return Exponential(schema) || schema == CustomBuckets }

// Histogram is a histogram with integer counts. The zero value is valid and counts nothing.
type Histogram struct {
	Hint   ResetHint
	Schema int32
	// ZeroThreshold says how far the zero bucket reaches: it has what was observed from
	// -ZeroThreshold to ZeroThreshold, both included.
	ZeroThreshold float64
	ZeroCount     uint64  // observations in the zero bucket
	Count         uint64  // all observations
	Sum           float64 // of all observations
	// PositiveSpans and NegativeSpans say which buckets there are. Bucket i of the negative
	// ones is the mirror image of bucket i of the positive ones.
	PositiveSpans, NegativeSpans []Span
	// PositiveBuckets and NegativeBuckets have the count of the first bucket, and of each
	// later one the difference to the bucket before it.
	PositiveBuckets, NegativeBuckets []int64
	// CustomValues are the bounds of custom buckets, ascending; empty with other schemas.
	CustomValues []float64
}

// Stale reports whether h is a stale marker.
func (h *Histogram) Stale() bool { return math.Float64bits(h.Sum) == StaleNaN }

// Custom reports whether h has custom buckets.
func (h *Histogram) Custom() bool { return h.Schema == CustomBuckets }

// Copy returns a copy that shares nothing with h.
func (h *Histogram) Copy() *Histogram {
	dst := &Histogram{}
	h.CopyTo(dst)
	return dst
}

// CopyTo makes dst a copy that shares nothing with h. Slices of dst that have room are used
// again, and then nothing is allocated.
func (h *Histogram) CopyTo(dst *Histogram) {
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
func (h *Histogram) Clear() {
	*h = Histogram{
		PositiveSpans: h.PositiveSpans[:0], NegativeSpans: h.NegativeSpans[:0],
		PositiveBuckets: h.PositiveBuckets[:0], NegativeBuckets: h.NegativeBuckets[:0],
		CustomValues: h.CustomValues[:0],
	}
}

// SetStale makes h a stale marker and nothing else. It keeps the room of its slices.
func (h *Histogram) SetStale() {
	h.Clear()
	h.Sum = math.Float64frombits(StaleNaN)
}

// ToFloat makes dst the same histogram with float counts, and returns it; a nil dst is made.
// Slices of dst that have room are used again. Counts above 2^53 are rounded.
func (h *Histogram) ToFloat(dst *FloatHistogram) *FloatHistogram {
	if dst == nil {
		dst = &FloatHistogram{}
	}
	dst.Hint, dst.Schema = h.Hint, h.Schema
	dst.ZeroThreshold, dst.ZeroCount = h.ZeroThreshold, float64(h.ZeroCount)
	dst.Count, dst.Sum = float64(h.Count), h.Sum
	dst.PositiveSpans = append(dst.PositiveSpans[:0], h.PositiveSpans...)
	dst.NegativeSpans = append(dst.NegativeSpans[:0], h.NegativeSpans...)
	dst.PositiveBuckets = appendCounts(dst.PositiveBuckets[:0], h.PositiveBuckets)
	dst.NegativeBuckets = appendCounts(dst.NegativeBuckets[:0], h.NegativeBuckets)
	dst.CustomValues = append(dst.CustomValues[:0], h.CustomValues...)
	return dst
}

// appendCounts appends the counts that deltas say.
func appendCounts(dst []float64, deltas []int64) []float64 {
	count := int64(0)
	for _, d := range deltas {
		count += d
		dst = append(dst, float64(count))
	}
	return dst
}

// Compact writes the spans as few as there can be for the same buckets, in place. No bucket
// comes or goes.
func (h *Histogram) Compact() {
	h.PositiveSpans = compactSpans(h.PositiveSpans)
	h.NegativeSpans = compactSpans(h.NegativeSpans)
}

// ReduceResolution brings h to a schema of wider buckets, in place, by joining buckets. It
// returns ErrResolution for custom buckets and for a schema that is not exponential, or is
// finer than that of h; the same schema changes nothing.
func (h *Histogram) ReduceResolution(schema int32) error {
	if err := checkReduction(h.Schema, schema); err != nil {
		return err
	}
	h.reduce(schema)
	return nil
}

// reduce is ReduceResolution to a schema that can be.
func (h *Histogram) reduce(schema int32) {
	if schema == h.Schema {
		return
	}
	to := wider(h.Schema - schema)
	h.Schema = schema
	h.PositiveSpans, h.PositiveBuckets = joinDeltas(h.PositiveSpans, h.PositiveBuckets, to)
	h.NegativeSpans, h.NegativeBuckets = joinDeltas(h.NegativeSpans, h.NegativeBuckets, to)
}

// Equal reports whether both are literally the same, floats by their bits and spans as they
// are written. Hints are not compared.
func (h *Histogram) Equal(o *Histogram) bool {
	return h.Schema == o.Schema && h.Count == o.Count && h.ZeroCount == o.ZeroCount &&
		sameBits(h.ZeroThreshold, o.ZeroThreshold) && sameBits(h.Sum, o.Sum) &&
		EqualSpans(h.PositiveSpans, o.PositiveSpans) &&
		EqualSpans(h.NegativeSpans, o.NegativeSpans) &&
		slices.Equal(h.PositiveBuckets, o.PositiveBuckets) &&
		slices.Equal(h.NegativeBuckets, o.NegativeBuckets) &&
		equalFloats(h.CustomValues, o.CustomValues)
}

// EqualByIndex reports whether both say the same: as Equal, but buckets are compared by
// their index, and one that is not there has a count of 0. What a chunk gives back may have
// more buckets and other spans than what was appended, and is still the same. All stale
// markers are.
func (h *Histogram) EqualByIndex(o *Histogram) bool {
	if h.Stale() || o.Stale() {
		return h.Stale() && o.Stale()
	}
	return h.Schema == o.Schema && h.Count == o.Count && h.ZeroCount == o.ZeroCount &&
		sameBits(h.ZeroThreshold, o.ZeroThreshold) && sameBits(h.Sum, o.Sum) &&
		equalFloats(h.CustomValues, o.CustomValues) &&
		sameCounts(deltaWalk(h.PositiveSpans, h.PositiveBuckets),
			deltaWalk(o.PositiveSpans, o.PositiveBuckets)) &&
		sameCounts(deltaWalk(h.NegativeSpans, h.NegativeBuckets),
			deltaWalk(o.NegativeSpans, o.NegativeBuckets))
}

// Digest returns 64 bits that are the same for histograms that say the same (EqualByIndex), and
// differ for others but for chance. That of all stale markers is StaleNaN.
func (h *Histogram) Digest() uint64 {
	if h.Stale() {
		return StaleNaN
	}
	d := digestInts
	d.add(uint64(h.Schema))
	d.add(2) // floats
	d.add(math.Float64bits(h.ZeroThreshold))
	d.add(math.Float64bits(h.Sum))
	d.add(h.ZeroCount)
	d.add(h.Count)
	d.addDeltas(h.PositiveSpans, h.PositiveBuckets)
	d.addDeltas(h.NegativeSpans, h.NegativeBuckets)
	d.addFloats(h.CustomValues)
	return uint64(d)
}
