package agg_test

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed347100a3/tsdb/agg"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/histogram"
)

// sample is a time in milliseconds and a value.
type sample struct {
	t int64
	v float64
}

// iterate returns an iterator over the samples.
func iterate(t require.TestingT, samples ...sample) chunkenc.Iterator {
	var e chunkenc.Encoder
	for _, s := range samples {
		require.NoError(t, e.Append(s.t, s.v, 0))
	}
	c, err := chunkenc.FromData(chunkenc.EncXOR, e.AppendTo(nil))
	require.NoError(t, err)
	return c.Iterator(nil)
}

// counter is a counter that is read each ten seconds, and is reset once.
var counter = []sample{{10_000, 10}, {20_000, 12}, {30_000, 20}, {40_000, 5}, {50_000, 6}, {60_000, 9}}

var stale = math.Float64frombits(histogram.StaleNaN)

func TestPoints_OfOneWindow(t *testing.T) {
	for _, c := range []struct {
		f    agg.Func
		want float64
	}{
		{agg.Count, 6}, {agg.Sum, 62}, {agg.Avg, 62.0 / 6}, {agg.Min, 5}, {agg.Max, 20},
		{agg.First, 10}, {agg.Last, 9},
		// It grew by 2, 8, 5, 1 and 3 in 50 of the 60 seconds, and as fast in those before.
		{agg.Increase, 19 * 60.0 / 50}, {agg.Rate, 19.0 / 50},
	} {
		t.Run(c.f.String(), func(t *testing.T) {
			a, err := agg.New(c.f, agg.Windows{Start: 60_000, End: 60_000, Range: 60_000})
			require.NoError(t, err)
			for range 2 { // it is used again
				got, err := a.Points(nil, iterate(t, counter...))
				require.NoError(t, err)
				require.Len(t, got, 1)
				require.Equal(t, int64(60_000), got[0].T)
				require.InDelta(t, c.want, got[0].V, 1e-12)
			}
		})
	}
}

func TestPoints_OfAQuantile(t *testing.T) {
	for _, c := range []struct{ q, want float64 }{
		{0, 5}, {0.2, 6}, {0.5, 9.5}, {0.9, 16}, {1, 20}, {-0.1, math.Inf(-1)}, {1.1, math.Inf(1)},
	} {
		a, err := agg.NewQuantile(c.q, agg.Windows{Start: 60_000, End: 60_000, Range: 60_000})
		require.NoError(t, err)
		got, err := a.Points(nil, iterate(t, counter...))
		require.NoError(t, err)
		require.Equal(t, []agg.Point{{T: 60_000, V: c.want}}, got, "quantile %v", c.q)
	}
}

