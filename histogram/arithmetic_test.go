package histogram_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/histtest"
)

func TestAdd_OfDifferentLayouts(t *testing.T) {
	cases := map[string]struct {
		a, b *histogram.FloatHistogram
		want map[int64]float64
		zero float64 // count
		over float64 // threshold
	}{
		"same buckets": {
			a: simple(1, spans(0, 2), 1, 2), b: simple(1, spans(0, 2), 10, 20),
			want: map[int64]float64{0: 11, 1: 22},
		},
		"other buckets": {
			a: simple(1, spans(0, 2), 1, 2), b: simple(1, spans(-1, 1, 1, 1), 10, 20),
			want: map[int64]float64{-1: 10, 0: 1, 1: 22},
		},
		"coarser": {
			a: simple(0, spans(0, 2), 1, 2), b: simple(1, spans(0, 3), 10, 20, 40),
			want: map[int64]float64{0: 11, 1: 62},
		},
		"finer": {
			a: simple(1, spans(0, 3), 10, 20, 40), b: simple(0, spans(0, 2), 1, 2),
			want: map[int64]float64{0: 11, 1: 62},
		},
		"wider zero bucket": {
			a: withZero(simple(0, spans(0, 3), 1, 2, 4), 0.25, 100), b: withZero(simple(0, spans(2, 1), 8), 2, 200),
			want: map[int64]float64{2: 12}, zero: 303, over: 2,
		},
		"zero bucket that ends in a bucket": {
			a: withZero(simple(0, spans(0, 3), 1, 2, 4), 0.25, 100), b: withZero(simple(0, spans(2, 2), 8, 16), 3, 200),
			want: map[int64]float64{3: 16}, zero: 315, over: 4,
		},
		"zero bucket that ends in an empty bucket": {
			a: withZero(simple(0, spans(0, 3), 1, 2, 0), 0.25, 100), b: withZero(simple(0, spans(3, 1), 16), 3, 200),
			want: map[int64]float64{3: 16}, zero: 303, over: 3,
		},
		"custom bounds": {
			a: withBounds(simple(-53, spans(0, 4), 1, 2, 4, 8), 1, 2, 3), b: withBounds(simple(-53, spans(1, 2), 10, 20), 2, 4),
			want: map[int64]float64{0: 3, 1: 42},
		},
		"no common bounds": {
			a: withBounds(simple(-53, spans(0, 2), 1, 2), 1), b: withBounds(simple(-53, spans(0, 2), 10, 20), 2),
			want: map[int64]float64{0: 33},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			was, count := c.b.Copy(), c.a.Count
			require.NoError(t, c.a.Add(c.b))
			require.True(t, was.Equal(c.b), "what is added stays as it was")
			require.Equal(t, c.want, counts(c.a.PositiveSpans, c.a.PositiveBuckets))
			require.Equal(t, c.zero, c.a.ZeroCount)
			require.Equal(t, c.over, c.a.ZeroThreshold)
			require.Equal(t, count+was.Count, c.a.Count)
			require.NoError(t, c.a.Validate())
		})
	}
}

func withZero(h *histogram.FloatHistogram, threshold, count float64) *histogram.FloatHistogram {
	h.ZeroThreshold, h.ZeroCount = threshold, count
	h.Count += count
	return h
}

func withBounds(h *histogram.FloatHistogram, bounds ...float64) *histogram.FloatHistogram {
	h.CustomValues = bounds
	return h
}

func TestAdd_RefusesWhatHasNoCommonLayout(t *testing.T) {
	a, b := simple(0, spans(0, 1), 1), withBounds(simple(-53, spans(0, 1), 1), 1)
	require.ErrorIs(t, a.Add(b), histogram.ErrIncompatibleSchemas)
	require.ErrorIs(t, b.Sub(a), histogram.ErrIncompatibleSchemas)
	b.Schema = 99
	require.ErrorIs(t, a.Add(b), histogram.ErrInvalidSchema)
	require.EqualValues(t, 1, a.Count)
}

