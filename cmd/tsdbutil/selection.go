package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/labels"
)

// parseSelector reads a selector; the error shows the place of the fault.
func parseSelector(text string) ([]*labels.Matcher, error) {
	ms, err := labels.ParseSelector(text)
	if err == nil {
		return ms, nil
	}
	var syntax *labels.SelectorError
	if errors.As(err, &syntax) && len(text) < maxWidth {
		return nil, usageError(fmt.Sprintf("%v\n  %s\n  %s^", err, text, strings.Repeat(" ", max(syntax.Column-1, 0))))
	}
	return nil, usageError(err.Error())
}

// digest is what is worth knowing about a run of samples. NaNs are counted and
// otherwise left out.
type digest struct {
	n            int
	last         int64 // time, milliseconds
	lastV        float64
	lowest, high float64
	sum          float64
	numbers      int // samples that are not NaN
}

func newDigest() digest { return digest{lowest: math.Inf(1), high: math.Inf(-1)} }

func (d *digest) add(t []int64, v []float64) {
	d.n += len(t)
	d.last, d.lastV = t[len(t)-1], v[len(v)-1]
	for _, x := range v {
		if math.IsNaN(x) {
			continue
		}
		d.numbers++
		d.sum += x
		d.lowest, d.high = min(d.lowest, x), max(d.high, x)
	}
}

// min, mean and max are NaN when there was no number.
func (d *digest) min() float64  { return d.orNaN(d.lowest) }
func (d *digest) max() float64  { return d.orNaN(d.high) }
func (d *digest) mean() float64 { return d.sum / float64(d.numbers) }

func (d *digest) orNaN(v float64) float64 {
	if d.numbers == 0 {
		return math.NaN()
	}
	return v
}

// seriesName writes labels as people write selectors: the metric name first.
func seriesName(ls labels.Labels) string {
	name := ls.Get(labels.MetricName)
	if name == "" {
		return ls.String()
	}
	ms := make([]*labels.Matcher, 0, ls.Len())
	ms = append(ms, labels.Equal(labels.MetricName, name))
	for l := range ls.All() {
		if l.Name != labels.MetricName {
			ms = append(ms, labels.Equal(l.Name, l.Value))
		}
	}
	return labels.FormatSelector(ms)
}
