package remote

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
	"pgregory.net/rapid"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/histtest"
)

func pick(t *rapid.T) histtest.Pick {
	return func(n int64) int64 { return rapid.Int64Range(0, n-1).Draw(t, "number") }
}

// messageOf encodes a histogram.
func messageOf(t int64, h *histogram.Histogram) []byte {
	var e histogramEncoder
	e.encodeInts(h, t)
	return e.buf
}

func messageOfFloats(t int64, h *histogram.FloatHistogram) []byte {
	var e histogramEncoder
	e.encodeFloats(h, t)
	return e.buf
}

func TestHistogramMessage_WhatGoesInComesOut(t *testing.T) {
	var got wireHistogram // used again and again
	rapid.Check(t, func(t *rapid.T) {
		h, at := histtest.Draw(pick(t)), rapid.Int64().Draw(t, "time")
		require.NoError(t, got.decode(messageOf(at, h)))
		require.Equal(t, chunkenc.ValHistogram, got.kind)
		require.Equal(t, at, got.T())
		var ints histogram.Histogram
		var floats histogram.FloatHistogram
		got.Histogram(&ints)
		require.True(t, h.EqualByIndex(&ints), "%+v\n%+v", h, ints)
		require.Equal(t, h.Hint, ints.Hint)
		got.FloatHistogram(&floats)
		require.True(t, h.ToFloat(nil).EqualByIndex(&floats))

		fh := histtest.Floats(h)
		require.NoError(t, got.decode(messageOfFloats(at, fh)))
		require.Equal(t, chunkenc.ValFloatHistogram, got.kind)
		require.Equal(t, at, got.T())
		got.FloatHistogram(&floats)
		require.True(t, fh.EqualByIndex(&floats), "%+v\n%+v", fh, floats)
		require.Equal(t, fh.Hint, floats.Hint)
		got.Histogram(&ints)
		require.True(t, ints.Equal(&histogram.Histogram{}), "one of the other kind is empty")
	})
}

// widened is a histogram that says the same as h with more buckets, empty ones, and other spans.
func widened(p histtest.Pick, h *histogram.Histogram) *histogram.Histogram {
	w := h.Copy()
	w.PositiveSpans, w.PositiveBuckets = widenedSide(p, h.PositiveSpans, h.PositiveBuckets)
	w.NegativeSpans, w.NegativeBuckets = widenedSide(p, h.NegativeSpans, h.NegativeBuckets)
	return w
}

func widenedSide(p histtest.Pick, spans []histogram.Span, deltas []int64) ([]histogram.Span, []int64) {
	var b histogram.SpanBuilder
	var out []int64
	at, count, last, next := histogram.NewIndexes(spans), int64(0), int64(0), int64(math.MinInt64)
	for i, d := range deltas {
		index, _ := at.Next()
		for n := p(4); i > 0 && n > 0 && next < index; n-- {
			b.Add(next)
			out, last, next = append(out, -last), 0, next+1
		}
		count += d
		b.Add(index)
		out, last, next = append(out, count-last), count, index+1
	}
	return b.Spans, out
}

// The head may give a histogram more empty buckets between the two times that it is read for one
// answer. The message stays as it was, so that its length does.
func TestHistogramMessage_DoesNotShowHowItIsStored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := histtest.Draw(pick(t))
		w := widened(pick(t), h)
		require.True(t, h.EqualByIndex(w))
		require.Equal(t, messageOf(5, h), messageOf(5, w))
		f, fw := h.ToFloat(nil), w.ToFloat(nil)
		require.Equal(t, messageOfFloats(5, f), messageOfFloats(5, fw))
		w.Hint = histogram.HintUnknown
		require.Len(t, messageOf(5, w), len(messageOf(5, h)), "another hint is as long")
	})
}

func zigzag(b []byte, v int64) []byte {
	return protowire.AppendVarint(b, protowire.EncodeZigZag(v))
}

// What other encoders write: repeated numbers one by one, fields in any order, fields of the other
// kind, and ones that are not known.
func TestHistogramMessage_AnyFormIsRead(t *testing.T) {
	span := func(field byte, offset, length int64) []byte {
		return append([]byte{bytesTag(field), 4, varintTag(1)}, append(zigzag(nil, offset), varintTag(2), byte(length))...)
	}
	message := appendInt(nil, 15, 7)
	message = append(message, span(11, 1, 2)...)
	message = append(zigzag(append(message, varintTag(12)), 3), varintTag(1), 7)
	message = zigzag(append(message, varintTag(12)), 1)
	message = append(message, bytesTag(13), 8, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f) // a float count
	message = append(protowire.AppendTag(message, 99, protowire.BytesType), 2, 'h', 'i')
	message = append(message, varintTag(14), 9) // a hint that nobody knows
	var got wireHistogram
	require.NoError(t, got.decode(message))
	require.True(t, got.ints.Equal(&histogram.Histogram{
		Count: 7, PositiveSpans: []histogram.Span{{Offset: 1, Length: 2}}, PositiveBuckets: []int64{3, 1},
	}), "%+v", got.ints)
	require.Equal(t, histogram.HintUnknown, got.ints.Hint)
	require.EqualValues(t, 7, got.t)

	// A count of floats makes it one, even if it is 0. Of two counts the last one counts.
	message = append([]byte{varintTag(1), 3, fixed64Tag(2)}, make([]byte, 8)...)
	message = append(message, fixed64Tag(10), 0, 0, 0, 0, 0, 0, 0, 0x40) // unpacked
	message = append(message, span(8, 0, 1)...)
	require.NoError(t, got.decode(message))
	require.Equal(t, chunkenc.ValFloatHistogram, got.kind)
	require.True(t, got.floats.Equal(&histogram.FloatHistogram{
		NegativeSpans: []histogram.Span{{Length: 1}}, NegativeBuckets: []float64{2},
	}), "%+v", got.floats)

	require.NoError(t, got.decode(nil))
	require.True(t, got.ints.Equal(&histogram.Histogram{}))

	// A resolution that nothing here has is reduced, as in chunks.
	message = zigzag([]byte{varintTag(1), 4, varintTag(4)}, 9)
	message = append(append(message, span(11, 1, 2)...), bytesTag(12), 2, 2, 4)
	require.NoError(t, got.decode(message))
	require.EqualValues(t, histogram.MaxSchema, got.ints.Schema)
	require.Equal(t, []int64{4}, got.ints.PositiveBuckets, "1 and 3")
}

