package histogram_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/histtest"
)

// spans are pairs of offset and length.
func spans(pairs ...int) (out []histogram.Span) {
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, histogram.Span{Offset: int32(pairs[i]), Length: uint32(pairs[i+1])})
	}
	return out
}

// simple is a histogram of positive buckets only.
func simple(schema int32, sp []histogram.Span, counts ...float64) *histogram.FloatHistogram {
	h := &histogram.FloatHistogram{Schema: schema, PositiveSpans: sp, PositiveBuckets: counts}
	for _, c := range counts {
		h.Count += c
	}
	return h
}

// pick draws numbers of a property test.
func pick(t *rapid.T) histtest.Pick {
	return func(n int64) int64 { return rapid.Int64Range(0, n-1).Draw(t, "number") }
}

func TestDraw_DrawsValidHistograms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := histtest.Draw(pick(t))
		require.NoError(t, h.Validate())
		require.NoError(t, histtest.Floats(h).Validate())
		next := histtest.Follow(pick(t), h)
		require.NoError(t, next.Validate())
	})
}

func TestCopyTo_SharesNothingAndAllocatesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := histtest.Draw(pick(t)), histtest.Draw(pick(t))
		want, dst := a.Copy(), b.Copy()
		a.CopyTo(dst)
		require.True(t, dst.Equal(want))
		require.Equal(t, want.Hint, dst.Hint)
		for _, list := range [][]int64{dst.PositiveBuckets, dst.NegativeBuckets} {
			for i := range list {
				list[i]++
			}
		}
		for _, list := range [][]histogram.Span{dst.PositiveSpans, dst.NegativeSpans} {
			for i := range list {
				list[i].Length++
			}
		}
		for i := range dst.CustomValues {
			dst.CustomValues[i]++
		}
		require.True(t, a.Equal(want), "the copy changed, not this")

		f, g := a.ToFloat(nil), &histogram.FloatHistogram{}
		f.CopyTo(g)
		require.True(t, g.Equal(f))
		dst, g = a.Copy(), f.Copy()
		require.Zero(t, testing.AllocsPerRun(1, func() {
			a.CopyTo(dst)
			f.CopyTo(g)
			a.ToFloat(g)
		}))
	})
}

func TestStale_IsOfTheSumsBits(t *testing.T) {
	h := &histogram.Histogram{Count: 3, PositiveSpans: spans(0, 1), PositiveBuckets: []int64{3}}
	require.False(t, h.Stale())
	h.Sum = math.NaN()
	require.False(t, h.Stale())
	h.SetStale()
	require.True(t, h.Stale())
	require.Empty(t, h.PositiveBuckets)
	require.Zero(t, h.Count)
	require.NoError(t, h.Validate())
	f := h.ToFloat(nil)
	require.True(t, f.Stale())
	f.Clear()
	require.False(t, f.Stale())
	f.SetStale()
	require.True(t, f.Stale())
}

func TestEqual_IsLiteralAndEqualByIndexIsNot(t *testing.T) {
	narrow := &histogram.Histogram{Count: 2, PositiveSpans: spans(0, 1, 1, 1), PositiveBuckets: []int64{1, 0}}
	wide := &histogram.Histogram{Count: 2, PositiveSpans: spans(0, 3), PositiveBuckets: []int64{1, -1, 1}}
	require.False(t, narrow.Equal(wide))
	require.True(t, narrow.EqualByIndex(wide))
	require.True(t, wide.EqualByIndex(narrow))
	require.True(t, wide.ToFloat(nil).EqualByIndex(narrow.ToFloat(nil)))
	require.False(t, wide.ToFloat(nil).Equal(narrow.ToFloat(nil)))

	for name, change := range map[string]func(h *histogram.Histogram){
		"schema":    func(h *histogram.Histogram) { h.Schema++ },
		"threshold": func(h *histogram.Histogram) { h.ZeroThreshold = math.Copysign(0, -1) },
		"zero":      func(h *histogram.Histogram) { h.ZeroCount++ },
		"count":     func(h *histogram.Histogram) { h.Count++ },
		"sum":       func(h *histogram.Histogram) { h.Sum = math.NaN() },
		"place":     func(h *histogram.Histogram) { h.PositiveSpans[0].Offset++ },
		"bucket":    func(h *histogram.Histogram) { h.PositiveBuckets[2]++ },
		"negative": func(h *histogram.Histogram) {
			h.NegativeSpans, h.NegativeBuckets = spans(0, 1), []int64{1}
		},
		"bounds": func(h *histogram.Histogram) { h.CustomValues = []float64{1} },
		"stale":  func(h *histogram.Histogram) { h.SetStale() },
	} {
		other := wide.Copy()
		change(other)
		require.False(t, wide.Equal(other), name)
		require.False(t, wide.EqualByIndex(other), name)
		require.False(t, other.EqualByIndex(wide), name)
		require.False(t, wide.ToFloat(nil).Equal(other.ToFloat(nil)), name)
		require.False(t, wide.ToFloat(nil).EqualByIndex(other.ToFloat(nil)), name)
		require.True(t, other.Equal(other.Copy()), name)
	}
	other := wide.Copy()
	other.Hint = histogram.HintReset
	require.True(t, wide.Equal(other), "hints are not compared")
	stale := &histogram.Histogram{}
	stale.SetStale()
	other.Sum = math.Float64frombits(histogram.StaleNaN)
	require.True(t, stale.EqualByIndex(other), "a stale marker, whatever else it says")
}

