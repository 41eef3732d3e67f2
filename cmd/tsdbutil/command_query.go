package main

import (
	"context"
	"math"
	"time"

	"github.com/seed347100a3/tsdb"
)

// queryCommand selects series and shows their samples.
type queryCommand struct {
	dir string
	selectFlags
	agg aggregateFlags
}

const queryHelp = `Select series and show their samples.

SELECTOR is written as in PromQL: up, up{job="api"}, {__name__=~"host_.*",cpu!="0"}. The table has one line a series; json, jsonl and csv have every sample; plot draws up to 8 series. With --agg one value for each step is shown in place of samples.`

func (p *program) addQuery() {
	q := &queryCommand{}
	cmd := p.app.Command("query", queryHelp)
	cmd.Arg("dir", "Data directory.").Required().StringVar(&q.dir)
	q.flags(cmd)
	q.agg.flags(cmd)
	p.add(cmd, q.run)
}

func (q *queryCommand) run(ctx context.Context, c *console) (err error) {
	sel, err := q.parse(time.Now())
	if err != nil {
		return err
	}
	if err := q.agg.check(q.step); err != nil {
		return err
	}
	db, err := c.openReader(q.dir)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	querier, err := db.Querier(q.agg.first(sel), sel.maxt)
	if err != nil {
		return err
	}
	defer func() { _ = querier.Close() }()
	names, _, err := querier.LabelNames(ctx, nil, sel.ms...)
	if err != nil {
		return err
	}
	reader, err := q.agg.reader(ctx, sel, querier)
	if err != nil {
		return err
	}
	set := querier.Select(ctx, &tsdb.SelectHints{Limit: q.limit}, sel.ms...)
	found, err := writeResult(ctx, c, sel, set, reader, newResultWriter(c, sel, names))
	if r, ok := reader.(*aggregates); ok && err == nil {
		err = r.tell(c, found)
	}
	if err == nil && found == 0 {
		c.tellEmpty(ctx, db)
	}
	return err
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
func (c *console) tellEmpty(ctx context.Context, db *tsdb.Reader) {
	mint, maxt, _, err := db.Bounds(ctx)
	switch {
	case err != nil: // damage elsewhere is not what was asked for
		c.message("nothing found")
	case mint > maxt:
		c.message("nothing found: the database is empty")
	default:
		c.message("nothing found: the database has samples from %s to %s",
			time.UnixMilli(mint).Format(time.RFC3339), time.UnixMilli(maxt).Format(time.RFC3339))
	}
}
