package record_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/histtest"
	"github.com/seed347100a3/tsdb/internal/record"
)

// histogramEntry is an entry of a record, of the kind that the record has.
type histogramEntry struct {
	Ref   uint64
	T, ST int64
	Int   *histogram.Histogram
	Float *histogram.FloatHistogram
}

var histogramTypes = []record.Type{
	record.TypeHistograms, record.TypeCustomHistograms, record.TypeHistogramsV2,
	record.TypeFloatHistograms, record.TypeCustomFloats, record.TypeFloatsV2,
}

func (e histogramEntry) body() []byte {
	if e.Float != nil {
		return record.AppendFloatHistogram(nil, e.Float)
	}
	return record.AppendHistogram(nil, e.Int)
}

// decodeHistograms reads all entries of a record.
func decodeHistograms(t require.TestingT, rec []byte) (all []histogramEntry, err error) {
	var d record.HistogramDecoder
	for d.Reset(rec); d.Next(); {
		e := histogramEntry{Ref: d.Ref(), T: d.T(), ST: d.ST()}
		if d.Floats() {
			e.Float = &histogram.FloatHistogram{}
			require.NoError(t, d.DecodeFloat(e.Float))
		} else {
			e.Int = &histogram.Histogram{}
			require.NoError(t, d.DecodeInt(e.Int))
		}
		require.Equal(t, e.body(), d.Entry())
		all = append(all, e)
	}
	return all, d.Err()
}

func encodeHistograms(typ record.Type, all []histogramEntry) []byte {
	var e record.HistogramEncoder
	rec := e.Begin(nil, typ)
	for _, h := range all {
		rec = e.Append(rec, h.Ref, h.T, h.ST, h.body())
	}
	return rec
}

func requireSameHistograms(t require.TestingT, want, got []histogramEntry) {
	require.Len(t, got, len(want))
	for i, w := range want {
		g := got[i]
		require.Equal(t, [3]int64{int64(w.Ref), w.T, w.ST}, [3]int64{int64(g.Ref), g.T, g.ST})
		if w.Float != nil {
			require.True(t, w.Float.Equal(g.Float), "%v %v", *w.Float, *g.Float)
			require.Equal(t, w.Float.Hint, g.Float.Hint)
		} else {
			require.True(t, w.Int.Equal(g.Int), "%v %v", *w.Int, *g.Int)
			require.Equal(t, w.Int.Hint, g.Int.Hint)
		}
	}
}

func (v vector) histograms(t testing.TB) (out []histogramEntry) {
	t.Helper()
	floats := v.TypeByte == record.TypeFloatHistograms || v.TypeByte == record.TypeCustomFloats ||
		v.TypeByte == record.TypeFloatsV2
	var content []struct {
		Ref   uint64
		T, ST int64
		H     json.RawMessage
	}
	require.NoError(t, json.Unmarshal(v.Content, &content))
	for _, c := range content {
		e := histogramEntry{Ref: c.Ref, T: c.T, ST: c.ST}
		if floats {
			var h histtest.Float
			require.NoError(t, json.Unmarshal(c.H, &h))
			e.Float = &h.FloatHistogram
		} else {
			var h histtest.Int
			require.NoError(t, json.Unmarshal(c.H, &h))
			e.Int = &h.Histogram
		}
		out = append(out, e)
	}
	return out
}

func TestHistograms_EqualTheVectorsBothWays(t *testing.T) {
	for _, v := range loadVectors(t, histogramTypes...) {
		t.Run(v.Name, func(t *testing.T) {
			want := v.histograms(t)
			got, err := decodeHistograms(t, v.bytes(t))
			require.NoError(t, err)
			requireSameHistograms(t, want, got)
			if v.Name != "histogram-samples-v1-mixed-input-first-was-custom" {
				require.Equal(t, v.bytes(t), encodeHistograms(v.TypeByte, want))
				return
			}
			var e record.HistogramEncoder
			rec := e.BeginAt(nil, v.TypeByte, 32, 1_700_000_000_001)
			for _, h := range want {
				rec = e.Append(rec, h.Ref, h.T, h.ST, h.body())
			}
			require.Equal(t, v.bytes(t), rec)
		})
	}
}

