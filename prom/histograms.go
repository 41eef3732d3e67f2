package prom

import (
	"math"
	"slices"
	"unsafe"

	promhistogram "github.com/prometheus/prometheus/model/histogram"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/histogram"
)

// Both vocabularies have the same histograms in the same form: the same fields, the same numbers of
// hints and schemas. What differs is the type of a span, by its name alone. So a histogram becomes
// one of the other kind by its fields, and its slices go over as they are.

// These compile only as long as both spans have the same fields, which is why spansOf and
// theirSpans may take a slice of one for a slice of the other.
var (
	_ = histogram.Span(promhistogram.Span{})
	_ = promhistogram.Span(histogram.Span{})
)

// spansOf returns spans of theirs as ours, the same memory.
func spansOf(spans []promhistogram.Span) []histogram.Span {
	return *(*[]histogram.Span)(unsafe.Pointer(&spans))
}

// theirSpans returns spans of ours as theirs, the same memory.
func theirSpans(spans []histogram.Span) []promhistogram.Span {
	return *(*[]promhistogram.Span)(unsafe.Pointer(&spans))
}

// intsOf returns a histogram of theirs as one of ours, which shares its slices.
func intsOf(h *promhistogram.Histogram) histogram.Histogram {
	return histogram.Histogram{
		Hint: histogram.ResetHint(h.CounterResetHint), Schema: h.Schema,
		ZeroThreshold: h.ZeroThreshold, ZeroCount: h.ZeroCount, Count: h.Count, Sum: h.Sum,
		PositiveSpans: spansOf(h.PositiveSpans), NegativeSpans: spansOf(h.NegativeSpans),
		PositiveBuckets: h.PositiveBuckets, NegativeBuckets: h.NegativeBuckets,
		CustomValues: h.CustomValues,
	}
}

// floatsOf is intsOf for float counts.
func floatsOf(h *promhistogram.FloatHistogram) histogram.FloatHistogram {
	return histogram.FloatHistogram{
		Hint: histogram.ResetHint(h.CounterResetHint), Schema: h.Schema,
		ZeroThreshold: h.ZeroThreshold, ZeroCount: h.ZeroCount, Count: h.Count, Sum: h.Sum,
		PositiveSpans: spansOf(h.PositiveSpans), NegativeSpans: spansOf(h.NegativeSpans),
		PositiveBuckets: h.PositiveBuckets, NegativeBuckets: h.NegativeBuckets,
		CustomValues: h.CustomValues,
	}
}

// theirInts returns a histogram of ours as one of theirs, which shares its slices.
func theirInts(h *histogram.Histogram) promhistogram.Histogram {
	return promhistogram.Histogram{
		CounterResetHint: promhistogram.CounterResetHint(h.Hint), Schema: h.Schema,
		ZeroThreshold: h.ZeroThreshold, ZeroCount: h.ZeroCount, Count: h.Count, Sum: h.Sum,
		PositiveSpans: theirSpans(h.PositiveSpans), NegativeSpans: theirSpans(h.NegativeSpans),
		PositiveBuckets: h.PositiveBuckets, NegativeBuckets: h.NegativeBuckets,
		CustomValues: h.CustomValues,
	}
}

// theirFloats is theirInts for float counts.
func theirFloats(h *histogram.FloatHistogram) promhistogram.FloatHistogram {
	return promhistogram.FloatHistogram{
		CounterResetHint: promhistogram.CounterResetHint(h.Hint), Schema: h.Schema,
		ZeroThreshold: h.ZeroThreshold, ZeroCount: h.ZeroCount, Count: h.Count, Sum: h.Sum,
		PositiveSpans: theirSpans(h.PositiveSpans), NegativeSpans: theirSpans(h.NegativeSpans),
		PositiveBuckets: h.PositiveBuckets, NegativeBuckets: h.NegativeBuckets,
		CustomValues: h.CustomValues,
	}
}

// histogramReader reads histograms of an iterator into those of theirs. Slices of these are used
// again, but for the bounds of custom buckets: there copies of a histogram share them, so nobody
// may write to them. They are read beside, and one slice is handed out for as long as they stay the
// same.
type histogramReader struct {
	h      histogram.Histogram
	fh     histogram.FloatHistogram
	room   []float64 // bounds are read to here
	bounds []float64 // what was handed out
}

// ints makes dst the histogram that an iterator stands on, and returns its time.
func (r *histogramReader) ints(it chunkenc.Iterator, dst *promhistogram.Histogram) int64 {
	r.h = intsOf(dst)
	r.h.CustomValues = r.room[:0]
	t := it.AtHistogram(&r.h)
	r.room = r.h.CustomValues
	r.h.CustomValues = r.shared()
	*dst = theirInts(&r.h)
	return t
}

// floats is ints with float counts.
func (r *histogramReader) floats(it chunkenc.Iterator, dst *promhistogram.FloatHistogram) int64 {
	r.fh = floatsOf(dst)
	r.fh.CustomValues = r.room[:0]
	t := it.AtFloatHistogram(&r.fh)
	r.room = r.fh.CustomValues
	r.fh.CustomValues = r.shared()
	*dst = theirFloats(&r.fh)
	return t
}

// shared returns the bounds that were read, in memory that nobody writes to any more.
func (r *histogramReader) shared() []float64 {
	if len(r.room) == 0 {
		return nil
	}
	if !slices.EqualFunc(r.room, r.bounds, sameBits) {
		r.bounds = slices.Clone(r.room)
	}
	return r.bounds
}

func sameBits(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }
