package main

import (
	"bufio"
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/pkg/errors"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed347100a3/tsdb/histogram"
)

// drawHistogram makes a histogram of any kind and shape that a database takes or not: what is
// written of it has to come back.
func drawHistogram(rt *rapid.T) *histogramSample {
	s := &histogramSample{t: 1000, integer: rapid.Bool().Draw(rt, "integer")}
	f := &s.fh
	f.Schema = rapid.Int32Range(histogram.MinSchema, histogram.MaxSchema).Draw(rt, "schema")
	value := rapid.OneOf(rapid.Float64(), rapid.SampledFrom(oddValues))
	f.Sum = value.Draw(rt, "sum")
	if rapid.Bool().Draw(rt, "gauge") {
		f.Hint = histogram.HintGauge
	}
	var negative, positive int
	if rapid.Bool().Draw(rt, "custom") {
		f.Schema = histogram.CustomBuckets
		f.CustomValues = rapid.SliceOfN(value, 0, 4).Draw(rt, "bounds")
	} else {
		f.ZeroThreshold = value.Draw(rt, "threshold")
		f.NegativeSpans, negative = drawSpans(rt)
	}
	f.PositiveSpans, positive = drawSpans(rt)
	if s.integer {
		counts := rapid.SliceOfN(rapid.Uint64Range(0, math.MaxInt64), negative+positive, negative+positive).Draw(rt, "counts")
		h := &s.h
		h.Hint, h.Schema, h.ZeroThreshold, h.Sum = f.Hint, f.Schema, f.ZeroThreshold, f.Sum
		h.NegativeSpans, h.PositiveSpans, h.CustomValues = f.NegativeSpans, f.PositiveSpans, f.CustomValues
		h.Count = rapid.Uint64().Draw(rt, "count")
		if !h.Custom() {
			h.ZeroCount = rapid.Uint64().Draw(rt, "zero")
		}
		h.NegativeBuckets, h.PositiveBuckets = deltas(counts[:negative]), deltas(counts[negative:])
		s.fh = *h.ToFloat(nil)
		return s
	}
	counts := rapid.SliceOfN(value, negative+positive, negative+positive).Draw(rt, "counts")
	f.Count = value.Draw(rt, "count")
	if !f.Custom() {
		f.ZeroCount = value.Draw(rt, "zero")
	}
	f.NegativeBuckets, f.PositiveBuckets = counts[:negative:negative], counts[negative:]
	return s
}

func drawSpans(rt *rapid.T) (spans []histogram.Span, buckets int) {
	for i := range rapid.IntRange(0, 3).Draw(rt, "spans") {
		s := histogram.Span{Offset: rapid.Int32Range(-20, 20).Draw(rt, "offset"), Length: rapid.Uint32Range(0, 4).Draw(rt, "length")}
		if i > 0 {
			s.Offset = max(s.Offset, -s.Offset)
		}
		spans, buckets = append(spans, s), buckets+int(s.Length)
	}
	return spans, buckets
}

func requireSameHistogram(t require.TestingT, want, got *histogramSample) {
	require.Equal(t, want.integer, got.integer)
	require.Equal(t, want.fh.Hint, got.fh.Hint)
	require.True(t, want.fh.Equal(&got.fh), "%+v\n%+v", want.fh, got.fh)
	if want.integer {
		require.Equal(t, want.h.Hint, got.h.Hint)
		require.True(t, want.h.Equal(&got.h), "%+v\n%+v", want.h, got.h)
	}
}

// The text and JSON of a histogram say all of it, bit for bit.
func TestHistogram_TextAndJSON_ComeBack(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		want := drawHistogram(rt)
		var got histogramSample
		text := appendHistogram(nil, want)
		require.NoError(rt, parseHistogram(text, &got), "%s", text)
		requireSameHistogram(rt, want, &got)

		document := appendJSONHistogram(nil, want, want.buckets(nil))
		var read jsonHistogram
		s := jsonScanner{r: bufio.NewReader(bytes.NewReader(document)), line: 1}
		require.NoError(rt, read.read(&s), "%s", document)
		require.NoError(rt, read.finish(), "%s", document)
		requireSameHistogram(rt, want, &read.s)
	})
}

func TestParseHistogram_TakesWhatOthersWrite(t *testing.T) {
	want := &histogramSample{integer: true, h: histogram.Histogram{
		Schema: 3, ZeroThreshold: 1e-4, ZeroCount: 1, Count: 6, Sum: 120,
		PositiveSpans: []histogram.Span{{Offset: 1, Length: 2}}, PositiveBuckets: []int64{2, 1},
	}}
	want.h.ToFloat(&want.fh)
	var got histogramSample
	text := "{count:6, sum:1.2e2, schema:3, zero_threshold:1e-4, zero_count:1, positive_spans:[1:2], positive_buckets:[2, 3]}"
	require.NoError(t, parseHistogram([]byte(text), &got))
	requireSameHistogram(t, want, &got)
}

