package main

import (
	"context"
	"iter"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/labels"
)

// selectFlags are what the commands that select series have in common.
type selectFlags struct {
	selector   string
	start, end string
	step       time.Duration
	limit      int
	output     string
}

func (f *selectFlags) flags(cmd *kingpin.CmdClause) {
	cmd.Arg("selector", "Which series.").Required().StringVar(&f.selector)
	cmd.Flag("start", "Oldest time: RFC 3339, seconds since 1970, or before now (-5m). Default: all.").PlaceHolder("TIME").StringVar(&f.start)
	cmd.Flag("end", "Newest time, included.").PlaceHolder("TIME").StringVar(&f.end)
	cmd.Flag("step", "Keep only the newest sample of each step of this length.").PlaceHolder("DURATION").DurationVar(&f.step)
	cmd.Flag("limit", "At most so many series, the first ones; 0 is all.").Default("0").IntVar(&f.limit)
	outputFlag(cmd, &f.output, "table", "json", "jsonl", "csv", "plot")
}

// selection is what selectFlags ask for.
type selection struct {
	*selectFlags
	mint, maxt int64
	ms         []*labels.Matcher
}

func (f *selectFlags) parse(now time.Time) (*selection, error) {
	s := &selection{selectFlags: f}
	var err error
	if s.ms, err = parseSelector(f.selector); err != nil {
		return nil, err
	}
	if s.mint, s.maxt, err = parseRange(f.start, f.end, now); err != nil {
		return nil, err
	}
	switch {
	case f.step < 0 || f.step > 0 && f.step < time.Millisecond:
		return nil, usageError("--step: want a millisecond or more")
	case f.limit < 0:
		return nil, usageError("--limit: want 0 or more series")
	}
	return s, nil
}

// sampled is a series of a database or of a server.
type sampled interface {
	Labels() labels.Labels
	Iterator(reuse chunkenc.Iterator) chunkenc.Iterator
}

// result is a set of them.
type result[S sampled] interface {
	All() iter.Seq2[S, error]
	Err() error
	Warnings() tsdb.Warnings
}

// seriesReader shows what is asked for of one series after the other.
type seriesReader interface {
	// show gives a series to a result, its samples by way of w; false if it has nothing to show.
	show(ctx context.Context, s sampled, result resultWriter, w sampleWriter) (bool, error)
}

// writeResult passes a result on, series by series, and returns how many are shown.
func writeResult[S sampled](ctx context.Context, c *console, s *selection, set result[S], r seriesReader, w resultWriter) (found int, err error) {
	bar := c.startProgress("Reading samples", 0, false)
	defer bar.finish()
	write := &countedWriter{w, bar}
	for one, err := range set.All() {
		if err != nil {
			return found, err
		}
		shown, err := r.show(ctx, one, w, write)
		if err != nil {
			return found, err
		}
		if shown {
			found++
		}
	}
	if err := set.Err(); err != nil {
		return found, err
	}
	bar.finish()
	for _, warning := range set.Warnings() {
		if errors.Is(warning, tsdb.ErrTruncated) {
			c.message("warning: more than %d series match; --limit cut the rest", s.limit)
		} else {
			c.message("warning: %v", warning)
		}
	}
	return found, w.close(set.Warnings())
}

// countedWriter tells a progress of the samples.
type countedWriter struct {
	sampleWriter
	bar *progress
}

func (w *countedWriter) batch(b *chunkenc.Batch) error {
	w.bar.add(int64(b.Len()))
	return w.sampleWriter.batch(b)
}

func (w *countedWriter) histogram(s *histogramSample) error {
	w.bar.add(1)
	return w.sampleWriter.histogram(s)
}
