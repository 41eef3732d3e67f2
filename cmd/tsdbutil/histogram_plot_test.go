package main

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed347100a3/tsdb/histogram"
)

func TestBarPlot_OnATerminal_HasUnitsAndFitsIt(t *testing.T) {
	c := newTestConsole()
	c.terminal, c.width = true, minWidth
	var d histogramDigest
	d.name, d.unit = `request_seconds{path="/a"}`, unitSeconds
	s := &histogramSample{t: 1000}
	text := "{count:7,sum:0.5,schema:0,zero_threshold:0.001,zero_count:1,positive_spans:[-4:2,1:1],positive_buckets:[1,4,1]}"
	require.NoError(t, parseHistogram([]byte(text), s))
	d.add(s)
	require.Equal(t, `request_seconds{path="/a"}
  7 in all, sum 500 ms, mean 71.4 ms, schema 0,
  at `+c.time(s.t, time.Now())+`
       [-1 ms, 1 ms]  1 █████████
                   ⋮
  (31.2 ms, 62.5 ms]  1 █████████
   (62.5 ms, 125 ms]  4 ████████████████████████████████████
                   ⋮
    (250 ms, 500 ms]  1 █████████
`, c.barPlot(&d))
}

// Whatever a histogram has, its plot is as wide and as high as it should be.
func TestBarPlot_OfAnyHistogram_Fits(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := newTestConsole()
		c.terminal = rapid.Bool().Draw(rt, "terminal")
		c.width = rapid.IntRange(minWidth, maxWidth).Draw(rt, "width")
		s := drawHistogram(rt)
		makeSense(s)
		drawn := widened(&s.fh)
		plot := c.bars(drawn, unit(rapid.IntRange(int(unitNone), int(unitPerSecond)).Draw(rt, "unit")))
		lines := strings.Split(strings.TrimSuffix(plot, "\n"), "\n")
		require.NotEmpty(rt, lines)
		if histogram.Exponential(drawn.Schema) {
			require.LessOrEqual(rt, len(lines), maxBars, plot)
		}
		for _, l := range lines {
			require.LessOrEqual(rt, utf8.RuneCountInString(l), max(c.width, 60), plot)
		}
		if s.integer && s.h.Count > 0 && len(lines) > 1 {
			require.Contains(rt, plot, "█", "the longest bar has all the room")
		}
	})
}

func TestBar_IsAsLongAsItsPart(t *testing.T) {
	for part, want := range map[float64]string{
		0: "", 1: "████████", 0.5: "████", 1e-9: "▏", 1.0 / 64: "▏", 9.0 / 64: "█▏", 63.0 / 64: "███████▉", 2: "████████", -1: "",
	} {
		require.Equal(t, want, bar(part, 8), part)
	}
}
