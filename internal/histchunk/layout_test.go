package histchunk_test

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/histchunk"
	"github.com/seed347100a3/tsdb/internal/histtest"
)

// oddLayout is a layout, whose buckets are all empty.
type oddLayout struct {
	schema int32
	spans  [2][]histogram.Span
	bounds []float64
}

// chunks encodes two samples of the layout in all encodings: an encoder trusts what it is given.
func (l *oddLayout) chunks() (chunks []encoded) {
	h := &histogram.Histogram{
		Schema: l.schema, PositiveSpans: l.spans[0], NegativeSpans: l.spans[1], CustomValues: l.bounds,
		PositiveBuckets: make([]int64, histogram.NumBuckets(l.spans[0])),
		NegativeBuckets: make([]int64, histogram.NumBuckets(l.spans[1])),
	}
	for _, starts := range []bool{false, true} {
		for _, floats := range []bool{false, true} {
			var e histchunk.Encoder
			if starts {
				e.BeginWithStarts()
			}
			for at := range int64(2) {
				if floats {
					e.AppendFloat(at, 0, h.ToFloat(nil))
				} else {
					e.Append(at, 0, h)
				}
			}
			chunks = append(chunks, encoded{e.Encoding(), e.AppendTo(nil)})
		}
	}
	return chunks
}

func positive(spans ...histogram.Span) [2][]histogram.Span { return [2][]histogram.Span{spans} }
func negative(spans ...histogram.Span) [2][]histogram.Span { return [2][]histogram.Span{nil, spans} }

// senseless are layouts that no sample may have, by what is said of them.
var senseless = map[error]oddLayout{
	histogram.ErrSpanNegativeOffset: {spans: positive(histogram.Span{Length: 2}, histogram.Span{Offset: -2, Length: 1})},
	histogram.ErrSpanOverflow:       {spans: negative(histogram.Span{Offset: math.MaxInt32, Length: 2})},

	histogram.ErrCustomBucketsInvalid: {
		schema: histogram.CustomBuckets, spans: positive(histogram.Span{Length: 2}), bounds: []float64{1, 3, 2},
	},
	histogram.ErrCustomBucketsInfinite: {schema: histogram.CustomBuckets, bounds: []float64{1, math.Inf(1)}},
	histogram.ErrCustomBucketsNaN:      {schema: histogram.CustomBuckets, bounds: []float64{math.NaN(), 1}},
	histogram.ErrCustomBucketsMismatch: {
		schema: histogram.CustomBuckets, spans: positive(histogram.Span{Length: 1}, histogram.Span{Offset: 1, Length: 2}), bounds: []float64{1, 2},
	},
	histogram.ErrCustomBucketsNegativeSpans: {
		schema: histogram.CustomBuckets, spans: negative(histogram.Span{Length: 1}), bounds: []float64{1},
	},
}

// A layout that makes no sense is damage, which names the rule and the end of the layout.
func TestDecoder_ALayoutThatMakesNoSenseIsDamage(t *testing.T) {
	for want, l := range senseless {
		for _, c := range l.chunks() {
			var d histchunk.Decoder
			err := d.Reset(c.enc, c.data)
			require.ErrorIs(t, err, encbuf.ErrCorrupt, "encoding %d: %v", c.enc, want)
			require.ErrorContains(t, err, "histogram chunk: ")
			require.ErrorContains(t, err, want.Error())
			requirePlace(t, err, len(c.data))
			require.Equal(t, err, d.Err(), "it stays")
			require.False(t, d.Next())
		}
	}
}

// Custom buckets in chunks: what is odd and makes sense is read.
func TestDecoder_OddLayoutsAreRead(t *testing.T) {
	for name, l := range map[string]oddLayout{
		"custom without bounds":       {schema: histogram.CustomBuckets, spans: positive(histogram.Span{Length: 1})},
		"custom without buckets":      {schema: histogram.CustomBuckets, bounds: []float64{1}},
		"custom with -Inf":            {schema: histogram.CustomBuckets, bounds: []float64{math.Inf(-1), 1}},
		"spans that touch, and empty": {spans: positive(histogram.Span{Offset: -3}, histogram.Span{Offset: 1, Length: 1}, histogram.Span{Length: 1})},
		"the last index":              {spans: negative(histogram.Span{Offset: math.MaxInt32, Length: 1})},
		"bounds that are not written": {schema: 1, bounds: []float64{2, 1}},
	} {
		for _, c := range l.chunks() {
			n, err := scan(c.enc, c.data)
			require.NoError(t, err, name)
			require.Equal(t, 2, n, name)
		}
	}
}

// The bounds of a vector that has one of each form, in their order.
func TestDecoder_BoundsOfEveryFormComeBack(t *testing.T) {
	var file struct{ Vectors []vector[*histtest.Int] }
	load(t, "histogram.json", &file)
	n := slices.IndexFunc(file.Vectors, func(v vector[*histtest.Int]) bool { return v.Name == "nhcb-bound-encodings" })
	h := &file.Vectors[n].Input[0].H.Histogram
	require.Len(t, h.CustomValues, 18)
	slices.Sort(h.CustomValues)
	for _, c := range encode([]appended{{1, 0, h}, {2, 1, h}}, false) {
		var d histchunk.Decoder
		require.NoError(t, d.Reset(c.enc, c.data))
		for range 2 {
			require.True(t, d.Next())
			var got histogram.Histogram
			d.Histogram(&got)
			require.True(t, got.Equal(h), "%v", got)
		}
		require.False(t, d.Next())
	}
}

// An empty chunk has no layout, whatever is behind its header.
func TestDecoder_AnEmptyChunkHasNoLayout(t *testing.T) {
	for _, enc := range encodings {
		n, err := scan(enc, []byte{0, 0, 0, 0xff, 0xff})
		require.NoError(t, err)
		require.Zero(t, n)
	}
}