func TestHistogramType_HasOneForEachKind(t *testing.T) {
	for _, c := range []struct {
		floats, custom, starts bool
		want                   record.Type
	}{
		{false, false, false, 7}, {true, false, false, 8}, {false, true, false, 9}, {true, true, false, 10},
		{false, false, true, 12}, {false, true, true, 12}, {true, false, true, 13}, {true, true, true, 13},
	} {
		typ := record.HistogramType(c.floats, c.custom, c.starts)
		require.Equal(t, c.want, typ)
		var d record.HistogramDecoder
		d.Reset([]byte{byte(typ)})
		require.Equal(t, c.floats, d.Floats())
		require.False(t, d.Next())
		require.NoError(t, d.Err(), "an empty record is its type")
		require.Equal(t, []byte{byte(typ)}, encodeHistograms(typ, nil))
	}
}

// drawEntries draws the entries of one record.
func drawEntries(t *rapid.T, floats, starts bool) (all []histogramEntry) {
	pick := histtest.Pick(func(n int64) int64 { return rapid.Int64Range(0, n-1).Draw(t, "number") })
	e := histogramEntry{T: pick(1<<40) - 1<<39}
	for range pick(6) {
		e.Ref = 1 + uint64(pick(1<<40-1))
		e.T += pick(1<<30) - 1<<29
		if starts {
			switch pick(3) {
			case 0:
				e.ST = 0
			case 1:
				e.ST = e.T - pick(1<<20)
			}
		}
		e.Int, e.Float = histtest.Draw(pick), nil
		if floats {
			e.Float = histtest.Floats(e.Int)
			e.Float.Hint, e.Int = e.Int.Hint, nil
		}
		all = append(all, e)
	}
	return all
}

func TestHistograms_WhatGoesInComesOut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		floats, starts := rapid.Bool().Draw(t, "floats"), rapid.Bool().Draw(t, "starts")
		all := drawEntries(t, floats, starts)
		rec := encodeHistograms(record.HistogramType(floats, false, starts), all)
		got, err := decodeHistograms(t, rec)
		require.NoError(t, err)
		requireSameHistograms(t, all, got)
		cut := rapid.IntRange(1, len(rec)).Draw(t, "cut")
		got, err = decodeHistograms(t, rec[:cut])
		requireSameHistograms(t, all[:len(got)], got)
		if err != nil {
			var ce *encbuf.CorruptError
			require.ErrorAs(t, err, &ce)
			require.LessOrEqual(t, ce.Offset, int64(cut))
		}
	})
}

// What makes no sense costs the entry that says it, and no other.
func TestHistogramDecoder_AnEntryWithoutSenseCostsOnlyItself(t *testing.T) {
	good := func() *histogram.Histogram {
		return &histogram.Histogram{
			Count: 3, PositiveSpans: []histogram.Span{{Offset: 1, Length: 2}}, PositiveBuckets: []int64{1, 1},
		}
	}
	for name, c := range map[string]struct {
		change func(h *histogram.Histogram)
		want   error
	}{
		"schema beyond":  {func(h *histogram.Histogram) { h.Schema = 53 }, histogram.ErrInvalidSchema},
		"schema below":   {func(h *histogram.Histogram) { h.Schema = -10 }, histogram.ErrInvalidSchema},
		"schema between": {func(h *histogram.Histogram) { h.Schema = -52 }, histogram.ErrInvalidSchema},
		"more spans": {
			func(h *histogram.Histogram) { h.PositiveSpans[0].Length = 3 }, histogram.ErrSpansBucketsMismatch,
		},
		"huge span": {
			func(h *histogram.Histogram) { h.PositiveSpans[0].Length = math.MaxUint32 },
			histogram.ErrSpansBucketsMismatch,
		},
		"fewer spans": {
			func(h *histogram.Histogram) { h.PositiveSpans = nil }, histogram.ErrSpansBucketsMismatch,
		},
		"negative buckets": {
			func(h *histogram.Histogram) { h.NegativeBuckets = []int64{1} }, histogram.ErrSpansBucketsMismatch,
		},
	} {
		t.Run(name, func(t *testing.T) {
			bad := good()
			c.change(bad)
			floats := bad.ToFloat(nil)
			for _, starts := range []bool{false, true} {
				for _, f := range []bool{false, true} {
					var e record.HistogramEncoder
					rec := e.Begin(nil, record.HistogramType(f, false, starts))
					for i, h := range []*histogram.Histogram{good(), bad, good()} {
						body := record.AppendHistogram(nil, h)
						if f {
							body = record.AppendFloatHistogram(nil, h.ToFloat(nil))
						}
						rec = e.Append(rec, 7, int64(i), 5, body)
					}
					requireOnlySecondBad(t, rec, c.want)
				}
			}
			require.ErrorIs(t, record.ReadFloatHistogram(record.AppendFloatHistogram(nil, floats), floats), c.want)
		})
	}
}

