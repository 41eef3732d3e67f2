package histchunk

import (
	"math"

	"github.com/seed347100a3/tsdb/histogram"
)

// newest is the newest sample of a chunk that is read or written, as columns.
type newest struct {
	layout layout
	front  [3]column // time, count, count of the zero bucket: they stand side by side
	sum    column
	cols   []column // of the buckets, positive ones first
}

func (n *newest) time() *column  { return &n.front[0] }
func (n *newest) count() *column { return &n.front[1] }
func (n *newest) zero() *column  { return &n.front[2] }

// open makes a column for each bucket of the layout.
func (n *newest) open() {
	buckets := n.layout.buckets[0] + n.layout.buckets[1]
	if cap(n.cols) < buckets {
		n.cols = make([]column, buckets)
	}
	n.cols = n.cols[:buckets]
}

// stale reports whether it is a stale marker.
func (n *newest) stale() bool { return n.sum.v == histogram.StaleNaN }

// ints makes dst the sample, which is one of integers.
func (n *newest) ints(dst *histogram.Histogram, hint histogram.ResetHint) {
	if n.stale() {
		dst.SetStale()
		return
	}
	l := &n.layout
	dst.Hint, dst.Schema, dst.ZeroThreshold = hint, l.schema, math.Float64frombits(l.threshold)
	dst.Count, dst.ZeroCount, dst.Sum = n.count().v, n.zero().v, math.Float64frombits(n.sum.v)
	dst.PositiveSpans = append(dst.PositiveSpans[:0], l.spans[0]...)
	dst.NegativeSpans, dst.CustomValues = dst.NegativeSpans[:0], dst.CustomValues[:0]
	if len(l.spans[1])+len(l.custom) > 0 { // most have neither
		dst.NegativeSpans = append(dst.NegativeSpans, l.spans[1]...)
		dst.CustomValues = append(dst.CustomValues, l.custom...)
	}
	dst.PositiveBuckets = appendInts(dst.PositiveBuckets[:0], n.cols[:l.buckets[0]])
	dst.NegativeBuckets = appendInts(dst.NegativeBuckets[:0], n.cols[l.buckets[0]:])
	if dst.Schema > histogram.MaxSchema {
		must(dst.ReduceResolution(histogram.MaxSchema)) // it is exponential, and finer
	}
}

// floats makes dst the sample, which has counts that are floats or not.
func (n *newest) floats(dst *histogram.FloatHistogram, hint histogram.ResetHint, float bool) {
	if dst.Clear(); n.stale() {
		dst.SetStale()
		return
	}
	l := &n.layout
	if !float && l.schema > histogram.MaxSchema {
		// Joined as integers, as ints does it: joined as floats, counts that overflow would differ.
		var h histogram.Histogram
		n.ints(&h, hint)
		h.ToFloat(dst)
		return
	}
	dst.Hint, dst.Schema, dst.ZeroThreshold = hint, l.schema, math.Float64frombits(l.threshold)
	dst.Sum = math.Float64frombits(n.sum.v)
	dst.PositiveSpans = append(dst.PositiveSpans, l.spans[0]...)
	dst.NegativeSpans = append(dst.NegativeSpans, l.spans[1]...)
	dst.CustomValues = append(dst.CustomValues, l.custom...)
	positive, negative := n.cols[:l.buckets[0]], n.cols[l.buckets[0]:]
	if float {
		dst.Count, dst.ZeroCount = math.Float64frombits(n.count().v), math.Float64frombits(n.zero().v)
		dst.PositiveBuckets = appendFloats(dst.PositiveBuckets, positive)
		dst.NegativeBuckets = appendFloats(dst.NegativeBuckets, negative)
	} else {
		dst.Count, dst.ZeroCount = float64(n.count().v), float64(n.zero().v)
		dst.PositiveBuckets = appendCounts(dst.PositiveBuckets, positive)
		dst.NegativeBuckets = appendCounts(dst.NegativeBuckets, negative)
	}
	if dst.Schema > histogram.MaxSchema {
		must(dst.ReduceResolution(histogram.MaxSchema)) // it is exponential, and finer
	}
}

// These are not inlined: the least program has little room.
//
//go:noinline
func appendInts(dst []int64, cols []column) []int64 {
	for i := range cols {
		dst = append(dst, int64(cols[i].v))
	}
	return dst
}

//go:noinline
func appendFloats(dst []float64, cols []column) []float64 {
	for i := range cols {
		dst = append(dst, math.Float64frombits(cols[i].v))
	}
	return dst
}

// appendCounts appends the counts that deltas say.
//
//go:noinline
func appendCounts(dst []float64, cols []column) []float64 {
	count := int64(0)
	for i := range cols {
		count += int64(cols[i].v)
		dst = append(dst, float64(count))
	}
	return dst
}

// must holds that what cannot fail did not.
func must(err error) {
	if err != nil {
		panic("BUG: " + err.Error())
	}
}
