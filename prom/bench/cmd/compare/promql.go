package main

import (
	"flag"

	"github.com/seed347100a3/tsdb/prom/bench"
)

// rangeQueries is "compare promql": the PromQL engine over this storage and the reference's.
func rangeQueries(args []string) error {
	c := bench.DefaultPromQLConfig()
	flags := flag.NewFlagSet("compare promql", flag.ExitOnError)
	flags.IntVar(&c.Series, "series", c.Series, "series of the metrics of many")
	flags.IntVar(&c.Samples, "samples", c.Samples, "samples of each series")
	flags.DurationVar(&c.Time, "time", c.Time, "how long each case is repeated")
	flags.IntVar(&c.Pairs, "pairs", c.Pairs, "how often each case is repeated at least")
	flags.StringVar(&c.Only, "only", "", "expressions with this text only")
	flags.StringVar(&c.Dir, "dir", "", "where to put the data, which is removed at the end (default: the system's temporary directory)")
	output := flags.String("output", "table", "table, markdown or json")
	docs := flags.String("docs", "", "directory of a page bench.md to write numbers into")
	if err := parse(flags, args, bench.PromQLReport{}, output); err != nil {
		return err
	}
	c.Progress = tell
	ctx, stop := interruptible()
	defer stop()
	report, err := bench.PromQL(ctx, c)
	if err != nil {
		return err
	}
	return show(report, *docs, *output)
}
