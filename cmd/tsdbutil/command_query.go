package main

import (
	"context"
	"math"
	"time"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
)

// queryCommand selects series and shows their samples.
type queryCommand struct {
	dir, selector string
	start, end    string
	step          time.Duration
	limit         int
	output        string
}

const queryHelp = `Select series and show their samples.

SELECTOR is written as in PromQL: up, up{job="api"}, {__name__=~"host_.*",cpu!="0"}. The table has one line a series; json, jsonl and csv have every sample; plot draws up to 8 series.`

func (p *program) addQuery() {
	q := &queryCommand{}
	cmd := p.app.Command("query", queryHelp)
	cmd.Arg("dir", "Data directory.").Required().StringVar(&q.dir)
	cmd.Arg("selector", "Which series.").Required().StringVar(&q.selector)
	cmd.Flag("start", "Oldest time: RFC 3339, seconds since 1970, or before now (-5m). Default: all.").PlaceHolder("TIME").StringVar(&q.start)
	cmd.Flag("end", "Newest time, included.").PlaceHolder("TIME").StringVar(&q.end)
	cmd.Flag("step", "Keep only the newest sample of each step of this length.").PlaceHolder("DURATION").DurationVar(&q.step)
	cmd.Flag("limit", "At most so many series, the first ones by labels; 0 is all.").Default("0").IntVar(&q.limit)
	outputFlag(cmd, &q.output, "table", "json", "jsonl", "csv", "plot")
	p.add(cmd, q.run)
}

func (q *queryCommand) run(ctx context.Context, c *console) (err error) {
	ms, err := parseSelector(q.selector)
	if err != nil {
		return err
	}
	mint, maxt, err := parseRange(q.start, q.end, time.Now())
	if err != nil {
		return err
	}
	switch {
	case q.step < 0 || q.step > 0 && q.step < time.Millisecond:
		return usageError("--step: want a millisecond or more")
	case q.limit < 0:
		return usageError("--limit: want 0 or more series")
	}
	db, err := c.openReader(q.dir)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	querier, err := db.Querier(mint, maxt)
	if err != nil {
		return err
	}
	defer func() { _ = querier.Close() }()
	names, _, err := querier.LabelNames(ctx, nil, ms...)
	if err != nil {
		return err
	}
	set := querier.Select(ctx, &tsdb.SelectHints{Limit: q.limit}, ms...)
	w := newResultWriter(c, q, names, mint, maxt)
	found, err := q.write(ctx, c, set, w)
	if err == nil && found == 0 {
		c.tellEmpty(db)
	}
	return err
}

// write passes a result on, sample by sample, and returns how many series it has.
func (q *queryCommand) write(ctx context.Context, c *console, set *tsdb.SeriesSet, w resultWriter) (found int, err error) {
	bar := c.startProgress("Reading", 0, false)
	defer bar.finish()
	reader := newSamples(q.step.Milliseconds())
	for s, err := range set.All() {
		if err != nil {
			return found, err
		}
		if err := w.begin(s.Labels()); err != nil {
			return found, err
		}
		if err := reader.each(ctx, s, w.samples); err != nil {
			return found, err
		}
		if err := w.end(); err != nil {
			return found, err
		}
		bar.add(1)
		found++
	}
	if err := set.Err(); err != nil {
		return found, err
	}
	bar.finish()
	for _, warning := range set.Warnings() {
		if errors.Is(warning, tsdb.ErrTruncated) {
			c.message("warning: more than %d series match; --limit cut the rest", q.limit)
		} else {
			c.message("warning: %v", warning)
		}
	}
	return found, w.close(set.Warnings())
}

// parseRange reads the bounds of a query; what is not given is open.
func parseRange(start, end string, now time.Time) (mint, maxt int64, err error) {
	if mint, err = parseTime("--start", start, now, math.MinInt64); err != nil {
		return 0, 0, err
	}
	if maxt, err = parseTime("--end", end, now, math.MaxInt64); err != nil {
		return 0, 0, err
	}
	if mint > maxt {
		return 0, 0, usageError("--start is after --end")
	}
	return mint, maxt, nil
}

// tellEmpty says where a query that found nothing could have looked.
func (c *console) tellEmpty(db *tsdb.Reader) {
	st := db.Stats()
	mint, maxt := st.MinT, st.MaxT
	for _, m := range db.Blocks() {
		mint, maxt = min(mint, m.MinTime), max(maxt, m.MaxTime-1)
	}
	if mint > maxt {
		c.message("nothing found: the database is empty")
		return
	}
	c.message("nothing found: the database has samples from %s to %s",
		time.UnixMilli(mint).Format(time.RFC3339), time.UnixMilli(maxt).Format(time.RFC3339))
}