// Check has the rules for what is appended, too.
func TestHistogramDecoder_ChecksAsAppendDoes(t *testing.T) {
	good := func() *histogram.Histogram {
		return &histogram.Histogram{
			Count: 3, PositiveSpans: []histogram.Span{{Offset: 1, Length: 2}}, PositiveBuckets: []int64{1, 1},
		}
	}
	custom := func(change func(h *histogram.Histogram)) func(h *histogram.Histogram) {
		return func(h *histogram.Histogram) {
			h.Schema, h.CustomValues = histogram.CustomBuckets, []float64{1, 2, 3}
			change(h)
		}
	}
	for name, c := range map[string]struct {
		change     func(h *histogram.Histogram)
		want       error
		floatsFine bool // the rule is not one of float counts
	}{
		"a count below 0":     {change: func(h *histogram.Histogram) { h.PositiveBuckets, h.Count = []int64{1, -2}, 0 }, want: histogram.ErrNegativeBucketCount},
		"more in the buckets": {func(h *histogram.Histogram) { h.Count = 2 }, histogram.ErrCountNotBigEnough, true},
		"fewer, of a number":  {func(h *histogram.Histogram) { h.Count = 4 }, histogram.ErrCountMismatch, true},
		"fewer, of NaN":       {change: func(h *histogram.Histogram) { h.Count, h.Sum = 4, math.NaN() }, floatsFine: true},
		"more, of NaN":        {func(h *histogram.Histogram) { h.Count, h.Sum = 2, math.NaN() }, histogram.ErrCountNotBigEnough, true},
		"a span that goes back": {
			change: func(h *histogram.Histogram) { h.PositiveSpans = []histogram.Span{{Length: 1}, {Offset: -1, Length: 1}} },
			want:   histogram.ErrSpanNegativeOffset,
		},
		"a span beyond all indexes": {
			change: func(h *histogram.Histogram) { h.PositiveSpans[0].Offset = math.MaxInt32 }, want: histogram.ErrSpanOverflow,
		},
		"custom":                     {change: custom(func(*histogram.Histogram) {})},
		"custom without bounds":      {change: custom(func(h *histogram.Histogram) { h.CustomValues = nil }), want: histogram.ErrCustomBucketsMismatch},
		"custom, bounds that fall":   {change: custom(func(h *histogram.Histogram) { h.CustomValues[2] = 1 }), want: histogram.ErrCustomBucketsInvalid},
		"custom, a bound of NaN":     {change: custom(func(h *histogram.Histogram) { h.CustomValues[2] = math.NaN() }), want: histogram.ErrCustomBucketsNaN},
		"custom, a bucket too far":   {change: custom(func(h *histogram.Histogram) { h.PositiveSpans[0].Offset = 3 }), want: histogram.ErrCustomBucketsMismatch},
		"custom, below the first":    {change: custom(func(h *histogram.Histogram) { h.PositiveSpans[0].Offset = -1 }), want: histogram.ErrSpanNegativeOffset},
		"custom with a zero bucket":  {change: custom(func(h *histogram.Histogram) { h.ZeroThreshold = 1 })},
		"a schema for readers":       {change: func(h *histogram.Histogram) { h.Schema = 20 }},
		"another schema for readers": {change: func(h *histogram.Histogram) { h.Schema = -9 }},
		"stale":                      {change: func(h *histogram.Histogram) { *h = histogram.Histogram{Sum: math.Float64frombits(histogram.StaleNaN)} }},
	} {
		bad := good()
		c.change(bad)
		for _, starts := range []bool{false, true} {
			for _, floats := range []bool{false, true} {
				body := record.AppendHistogram(nil, bad)
				if floats {
					body = record.AppendFloatHistogram(nil, bad.ToFloat(nil))
				}
				var e record.HistogramEncoder
				rec := e.Append(e.Begin(nil, record.HistogramType(floats, bad.Custom(), starts)), 7, 1, 5, body)
				var d record.HistogramDecoder
				d.Reset(rec)
				require.True(t, d.Next())
				if c.want == nil || floats && c.floatsFine {
					require.NoError(t, d.Check(), name)
				} else {
					require.ErrorIs(t, d.Check(), c.want, name)
				}
			}
		}
	}
}

