package memseries

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/xorchunk"
	"github.com/seed347100a3/tsdb/labels"
)

// timesOf decodes what a series has in its open chunk.
func timesOf(t *testing.T, d *Directory, s *Series) (ts []int64) {
	t.Helper()
	var v Excerpt
	d.Past(1).Excerpt(s, NoTime+1, 1<<40, &v)
	for _, c := range v.Chunks {
		var dec chunkenc.Decoder
		require.NoError(t, dec.Reset(chunkenc.EncXOR, v.Data(c)))
		for dec.Left() > 0 {
			b := chunkenc.NewBatch(c.Num)
			require.NoError(t, dec.Decode(b, c.Num))
			ts = append(ts, b.T...)
		}
	}
	return ts
}

func finish(t *testing.T, d *Directory, rs ...*Restorer) {
	t.Helper()
	for _, r := range rs {
		r.Close()
	}
	require.NoError(t, NewRestoration(d).Finish(1, func(Mapped) (uint64, chunkenc.ValueType, error) { return 0, chunkenc.ValFloat, nil }))
}

func TestRestorer_SamplesBeforeTheirSeriesComeBeforeItsLaterOnes(t *testing.T) {
	for _, later := range []bool{true, false} {
		d := NewDirectory(defaultCutting)
		r := NewRestoration(d).NewRestorer()
		restoreOne(r, 7, 10, 1)
		restoreOne(r, 8, 10, 1) // of nobody, for ever
		restoreOne(r, 7, 20, 2)
		s, err := restore(d, 7, labels.FromStrings("a", "b"))
		require.NoError(t, err)
		want := []int64{10, 20}
		if later {
			restoreOne(r, 7, 15, 3) // late
			restoreOne(r, 7, 30, 3)
			want = append(want, 30)
		}
		finish(t, d, r)
		require.EqualValues(t, 1, r.Unknown)
		require.EqualValues(t, len(want), r.Samples)
		require.Equal(t, want, timesOf(t, d, s))
		require.EqualValues(t, 9, d.NextRef())
	}
}

func TestRestorer_AdoptsWhatAnotherOneHasUnderAnotherName(t *testing.T) {
	d := NewDirectory(defaultCutting)
	s, err := restore(d, 2, labels.FromStrings("a", "b"))
	require.NoError(t, err)
	one, two := NewRestoration(d).NewRestorer(), NewRestoration(d).NewRestorer()
	restoreOne(one, 2, 10, 1)
	restoreOne(two, 7, 20, 2)
	one.Adopt(two, 7, s)
	one.Adopt(two, 7, s) // twice is once
	restoreOne(one, 2, 30, 3)
	finish(t, d, one, two)
	require.Equal(t, []int64{10, 20, 30}, timesOf(t, d, s))
	require.Zero(t, one.Unknown+two.Unknown+one.Late)
}

func TestRestorer_SetsABoundedNumberOfSamplesAside(t *testing.T) {
	d := NewDirectory(defaultCutting)
	r := NewRestoration(d).NewRestorer()
	for i := range int64(maxAside + 10) {
		restoreOne(r, 7, i, 1)
	}
	require.EqualValues(t, 10, r.Unknown)
	_, err := restore(d, 7, labels.FromStrings("a", "b"))
	require.NoError(t, err)
	finish(t, d, r)
	require.EqualValues(t, 10, r.Unknown)
	require.EqualValues(t, maxAside, r.Samples)
}

// A histogram that comes before its series is kept, whatever becomes of the memory that it was in.
func TestRestorer_KeepsHistogramsBeforeTheirSeries(t *testing.T) {
	for _, kind := range []chunkenc.Encoding{chunkenc.EncHistogram, chunkenc.EncFloatHistogram} {
		d := NewDirectory(defaultCutting)
		r := NewRestoration(d).NewRestorer()
		var read []byte
		early := func(n int) {
			w := histogramOf(kind, 5, n)
			w.Encode(read[:0])
			read = w.Body
			r.AppendOne(&Run{Ref: 7, Samples: []xorchunk.Sample{{T: w.T}}, Wide: []WideAt{{Sample: w}}}, 1)
		}
		early(1)
		early(2)
		s, err := restore(d, 7, labels.FromStrings("a", "b"))
		require.NoError(t, err)
		early(3)
		finish(t, d, r)
		var v Excerpt
		d.Past(1).Excerpt(s, NoTime+1, 1<<40, &v)
		require.Len(t, v.Chunks, 1)
		var dec chunkenc.Decoder
		require.NoError(t, dec.Reset(v.Chunks[0].Encoding, v.Data(v.Chunks[0])))
		for n := 1; n <= 3; n++ {
			more, err := dec.Next()
			require.True(t, more, err)
			var got histogram.FloatHistogram
			dec.FloatHistogram(&got)
			require.True(t, got.EqualByIndex(counting(5, n).ToFloat(nil)), "%d", n)
		}
	}
}