func TestValidate_BoundsBucketsSpansAndBounds(t *testing.T) {
	most := histogram.FloatHistogram{
		PositiveSpans: spans(0, histogram.MaxBuckets), PositiveBuckets: make([]float64, histogram.MaxBuckets),
	}
	require.NoError(t, most.Validate())
	most.NegativeSpans, most.NegativeBuckets = spans(0, 1), make([]float64, 1)
	require.ErrorIs(t, most.Validate(), histogram.ErrTooManyBuckets)
	empty := histogram.Histogram{PositiveSpans: make([]histogram.Span, histogram.MaxBuckets)}
	require.NoError(t, empty.Validate())
	empty.NegativeSpans = spans(1, 0)
	require.ErrorIs(t, empty.Validate(), histogram.ErrTooManyBuckets)
	bounds := histogram.Histogram{Schema: histogram.CustomBuckets, CustomValues: make([]float64, histogram.MaxBuckets+1)}
	require.ErrorIs(t, bounds.Validate(), histogram.ErrTooManyBuckets)
}

// counts returns the buckets by index that are not empty.
func counts(sp []histogram.Span, buckets []float64) map[int64]float64 {
	out := map[int64]float64{}
	at := histogram.NewIndexes(sp)
	for _, c := range buckets {
		if i, ok := at.Next(); ok && c != 0 {
			out[i] += c
		}
	}
	return out
}

func TestCompact_WritesTheFewestSpans(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := histtest.Draw(pick(t))
		was := h.Copy()
		f := h.ToFloat(nil)
		h.Compact()
		f.Compact()
		require.True(t, h.EqualByIndex(was))
		require.Equal(t, h.PositiveBuckets, was.PositiveBuckets)
		require.NoError(t, h.Validate())
		require.True(t, f.Equal(h.ToFloat(nil)))
		for _, sp := range [][]histogram.Span{h.PositiveSpans, h.NegativeSpans} {
			for i, s := range sp {
				require.NotZero(t, s.Length)
				require.True(t, i == 0 || s.Offset > 0)
			}
		}
	})
}

func TestSpanBuilder_ReachesFromOneEndToTheOther(t *testing.T) {
	var b histogram.SpanBuilder
	want := []int64{math.MinInt32, 0, 1, math.MaxInt32}
	for _, i := range want {
		b.Add(i)
	}
	require.Equal(t, spans(math.MinInt32, 1, math.MaxInt32, 2, math.MaxInt32-2, 1), b.Spans)
	b = histogram.SpanBuilder{}
	b.Add(math.MinInt32)
	b.Add(math.MaxInt32)
	at := histogram.NewIndexes(b.Spans)
	for _, i := range []int64{math.MinInt32, math.MaxInt32} {
		got, ok := at.Next()
		require.True(t, ok)
		require.Equal(t, i, got)
	}
	_, ok := at.Next()
	require.False(t, ok)
	require.NoError(t, histogram.CheckLayout(0, [2][]histogram.Span{b.Spans}, nil))
}

