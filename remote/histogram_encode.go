package remote

import (
	"encoding/binary"
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/histogram"
)

// A Histogram message:
//
//	 1 count_int      uint64    or   2 count_float      double
//	 3 sum            double         4 schema           sint32
//	 5 zero_threshold double
//	 6 zero_count_int uint64    or   7 zero_count_float double
//	 8 negative_spans repeated BucketSpan
//	 9 negative_deltas repeated sint64   or  10 negative_counts repeated double
//	11 positive_spans repeated BucketSpan
//	12 positive_deltas repeated sint64   or  13 positive_counts repeated double
//	14 reset_hint enum    15 timestamp int64    16 custom_values repeated double
//
//	span: 1 offset sint32   2 length uint32
//
// It has float counts if and only if it has a count_float. It has no place for a start timestamp.

// histogramEncoder writes messages of histograms. It keeps its memory; the zero value is ready.
//
// The length of an answer is known before it is written, by reading everything twice. In between
// the head may give a histogram more empty buckets, and a chunk another one beside it, so that
// hints become unknown. So what is written follows from what the histogram counts, and not from how
// it is stored: empty buckets are left out but for short gaps, and the hint is a field always.
type histogramEncoder struct {
	ints   histogram.Histogram
	floats histogram.FloatHistogram
	side   sideEncoder
	buf    []byte
}

// message returns the message of the histogram that an iterator stands on, valid until the next
// call.
func (e *histogramEncoder) message(it chunkenc.Iterator, kind chunkenc.ValueType) []byte {
	if kind == chunkenc.ValHistogram {
		e.encodeInts(&e.ints, it.AtHistogram(&e.ints))
	} else {
		e.encodeFloats(&e.floats, it.AtFloatHistogram(&e.floats))
	}
	return e.buf
}

func (e *histogramEncoder) encodeInts(h *histogram.Histogram, t int64) {
	b := protowire.AppendVarint(append(e.buf[:0], varintTag(1)), h.Count)
	b = appendShape(b, h.Sum, h.Schema, h.ZeroThreshold)
	b = protowire.AppendVarint(append(b, varintTag(6)), h.ZeroCount)
	b = e.side.appendInts(b, 8, h.NegativeSpans, h.NegativeBuckets)
	b = e.side.appendInts(b, 11, h.PositiveSpans, h.PositiveBuckets)
	e.buf = appendTail(b, h.Hint, t, h.CustomValues)
}

func (e *histogramEncoder) encodeFloats(h *histogram.FloatHistogram, t int64) {
	b := appendBits(append(e.buf[:0], fixed64Tag(2)), h.Count)
	b = appendShape(b, h.Sum, h.Schema, h.ZeroThreshold)
	b = appendBits(append(b, fixed64Tag(7)), h.ZeroCount)
	b = e.side.appendFloats(b, 8, h.NegativeSpans, h.NegativeBuckets)
	b = e.side.appendFloats(b, 11, h.PositiveSpans, h.PositiveBuckets)
	e.buf = appendTail(b, h.Hint, t, h.CustomValues)
}

// appendBits appends the eight bytes of a float.
func appendBits(dst []byte, v float64) []byte {
	return binary.LittleEndian.AppendUint64(dst, math.Float64bits(v))
}

// appendDouble appends a double field, which is left out when all its bits are zero.
func appendDouble(dst []byte, field byte, v float64) []byte {
	if math.Float64bits(v) == 0 {
		return dst
	}
	return appendBits(append(dst, fixed64Tag(field)), v)
}

func appendShape(dst []byte, sum float64, schema int32, threshold float64) []byte {
	dst = appendDouble(dst, 3, sum)
	dst = appendInt(dst, 4, int64(protowire.EncodeZigZag(int64(schema))))
	return appendDouble(dst, 5, threshold)
}

// appendTail appends what stands behind the buckets.
func appendTail(dst []byte, hint histogram.ResetHint, t int64, custom []float64) []byte {
	dst = append(dst, varintTag(14), byte(hint))
	dst = appendInt(dst, 15, t)
	if len(custom) == 0 {
		return dst
	}
	dst = protowire.AppendTag(dst, 16, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(8*len(custom)))
	for _, bound := range custom {
		dst = appendBits(dst, bound)
	}
	return dst
}

// shortGap is how many empty buckets in a row are written: a span takes more.
const shortGap = 2

// sideEncoder writes the spans and the buckets of one side of a histogram.
type sideEncoder struct {
	spans  histogram.SpanBuilder
	packed []byte // the buckets
	next   int64  // index behind the last bucket
	last   int64  // its count, of integers
}

func (s *sideEncoder) reset() {
	s.spans = histogram.SpanBuilder{Spans: s.spans.Spans[:0]}
	s.packed, s.last = s.packed[:0], 0
}

// appendInts appends a side with integer counts. Spans are of a field, buckets of the next one.
func (s *sideEncoder) appendInts(
	dst []byte, field byte, spans []histogram.Span, deltas []int64,
) []byte {
	s.reset()
	at, count := histogram.NewIndexes(spans), int64(0)
	for _, d := range deltas {
		index, _ := at.Next()
		if count += d; count == 0 {
			continue
		}
		for range s.gap(index) {
			s.addInt(s.next, 0)
		}
		s.addInt(index, count)
	}
	return s.appendTo(dst, field, field+1)
}

func (s *sideEncoder) addInt(index, count int64) {
	s.spans.Add(index)
	s.packed = protowire.AppendVarint(s.packed, protowire.EncodeZigZag(count-s.last))
	s.next, s.last = index+1, count
}

// appendFloats appends a side with float counts. Spans are of a field, buckets of the second one
// behind it.
func (s *sideEncoder) appendFloats(
	dst []byte, field byte, spans []histogram.Span, counts []float64,
) []byte {
	s.reset()
	at := histogram.NewIndexes(spans)
	for _, count := range counts {
		index, _ := at.Next()
		if count == 0 {
			continue
		}
		for range s.gap(index) {
			s.addFloat(s.next, 0)
		}
		s.addFloat(index, count)
	}
	return s.appendTo(dst, field, field+2)
}

func (s *sideEncoder) addFloat(index int64, count float64) {
	s.spans.Add(index)
	s.packed = appendBits(s.packed, count)
	s.next = index + 1
}

// gap returns how many empty buckets are written before the one of an index.
func (s *sideEncoder) gap(index int64) int64 {
	if n := index - s.next; len(s.packed) > 0 && n <= shortGap {
		return n
	}
	return 0
}

func (s *sideEncoder) appendTo(dst []byte, spans, buckets byte) []byte {
	if len(s.packed) == 0 {
		return dst
	}
	for _, span := range s.spans.Spans {
		offset := int64(protowire.EncodeZigZag(int64(span.Offset)))
		size := sizeInt(offset) + sizeInt(int64(span.Length))
		dst = append(dst, bytesTag(spans), byte(size))
		dst = appendInt(appendInt(dst, 1, offset), 2, int64(span.Length))
	}
	dst = protowire.AppendVarint(append(dst, bytesTag(buckets)), uint64(len(s.packed)))
	return append(dst, s.packed...)
}