// What is wrong with float counts costs that entry only, too: the next one is read from where it
// begins.
func TestHistogramDecoder_ChecksFloatCounts(t *testing.T) {
	good := func() *histogram.FloatHistogram {
		return &histogram.FloatHistogram{
			Count: 3, ZeroCount: 1, PositiveSpans: []histogram.Span{{Offset: 1, Length: 2}}, PositiveBuckets: []float64{1, 1},
		}
	}
	for want, change := range map[error]func(h *histogram.FloatHistogram){
		histogram.ErrNegativeCount:       func(h *histogram.FloatHistogram) { h.Count = -1 },
		histogram.ErrNegativeBucketCount: func(h *histogram.FloatHistogram) { h.ZeroCount = -1 },
	} {
		bad := good()
		change(bad)
		var e record.HistogramEncoder
		rec := e.Begin(nil, record.HistogramType(true, false, false))
		for i, h := range []*histogram.FloatHistogram{good(), bad, good()} {
			rec = e.Append(rec, 7, int64(i), 0, record.AppendFloatHistogram(nil, h))
		}
		var d record.HistogramDecoder
		d.Reset(rec)
		for i := range 3 {
			require.True(t, d.Next())
			if i == 1 {
				require.ErrorIs(t, d.Check(), want)
				continue
			}
			require.NoError(t, d.Check())
			var got histogram.FloatHistogram
			require.NoError(t, d.DecodeFloat(&got))
			require.True(t, got.Equal(good()))
		}
		require.False(t, d.Next())
		require.NoError(t, d.Err())
	}
}

func requireOnlySecondBad(t *testing.T, rec []byte, want error) {
	t.Helper()
	var d record.HistogramDecoder
	d.Reset(rec)
	for i := range int64(3) {
		require.True(t, d.Next())
		require.Equal(t, i, d.T())
		var err error
		if d.Floats() {
			err = d.DecodeFloat(&histogram.FloatHistogram{})
		} else {
			err = d.DecodeInt(&histogram.Histogram{})
		}
		requireSameError(t, err, d.Check())
		if i == 1 {
			require.ErrorIs(t, err, want)
			require.Regexp(t, `\d`, err.Error(), "it says which numbers")
		} else {
			require.NoError(t, err)
		}
	}
	require.False(t, d.Next())
	require.NoError(t, d.Err())
}

func TestReadHistogram_SpansAndListsHaveLimits(t *testing.T) {
	head := []byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0} // up to the spans
	far := append(head[:len(head):len(head)], 1)
	far = encbuf.AppendUvarint(encbuf.AppendVarint(far, 1<<31), 0)
	var h histogram.Histogram
	require.ErrorIs(t, record.ReadHistogram(append(far, 0, 0, 0), &h), histogram.ErrSpanOverflow)
	long := append(head[:len(head):len(head)], 1)
	long = encbuf.AppendUvarint(encbuf.AppendVarint(long, 0), 1<<32)
	require.ErrorIs(t, record.ReadHistogram(append(long, 0, 0, 0), &h), histogram.ErrSpanOverflow)

	many := encbuf.AppendUvarint(head[:len(head):len(head)], histogram.MaxBuckets+1)
	many = append(many, make([]byte, 2*(histogram.MaxBuckets+1))...)
	require.ErrorIs(t, record.ReadHistogram(append(many, 0, 0, 0), &h), histogram.ErrTooManyBuckets)

	huge := encbuf.AppendUvarint(head[:len(head):len(head)], 1<<60)
	require.ErrorIs(t, record.ReadHistogram(huge, &h), encbuf.ErrCorrupt, "no memory is taken for it")
	require.ErrorIs(t, record.ReadHistogram(nil, &h), encbuf.ErrCorrupt)
	require.ErrorIs(t, record.ReadHistogram(append(head, 0, 0, 0, 0, 0), &h), encbuf.ErrCorrupt, "a byte behind it")
	require.NoError(t, record.ReadHistogram(append(head, 0, 0, 0, 0), &h))
}

// Fine schemas of others are read as the finest that is ours; hints without a meaning say
// nothing.
func TestReadHistogram_ReadsWhatOthersMayWrite(t *testing.T) {
	h := &histogram.Histogram{
		Schema: 52, Hint: 9, Count: 3, PositiveSpans: []histogram.Span{{Offset: 1, Length: 2}},
		PositiveBuckets: []int64{1, 1},
	}
	var got histogram.Histogram
	require.NoError(t, record.ReadHistogram(record.AppendHistogram(nil, h), &got))
	var float histogram.FloatHistogram
	require.NoError(t, record.ReadFloatHistogram(record.AppendFloatHistogram(nil, h.ToFloat(nil)), &float))
	require.NoError(t, h.ReduceResolution(histogram.MaxSchema))
	require.True(t, h.Equal(&got))
	require.True(t, float.Equal(h.ToFloat(nil)))
	require.Equal(t, histogram.HintUnknown, got.Hint)
	require.Equal(t, histogram.HintUnknown, float.Hint)
	h.Schema = histogram.MinReadSchema
	require.NoError(t, record.ReadHistogram(record.AppendHistogram(nil, h), &got))
	require.True(t, h.Equal(&got), "wide ones pass")
}