func TestReduceResolution_JoinsBuckets(t *testing.T) {
	h := simple(1, spans(-3, 2, 1, 4), 1, 2, 4, 8, 16, 32)
	require.NoError(t, h.ReduceResolution(0))
	// Indexes -3 to 4 of schema 1 lie in -1 to 2 of schema 0: two of them in each.
	require.Equal(t, map[int64]float64{-1: 1 + 2, 0: 4, 1: 8 + 16, 2: 32}, counts(h.PositiveSpans, h.PositiveBuckets))
	require.EqualValues(t, 0, h.Schema)
	require.NoError(t, h.ReduceResolution(0))

	for _, to := range []int32{1, -10, -53, 60} {
		require.ErrorIs(t, h.ReduceResolution(to), histogram.ErrResolution)
	}
	custom := histogram.Histogram{Schema: histogram.CustomBuckets}
	require.ErrorIs(t, custom.ReduceResolution(0), histogram.ErrResolution)
}

func TestReduceResolution_KeepsWhatIsCounted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := histtest.Draw(pick(t))
		if h.Custom() {
			return
		}
		to := rapid.Int32Range(histogram.MinReadSchema, h.Schema).Draw(t, "to")
		was := h.ToFloat(nil)
		require.NoError(t, h.ReduceResolution(to))
		f := was.Copy()
		require.NoError(t, f.ReduceResolution(to))
		require.True(t, f.Equal(h.ToFloat(nil)))
		want := map[int64]float64{}
		for i, c := range counts(was.PositiveSpans, was.PositiveBuckets) {
			// By the bounds: the bucket of the coarser schema that has this one's upper end.
			end := float64(i) * math.Exp2(float64(-was.Schema))
			want[int64(math.Ceil(end/math.Exp2(float64(-to))))] += c
		}
		require.Equal(t, want, counts(f.PositiveSpans, f.PositiveBuckets))
		if to >= histogram.MinSchema {
			require.NoError(t, h.Validate())
		}
	})
}

func TestBound_IsThePowerOfTwo(t *testing.T) {
	for schema := histogram.MinReadSchema; schema <= histogram.MaxReadSchema; schema++ {
		for _, i := range []int64{-1 << 20, -257, -256, -3, -1, 0, 1, 2, 127, 255, 256, 1 << 20} {
			want := math.Exp2(float64(i) * math.Ldexp(1, -int(schema)))
			if want == 0 || math.IsInf(want, 0) {
				require.Equal(t, want, histogram.Bound(schema, i), "schema %d, bucket %d", schema, i)
			} else {
				require.InEpsilon(t, want, histogram.Bound(schema, i), 1e-14, "schema %d, bucket %d", schema, i)
			}
		}
	}
	require.Equal(t, "0.7071067811865475", fmt.Sprint(histogram.Bound(1, -1)), "as other programs print it")
	require.Equal(t, "0.8408964152537144", fmt.Sprint(histogram.Bound(2, -1)))
	require.Equal(t, histogram.Bound(2, -1), histogram.Bound(8, -64), "schemas share bounds")
}

func TestBuckets_ComeInTheOrderOfTheirBounds(t *testing.T) {
	h := &histogram.FloatHistogram{
		Schema: 0, ZeroThreshold: 0.5, ZeroCount: 3,
		PositiveSpans: spans(1, 1, 1, 2), PositiveBuckets: []float64{1, 0, 2},
		NegativeSpans: spans(0, 2, 2, 1), NegativeBuckets: []float64{4, 5, 6},
	}
	require.Equal(t, []histogram.Bucket{
		{-16, -8, true, false, 6},
		{-2, -1, true, false, 5},
		{-1, -0.5, true, false, 4},
		{-0.5, 0.5, true, true, 3},
		{1, 2, false, true, 1},
		{8, 16, false, true, 2},
	}, slices.Collect(h.Buckets()))
	for n := range 6 {
		got := 0
		for range h.Buckets() {
			if got++; got > n {
				break
			}
		}
		require.Equal(t, n+1, got, "a loop may be left")
	}

	custom := simple(histogram.CustomBuckets, spans(0, 3), 1, 2, 3)
	custom.CustomValues = []float64{-1, 5}
	require.Equal(t, []histogram.Bucket{
		{math.Inf(-1), -1, false, true, 1}, {-1, 5, false, true, 2}, {5, math.Inf(1), false, true, 3},
	}, slices.Collect(custom.Buckets()))
	require.Zero(t, testing.AllocsPerRun(10, func() {
		for range h.Buckets() {
		}
	}))
}

func TestString_OfHints(t *testing.T) {
	require.Equal(t, "unknown, reset, not reset, gauge, hint 4", fmt.Sprintf("%v, %v, %v, %v, %v",
		histogram.HintUnknown, histogram.HintReset, histogram.HintNotReset, histogram.HintGauge, histogram.ResetHint(4)))
}
