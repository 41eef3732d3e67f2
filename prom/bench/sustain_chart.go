package bench

import (
	"bytes"
	"image/color"
	"math"
	"strconv"

	"github.com/pkg/errors"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// timeChart is how some figures went on, with what happened meanwhile.
type timeChart struct {
	Name, Title, Unit string
	log               bool // the axis
	lines             []timeLine
	events            []SustainEvent
	seconds           []SustainSecond
	least             float64 // rows that are shorter say nothing of a second
}

// timeLine is one figure.
type timeLine struct {
	name  string
	color color.Color
	of    func(SustainSecond) float64
}

var (
	blue       = color.RGBA{R: 0x00, G: 0x72, B: 0xb2, A: 0xff}
	vermillion = color.RGBA{R: 0xd5, G: 0x5e, B: 0x00, A: 0xff}
	green      = color.RGBA{R: 0x00, G: 0x9e, B: 0x73, A: 0xff}
	black      = color.RGBA{A: 0xff}
)

// eventMarks are how events look: lines where they end, behind a shade of the time that they took.
var eventMarks = []struct {
	kind, name string
	line       color.Color
	dashed     bool
}{
	{eventFlush, "flush", color.RGBA{R: 0xe6, G: 0x9f, B: 0x00, A: 0xff}, false},
	{eventMerge, "merge", color.RGBA{R: 0xcc, G: 0x79, B: 0xa7, A: 0xff}, false},
	{eventSnapshot, "snapshot", color.RGBA{R: 0x56, G: 0xb4, B: 0xe9, A: 0xff}, false},
	{eventCheckpoint, "checkpoint", color.RGBA{R: 0x99, G: 0x99, B: 0x99, A: 0xff}, false},
	{eventKill, "kill", black, false},
	{eventReady, "ready", black, true},
}

// charts are those of a report.
func (r SustainReport) charts() []timeChart {
	charts := []timeChart{
		{Name: "sustained-cpu", Title: "Processor time", Unit: "seconds a second", lines: []timeLine{
			{"process", blue, func(s SustainSecond) float64 { return s.CPU }},
			{"collector", vermillion, func(s SustainSecond) float64 { return s.GC }},
		}},
		{Name: "sustained-latency", Title: "Commits of 1,000 samples", Unit: "milliseconds", log: true, lines: []timeLine{
			{"longest", vermillion, func(s SustainSecond) float64 { return 1000 * s.Max }},
			{"99%", green, func(s SustainSecond) float64 { return 1000 * s.P99 }},
			{"50%", blue, func(s SustainSecond) float64 { return 1000 * s.P50 }},
		}},
		{Name: "sustained-rate", Title: "Samples committed", Unit: "thousands a second", lines: []timeLine{
			{"samples", blue, func(s SustainSecond) float64 { return s.Samples / 1e3 }},
		}},
		{Name: "sustained-backlog", Title: "Backlog", Unit: "seconds behind", lines: []timeLine{
			{"latest commit", blue, func(s SustainSecond) float64 { return s.Backlog }},
		}},
		{Name: "sustained-io", Title: "Input and output", Unit: "MB/s", lines: []timeLine{
			{"written", blue, func(s SustainSecond) float64 { return s.Written / 1e6 }},
			{"read", green, func(s SustainSecond) float64 { return s.Read / 1e6 }},
			{"read from disk", vermillion, func(s SustainSecond) float64 { return s.DiskRead / 1e6 }},
		}},
		{Name: "sustained-memory", Title: "Memory", Unit: "GB", lines: []timeLine{
			{"resident", blue, func(s SustainSecond) float64 { return s.Resident / 1e9 }},
			{"heap", green, func(s SustainSecond) float64 { return s.Heap / 1e9 }},
		}},
	}
	for i := range charts {
		charts[i].events, charts[i].seconds, charts[i].least = r.Events, r.Seconds, r.Config.Every.Seconds()/2
	}
	return charts
}

// Size of a chart, with a legend beside the lines, which leave a little room above them.
const (
	timeWidth  = 25 * vg.Centimeter
	timeHeight = 8 * vg.Centimeter
	timeLegend = 3.6 * vg.Centimeter
	timeRoom   = 1.05
)

// SVG draws the chart.
func (c timeChart) SVG() ([]byte, error) {
	p := newPlot(c.Title, "seconds", c.Unit)
	p.Legend.Top, p.Legend.XOffs, p.Legend.Padding = true, timeLegend, vg.Points(1)
	least, most := c.bounds()
	p.X.Tick.Marker, p.Y.Tick.Marker = evenTicks{}, evenTicks{}
	if c.log {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plainTicks{}
	}
	p.Y.Min, p.Y.Max = least, most
	if err := c.marks(p); err != nil {
		return nil, err
	}
	for _, l := range c.lines {
		if err := c.line(p, l); err != nil {
			return nil, err
		}
	}
	p.Y.Min, p.Y.Max = least, most // lines have widened it
	canvas := vgsvg.New(timeWidth, timeHeight)
	p.Draw(draw.Crop(draw.New(canvas), vg.Points(4), -timeLegend-vg.Points(4), vg.Points(4), -vg.Points(4)))
	var b bytes.Buffer
	_, err := canvas.WriteTo(&b)
	return b.Bytes(), errors.Wrap(err, "draw chart")
}

// bounds returns what the vertical axis shows.
func (c timeChart) bounds() (least, most float64) {
	least, most = math.Inf(1), 0
	for _, l := range c.lines {
		for _, s := range c.seconds {
			if v := l.of(s); v > 0 && s.Took >= c.least {
				least, most = min(least, v), max(most, v)
			}
		}
	}
	switch {
	case most == 0:
		return 0.1, 1
	case c.log:
		return math.Pow(10, math.Floor(math.Log10(least))), most * 2
	default:
		return 0, most * timeRoom
	}
}

// line draws a figure, broken where the process was killed.
func (c timeChart) line(p *plot.Plot, l timeLine) error {
	var pieces []plotter.XYs
	broken := true
	last := 0.0
	for _, s := range c.seconds {
		v := l.of(s)
		if s.Took < c.least || c.log && v <= 0 {
			continue
		}
		for _, e := range c.events {
			broken = broken || e.Kind == eventKill && e.At > last && e.At <= s.At
		}
		if broken {
			pieces = append(pieces, nil)
		}
		broken, last = false, s.At
		pieces[len(pieces)-1] = append(pieces[len(pieces)-1], plotter.XY{X: s.At, Y: v})
	}
	for i, points := range pieces {
		line, err := plotter.NewLine(points)
		if err != nil {
			return errors.Wrap(err, "draw line")
		}
		line.Color, line.Width = l.color, vg.Points(1.2)
		p.Add(line)
		if i == 0 {
			p.Legend.Add(l.name, line)
		}
	}
	return nil
}

// marks draws events.
func (c timeChart) marks(p *plot.Plot) error {
	for _, m := range eventMarks {
		named := false
		for _, e := range c.events {
			if e.Kind != m.kind {
				continue
			}
			shade, err := plotter.NewPolygon(plotter.XYs{{X: e.At - e.Seconds, Y: p.Y.Min}, {X: e.At - e.Seconds, Y: p.Y.Max}, {X: e.At, Y: p.Y.Max}, {X: e.At, Y: p.Y.Min}})
			if err != nil {
				return errors.Wrap(err, "draw shade")
			}
			r, g, b, _ := m.line.RGBA()
			shade.Color = color.NRGBA{R: uint8(r >> 8), G: uint8(g >> 8), B: uint8(b >> 8), A: 0x28}
			shade.LineStyle.Width = 0
			line, err := plotter.NewLine(plotter.XYs{{X: e.At, Y: p.Y.Min}, {X: e.At, Y: p.Y.Max}})
			if err != nil {
				return errors.Wrap(err, "draw mark")
			}
			line.Color, line.Width = m.line, vg.Points(0.8)
			if m.dashed {
				line.Dashes = []vg.Length{vg.Points(4), vg.Points(3)}
			}
			if e.Seconds > 0 {
				p.Add(shade)
			}
			p.Add(line)
			if !named {
				p.Legend.Add(m.name, line)
			}
			named = true
		}
	}
	return nil
}

// evenTicks are between five and ten round numbers.
type evenTicks struct{}

func (evenTicks) Ticks(least, most float64) (ticks []plot.Tick) {
	step := math.Pow(10, math.Floor(math.Log10((most-least)/5)))
	for _, times := range []float64{5, 2} {
		if (most-least)/(step*times) >= 5 {
			step *= times
			break
		}
	}
	for n := math.Ceil(least / step); n*step <= most; n++ {
		// A product of rounded numbers has digits that nobody meant.
		ticks = append(ticks, plot.Tick{Value: n * step, Label: strconv.FormatFloat(n*step, 'g', 6, 64)})
	}
	return ticks
}