// A window has the sample at its end, and not that at its begin. One without samples has no point.
func TestPoints_OfWindows(t *testing.T) {
	samples := []sample{{1000, 1}, {2000, 2}, {2500, stale}, {3000, 3}, {9000, 9}}
	for name, c := range map[string]struct {
		windows agg.Windows
		want    []agg.Point
	}{
		"side by side":       {agg.Windows{Start: 2000, End: 10_000, Step: 2000}, []agg.Point{{2000, 2}, {4000, 1}, {10_000, 1}}},
		"with gaps":          {agg.Windows{Start: 1000, End: 10_000, Step: 2000, Range: 1000}, []agg.Point{{1000, 1}, {3000, 1}, {9000, 1}}},
		"one over the other": {agg.Windows{Start: 2000, End: 10_000, Step: 1000, Range: 2000}, []agg.Point{{2000, 2}, {3000, 2}, {4000, 1}, {9000, 1}, {10_000, 1}}},
		"of all":             {agg.Windows{Start: 10_000, End: 10_000, Range: 10_000}, []agg.Point{{10_000, 4}}},
		"before":             {agg.Windows{Start: 500, End: 900, Step: 100}, nil},
		"behind":             {agg.Windows{Start: 11_000, End: 12_000, Step: 1000}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := agg.New(agg.Count, c.windows)
			require.NoError(t, err)
			got, err := a.Points(nil, iterate(t, samples...))
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

// A counter of which a window has one sample says nothing about how fast it grows.
func TestPoints_OfACounterWithOneSample(t *testing.T) {
	for _, f := range []agg.Func{agg.Increase, agg.Rate} {
		a, err := agg.New(f, agg.Windows{Start: 10_000, End: 60_000, Step: 10_000})
		require.NoError(t, err)
		got, err := a.Points(nil, iterate(t, counter...))
		require.NoError(t, err)
		require.Empty(t, got)
	}
}

// The mean of values is there although their sum is too large, and precise where they cancel out.
func TestPoints_OfLargeValues(t *testing.T) {
	windows := agg.Windows{Start: 5, End: 5, Range: 10}
	large := []sample{{1, math.MaxFloat64}, {2, math.MaxFloat64}, {3, math.MaxFloat64 / 4}, {4, -math.MaxFloat64}}
	mean, err := agg.New(agg.Avg, windows)
	require.NoError(t, err)
	got, err := mean.Points(nil, iterate(t, large...))
	require.NoError(t, err)
	require.InEpsilon(t, math.MaxFloat64/16*5, got[0].V, 1e-12)
	all, err := agg.New(agg.Sum, windows)
	require.NoError(t, err)
	got, err = all.Points(nil, iterate(t, large[:2]...))
	require.NoError(t, err)
	require.Equal(t, math.Inf(1), got[0].V)
	got, err = all.Points(nil, iterate(t, sample{1, 1e100}, sample{2, 1}, sample{3, -1e100}))
	require.NoError(t, err)
	require.Equal(t, 1.0, got[0].V)
}

func TestPoints_OfHistograms_AreRefused(t *testing.T) {
	var e chunkenc.Encoder
	h := &histogram.Histogram{Count: 1, ZeroCount: 1}
	require.NoError(t, e.AppendHistogram(2000, h, 0))
	c, err := chunkenc.FromData(chunkenc.EncHistogram, e.AppendTo(nil))
	require.NoError(t, err)
	a, err := agg.New(agg.Count, agg.Windows{Start: 1000, End: 3000, Step: 1000})
	require.NoError(t, err)
	_, err = a.Points(nil, c.Iterator(nil))
	require.ErrorIs(t, err, agg.ErrHistogram)
	require.ErrorContains(t, err, "sample at 2000")
	a, err = agg.New(agg.Count, agg.Windows{Start: 1000, End: 1000, Range: 1000})
	require.NoError(t, err)
	got, err := a.Points(nil, c.Iterator(nil)) // it is behind the windows
	require.NoError(t, err)
	require.Empty(t, got)
}

// kinds is an iterator over samples of which those at some times are histograms.
type kinds struct {
	chunkenc.Iterator
	samples []sample
	wide    map[int64]bool
	at      int // of the sample behind the current one
}

func (k *kinds) kind(i int) chunkenc.ValueType {
	switch {
	case i >= len(k.samples):
		return chunkenc.ValNone
	case k.wide[k.samples[i].t]:
		return chunkenc.ValHistogram
	}
	return chunkenc.ValFloat
}

func (k *kinds) Next() chunkenc.ValueType {
	kind := k.kind(k.at)
	k.at = min(k.at+1, len(k.samples)+1)
	return kind
}

func (k *kinds) Seek(t chunkenc.Timestamp) chunkenc.ValueType {
	for k.at < len(k.samples) && k.samples[k.at].t < t {
		k.at++
	}
	return k.Next()
}

func (k *kinds) NextBatch(b *chunkenc.Batch) chunkenc.ValueType {
	b.Cut(0)
	for len(b.T) < 3 && k.kind(k.at) == chunkenc.ValFloat {
		b.T, b.V = append(b.T, k.samples[k.at].t), append(b.V, k.samples[k.at].v)
		k.at++
	}
	if len(b.T) > 0 {
		return chunkenc.ValFloat
	}
	return k.kind(k.at)
}

func (k *kinds) At() (int64, float64) { return k.samples[k.at-1].t, k.samples[k.at-1].v }
func (k *kinds) AtT() int64           { return k.samples[k.at-1].t }
func (k *kinds) Err() error           { return nil }

// Only a histogram in a window is refused: in a gap between two, before them and behind them, it
// does not matter, and floats are aggregated as if it were not there.
func TestPoints_OfHistograms_AreRefusedInAWindowOnly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := agg.Windows{
			Start: rapid.Int64Range(-50, 100).Draw(t, "start"),
			Step:  rapid.SampledFrom([]int64{0, 3, 10, 50}).Draw(t, "step"),
			Range: rapid.SampledFrom([]int64{1, 2, 7, 35}).Draw(t, "range"),
		}
		w.End = w.Start + rapid.Int64Range(0, 300).Draw(t, "length")
		it := &kinds{wide: map[int64]bool{}}
		var floats []sample
		refused, safe := false, rapid.Bool().Draw(t, "outside of windows only")
		for at := int64(-60); at < 400; at += rapid.Int64Range(1, 15).Draw(t, "distance") {
			s := sample{at, float64(at % 7)}
			wide := rapid.Bool().Draw(t, "histogram")
			if inside := len(lookedUp(agg.Count, w, []sample{s})) > 0; wide && inside {
				wide = !safe
				refused = refused || wide
			}
			if it.wide[at] = wide; !wide {
				floats = append(floats, s)
			}
			it.samples = append(it.samples, s)
		}
		a, err := agg.New(agg.Sum, w)
		require.NoError(t, err)
		got, err := a.Points(nil, it)
		if refused {
			require.ErrorIs(t, err, agg.ErrHistogram)
			return
		}
		require.NoError(t, err)
		require.Equal(t, lookedUp(agg.Sum, w, floats), got)
	})
}

