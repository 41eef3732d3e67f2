package main

import (
	"bytes"
	"strconv"

	"github.com/seed347100a3/tsdb/histogram"
)

// A histogram as text has all that it is made of, as the draft of OpenMetrics 2.0 writes it, with
// two more members: bounds of custom buckets, and that it is a gauge.
//
//	{count:10,sum:12.5,schema:1,zero_threshold:0.001,zero_count:2,custom_values:[...],
//	negative_spans:[0:1],negative_buckets:[2],positive_spans:[-2:2,3:1],positive_buckets:[1,3,2],
//	gauge:true}
//
// Spans are pairs of offset and length, buckets are counts. Members of no use are left out. Counts
// of a histogram with float counts have a point or an exponent, or are NaN or an infinity.
const (
	textCount   = "count"
	textSum     = "sum"
	textSchema  = "schema"
	textWidth   = "zero_threshold"
	textZero    = "zero_count"
	textBounds  = "custom_values"
	textSpans   = "_spans"   // behind the name of a side
	textBuckets = "_buckets" // behind the name of a side
	textGauge   = "gauge"
	textTrue    = "true"
	textFalse   = "false" // where the type says that it is a gauge
)

// textSides are the names of negative and of positive buckets.
var textSides = [2]string{"negative", "positive"}

// textBegin is what no text of labels begins with.
const textBegin = "{" + textCount + ":"

// appendHistogram writes a histogram so that parseHistogram reads the same one.
func appendHistogram(dst []byte, s *histogramSample) []byte {
	h := &s.fh
	dst = append(dst, textBegin...)
	dst = s.appendCount(dst, s.h.Count, h.Count)
	dst = appendSample(appendMember(dst, textSum), h.Sum)
	dst = strconv.AppendInt(appendMember(dst, textSchema), int64(h.Schema), 10)
	if !h.Custom() {
		dst = appendSample(appendMember(dst, textWidth), h.ZeroThreshold)
		dst = s.appendCount(appendMember(dst, textZero), s.h.ZeroCount, h.ZeroCount)
	}
	if len(h.CustomValues) > 0 {
		dst = append(appendMember(dst, textBounds), '[')
		for i, v := range h.CustomValues {
			dst = appendSample(appendComma(dst, i), v)
		}
		dst = append(dst, ']')
	}
	dst = s.appendSide(dst, textSides[0], h.NegativeSpans, s.h.NegativeBuckets, h.NegativeBuckets)
	dst = s.appendSide(dst, textSides[1], h.PositiveSpans, s.h.PositiveBuckets, h.PositiveBuckets)
	if s.gauge() {
		dst = append(appendMember(dst, textGauge), textTrue...)
	}
	return append(dst, '}')
}

// appendSide writes the spans and the counts of one side, if there are any.
func (s *histogramSample) appendSide(dst []byte, side string, spans []histogram.Span, deltas []int64, counts []float64) []byte {
	if len(spans) == 0 {
		return dst
	}
	dst = append(appendMember(dst, side+textSpans), '[')
	for i, span := range spans {
		dst = strconv.AppendInt(appendComma(dst, i), int64(span.Offset), 10)
		dst = strconv.AppendUint(append(dst, ':'), uint64(span.Length), 10)
	}
	dst = append(appendMember(append(dst, ']'), side+textBuckets), '[')
	n := uint64(0)
	for i, c := range counts {
		if s.integer {
			n += uint64(deltas[i])
		}
		dst = s.appendCount(appendComma(dst, i), n, c)
	}
	return append(dst, ']')
}

// appendCount writes a count so that it says whether counts are integers.
func (s *histogramSample) appendCount(dst []byte, n uint64, c float64) []byte {
	if s.integer {
		return strconv.AppendUint(dst, n, 10)
	}
	begin := len(dst)
	if dst = appendSample(dst, c); !bytes.ContainsAny(dst[begin:], ".eIN") {
		dst = append(dst, ".0"...)
	}
	return dst
}

func appendMember(dst []byte, name string) []byte {
	return append(append(append(dst, ','), name...), ':')
}

func appendComma(dst []byte, i int) []byte {
	if i == 0 {
		return dst
	}
	return append(dst, ',')
}

// appendBounds writes a histogram as promtool does: count, sum, and the buckets that are not empty
// by their bounds. What its schema is, and whether its counts are integers, it does not say.
func appendBounds(dst []byte, s *histogramSample) []byte {
	dst = s.appendPlain(append(dst, textBegin...), s.h.Count, s.fh.Count)
	dst = appendSample(append(dst, ", sum:"...), s.fh.Sum)
	for _, b := range s.buckets(nil) {
		if b.Count == 0 {
			continue
		}
		dst = appendRange(append(dst, ", "...), b.Bucket, appendFloat)
		dst = s.appendPlain(append(dst, ':'), b.n, b.Count)
	}
	return append(dst, '}')
}

// appendRange writes the bounds of a bucket: a round bracket is an end that is not in it.
func appendRange(dst []byte, b histogram.Bucket, value func(dst []byte, v float64) []byte) []byte {
	brackets := [4]byte{'(', '[', ')', ']'}
	dst = append(dst, brackets[index(b.LowerInclusive)])
	dst = value(append(value(dst, b.Lower), ','), b.Upper)
	return append(dst, brackets[2+index(b.UpperInclusive)])
}

func index(b bool) int {
	if b {
		return 1
	}
	return 0
}

// appendPlain writes a count as it is.
func (s *histogramSample) appendPlain(dst []byte, n uint64, c float64) []byte {
	if s.integer {
		return strconv.AppendUint(dst, n, 10)
	}
	return appendFloat(dst, c)
}
