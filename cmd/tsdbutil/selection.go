package main

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/chunkenc"
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

// samples reads the samples of one series after the other, in batches, with one
// buffer for all of them. Each batch is thinned out to the newest sample of each
// step, if there is a step.
type samples struct {
	step  int64 // milliseconds; 0: every sample
	it    chunkenc.Iterator
	batch *chunkenc.Batch

	held  bool // a sample waits for the end of its step
	heldT int64
	heldV float64
}

func newSamples(step int64) *samples {
	return &samples{step: step, batch: chunkenc.NewBatch(chunkenc.BatchSize)}
}

// each calls f with the samples of a series, some at a time and never none. The
// slices are valid until f returns.
func (r *samples) each(ctx context.Context, s sampled, f func(t []int64, v []float64) error) error {
	r.it = s.Iterator(r.it)
	for {
		switch kind := r.it.NextBatch(r.batch); kind {
		case chunkenc.ValFloat:
		case chunkenc.ValNone:
			if err := r.it.Err(); err != nil {
				return errors.WithMessagef(err, "read %s", s.Labels())
			}
			return r.release(f)
		default:
			return errors.Errorf("read %s: samples of kind %v are not shown by this version", s.Labels(), kind)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		r.thin()
		if r.batch.Len() == 0 {
			continue
		}
		if err := f(r.batch.T, r.batch.V); err != nil {
			return err
		}
	}
}

// thin keeps the newest sample of each step. The newest of a batch may yet be
// followed by one of the same step, so it is held back.
func (r *samples) thin() {
	if r.step == 0 {
		return
	}
	b := r.batch
	n := 0
	for i, t := range b.T {
		v := b.V[i]
		if r.held && floorDiv(r.heldT, r.step) != floorDiv(t, r.step) {
			// At most i samples were given out before: nothing unread is overwritten.
			b.T[n], b.V[n] = r.heldT, r.heldV
			n++
		}
		r.held, r.heldT, r.heldV = true, t, v
	}
	b.T, b.V = b.T[:n], b.V[:n]
}

// release gives out the sample that was held back.
func (r *samples) release(f func(t []int64, v []float64) error) error {
	if !r.held {
		return nil
	}
	r.held = false
	return f([]int64{r.heldT}, []float64{r.heldV})
}

// floorDiv rounds towards the past, before 1970 too.
func floorDiv(t, step int64) int64 {
	q := t / step
	if t%step < 0 {
		q--
	}
	return q
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
