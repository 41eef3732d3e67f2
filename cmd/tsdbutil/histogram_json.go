package main

import (
	"strconv"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/histogram"
)

// A histogram in JSON is an object. Its buckets are all that spans name and the zero bucket, if
// that is not empty, each with its bounds and its count:
//
//	{"kind":"histogram","count":10,"sum":12.5,"schema":1,"zero_threshold":0.001,"zero_count":2,
//	"negative_spans":[[0,1]],"positive_spans":[[-2,2]],"custom_values":[],"gauge":false,
//	"buckets":[[-1,-0.7071067811865475,2],[-0.001,0.001,2],[0.35355339059327373,0.5,1],...]}
//
// Spans are offsets and lengths. Members that are empty, and a gauge that is false, are left out.
const (
	jsonKind    = "kind"
	jsonBuckets = "buckets"
)

// appendJSONHistogram writes a histogram with these buckets.
func appendJSONHistogram(dst []byte, s *histogramSample, buckets []bucket) []byte {
	h := &s.fh
	kind := chunkenc.ValFloatHistogram
	if s.integer {
		kind = chunkenc.ValHistogram
	}
	dst = append(append(append(append(dst, `{"`+jsonKind+`":"`...), kind.String()...), `","`+textCount...), `":`...)
	dst = s.appendJSONCount(dst, s.h.Count, h.Count)
	dst = appendJSONSample(append(dst, `,"`+textSum+`":`...), h.Sum)
	dst = strconv.AppendInt(append(dst, `,"`+textSchema+`":`...), int64(h.Schema), 10)
	if !h.Custom() {
		dst = appendJSONSample(append(dst, `,"`+textWidth+`":`...), h.ZeroThreshold)
		dst = s.appendJSONCount(append(dst, `,"`+textZero+`":`...), s.h.ZeroCount, h.ZeroCount)
	}
	dst = appendJSONSpans(dst, textSides[0], h.NegativeSpans)
	dst = appendJSONSpans(dst, textSides[1], h.PositiveSpans)
	if len(h.CustomValues) > 0 {
		dst = append(dst, `,"`+textBounds+`":[`...)
		for i, v := range h.CustomValues {
			dst = appendJSONSample(appendComma(dst, i), v)
		}
		dst = append(dst, ']')
	}
	if s.gauge() {
		dst = append(dst, `,"`+textGauge+`":`+textTrue...)
	}
	dst = append(dst, `,"`+jsonBuckets+`":[`...)
	for i, b := range buckets {
		dst = appendJSONSample(append(appendComma(dst, i), '['), b.Lower)
		dst = appendJSONSample(append(dst, ','), b.Upper)
		dst = append(s.appendJSONCount(append(dst, ','), b.n, b.Count), ']')
	}
	return append(dst, "]}"...)
}

func (s *histogramSample) appendJSONCount(dst []byte, n uint64, c float64) []byte {
	if s.integer {
		return strconv.AppendUint(dst, n, 10)
	}
	return appendJSONSample(dst, c)
}

func appendJSONSpans(dst []byte, side string, spans []histogram.Span) []byte {
	if len(spans) == 0 {
		return dst
	}
	dst = append(append(append(dst, `,"`...), side...), textSpans+`":[`...)
	for i, span := range spans {
		dst = strconv.AppendInt(append(appendComma(dst, i), '['), int64(span.Offset), 10)
		dst = append(strconv.AppendUint(append(dst, ','), uint64(span.Length), 10), ']')
	}
	return append(dst, ']')
}