func TestParseHistogram_SaysWhatIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		"{count:1":                                   "the histogram goes on with \"\", want a comma or a brace",
		"{count:1}":                                  "the histogram has no schema",
		"{count:1,sum}":                              `the histogram's "sum" has no value`,
		"{count:1,sum:x}":                            `sum of the histogram: the value is no number: "x"`,
		"{count:1,sum:1,count:2,schema:0}":           `the histogram has "count" more than once`,
		"{count:1,schema:0.5}":                       `schema of the histogram: "0.5" is no schema`,
		"{count:1,schema:0,bucket:[1:1]}":            "bucket of the histogram: it is not known",
		"{count:1,schema:0,positive_spans:[0-1]}":    `positive_spans of the histogram: "0-1" is no span: want offset:length`,
		"{count:1,schema:0,positive_spans:0:1}":      "positive_spans of the histogram: want a list",
		"{count:1,schema:0,positive_buckets:[1,,2]}": "positive_buckets of the histogram: the list has a gap, or is not closed",
		"{count:1,schema:0,positive_buckets:[1,2}":   "positive_buckets of the histogram: the list is not closed",
		"{count:99999999999999999999,schema:0}":      `the histogram: a count is no whole number, or too large: "99999999999999999999"`,
		"{count:1,schema:0,positive_spans:[0:1],positive_buckets:[9223372036854775808]}": `the histogram: a count is no whole number, or too large: "9223372036854775808"`,
		"{count:1.0,schema:0,positive_buckets:[1x]}":                                     `the histogram: the value is no number: "1x"`,
		"{count:6, sum:3.5, [-Inf,0.1]:1, (0.1,0.5]:3}":                                  errBoundsOnly,
	} {
		require.EqualError(t, parseHistogram([]byte(text), &histogramSample{}), want, text)
	}
}

func TestAppendBounds_WritesWhatPromtoolDoes(t *testing.T) {
	for text, want := range map[string]string{
		"{count:10,sum:12.5,schema:1,zero_threshold:0.001,zero_count:2,negative_spans:[0:1],negative_buckets:[2],positive_spans:[-2:2,3:1],positive_buckets:[1,3,2]}": "{count:10, sum:12.5, [-1,-0.7071067811865475):2, [-0.001,0.001]:2, (0.35355339059327373,0.5]:1, (0.5,0.7071067811865475]:3, (2,2.82842712474619]:2}",
		"{count:6,sum:3.5,schema:-53,custom_values:[0.1,0.5,1],positive_spans:[0:2,1:1],positive_buckets:[1,3,2]}":                                                    "{count:6, sum:3.5, [-Inf,0.1]:1, (0.1,0.5]:3, (1,+Inf]:2}",
		"{count:2.5,sum:NaN,schema:0,zero_threshold:0,zero_count:0.0,positive_spans:[0:3],positive_buckets:[1.5,0.0,1.0]}":                                            "{count:2.5, sum:NaN, (0.5,1]:1.5, (2,4]:1}",
		"{count:9007199254740993,sum:1,schema:0,positive_spans:[0:1],positive_buckets:[9007199254740993]}":                                                            "{count:9007199254740993, sum:1, (0.5,1]:9007199254740993}",
	} {
		var s histogramSample
		require.NoError(t, parseHistogram([]byte(text), &s))
		require.Equal(t, want, string(appendBounds(nil, &s)))
	}
}

func TestImport_JSONHistogram_SaysWhatIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		`{"kind":"histogram"}`: `the histogram: "" is no schema`,
		`{"schema":0}`:         `the histogram's kind is not known: ""`,
		`{"kind":"histogram","schema":0,"count":"x"}`:                 `the histogram: a count is no whole number, or too large: "x"`,
		`{"kind":"histogram","schema":0,"sum":"x"}`:                   `sum of the histogram: the value is no number: "x"`,
		`{"kind":"histogram","schema":0,"buckets":[[1,2,3],[4,5,6]]}`: "2 buckets, spans of 0: spans and buckets of a histogram differ in number",
		`{"kind":"histogram","schema":0,"positive_spans":[[0,-1]]}`:   `"0:-1" is no span: want offset:length`,
		`{"kind":"histogram","schema":0,"custom_values":["x"]}`:       `bounds of the histogram: the value is no number: "x"`,
		`{"kind":"histogram","schema":0,"buckets":[[1,2]]}`:           "an array is shorter than 3",
		`{"kind":"histogram","schema":0,"buckets":[[1,2,3,4]]}`:       "an array is longer than 3",
		`{"kind":"histogram","schema":0,"positive_spans":[1]}`:        `want an array, there is "1"`,
	} {
		var h jsonHistogram
		err := h.read(&jsonScanner{r: bufio.NewReader(strings.NewReader(text)), line: 1})
		if err == nil {
			err = h.finish()
		}
		require.EqualError(t, err, want, text)
	}
}

func FuzzParseHistogram(f *testing.F) {
	f.Add("{count:10,sum:12.5,schema:1,zero_threshold:0.001,zero_count:2,negative_spans:[0:1],negative_buckets:[2],positive_spans:[-2:2,3:1],positive_buckets:[1,3,2],gauge:true}")
	f.Add("{count:2.5,sum:NaN(0x7ff0000000000002),schema:-53,custom_values:[1,2],positive_spans:[0:3],positive_buckets:[1.5,0.0,1.0]}")
	f.Add("{count:6, sum:3.5, [-Inf,0.1]:1}")
	f.Fuzz(func(t *testing.T, text string) {
		var s, again histogramSample
		err := parseHistogram([]byte(text), &s)
		if err != nil {
			return
		}
		if s.integer && errors.Is(s.h.Validate(), histogram.ErrSpansBucketsMismatch) || s.fh.Validate() != nil {
			return // no database takes it
		}
		require.NoError(t, parseHistogram(appendHistogram(nil, &s), &again))
		requireSameHistogram(t, &s, &again)
	})
}
