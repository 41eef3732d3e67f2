package histogram

import "math"

// Bucket is one bucket with its bounds. An end that is not inclusive belongs to the
// neighbour.
type Bucket struct {
	Lower, Upper                   float64
	LowerInclusive, UpperInclusive bool
	Count                          float64
}

// eachBucket is Buckets of a FloatHistogram.
func eachBucket(h *FloatHistogram, yield func(Bucket) bool) {
	if !eachNegative(h, yield) {
		return
	}
	z := h.ZeroThreshold
	if h.ZeroCount != 0 && !yield(Bucket{-z, z, true, true, h.ZeroCount}) {
		return
	}
	at := NewIndexes(h.PositiveSpans)
	for _, c := range h.PositiveBuckets {
		index, ok := at.Next()
		if !ok {
			return
		}
		if c != 0 && !yield(positiveBucket(h, index, c)) {
			return
		}
	}
}

// eachNegative gives the negative buckets, from the lowest on.
func eachNegative(h *FloatHistogram, yield func(Bucket) bool) bool {
	end := int64(0)
	for _, s := range h.NegativeSpans {
		end += int64(s.Offset) + int64(s.Length)
	}
	n := len(h.NegativeBuckets)
	for i := len(h.NegativeSpans) - 1; i >= 0; i-- {
		s := h.NegativeSpans[i]
		for range s.Length {
			if n == 0 {
				return true
			}
			n--
			end--
			c := h.NegativeBuckets[n]
			if c == 0 {
				continue
			}
			b := Bucket{-Bound(h.Schema, end), -Bound(h.Schema, end-1), true, false, c}
			if !yield(b) {
				return false
			}
		}
		end -= int64(s.Offset)
	}
	return true
}

// positiveBucket returns the positive bucket of an index.
func positiveBucket(h *FloatHistogram, index int64, count float64) Bucket {
	if !h.Custom() {
		return Bucket{Bound(h.Schema, index-1), Bound(h.Schema, index), false, true, count}
	}
	b := Bucket{math.Inf(-1), math.Inf(1), false, true, count}
	if index > 0 && index <= int64(len(h.CustomValues)) {
		b.Lower = h.CustomValues[index-1]
	}
	if index >= 0 && index < int64(len(h.CustomValues)) {
		b.Upper = h.CustomValues[index]
	}
	return b
}
