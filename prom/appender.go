package prom

import (
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/metadata"
	"github.com/prometheus/prometheus/storage"

	"github.com/seed347100a3/tsdb"
	tsdblabels "github.com/seed347100a3/tsdb/labels"
)

// transaction is what both appenders have in common: samples, and the end.
type transaction struct {
	ctx context.Context
	app *tsdb.Appender
}

// Commit implements storage.AppenderTransaction: all samples that were accepted, or none. A sample
// that another commit made late meanwhile is left out without an error, as by the reference.
func (a *transaction) Commit() error {
	_, err := a.app.Commit(a.ctx)
	return translate(err)
}

// Rollback implements storage.AppenderTransaction.
func (a *transaction) Rollback() error { return a.app.Rollback() }

func (a *transaction) sample(ref storage.SeriesRef, ls labels.Labels, s tsdb.Sample) (storage.SeriesRef, error) {
	if ref != 0 {
		if r, err := a.app.AppendSample(tsdb.SeriesRef(ref), noLabels, s); err != tsdb.ErrNotFound {
			return accepted(r, err)
		}
	}
	return accepted(a.app.AppendSample(0, toOurs(ls), s))
}

// histogram appends a histogram with integer or with float counts; one of h and fh is nil.
func (a *transaction) histogram(
	ref storage.SeriesRef, ls labels.Labels, at instant, h *histogram.Histogram, fh *histogram.FloatHistogram,
) (storage.SeriesRef, error) {
	s := tsdb.Sample{T: at.t, ST: at.st}
	switch {
	case h != nil && fh != nil, h == nil && fh == nil:
		return 0, fmt.Errorf("%w: want a histogram with integer or with float counts", ErrInvalidSample)
	case h != nil:
		ours := intsOf(h)
		s.H = &ours
	default:
		ours := floatsOf(fh)
		s.FH = &ours
	}
	return a.sample(ref, ls, s)
}

// instant is when a sample was taken, and since when it counts; both in milliseconds.
type instant struct{ t, st int64 }

func accepted(ref tsdb.SeriesRef, err error) (storage.SeriesRef, error) {
	if err != nil {
		return 0, translate(err)
	}
	return storage.SeriesRef(ref), nil
}

// appender implements storage.Appender.
type appender struct {
	transaction
	refuseLate bool
}

// Append implements storage.Appender.
func (a *appender) Append(ref storage.SeriesRef, ls labels.Labels, t int64, v float64) (storage.SeriesRef, error) {
	return a.sample(ref, ls, tsdb.Sample{T: t, V: v})
}

// SetOptions implements storage.Appender. With DiscardOutOfOrder late samples are refused, whatever
// tsdb.Options.Head.OutOfOrderWindow says.
func (a *appender) SetOptions(opts *storage.AppendOptions) {
	a.refuseLate = opts != nil && opts.DiscardOutOfOrder
	a.app.RefuseLate(a.refuseLate)
}

// AppendHistogram implements storage.Appender. Of a histogram what its schema does not have is left
// out; of the rest the errors of package histogram say what is wrong.
func (a *appender) AppendHistogram(ref storage.SeriesRef, ls labels.Labels, t int64, h *histogram.Histogram, fh *histogram.FloatHistogram) (storage.SeriesRef, error) {
	return a.histogram(ref, ls, instant{t: t}, h, fh)
}

// AppendHistogramSTZeroSample implements storage.Appender, as AppendSTZeroSample: a histogram that
// counts nothing, in the layout of the one that follows, so that both are in one chunk.
func (a *appender) AppendHistogramSTZeroSample(ref storage.SeriesRef, ls labels.Labels, t, st int64, h *histogram.Histogram, fh *histogram.FloatHistogram) (storage.SeriesRef, error) {
	if st >= t {
		return 0, storage.ErrSTNewerThanSample
	}
	if h != nil {
		h = &histogram.Histogram{
			CounterResetHint: histogram.CounterReset, Schema: h.Schema,
			ZeroThreshold: h.ZeroThreshold, CustomValues: h.CustomValues,
		}
	}
	if fh != nil {
		fh = &histogram.FloatHistogram{
			CounterResetHint: histogram.CounterReset, Schema: fh.Schema,
			ZeroThreshold: fh.ZeroThreshold, CustomValues: fh.CustomValues,
		}
	}
	a.app.RefuseLate(true)
	defer a.app.RefuseLate(a.refuseLate)
	r, err := a.histogram(ref, ls, instant{t: st}, h, fh)
	return zeroed(ref, r, err)
}