func TestPoints_OfDamage_GiveItsError(t *testing.T) {
	var e chunkenc.Encoder
	for i := range int64(100) {
		require.NoError(t, e.Append(i*1000+i*i, math.Sqrt(float64(i)), 0))
	}
	data := e.AppendTo(nil)
	c, err := chunkenc.FromData(chunkenc.EncXOR, data[:len(data)/2])
	require.NoError(t, err)
	a, err := agg.New(agg.Count, agg.Windows{Start: 10_000, End: 200_000, Step: 10_000})
	require.NoError(t, err)
	got, err := a.Points(nil, c.Iterator(nil))
	require.Error(t, err)
	require.NotEmpty(t, got, "windows in front of the damage")
}

func TestNew_RefusesWhatMakesNoSense(t *testing.T) {
	for text, w := range map[string]agg.Windows{
		"none below 0":         {Start: 1, End: 2, Step: -1},
		"without a range":      {Start: 1, End: 2},
		"not after the end":    {Start: 3, End: 2, Step: 1},
		"before there is time": {Start: math.MinInt64, End: 2, Step: 1},
		"range of -1 ms":       {Start: 1, End: 2, Step: 1, Range: -1},
	} {
		_, err := agg.New(agg.Sum, w)
		require.ErrorContains(t, err, text)
		_, err = agg.NewQuantile(0.5, w)
		require.ErrorContains(t, err, text)
	}
	_, err := agg.New(0, agg.Windows{Step: 1})
	require.ErrorContains(t, err, "function 0")
	_, err = agg.Parse("median")
	require.ErrorContains(t, err, `"median"`)
	for f := agg.Count; f <= agg.Rate; f++ {
		got, err := agg.Parse(f.String())
		require.NoError(t, err)
		require.Equal(t, f, got)
	}
}

// Windows anywhere, up to both ends of time, have what a look at all samples finds.
func TestPoints_AreThoseOfALookAtAllSamples(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		begin := rapid.SampledFrom([]int64{math.MinInt64 + 1000, -500, 0, math.MaxInt64 - 100_000}).Draw(t, "begin")
		var samples []sample
		at := begin
		for range rapid.IntRange(1, 300).Draw(t, "samples") {
			v := rapid.SampledFrom([]float64{1, 2, 3.5, -1, stale, math.NaN()}).Draw(t, "value")
			samples = append(samples, sample{at, v})
			at += rapid.SampledFrom([]int64{1, 7, 10, 100}).Draw(t, "distance")
		}
		w := agg.Windows{
			Start: begin + rapid.Int64Range(-400, 400).Draw(t, "start"),
			Step:  rapid.SampledFrom([]int64{0, 3, 10, 50, 1000, math.MaxInt64}).Draw(t, "step"),
			Range: rapid.SampledFrom([]int64{1, 10, 35, 500}).Draw(t, "range"),
		}
		w.End = w.Start + rapid.Int64Range(0, 5000).Draw(t, "length")
		f := rapid.SampledFrom([]agg.Func{agg.Count, agg.Sum, agg.Min, agg.Max, agg.First, agg.Last}).Draw(t, "function")
		a, err := agg.New(f, w)
		require.NoError(t, err)
		got, err := a.Points(nil, iterate(t, samples...))
		require.NoError(t, err)
		want := lookedUp(f, w, samples)
		require.Len(t, got, len(want))
		for i, p := range want {
			require.Equal(t, p.T, got[i].T)
			require.True(t, p.V == got[i].V || math.IsNaN(p.V) && math.IsNaN(got[i].V), "%v of %d: %v, want %v", f, p.T, got[i].V, p.V)
		}
	})
}

// lookedUp looks at all samples for each window.
func lookedUp(f agg.Func, w agg.Windows, samples []sample) (points []agg.Point) {
	for end := w.Start; ; end += w.Step {
		var vs []float64
		for _, s := range samples {
			if s.t <= end && s.t > end-w.Range && math.Float64bits(s.v) != histogram.StaleNaN {
				vs = append(vs, s.v)
			}
		}
		if len(vs) > 0 {
			points = append(points, agg.Point{T: end, V: plainly(f, vs)})
		}
		if w.Step == 0 || w.End-end < w.Step {
			return points
		}
	}
}

func plainly(f agg.Func, vs []float64) (v float64) {
	numbers := slices.DeleteFunc(slices.Clone(vs), math.IsNaN)
	if f == agg.Min || f == agg.Max {
		if len(numbers) == 0 {
			return math.NaN()
		}
		if f == agg.Min {
			return slices.Min(numbers)
		}
		return slices.Max(numbers)
	}
	switch f {
	case agg.Count:
		return float64(len(vs))
	case agg.First:
		return vs[0]
	case agg.Last:
		return vs[len(vs)-1]
	}
	for _, x := range vs {
		v += x // exact, as the values are
	}
	return v
}
