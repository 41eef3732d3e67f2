// Command compare measures this library beside the reference implementation of its
// file format and prints a table. docs/bench.md says what the rows mean.
//
//	go run ./cmd/compare                  # ten minutes
//	go run ./cmd/compare --blocks 10000   # half of that
//	go run ./cmd/compare --full           # append and replay 100 million samples
//	go run ./cmd/compare --only replay --runs 5 --output markdown
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/prom/bench"
)

func main() {
	bench.RunChild()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

func run() error {
	c := bench.DefaultConfig()
	flag.IntVar(&c.Series, "series", c.Series, "series of append, replay, reopen and backfill")
	flag.IntVar(&c.Samples, "samples", c.Samples, "samples of each of them")
	flag.IntVar(&c.Many, "many", c.Many, "series of create, memory and select")
	flag.IntVar(&c.Blocks, "blocks", c.Blocks, "series of flush, blocks and index; merge has half as many")
	flag.IntVar(&c.Points, "points", c.Points, "samples of each of them in two hours, at most 480")
	flag.IntVar(&c.Runs, "runs", c.Runs, "how often each measurement is repeated")
	flag.StringVar(&c.Dir, "dir", "", "where to put the data, which is removed at the end (default: the system's temporary directory)")
	flag.StringVar(&c.Profile, "profile", "", "directory for a processor profile of each measurement")
	only := flag.String("only", "", "groups of rows, separated by commas: "+strings.Join(bench.Groups, ", ")+" (default: all)")
	full := flag.Bool("full", false, "10,000 samples of each series, 100 million in all")
	output := flag.String("output", "table", "table, markdown or json")
	flag.Parse()
	if flag.NArg() > 0 {
		return errors.Errorf("unexpected argument %q", flag.Arg(0))
	}
	if err := (bench.Report{}).Write(io.Discard, *output); err != nil {
		return err
	}
	if *full {
		c.Samples = 10_000
	}
	if *only != "" {
		c.Only = strings.Split(*only, ",")
	}
	c.Progress = func(what string) { fmt.Fprintln(os.Stderr, what) }
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	report, err := bench.Compare(ctx, c)
	if err != nil {
		return err
	}
	return report.Write(os.Stdout, *output)
}
