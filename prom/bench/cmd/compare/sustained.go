package main

import (
	"flag"

	"github.com/seed347100a3/tsdb/prom/bench"
)

// sustained is "compare sustained": the workload of a large server, of this library alone.
func sustained(args []string) error {
	c := bench.DefaultSustainConfig()
	flags := flag.NewFlagSet("compare sustained", flag.ExitOnError)
	flags.IntVar(&c.Series, "series", c.Series, "series that are active at any time")
	flags.IntVar(&c.Rate, "rate", c.Rate, "samples a second")
	flags.DurationVar(&c.Time, "duration", c.Time, "how long samples come, without the first one of each series and recovery")
	flags.DurationVar(&c.Range, "range", c.Range, "wall time of a block range; below a minute, times of samples run faster than the clock")
	flags.Float64Var(&c.Kill, "kill", c.Kill, "the part of the duration after which the process is killed; 0: never")
	flags.Float64Var(&c.Churn, "churn", c.Churn, "the part of the series that is replaced meanwhile")
	flags.IntVar(&c.Writers, "writers", c.Writers, "goroutines that append")
	flags.DurationVar(&c.Every, "every", c.Every, "how often is looked at what is used")
	flags.StringVar(&c.Dir, "dir", "", "where to put the data, which is removed at the end (default: the system's temporary directory)")
	flags.StringVar(&c.Profile, "profile", "", "a file for a processor profile of the process that is not killed")
	output := flags.String("output", "table", "table, markdown or json")
	docs := flags.String("docs", "", "directory of a page bench.md to write numbers and charts into")
	if err := parse(flags, args, bench.SustainReport{}, output); err != nil {
		return err
	}
	c.Progress = tell
	ctx, stop := interruptible()
	defer stop()
	report, err := bench.Sustain(ctx, c)
	if err != nil {
		return err
	}
	return show(report, *docs, *output)
}
