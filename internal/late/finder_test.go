package late

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/histogram"
)

// chunkOf returns a chunk with samples at some times: floats, or integer histograms.
func chunkOf(t require.TestingT, times []int64, histograms bool) (chunkenc.Encoding, []byte) {
	var enc chunkenc.Encoder
	for i, at := range times {
		var err error
		if histograms {
			h := histogram.Histogram{Count: uint64(i)}
			h.ZeroCount = h.Count
			err = enc.AppendHistogram(at, &h, 0)
		} else {
			err = enc.Append(at, float64(i), 0)
		}
		require.NoError(t, err)
	}
	return enc.Encoding(), enc.AppendTo(nil)
}

// What is steady around a time lacks no time that the chunk has, and each other one within.
func TestSteady_LacksWhatTheChunkLacks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var times []int64
		at := rapid.Int64Range(-50, 50).Draw(t, "first")
		for range rapid.IntRange(1, 5).Draw(t, "runs") {
			step := rapid.Int64Range(1, 6).Draw(t, "step")
			for range rapid.IntRange(1, 70).Draw(t, "samples") {
				times = append(times, at)
				at += step
			}
		}
		enc, data := chunkOf(t, times, rapid.Bool().Draw(t, "histograms"))
		has := map[int64]bool{}
		for _, at := range times {
			has[at] = true
		}
		var f Finder
		looked := rapid.Int64Range(times[0]-1, at).Draw(t, "looked for")
		_, found, err := f.Find(enc, data, looked)
		require.NoError(t, err)
		require.Equal(t, has[looked], found)
		if found {
			return
		}
		known := f.Steady(looked)
		for at := times[0] - 2; at <= times[len(times)-1]+2; at++ {
			within := known.Any() && known.from < at && at < known.to
			require.Equal(t, within && !has[at], known.lacks(at), "%+v of %d", known, at)
		}
		require.Equal(t, known.Any(), known.lacks(looked))
	})
}

func TestFinder_ForgetsTheChunkBefore(t *testing.T) {
	for _, histograms := range []bool{false, true} {
		t.Run(fmt.Sprint("histograms ", histograms), func(t *testing.T) {
			var f Finder
			enc, data := chunkOf(t, []int64{0, 10, 20, 30, 40}, histograms)
			_, found, err := f.Find(enc, data, 15)
			require.NoError(t, err)
			require.False(t, found)
			known := f.Steady(15)
			require.True(t, known.Any())
			f.Forget()
			known = f.Steady(15)
			require.False(t, known.Any())
		})
	}
}

func TestStore_ForgetSteady(t *testing.T) {
	st := NewStore(testCutting)
	lacks := func(ref uint64, at int64) bool {
		_, _, lacks, err := st.Find(ref, at)
		require.NoError(t, err)
		return lacks
	}
	known := Steady{from: 0, to: 100, step: 10}
	era := st.Era()
	st.NoteSteady(1, known, era) // which has no late samples
	require.False(t, lacks(1, 5))
	for ref := uint64(1); ref <= 2; ref++ {
		added, err := st.Add(ref, &Sample{T: 7, Encoding: chunkenc.EncXOR}, 1, 0, false)
		require.NoError(t, err)
		require.True(t, added)
		st.NoteSteady(ref, known, era)
	}
	for at, want := range map[int64]bool{-5: false, 0: false, 5: true, 10: false, 99: true, 100: false, 105: false} {
		require.Equal(t, want, lacks(1, at), at)
	}
	st.ForgetSteady()
	require.False(t, lacks(1, 5))
	require.False(t, lacks(2, 5))
	st.NoteSteady(1, known, era) // it was looked at before
	require.False(t, lacks(1, 5))
}
