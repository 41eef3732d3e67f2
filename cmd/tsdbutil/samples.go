package main

import (
	"context"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/chunkenc"
)

// sampleWriter takes the samples of one series in the order of their times. What it is given is
// valid during the call only.
type sampleWriter interface {
	// batch takes floats side by side, never none.
	batch(b *chunkenc.Batch) error
	// histogram takes a sample that is one.
	histogram(s *histogramSample) error
}

// floatsOnly is a sampleWriter for who has no use for histograms.
type floatsOnly func(t []int64, v []float64) error

func (f floatsOnly) batch(b *chunkenc.Batch) error    { return f(b.T, b.V) }
func (f floatsOnly) histogram(*histogramSample) error { return nil }

// histogramsOnly is a sampleWriter for who has no use for floats.
type histogramsOnly struct{ *barPlots }

func (histogramsOnly) batch(*chunkenc.Batch) error { return nil }

// samples reads the samples of one series after the other, floats in batches, with one
// buffer for all of them. They are thinned out to the newest sample of each step, if there is a
// step.
type samples struct {
	step int64 // milliseconds; 0: every sample
	it   chunkenc.Iterator
	b    *chunkenc.Batch
	h    *histogramSample

	// What waits for the end of its step: a float, in a batch of its own, or a histogram.
	float *chunkenc.Batch
	wide  *histogramSample
	held  chunkenc.ValueType // ValNone: nothing waits
}

func newSamples(step int64) *samples {
	return &samples{
		step: step, b: chunkenc.NewBatch(chunkenc.BatchSize), h: &histogramSample{},
		float: chunkenc.NewBatch(1), wide: &histogramSample{},
	}
}

// show implements seriesReader.
func (r *samples) show(ctx context.Context, s sampled, result resultWriter, w sampleWriter) (bool, error) {
	if err := result.begin(s.Labels()); err != nil {
		return false, err
	}
	if err := r.each(ctx, s, w); err != nil {
		return false, err
	}
	return true, result.end()
}

// each gives out the samples of a series.
func (r *samples) each(ctx context.Context, s sampled, w sampleWriter) error {
	r.it, r.held = s.Iterator(r.it), chunkenc.ValNone
	for {
		kind, err := r.next()
		switch {
		case err != nil:
			return errors.WithMessagef(err, "read %s", s.Labels())
		case kind == chunkenc.ValNone:
			return r.release(w)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := r.give(kind, w); err != nil {
			return err
		}
	}
}

// next reads some floats, or a histogram; ValNone is the end.
func (r *samples) next() (chunkenc.ValueType, error) {
	switch kind := r.it.NextBatch(r.b); kind {
	case chunkenc.ValFloat:
		return kind, nil
	case chunkenc.ValNone:
		return kind, r.it.Err()
	case chunkenc.ValHistogram, chunkenc.ValFloatHistogram:
		if got := r.it.Next(); got != kind {
			return chunkenc.ValNone, r.it.Err()
		}
		r.h.read(r.it, kind)
		return kind, nil
	default:
		return kind, errors.Errorf("samples of kind %v are not shown by this version", kind)
	}
}

// give gives out what was read, or of each step the newest sample.
func (r *samples) give(kind chunkenc.ValueType, w sampleWriter) error {
	switch {
	case kind == chunkenc.ValFloat && r.step == 0:
		return w.batch(r.b)
	case kind == chunkenc.ValFloat:
		return r.thin(w)
	case r.step == 0:
		return w.histogram(r.h)
	}
	if err := r.releaseBefore(r.h.t, w); err != nil {
		return err
	}
	r.h, r.wide, r.held = r.wide, r.h, kind
	return nil
}

// thin keeps the newest float of each step. The newest of a batch may yet be followed by a sample
// of the same step, so it is held back.
func (r *samples) thin(w sampleWriter) error {
	b := r.b
	if err := r.releaseBefore(b.T[0], w); err != nil {
		return err
	}
	kept, last := 0, len(b.T)-1
	for i := range last {
		if floorDiv(b.T[i], r.step) != floorDiv(b.T[i+1], r.step) {
			b.Move(kept, i)
			kept++
		}
	}
	r.float.Cut(0)
	r.float.Append(b, last, last+1)
	r.held = chunkenc.ValFloat
	if b.Cut(kept); kept == 0 {
		return nil
	}
	return w.batch(b)
}

// releaseBefore gives out what was held back if a sample at t is of another step, and drops it
// otherwise.
func (r *samples) releaseBefore(t int64, w sampleWriter) error {
	last := t
	switch r.held {
	case chunkenc.ValNone:
	case chunkenc.ValFloat:
		last = r.float.T[0]
	default:
		last = r.wide.t
	}
	if floorDiv(last, r.step) != floorDiv(t, r.step) {
		return r.release(w)
	}
	r.held = chunkenc.ValNone
	return nil
}

// release gives out the sample that was held back.
func (r *samples) release(w sampleWriter) error {
	held := r.held
	r.held = chunkenc.ValNone
	switch held {
	case chunkenc.ValNone:
		return nil
	case chunkenc.ValFloat:
		return w.batch(r.float)
	default:
		return w.histogram(r.wide)
	}
}

// floorDiv rounds towards the past, before 1970 too.
func floorDiv(t, step int64) int64 {
	q := t / step
	if t%step < 0 {
		q--
	}
	return q
}
