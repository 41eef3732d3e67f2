package main

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/guptarohit/asciigraph"
)

// line is what one curve of a plot shows: times in milliseconds, ascending, and
// values.
type line struct {
	name string
	unit unit
	t    []int64
	v    []float64
}

// chart is a plot of lines over a closed range of time.
type chart struct {
	title      string
	unit       unit
	mint, maxt int64
	round      bool // the vertical axis goes from 0 to a round number
	height     int  // rows of the plot itself
	lines      []line
}

// Layout of a plot.
const (
	plotMargin   = 18 // columns beside a plot: label, axis, half of the last time
	plotTicks    = 5  // labels on the time axis
	plotMaxLines = 8  // curves beyond that cannot be told apart
)

// plotColours are told apart on dark and on light backgrounds.
var plotColours = []asciigraph.AnsiColor{
	asciigraph.Blue, asciigraph.Red, asciigraph.Green, asciigraph.Magenta,
	asciigraph.DarkOrange, asciigraph.DarkCyan, asciigraph.SlateGray, asciigraph.Olive,
}

// plot draws a chart. Without colours each line gets a plot of its own, as curves
// could not be told apart.
func (c *console) plot(ch chart) string {
	if len(ch.lines) > 1 && !c.colour {
		plots := make([]string, 0, len(ch.lines))
		for _, l := range ch.lines {
			one := ch
			one.title, one.lines = l.name, []line{l}
			plots = append(plots, c.plot(one))
		}
		return strings.Join(plots, "\n")
	}
	width := c.width - plotMargin
	if ch.unit == unitTime {
		width -= plotMargin // its labels are long
	}
	data := make([][]float64, 0, len(ch.lines))
	for _, l := range ch.lines {
		data = append(data, resample(l, ch.mint, ch.maxt, width))
	}
	axis, ok := newAxis(data, ch.round)
	if !ok {
		return ch.title + ": nothing to plot\n"
	}
	axis.shrink(data)
	options := []asciigraph.Option{
		asciigraph.Height(ch.height), asciigraph.LowerBound(0), asciigraph.UpperBound(1),
		asciigraph.YAxisValueFormatter(axis.labels(ch.unit, ch.height)),
		asciigraph.XAxisRange(float64(ch.mint), float64(ch.maxt)),
		asciigraph.XAxisTickCount(plotTicks),
		asciigraph.XAxisValueFormatter(timeLabel(ch.maxt - ch.mint)),
	}
	if c.colour {
		options = append(options, asciigraph.SeriesColors(plotColours...))
	}
	return c.plotTitle(ch) + asciigraph.PlotMany(data, options...) + "\n"
}

// plotTitle is the title, and a legend if there are several lines.
func (c *console) plotTitle(ch chart) string {
	var b strings.Builder
	if ch.title != "" {
		b.WriteString(c.paint(sgrBold, shorten(ch.title, c.width)) + "\n")
	}
	if len(ch.lines) > 1 {
		for i, l := range ch.lines {
			b.WriteString(plotColours[i%len(plotColours)].String() + "━━" + asciigraph.Default.String() + " " + shorten(l.name, c.width-3) + "\n")
		}
	}
	return b.String()
}

// timeLabel picks a layout for times, local, by the span that they label.
func timeLabel(span int64) func(float64) string {
	layout := "15:04:05"
	switch {
	case span > (48 * time.Hour).Milliseconds():
		layout = "Jan 2"
	case span > time.Hour.Milliseconds():
		layout = "15:04"
	}
	return func(t float64) string { return time.UnixMilli(int64(t)).Format(layout) }
}

// gapFactor: a hole in time that is so many times longer than the usual distance
// of samples is shown as a hole.
const gapFactor = 10

// resample spreads a line over the columns of a plot: each column has the mean of
// its samples, columns without any lie on the straight line between their
// neighbours, or are NaN where samples are missing.
func resample(l line, mint, maxt int64, columns int) []float64 {
	out := make([]float64, columns)
	n := make([]int, columns)
	span := max(float64(maxt)-float64(mint), 1)
	for i, t := range l.t {
		if math.IsNaN(l.v[i]) || math.IsInf(l.v[i], 0) {
			continue
		}
		at := int((float64(t) - float64(mint)) / span * float64(columns-1))
		if at >= 0 && at < columns {
			out[at] += l.v[i]
			n[at]++
		}
	}
	widest := gapColumns(l, span, columns)
	last := -1
	for i := range out {
		if n[i] == 0 {
			out[i] = math.NaN()
			continue
		}
		out[i] = finite(out[i]) / float64(n[i])
		if last >= 0 && i-last <= widest {
			for k := last + 1; k < i; k++ {
				out[k] = between(out[last], out[i], float64(k-last)/float64(i-last))
			}
		}
		last = i
	}
	return out
}

// gapColumns is the widest hole, in columns, that is drawn over.
func gapColumns(l line, span float64, columns int) int {
	if len(l.t) < 2 {
		return 1
	}
	gaps := make([]int64, 0, len(l.t)-1)
	for i := 1; i < len(l.t); i++ {
		gaps = append(gaps, l.t[i]-l.t[i-1])
	}
	slices.Sort(gaps)
	usual := float64(gaps[len(gaps)/2])
	return int(min(gapFactor*usual/span*float64(columns), float64(columns))) + 1
}

// bounds returns the smallest and the largest number, false if there is none.
func bounds(data [][]float64) (lowest, highest float64, ok bool) {
	lowest, highest = math.Inf(1), math.Inf(-1)
	for _, values := range data {
		for _, v := range values {
			if !math.IsNaN(v) {
				lowest, highest, ok = min(lowest, v), max(highest, v), true
			}
		}
	}
	return lowest, highest, ok
}
