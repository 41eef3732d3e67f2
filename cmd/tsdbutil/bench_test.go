package main

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/labels"
)

func TestValues_AreWhatTheirNameSays(t *testing.T) {
	collect := func(kind string) (all [][]float64) {
		v := newValues(kind, 3, 1)
		for range 200 {
			all = append(all, append([]float64(nil), v.tick()...))
		}
		return all
	}
	for _, kind := range valueKinds {
		all := collect(kind)
		require.Equal(t, all, collect(kind), "the same seed gives the same values")
		distinct := map[float64]bool{}
		for i := 1; i < len(all); i++ {
			before, now := all[i-1][0], all[i][0]
			distinct[now] = true
			switch kind {
			case valuesCounter:
				require.GreaterOrEqual(t, now, before)
				require.Equal(t, math.Trunc(now), now)
			case valuesGauge:
				require.Less(t, math.Abs(now-before), 0.5)
				require.InDelta(t, math.Round(now*100), now*100, 1e-6)
			case valuesNoise:
				require.True(t, now >= 1 && now < 2)
			case valuesConstant:
				require.Equal(t, before, now)
			}
		}
		require.Equal(t, kind == valuesConstant, len(distinct) == 1, kind)
	}
}

func TestMakeLabels_AreDistinctAndValid(t *testing.T) {
	seen := map[string]bool{}
	for _, ls := range makeLabels(20_000) {
		require.NoError(t, ls.Validate())
		require.Equal(t, 10, ls.Len())
		seen[ls.String()] = true
	}
	require.Len(t, seen, 20_000)
	require.Equal(t, makeLabels(5), makeLabels(20_000)[:5])
}

func TestBenchWrite_WritesEverySample(t *testing.T) {
	dir := t.TempDir() + "/db"
	c := newTestConsole()
	require.Equal(t, exitOK, execute(t.Context(), []string{
		"bench", "write", dir, "--series", "11", "--samples", "13", "--commit-size", "4", "--writers", "3", "--interval", "10s",
	}, &c.console), c.stderr.String())

	c = newTestConsole()
	require.Equal(t, exitOK, execute(t.Context(), []string{"dump", dir}, &c.console), c.stderr.String())
	samples, series := 0, map[string]int{}
	for line := range lines(c.stdout.String()) {
		samples++
		series[line[:strings.LastIndex(line, "}")]]++
	}
	require.Equal(t, 11*13, samples)
	require.Len(t, series, 11)
	for name, n := range series {
		require.Equal(t, 13, n, name)
	}
}

func TestRecorder_RefThatIsGoneIsAppendedByLabels(t *testing.T) {
	s := &recordedSeries{labels: labels.FromStrings("__name__", "x"), ref: 1 << 30, v: 1}
	r := &recorder{batch: []*recordedSeries{s}}
	a := openAppender(t)
	require.NoError(t, r.appendKnown(a, 1000))
	require.Empty(t, r.batch)
	require.Equal(t, []*recordedSeries{s}, r.fresh)
}