func TestAdd_KeepsAHintThatBothHave(t *testing.T) {
	const u, r, n, g = histogram.HintUnknown, histogram.HintReset, histogram.HintNotReset, histogram.HintGauge
	for _, c := range [][3]histogram.ResetHint{
		{u, u, u}, {r, r, r}, {n, n, n}, {g, g, g}, {u, r, u}, {r, n, u}, {u, n, u}, {g, u, g}, {g, r, g}, {g, n, g},
	} {
		for _, order := range [][2]int{{0, 1}, {1, 0}} {
			a, b := simple(0, spans(0, 1), 1), simple(0, spans(0, 1), 1)
			a.Hint, b.Hint = c[order[0]], c[order[1]]
			require.NoError(t, a.Add(b))
			require.Equal(t, c[2], a.Hint, "%v and %v", c[0], c[1])
		}
	}
}

func TestSub_UndoesAdd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := histtest.Draw(pick(t)), histtest.Draw(pick(t))
		x, y := a.ToFloat(nil), b.ToFloat(nil)
		x.Sum, y.Sum = 1, 2
		sum := x.Copy()
		if err := sum.Add(y); err != nil {
			require.ErrorIs(t, err, histogram.ErrIncompatibleSchemas)
			return
		}
		require.Equal(t, x.Count+y.Count, sum.Count)
		require.EqualValues(t, 3, sum.Sum)
		nans := float64(0)
		if math.IsNaN(a.Sum) || math.IsNaN(b.Sum) {
			nans = 18
		}
		require.InDelta(t, sum.Count, total(sum), nans, "no observation is lost")

		require.NoError(t, sum.Sub(y))
		require.Equal(t, x.Count, sum.Count)
		require.Equal(t, total(x), total(sum))
		if x.Schema == y.Schema && x.ZeroThreshold == y.ZeroThreshold && len(x.CustomValues) == 0 {
			require.Equal(t, counts(x.PositiveSpans, x.PositiveBuckets),
				counts(sum.PositiveSpans, sum.PositiveBuckets))
			require.Equal(t, counts(x.NegativeSpans, x.NegativeBuckets),
				counts(sum.NegativeSpans, sum.NegativeBuckets))
		}
	})
}

// total returns how much is in all buckets.
func total(h *histogram.FloatHistogram) float64 {
	n := h.ZeroCount
	for _, list := range [][]float64{h.PositiveBuckets, h.NegativeBuckets} {
		for _, c := range list {
			n += c
		}
	}
	return n
}

func TestScale_MultipliesWhatIsCounted(t *testing.T) {
	h := withZero(simple(1, spans(0, 2), 1, 2), 0.5, 4)
	h.Sum, h.NegativeSpans, h.NegativeBuckets = 10, spans(0, 1), []float64{8}
	h.Scale(2.5)
	require.Equal(t, []float64{2.5, 5}, h.PositiveBuckets)
	require.Equal(t, []float64{20}, h.NegativeBuckets)
	require.Equal(t, []float64{10, 17.5, 25, 0.5}, []float64{h.ZeroCount, h.Count, h.Sum, h.ZeroThreshold})
}

// Whatever grows in the same layout was not reset; whatever is less in one place was.
func TestDetectReset_FindsWhatFell(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := histtest.Floats(histtest.Draw(pick(t)))
		h.Hint = histogram.HintUnknown
		next := h.Copy()
		for i := range next.PositiveBuckets {
			next.PositiveBuckets[i] += float64(rapid.IntRange(0, 3).Draw(t, "growth"))
		}
		require.False(t, next.DetectReset(h))
		next.Hint = histogram.HintReset
		require.True(t, next.DetectReset(h))
		if n := len(h.PositiveBuckets); n > 0 {
			i := rapid.IntRange(0, n-1).Draw(t, "bucket")
			next.PositiveBuckets[i] = h.PositiveBuckets[i] - 1
			next.Hint = histogram.HintGauge
			require.True(t, next.DetectReset(h))
			next.Hint = histogram.HintNotReset
			require.False(t, next.DetectReset(h))
		}
	})
}
