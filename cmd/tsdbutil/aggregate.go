package main

import (
	"context"
	"math"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/agg"
	"github.com/seed347100a3/tsdb/chunkenc"
)

// quantileName is the aggregate that has an argument.
const quantileName = "quantile"

// aggregateFlags are those of a query that shows one value for each step.
type aggregateFlags struct {
	function string // empty: samples are shown
	quantile float64
	window   time.Duration
}

func (f *aggregateFlags) flags(cmd *kingpin.CmdClause) {
	names := make([]string, 0, agg.Rate+1)
	for fn := agg.Count; fn <= agg.Rate; fn++ {
		names = append(names, fn.String())
	}
	names = append(names, quantileName)
	cmd.Flag("agg", "Show for each step what PromQL computes of its samples: count, sum, avg, min, max, first, last, increase, rate, quantile.").PlaceHolder("NAME").HintOptions(names...).EnumVar(&f.function, names...)
	cmd.Flag("quantile", "Which one --agg=quantile shows, from 0 to 1.").Default("NaN").PlaceHolder("Q").Float64Var(&f.quantile)
	cmd.Flag("range", "How far back from the end of each step samples count. Default: --step, so that each counts once.").PlaceHolder("DURATION").DurationVar(&f.window)
}

// check says what is wrong with the flags, beside those of the selection.
func (f *aggregateFlags) check(step time.Duration) error {
	switch {
	case f.function == "" && (f.window != 0 || !math.IsNaN(f.quantile)):
		return usageError("--range and --quantile need --agg")
	case f.function == "":
		return nil
	case step == 0:
		return usageError("--agg needs --step: one value for each step is shown")
	case f.window < 0 || f.window > 0 && f.window < time.Millisecond:
		return usageError("--range: want a millisecond or more")
	case (f.function == quantileName) != !math.IsNaN(f.quantile):
		return usageError("--agg=quantile and --quantile need each other")
	case f.quantile < 0 || f.quantile > 1:
		return usageError("--quantile: want a number from 0 to 1")
	}
	return nil
}

// lookback is how much older than a step's end the samples are that count for it, in milliseconds.
func (f *aggregateFlags) lookback(step time.Duration) int64 {
	if f.window > 0 {
		return f.window.Milliseconds()
	}
	return step.Milliseconds()
}

// first is the oldest time that the first step of a selection needs.
func (f *aggregateFlags) first(s *selection) int64 {
	back := f.lookback(s.step) - 1
	if f.function == "" || s.mint < math.MinInt64+back {
		return s.mint
	}
	return s.mint - back
}

// reader returns what shows the series of a selection. An open range is that of the samples; then
// steps end at multiples of their length.
func (f *aggregateFlags) reader(ctx context.Context, s *selection, q *tsdb.Querier) (seriesReader, error) {
	if f.function == "" {
		return newSamples(s.step.Milliseconds()), nil
	}
	mint, maxt, _, err := q.Bounds(ctx, s.ms...)
	if err != nil {
		return nil, err
	}
	if mint > maxt { // nothing will be shown
		mint, maxt = 0, 0
	}
	w := agg.Windows{Start: s.mint, End: s.maxt, Step: s.step.Milliseconds(), Range: f.lookback(s.step)}
	if w.Start == math.MinInt64 {
		w.Start = stepEnd(mint, 0, w.Step)
	}
	if w.End == math.MaxInt64 {
		w.End = stepEnd(max(maxt, w.Start), w.Start, w.Step)
	}
	r := &aggregates{batch: &chunkenc.Batch{}}
	if f.function == quantileName {
		r.a, err = agg.NewQuantile(f.quantile, w)
	} else {
		var fn agg.Func
		if fn, err = agg.Parse(f.function); err == nil {
			r.a, err = agg.New(fn, w)
		}
	}
	return r, err
}

// stepEnd is the first time at t or later that is a number of steps away from another one; the last
// time of all if there is none.
func stepEnd(t, from, step int64) int64 {
	over := (t%step - from%step) % step // no difference of two times, which may be too large
	switch {
	case over == 0:
		return t
	case over < 0:
		over += step
	}
	if t > math.MaxInt64-(step-over) {
		return math.MaxInt64
	}
	return t + (step - over)
}

// aggregates is a seriesReader that shows one value for each step of a series.
type aggregates struct {
	a      *agg.Aggregator
	it     chunkenc.Iterator
	points []agg.Point
	batch  *chunkenc.Batch

	histograms int   // series that were left out, because they have some
	refusal    error // what the first of them says
}

// show implements seriesReader. It leaves out series of histograms, which tell tells of.
func (r *aggregates) show(ctx context.Context, s sampled, result resultWriter, w sampleWriter) (bool, error) {
	r.it = s.Iterator(r.it)
	var err error
	if r.points, err = r.a.Points(r.points[:0], r.it); err != nil {
		err = errors.WithMessagef(err, "read %s", s.Labels())
		if !errors.Is(err, agg.ErrHistogram) {
			return false, err
		}
		if r.histograms++; r.refusal == nil {
			r.refusal = err
		}
		return false, nil
	}
	if len(r.points) == 0 || ctx.Err() != nil {
		return false, ctx.Err()
	}
	r.batch.Cut(0)
	for _, p := range r.points {
		r.batch.T, r.batch.V = append(r.batch.T, p.T), append(r.batch.V, p.V)
	}
	if err := result.begin(s.Labels()); err != nil {
		return false, err
	}
	if err := w.batch(r.batch); err != nil {
		return false, err
	}
	return true, result.end()
}

// tell says how many series were left out. It is an error if nothing else was found.
func (r *aggregates) tell(c *console, found int) error {
	if r.histograms > 0 && found > 0 {
		c.message("left out %s series: %v", count(r.histograms), agg.ErrHistogram)
		return nil
	}
	return r.refusal
}
