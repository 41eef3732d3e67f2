package bench

import (
	"context"
	"maps"
)

// remoteCurve is a curve of remote reads, by the number of series that are selected. Its bound is
// that of its row, at any number.
type remoteCurve struct {
	Curve
	row string // the figure that it shows
}

var remoteCurveFigures = []remoteCurve{
	newRemoteCurve("remote-chunks", "Memory of a streamed remote read of eight hours", streamedBytes, "remote/chunks/heap"),
	newRemoteCurve("remote-samples", "Memory of a remote read of samples, eight hours", sampledBytes, "remote/samples/heap"),
	newRemoteCurve("remotehead-chunks", "Memory of a streamed remote read of the head", streamedBytes, "remotehead/chunks/heap"),
	newRemoteCurve("remotehead-samples", "Memory of a remote read of samples of the head", sampledBytes, "remotehead/samples/heap"),
}

func newRemoteCurve(name, title string, bound float64, row string) remoteCurve {
	return remoteCurve{Curve{Name: name, Title: title, Unit: "peak heap MB", Grows: growsFlat, Bound: bound / 1e6}, row}
}

// remotePoints is how many samples of a series are in two hours: few, as it is about series.
const remotePoints = 60

// remoteGarbage is how many hundredths of what lives may be garbage while the memory of answers is
// measured. As usual it would be as much as what lives, and 4 MB in any case, and a heap as small
// as that of a streamed answer is mostly garbage.
const remoteGarbage = 1

// remoteCurves measures the memory of answers.
func (c *comparison) remoteCurves(ctx context.Context) ([]Curve, error) {
	var curves []Curve
	for _, figure := range remoteCurveFigures {
		curves = append(curves, figure.Curve)
	}
	var lines []Line
	for _, engine := range files {
		lines = append(lines, Line{Engine: engine})
	}
	return c.inTurns(curves, lines, c.Selected, func(l Line, series int) (measures, error) {
		t := task{Engine: l.Engine, Series: series, Samples: remotePoints, Garbage: remoteGarbage}
		m, err := c.point(ctx, t, "fillremote", "remote")
		if err != nil {
			return nil, err
		}
		ofHead, err := c.point(ctx, t, "remotehead")
		if err != nil {
			return nil, err
		}
		maps.Copy(m, ofHead)
		for _, figure := range remoteCurveFigures {
			m[figure.Name] = m[figure.row] / 1e6
		}
		return m, nil
	})
}
