package main

import (
	"flag"
	"fmt"

	"github.com/seed347100a3/tsdb/prom/bench"
)

// recovery is "compare recovery": what opening takes after a kill, of this library alone.
func recovery(args []string) error {
	c := bench.DefaultRecoverConfig()
	flags := flag.NewFlagSet("compare recovery", flag.ExitOnError)
	flags.IntVar(&c.Series, "series", c.Series, "series of each database")
	flags.Func("samples", fmt.Sprintf("samples of each series, a second apart, separated by commas: a database for each number (default %v)", c.Samples), numbers(&c.Samples))
	flags.IntVar(&c.Runs, "runs", c.Runs, "how often each database is opened in each way")
	flags.StringVar(&c.Dir, "dir", "", "where to put the data, which is removed at the end (default: the system's temporary directory)")
	output := flags.String("output", "table", "table, markdown or json")
	docs := flags.String("docs", "", "directory of a page bench.md to write numbers into")
	if err := parse(flags, args, bench.RecoverReport{}, output); err != nil {
		return err
	}
	c.Progress = tell
	ctx, stop := interruptible()
	defer stop()
	report, err := bench.Recover(ctx, c)
	if err != nil {
		return err
	}
	return show(report, *docs, *output)
}