func TestHistogramCodecs_AllocateNothing(t *testing.T) {
	h := &histogram.Histogram{
		Schema: histogram.CustomBuckets, Count: 3, PositiveSpans: []histogram.Span{{Length: 2}},
		PositiveBuckets: []int64{1, 1}, CustomValues: []float64{1, 2},
	}
	f := h.ToFloat(nil)
	dst, body := make([]byte, 0, 1<<12), make([]byte, 0, 1<<12)
	run := func() {
		var e record.HistogramEncoder
		dst = e.Begin(dst[:0], record.TypeHistogramsV2)
		body = record.AppendHistogram(body[:0], h)
		dst = e.Append(dst, 1, 2, 3, body)
		var d record.HistogramDecoder
		for d.Reset(dst); d.Next(); {
			if d.DecodeInt(h) != nil {
				t.Fail()
			}
		}
		body = record.AppendFloatHistogram(body[:0], f)
		if record.ReadFloatHistogram(body, f) != nil || d.Err() != nil {
			t.Fail()
		}
	}
	run()
	require.Zero(t, testing.AllocsPerRun(20, run))
}

// requireSameError holds what Check says of a histogram against what decoding it says.
func requireSameError(t *testing.T, decoded, checked error) {
	t.Helper()
	if decoded == nil {
		require.NoError(t, checked)
	} else {
		require.EqualError(t, checked, decoded.Error())
	}
}

// requireCheckedAsValidated holds what Check says of a histogram against what decoding it, and its
// Validate by the rules for what is appended, say: schemas that only readers take are fine here.
func requireCheckedAsValidated(t *testing.T, h *histogramEntry, decoded, checked error) {
	t.Helper()
	if decoded != nil {
		require.Error(t, checked, decoded.Error())
		return
	}
	var valid error
	if h.Float != nil {
		normal := h.Float.Copy()
		normal.Normalize()
		valid = normal.Validate()
	} else {
		normal := h.Int.Copy()
		normal.Normalize()
		valid = normal.Validate()
	}
	switch {
	case checked != nil:
		require.Error(t, valid, "Check says %v", checked)
	case valid != nil:
		require.ErrorIs(t, valid, histogram.ErrInvalidSchema)
	}
}

func FuzzDecodeHistograms(f *testing.F) {
	seed(f, histogramTypes...)
	f.Fuzz(func(t *testing.T, rec []byte) {
		var d record.HistogramDecoder
		var e record.HistogramEncoder
		var good []histogramEntry
		again := e.Begin(nil, record.TypeOf(rec))
		for d.Reset(rec); d.Next(); {
			h := histogramEntry{Ref: d.Ref(), T: d.T(), ST: d.ST()}
			var err error
			if d.Floats() {
				h.Float = &histogram.FloatHistogram{}
				err = d.DecodeFloat(h.Float)
			} else {
				h.Int = &histogram.Histogram{}
				err = d.DecodeInt(h.Int)
			}
			requireCheckedAsValidated(t, &h, err, d.Check())
			if err == nil {
				again = e.Append(again, h.Ref, h.T, h.ST, h.body())
				good = append(good, h)
			}
		}
		if d.Err() != nil {
			requirePlace(t, rec, d.Err())
		}
		if len(good) > 0 {
			got, err := decodeHistograms(t, again)
			require.NoError(t, err)
			requireSameHistograms(t, good, got)
		}
	})
}

// BenchmarkHistogramDecoder reads records of 100 histograms of 20 buckets. One operation is
// one histogram.
func BenchmarkHistogramDecoder(b *testing.B) {
	h := &histogram.Histogram{Count: 210, PositiveSpans: []histogram.Span{{Length: 20}}}
	for range 20 {
		h.PositiveBuckets = append(h.PositiveBuckets, 1)
	}
	var all []histogramEntry
	for i := range 100 {
		all = append(all, histogramEntry{Ref: uint64(i + 1), T: 1000, Int: h})
	}
	rec := encodeHistograms(record.TypeHistograms, all)
	b.SetBytes(int64(len(rec)) / 100)
	var d record.HistogramDecoder
	for n := 0; n < b.N; n += len(all) {
		for d.Reset(rec); d.Next(); {
			if err := d.DecodeInt(h); err != nil {
				b.Fatal(err)
			}
		}
	}
}