func TestHistogramMessage_MalformedOnesAreErrors(t *testing.T) {
	schema := func(v int64) []byte { return zigzag([]byte{varintTag(4)}, v) }
	good := messageOf(1, &histogram.Histogram{
		Count: 3, PositiveSpans: []histogram.Span{{Length: 2}}, PositiveBuckets: []int64{1, 1},
	})
	for name, c := range map[string]struct {
		message []byte
		want    string
	}{
		"schema":                {schema(53), "unknown schema 53"},
		"negative schema":       {schema(-10), "unknown schema -10"},
		"buckets without spans": {append(good, bytesTag(12), 1, 2), "positive spans of 2 buckets, 3 buckets"},
		"spans without buckets": {append(good, bytesTag(8), 2, varintTag(2), 1), "negative spans of 1 buckets, 0 buckets"},
		"a long span":           {append(good, bytesTag(11), 6, varintTag(2), 0xff, 0xff, 0xff, 0xff, 0x0f), "4294967297 buckets"},
		"floats without spans":  {append([]byte{fixed64Tag(2), 0, 0, 0, 0, 0, 0, 0, 0, bytesTag(13), 8}, make([]byte, 8)...), "spans of 0 buckets, 1 buckets"},
		"spans go back":         {append(good, bytesTag(11), 2, varintTag(1), 1), "positive span 1: offset -1"},
		"a bucket beyond all": {messageOf(1, &histogram.Histogram{
			PositiveSpans: []histogram.Span{{Offset: math.MaxInt32, Length: 2}}, PositiveBuckets: []int64{1, 1},
		}), "positive span 0: offset 2147483647"},
		"bounds that fall": {messageOf(1, &histogram.Histogram{
			Schema: histogram.CustomBuckets, CustomValues: []float64{1, 3, 2},
		}), "bound 2: 2"},
		"a packed number":      {[]byte{bytesTag(12), 1, 0x80}, "a packed number"},
		"a packed float":       {append([]byte{bytesTag(13), 7}, make([]byte, 7)...), "a packed float"},
		"wire type of count":   {[]byte{fixed64Tag(1), 0, 0, 0, 0, 0, 0, 0, 0}, "wire type"},
		"wire type of a span":  {[]byte{bytesTag(8), 2, bytesTag(1), 0}, "wire type"},
		"wire type of buckets": {append([]byte{fixed64Tag(12)}, make([]byte, 8)...), "wire type"},
		"wire type of bounds":  {append(protowire.AppendTag(nil, 16, protowire.VarintType), 0), "wire type"},
		"cut off":              {good[:len(good)-1], "cut off"},
	} {
		var got wireHistogram
		err := got.decode(c.message)
		require.ErrorIs(t, err, errMalformed, name)
		require.ErrorContains(t, err, c.want, name)
		require.ErrorContains(t, err, "histogram", name)
	}
	var got wireHistogram
	require.NoError(t, got.decode(good))
}

// Whatever is decoded: no panic, and what is taken can be encoded and is read as the same.
func FuzzHistogramMessage(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	for i := range int64(40) {
		h := histtest.Draw(r.Int64N)
		f.Add(messageOf(i, h))
		f.Add(messageOfFloats(i, histtest.Floats(h)))
	}
	f.Fuzz(func(t *testing.T, message []byte) {
		var got, again wireHistogram
		if err := got.decode(message); err != nil {
			require.ErrorIs(t, err, errMalformed)
			return
		}
		if got.kind == chunkenc.ValHistogram {
			h := &got.ints
			require.Len(t, h.PositiveBuckets, histogram.NumBuckets(h.PositiveSpans))
			require.Len(t, h.NegativeBuckets, histogram.NumBuckets(h.NegativeSpans))
			require.NoError(t, again.decode(messageOf(got.t, h)))
			require.True(t, h.EqualByIndex(&again.ints))
			require.Equal(t, h.Hint, again.ints.Hint)
			return
		}
		h := &got.floats
		require.Len(t, h.PositiveBuckets, histogram.NumBuckets(h.PositiveSpans))
		require.Len(t, h.NegativeBuckets, histogram.NumBuckets(h.NegativeSpans))
		require.NoError(t, again.decode(messageOfFloats(got.t, h)))
		require.Equal(t, chunkenc.ValFloatHistogram, again.kind)
		require.True(t, h.EqualByIndex(&again.floats))
		require.Equal(t, h.Hint, again.floats.Hint)
	})
}