// AppendSTZeroSample implements storage.Appender: a counter that began at st is 0 there. Where the
// series has a sample at st or later it is left out.
func (a *appender) AppendSTZeroSample(ref storage.SeriesRef, ls labels.Labels, t, st int64) (storage.SeriesRef, error) {
	if st >= t {
		return 0, storage.ErrSTNewerThanSample
	}
	a.app.RefuseLate(true)
	defer a.app.RefuseLate(a.refuseLate)
	r, err := a.sample(ref, ls, tsdb.Sample{T: st})
	return zeroed(ref, r, err)
}

// zeroed is the answer to a zero sample of the series asked for: where it was late it is left out.
func zeroed(asked, got storage.SeriesRef, err error) (storage.SeriesRef, error) {
	if err != nil && isLate(err) {
		return asked, storage.ErrOutOfOrderST
	}
	return got, err
}

// UpdateMetadata implements storage.Appender. A series that is not there is created, if there are
// labels.
func (a *appender) UpdateMetadata(ref storage.SeriesRef, ls labels.Labels, m metadata.Metadata) (storage.SeriesRef, error) {
	return a.describe(ref, ls, m)
}

// describe stages metadata.
func (a *transaction) describe(ref storage.SeriesRef, ls labels.Labels, m metadata.Metadata) (storage.SeriesRef, error) {
	ours := tsdb.Metadata{Type: tsdb.MetricTypeOf(string(m.Type)), Unit: m.Unit, Help: m.Help}
	if ref != 0 {
		if r, err := a.app.SetMetadata(tsdb.SeriesRef(ref), noLabels, ours); err != tsdb.ErrNotFound {
			return accepted(r, err)
		}
	}
	return accepted(a.app.SetMetadata(0, toOurs(ls), ours))
}

// appenderV2 implements storage.AppenderV2.
type appenderV2 struct{ transaction }

// Append implements storage.AppenderV2. Samples of every kind are stored, with their start
// timestamps, their exemplars and metadata: a *storage.AppendPartialError has the exemplars that
// are refused. With a sample that is refused its exemplars and metadata go. Metadata that is
// refused is left out: the sample is worth more.
func (a *appenderV2) Append(
	ref storage.SeriesRef, ls labels.Labels, st, t int64, v float64,
	h *histogram.Histogram, fh *histogram.FloatHistogram, opts storage.AppendV2Options,
) (storage.SeriesRef, error) {
	var err error
	a.app.RefuseLate(opts.RejectOutOfOrder)
	if h != nil || fh != nil {
		ref, err = a.histogram(ref, ls, instant{t, st}, h, fh)
	} else {
		ref, err = a.sample(ref, ls, tsdb.Sample{T: t, ST: st, V: v})
	}
	if err != nil {
		return ref, err
	}
	if m := opts.Metadata; m.Type != "" || m.Unit != "" || m.Help != "" {
		_, _ = a.describe(ref, ls, m)
	}
	if len(opts.Exemplars) == 0 {
		return ref, nil
	}
	return a.withExemplars(ref, opts.Exemplars)
}

// isLate reports whether a sample was refused because its series has one at its time or later, or
// because it is too old for the out-of-order window.
func isLate(err error) bool {
	return errors.Is(err, storage.ErrOutOfOrderSample) || errors.Is(err, storage.ErrDuplicateSampleForTimestamp) ||
		errors.Is(err, storage.ErrTooOldSample)
}

var noLabels = tsdblabels.Labels{}
