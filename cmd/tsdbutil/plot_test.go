package main

import (
	"iter"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func parseRaw(s string) (float64, error) { return strconv.ParseFloat(s, 64) }

func lines(s string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for line := range strings.Lines(s) {
			if !yield(strings.TrimRight(line, "\n")) {
				return
			}
		}
	}
}

func TestResample_AveragesColumnsAndBridgesTheUsualDistance(t *testing.T) {
	l := line{t: []int64{0, 1, 10, 20}, v: []float64{1, 3, 4, 8}}
	require.Equal(t, []float64{2, 3, 4, 6, 8}, resample(l, 0, 20, 5))
}

func TestResample_LeavesHolesAndBadValuesOut(t *testing.T) {
	var l line
	for i := range int64(10) {
		l.t, l.v = append(l.t, i), append(l.v, 1)
	}
	l.t, l.v = append(l.t, 1000), append(l.v, 1)
	out := resample(l, 0, 1000, 101)
	require.Equal(t, 1.0, out[0])
	require.Equal(t, 1.0, out[100])
	require.True(t, math.IsNaN(out[50]), "nothing was measured in the middle... %v", out[50])

	out = resample(line{t: []int64{0, 5, 10}, v: []float64{math.NaN(), math.Inf(1), 2}}, 0, 10, 3)
	require.True(t, math.IsNaN(out[0]) && math.IsNaN(out[1]))
	require.Equal(t, 2.0, out[2])
}

func TestPlot_FitsItsConsole(t *testing.T) {
	c := newTestConsole()
	for _, width := range []int{minWidth, 80, maxWidth} {
		c.width = width
		for _, offset := range []float64{0, -1e9, 1e13} {
			l := line{name: "x"}
			for i := range int64(1000) {
				l.t, l.v = append(l.t, 1_700_000_000_000+i*60_000), append(l.v, math.Sin(float64(i)/50)*1e9+offset)
			}
			for _, u := range []unit{unitNone, unitBytes, unitBytesPerSecond, unitSeconds, unitPercent} {
				text := c.plot(chart{title: strings.Repeat("t", 200), unit: u, mint: l.t[0], maxt: l.t[999], height: 8, lines: []line{l}})
				require.Contains(t, text, "┤")
				for line := range lines(text) {
					require.LessOrEqual(t, len([]rune(line)), width, "unit %d\n%s", u, text)
				}
			}
		}
	}
}

func TestAxis_LabelsDiffer(t *testing.T) {
	for _, test := range []struct {
		unit            unit
		lowest, highest float64
		first, second   string
	}{
		{unitBytes, 1 << 30, 5 << 30, "1.0 GiB", "2.0 GiB"},
		{unitBytes, 16 << 30, 16<<30 + 64<<20, "16.00 GiB", "16.02 GiB"},
		{unitBytes, 1000, 1001, "1000 B", "1000.2 B"},
		{unitBytesPerSecond, 1 << 20, 1<<20 + 40, "1.000000 MiB/s", "1.000010 MiB/s"},
		{unitNone, 2_125_600, 2_125_700, "2.12560 M", "2.12562 M"},
		{unitNone, 0, 4, "0", "1"},
		{unitNone, 10_000, 10_002, "10.0000 k", "10.0005 k"},
		{unitPerSecond, 1e9, 1e9 + 4e3, "1.000000 G/s", "1.000001 G/s"},
		{unitPerSecond, 1e9, 1e9 + 4, "1.00000000 G/s", "1.00000000 G/s"}, // no room for more
		{unitSeconds, 1e13, 1e13 + 4, "1e+13 s", "1e+13 s"},
		{unitSeconds, 5023, 5025, "5023.0 s", "5023.5 s"},
		{unitSeconds, -5025, -5023, "-5025.0 s", "-5024.5 s"},
		{unitPercent, 99.9, 99.98, "99.90 %", "99.92 %"},
	} {
		a := axis{lowest: test.lowest, highest: test.highest}
		label := a.labels(test.unit, 4)
		require.Equal(t, []string{test.first, test.second}, []string{label(0), label(0.25)}, "%+v", test)
	}
	huge := axis{lowest: -math.MaxFloat64, highest: math.MaxFloat64}
	require.NotEmpty(t, huge.exact(unitNone, 4)(0.5))
}

func TestPlot_SurvivesAnythingInside(t *testing.T) {
	c := newTestConsole()
	for name, v := range map[string][]float64{
		"none": {}, "one": {3}, "flat": {0, 0, 0}, "negative": {-3, -3}, "bad": {math.NaN(), math.Inf(1)},
		"huge": {-math.MaxFloat64, math.MaxFloat64}, "tiny": {5e-324, 0},
	} {
		l := line{name: name, v: v}
		for i := range v {
			l.t = append(l.t, int64(i)*1000)
		}
		for _, round := range []bool{false, true} {
			require.NotEmpty(t, c.plot(chart{title: name, mint: 0, maxt: 2000, height: 4, round: round, lines: []line{l}}), name)
		}
	}
}

func TestRoundUp_GivesOneTwoOrFive(t *testing.T) {
	for in, want := range map[float64]float64{100: 100, 99.4: 100, 3: 5, 0.15: 0.2, 12: 20, 51: 100, 0: 1, -4: 1} {
		require.InDelta(t, want, roundUp(in), 1e-12)
	}
}
