package histchunk_test

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/histchunk"
	"github.com/seed347100a3/tsdb/internal/histtest"
)

// load reads a file of vectors.
func load(t testing.TB, name string, into any) {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, into))
}

// sample is one sample of a vector, of the kind that the file has.
type sample[H any] struct {
	T, ST int64
	H     H
}

type vector[H any] struct {
	Name     string
	Previous bool `json:"with_previous_appender"`
	Input    []sample[H]
	Chunks   []chunk[H]
}

type chunk[H any] struct {
	Header     string `json:"counter_reset_header"`
	Data       string
	Decoded    []sample[H]
	Encoding   histchunk.Encoding
	NumSamples int `json:"num_samples"`
}

func (c chunk[H]) bytes(t testing.TB) []byte {
	t.Helper()
	b, err := hex.DecodeString(c.Data)
	require.NoError(t, err)
	return b
}

var headers = map[string]histchunk.Header{
	"unknown": histchunk.HeaderUnknown, "reset": histchunk.HeaderReset, "gauge": histchunk.HeaderGauge,
	"not-reset": histchunk.HeaderNotReset, "not_reset": histchunk.HeaderNotReset,
}

func TestInts_EqualTheVectorsBothWays(t *testing.T) {
	for file, n := range map[string]int{"histogram.json": 114, "histogram_st.json": 14} {
		var vectors struct{ Vectors []vector[*histtest.Int] }
		load(t, file, &vectors)
		require.Len(t, vectors.Vectors, n)
		for _, v := range vectors.Vectors {
			t.Run(file+"/"+v.Name, func(t *testing.T) {
				for _, c := range v.Chunks {
					decodes(t, v.Name, c, func(d *histchunk.Decoder, want sample[*histtest.Int]) {
						var h histogram.Histogram
						d.Histogram(&h)
						require.True(t, h.Equal(&want.H.Histogram), "%v %v", h, want.H.Histogram)
						require.Equal(t, want.H.Hint, h.Hint)
						var f histogram.FloatHistogram
						d.FloatHistogram(&f)
						require.True(t, f.Equal(want.H.ToFloat(nil)))
						require.Equal(t, want.H.Hint, f.Hint)
					})
				}
				encodes(t, v, func(e *histchunk.Encoder, s sample[*histtest.Int]) (histchunk.Header, bool) {
					return e.Append(s.T, s.ST, &s.H.Histogram)
				}, func(e *histchunk.Encoder, s sample[*histtest.Int]) histchunk.Header {
					return e.HeaderAfter(&s.H.Histogram)
				})
			})
		}
	}
}

func TestFloats_EqualTheVectorsBothWays(t *testing.T) {
	for file, n := range map[string]int{"float_histogram.json": 94, "float_histogram_st.json": 14} {
		var vectors struct{ Vectors []vector[*histtest.Float] }
		load(t, file, &vectors)
		require.Len(t, vectors.Vectors, n)
		for _, v := range vectors.Vectors {
			t.Run(file+"/"+v.Name, func(t *testing.T) {
				for _, c := range v.Chunks {
					decodes(t, v.Name, c, func(d *histchunk.Decoder, want sample[*histtest.Float]) {
						var h histogram.FloatHistogram
						d.FloatHistogram(&h)
						require.True(t, h.Equal(&want.H.FloatHistogram), "%v %v", h, want.H.FloatHistogram)
						require.Equal(t, want.H.Hint, h.Hint)
					})
				}
				encodes(t, v, func(e *histchunk.Encoder, s sample[*histtest.Float]) (histchunk.Header, bool) {
					return e.AppendFloat(s.T, s.ST, &s.H.FloatHistogram)
				}, func(e *histchunk.Encoder, s sample[*histtest.Float]) histchunk.Header {
					return e.HeaderAfterFloat(&s.H.FloatHistogram)
				})
			})
		}
	}
}

// oddVectors are of encoders alone: no head takes such a histogram, and its chunk is damage here.
var oddVectors = map[string]error{
	"nhcb-bound-encodings": histogram.ErrCustomBucketsInvalid, // 33554.431, 33554.4305
}

// decodes reads a chunk of a vector.
func decodes[H any](t *testing.T, name string, c chunk[H], same func(*histchunk.Decoder, sample[H])) {
	t.Helper()
	var d histchunk.Decoder
	err := d.Reset(c.Encoding, c.bytes(t))
	if want := oddVectors[name]; want != nil {
		require.ErrorIs(t, err, encbuf.ErrCorrupt)
		require.ErrorContains(t, err, want.Error())
		return
	}
	require.NoError(t, err)
	require.Equal(t, headers[c.Header], d.Header())
	require.Equal(t, c.NumSamples, d.NumSamples())
	for _, want := range c.Decoded {
		require.True(t, d.Next(), d.Err())
		require.Equal(t, want.T, d.T())
		require.Equal(t, want.ST, d.ST())
		same(&d, want)
	}
	require.False(t, d.Next())
	require.NoError(t, d.Err())
}

// encodes appends the samples of a vector, and compares chunks byte for byte.
func encodes[H any](
	t *testing.T, v vector[H],
	add func(*histchunk.Encoder, sample[H]) (histchunk.Header, bool),
	after func(*histchunk.Encoder, sample[H]) histchunk.Header,
) {
	t.Helper()
	var e histchunk.Encoder
	begin := func(h histchunk.Header) {
		if e.Reset(h); v.Chunks[0].Encoding > 4 {
			e.BeginWithStarts()
		}
	}
	begin(histchunk.HeaderUnknown)
	var got []string
	end := func() {
		b := e.AppendTo(nil)
		require.Equal(t, len(b), e.SizeBytes())
		require.Equal(t, v.Chunks[len(got)].Encoding, e.Encoding())
		got = append(got, hex.EncodeToString(b))
	}
	for i, s := range v.Input {
		if v.Previous && i > 0 {
			end()
			begin(after(&e, s))
		}
		next, taken := add(&e, s)
		if !taken {
			end()
			begin(next)
			_, taken = add(&e, s)
			require.True(t, taken, "an empty encoder takes everything")
		}
		require.Equal(t, s.T, e.LastT())
	}
	end()
	var want []string
	for _, c := range v.Chunks {
		want = append(want, c.Data)
	}
	require.Equal(t, want, got)
	require.Equal(t, v.Chunks[len(got)-1].NumSamples, e.NumSamples())
	require.Equal(t, v.Chunks[len(got)-1].Decoded[0].T == e.FirstT(), true)
}

func TestEncoder_AnEmptyChunkIsThreeBytes(t *testing.T) {
	var e histchunk.Encoder
	require.Equal(t, []byte{0, 0, 0}, e.AppendTo(nil))
	require.Equal(t, 3, e.SizeBytes())
	require.Equal(t, histchunk.EncInts, e.Encoding())
	var d histchunk.Decoder
	for _, enc := range []histchunk.Encoding{2, 3, 5, 6} {
		require.NoError(t, d.Reset(enc, e.AppendTo(nil)))
		require.False(t, d.Next())
		require.NoError(t, d.Err())
	}
}
