package bench

import (
	"bytes"
	"fmt"
	"image/color"

	"github.com/pkg/errors"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Colours that those can tell apart, too, who see few.
var lineColors = map[string]color.Color{
	Ours:      color.RGBA{R: 0x00, G: 0x72, B: 0xb2, A: 0xff},
	Reference: color.RGBA{R: 0xd5, G: 0x5e, B: 0x00, A: 0xff},
	Victoria:  color.RGBA{R: 0x00, G: 0x9e, B: 0x73, A: 0xff},
}

// Size of a chart.
const (
	chartWidth  = 16 * vg.Centimeter
	chartHeight = 10 * vg.Centimeter
)

// SVG draws a curve. Both axes are logarithmic, unless the figure may be 0.
func (c Curve) SVG() ([]byte, error) {
	p := plot.New()
	p.Title.Text = c.Title
	p.X.Label.Text = "series"
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plainTicks{}
	p.Y.Label.Text = c.Unit
	if c.least() > 0 {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plainTicks{}
	}
	p.Legend.Top = true
	p.BackgroundColor = color.White
	p.Add(plotter.NewGrid())
	most := 0
	for _, l := range c.Lines {
		most = max(most, l.Procs)
	}
	for _, l := range c.Lines {
		if err := l.draw(p, l.Procs < most); err != nil {
			return nil, err
		}
	}
	if least := c.least(); least > 0 { // room for the legend, and the axis at a round number
		p.Y.Min, p.Y.Max = p.Y.Min*0.8, p.Y.Max*3
	}
	canvas := vgsvg.New(chartWidth, chartHeight)
	p.Draw(draw.New(canvas))
	var b bytes.Buffer
	_, err := canvas.WriteTo(&b)
	return b.Bytes(), errors.Wrap(err, "draw chart")
}

// least returns the smallest value.
func (c Curve) least() float64 {
	least, some := 0.0, false
	for _, l := range c.Lines {
		for _, pt := range l.Points {
			if !some || pt.Value < least {
				least, some = pt.Value, true
			}
		}
	}
	return least
}

// draw adds a line to a chart.
func (l Line) draw(p *plot.Plot, dashed bool) error {
	points := make(plotter.XYs, len(l.Points))
	for i, pt := range l.Points {
		points[i] = plotter.XY{X: float64(pt.Series), Y: pt.Value}
	}
	line, dots, err := plotter.NewLinePoints(points)
	if err != nil {
		return errors.Wrap(err, "draw line")
	}
	line.Color, line.Width = lineColors[l.Engine], vg.Points(1.5)
	dots.Color, dots.Shape = lineColors[l.Engine], draw.CircleGlyph{}
	if dashed {
		line.Dashes = []vg.Length{vg.Points(4), vg.Points(3)}
	}
	p.Add(line, dots)
	p.Legend.Add(l.String(), line, dots)
	return nil
}

func (l Line) String() string {
	if l.Procs == 0 {
		return l.Engine
	}
	return fmt.Sprintf("%s, GOMAXPROCS=%d", l.Engine, l.Procs)
}

// plainTicks are those of a logarithmic axis, with numbers that people read.
type plainTicks struct{}

func (plainTicks) Ticks(least, most float64) []plot.Tick {
	ticks := plot.LogTicks{Prec: -1}.Ticks(least, most)
	for i, t := range ticks {
		if t.Label != "" {
			ticks[i].Label = short(t.Value)
		}
	}
	return ticks
}

// short writes a round number with a prefix.
func short(v float64) string {
	if v >= 1e6 {
		return fmt.Sprintf("%gM", v/1e6)
	}
	if v >= 1e3 {
		return fmt.Sprintf("%gk", v/1e3)
	}
	return fmt.Sprintf("%g", v)
}
