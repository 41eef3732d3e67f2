package main

import (
	"math"
	"slices"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/histogram"
)

// histogramSample is a sample that is a histogram, or a stale marker among those.
type histogramSample struct {
	t, st int64 // milliseconds; an st of 0 is none
	// integer: h has the counts. fh has them as floats in any case.
	integer bool
	h       histogram.Histogram
	fh      histogram.FloatHistogram
}

// read takes the sample that an iterator stands on. A chunk gives all its histograms the buckets
// that one of them has. Empty ones are left out, so that what is shown of a histogram does not
// depend on its neighbours.
func (s *histogramSample) read(it chunkenc.Iterator, kind chunkenc.ValueType) {
	s.st = it.AtST()
	if s.integer = kind == chunkenc.ValHistogram; s.integer {
		h := &s.h
		s.t = it.AtHistogram(h)
		h.NegativeSpans, h.NegativeBuckets = withoutEmpty(h.NegativeSpans, h.NegativeBuckets, true)
		h.PositiveSpans, h.PositiveBuckets = withoutEmpty(h.PositiveSpans, h.PositiveBuckets, true)
		h.ToFloat(&s.fh)
		return
	}
	h := &s.fh
	s.t = it.AtFloatHistogram(h)
	h.NegativeSpans, h.NegativeBuckets = withoutEmpty(h.NegativeSpans, h.NegativeBuckets, false)
	h.PositiveSpans, h.PositiveBuckets = withoutEmpty(h.PositiveSpans, h.PositiveBuckets, false)
}

// withoutEmpty leaves buckets of no count out, and names the others in as few spans as can be.
// With differences, all counts but the first are differences to the one before.
func withoutEmpty[T int64 | float64](spans []histogram.Span, counts []T, differences bool) ([]histogram.Span, []T) {
	at := histogram.NewIndexes(spans)
	var b histogram.SpanBuilder
	kept := counts[:0]
	var n, last T // the count, and that of the last bucket that is kept
	for _, c := range counts {
		index, ok := at.Next()
		if !ok {
			break
		}
		if differences {
			n += c
		} else {
			n = c
		}
		if n == 0 {
			continue
		}
		b.Add(index)
		if differences {
			kept, last = append(kept, n-last), n
		} else {
			kept = append(kept, n)
		}
	}
	return b.Spans, kept
}

// copyTo makes dst a copy that shares nothing with s.
func (s *histogramSample) copyTo(dst *histogramSample) {
	dst.t, dst.st, dst.integer = s.t, s.st, s.integer
	s.h.CopyTo(&dst.h)
	s.fh.CopyTo(&dst.fh)
}

// sample is what a database takes.
func (s *histogramSample) sample() tsdb.Sample {
	if s.integer {
		return tsdb.Sample{T: s.t, ST: s.st, H: &s.h}
	}
	return tsdb.Sample{T: s.t, ST: s.st, FH: &s.fh}
}

func (s *histogramSample) stale() bool { return s.fh.Stale() }
func (s *histogramSample) gauge() bool { return s.fh.Hint == histogram.HintGauge }

func (s *histogramSample) setGauge() {
	s.h.Hint, s.fh.Hint = histogram.HintGauge, histogram.HintGauge
}

// bucket is a bucket with its exact count: n if counts are integers, Count if they are floats.
type bucket struct {
	histogram.Bucket
	n uint64
}

// buckets appends all buckets that spans name, by their bounds: also empty ones, save that an empty
// zero bucket is left out.
func (s *histogramSample) buckets(dst []bucket) []bucket {
	h, first := &s.fh, len(dst)
	at := histogram.NewIndexes(h.NegativeSpans)
	n := uint64(0)
	for i, c := range h.NegativeBuckets {
		index, ok := at.Next()
		if !ok {
			break
		}
		if s.integer {
			n += uint64(s.h.NegativeBuckets[i])
		}
		lower, upper := -histogram.Bound(h.Schema, index), -histogram.Bound(h.Schema, index-1)
		dst = append(dst, bucket{histogram.Bucket{Lower: lower, Upper: upper, LowerInclusive: true, Count: c}, n})
	}
	slices.Reverse(dst[first:])
	if z := h.ZeroThreshold; h.ZeroCount != 0 {
		dst = append(dst, bucket{histogram.Bucket{Lower: -z, Upper: z, LowerInclusive: true, UpperInclusive: true, Count: h.ZeroCount}, s.h.ZeroCount})
	}
	at, n = histogram.NewIndexes(h.PositiveSpans), 0
	for i, c := range h.PositiveBuckets {
		index, ok := at.Next()
		if !ok {
			break
		}
		if s.integer {
			n += uint64(s.h.PositiveBuckets[i])
		}
		dst = append(dst, bucket{positiveBucket(h, index, c), n})
	}
	return dst
}

// positiveBucket is that of an index. Of custom ones the first has no lower end, and the last one
// no upper end.
func positiveBucket(h *histogram.FloatHistogram, index int64, count float64) histogram.Bucket {
	b := histogram.Bucket{Lower: math.Inf(-1), Upper: math.Inf(1), UpperInclusive: true, Count: count}
	if !h.Custom() {
		b.Lower, b.Upper = histogram.Bound(h.Schema, index-1), histogram.Bound(h.Schema, index)
		return b
	}
	if index > 0 && index <= int64(len(h.CustomValues)) {
		b.Lower = h.CustomValues[index-1]
	}
	if index >= 0 && index < int64(len(h.CustomValues)) {
		b.Upper = h.CustomValues[index]
	}
	b.LowerInclusive = math.IsInf(b.Lower, -1)
	return b
}
