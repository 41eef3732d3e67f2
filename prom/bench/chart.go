package bench

import (
	"bytes"
	"fmt"
	"image/color"

	"github.com/pkg/errors"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
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
	// legendRoom is how much higher a chart is than its lines.
	legendRoom = 1.4
)

// newPlot is an empty chart.
func newPlot(title, x, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.Title.Padding = title, vg.Points(6)
	p.X.Label.Text, p.X.Label.Padding = x, vg.Points(4)
	p.Y.Label.Text, p.Y.Label.Padding = y, vg.Points(4)
	p.BackgroundColor = color.White
	for _, style := range []*text.Style{&p.Title.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label, &p.Legend.TextStyle} {
		style.Font.Variant = "Sans"
	}
	return p
}

// SVG draws a curve. The vertical axis begins at 0, so that a line that does not rise is a
// cost that does not grow.
func (c Curve) SVG() ([]byte, error) {
	p := newPlot(c.Title, "series", c.Unit)
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plainTicks{}
	p.Legend.Top, p.Legend.Left, p.Legend.XOffs, p.Legend.Padding = true, true, vg.Points(8), vg.Points(2)
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
	p.Y.Min, p.Y.Max = 0, legendRoom*p.Y.Max
	canvas := vgsvg.New(chartWidth, chartHeight)
	p.Draw(draw.Crop(draw.New(canvas), vg.Points(4), -vg.Points(14), vg.Points(4), -vg.Points(4)))
	var b bytes.Buffer
	_, err := canvas.WriteTo(&b)
	return b.Bytes(), errors.Wrap(err, "draw chart")
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
