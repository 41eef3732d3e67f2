// Command compare measures this library beside the reference implementation of its file
// format and beside VictoriaMetrics, and prints a table. docs/bench.md says what the rows
// mean.
//
//	go run ./cmd/compare                  # 40 to 60 minutes
//	go run ./cmd/compare --quick          # a few minutes, less data
//	go run ./cmd/compare --only replay --runs 5 --output markdown
//	go run ./cmd/compare --docs ../../docs
//	go run ./cmd/compare sustained        # the workload of a large server: nine minutes
//	go run ./cmd/compare recovery         # opening 1e8 and 1e9 samples after a kill: eight minutes
//	go run ./cmd/compare promql           # range queries of the PromQL engine: ten minutes
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"

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
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "sustained":
			return sustained(os.Args[2:])
		case "recovery":
			return recovery(os.Args[2:])
		case "promql":
			return rangeQueries(os.Args[2:])
		}
	}
	c := bench.DefaultConfig()
	gate := slices.Contains(os.Args[1:], "--gate") || slices.Contains(os.Args[1:], "-gate")
	if gate {
		c = bench.GateConfig()
	} else if slices.Contains(os.Args[1:], "--quick") || slices.Contains(os.Args[1:], "-quick") {
		c = bench.QuickConfig() // whose sizes other flags may change
	}
	// A set of its own: libraries add flags to the common one.
	flags := flag.NewFlagSet("compare", flag.ExitOnError)
	flags.Bool("quick", false, "less data, one run")
	flags.Bool("gate", false, "less data, the reference only, and an error if rows have fallen far behind what they were")
	flags.IntVar(&c.Series, "series", c.Series, "series of append, log, replay, reopen and backfill; values has a fifth")
	flags.IntVar(&c.Samples, "samples", c.Samples, "samples of each of them")
	flags.IntVar(&c.Logged, "logged", c.Logged, "samples of each of those of replay and reopen")
	flags.IntVar(&c.New, "new", c.New, "series of create")
	flags.IntVar(&c.Many, "many", c.Many, "series of memory and select")
	flags.IntVar(&c.Blocks, "blocks", c.Blocks, "series of flush, blocks, index and latency; merge has half as many, remote a tenth")
	flags.IntVar(&c.Points, "points", c.Points, "samples of each of them in two hours, at most 480")
	flags.IntVar(&c.Runs, "runs", c.Runs, "how often each measurement is repeated")
	flags.StringVar(&c.Dir, "dir", "", "where to put the data, which is removed at the end (default: the system's temporary directory)")
	flags.StringVar(&c.Profile, "profile", "", "directory for a processor profile of each measurement")
	only := flags.String("only", "", "groups of rows, separated by commas: "+strings.Join(bench.Groups, ", ")+", curves (default: all)")
	flags.Func("curve", fmt.Sprintf("numbers of series for curves, separated by commas; empty: no curves of these (default %v)", c.Curve), numbers(&c.Curve))
	flags.Func("selected", fmt.Sprintf("the same for curves of remote reads (default %v)", c.Selected), numbers(&c.Selected))
	output := flags.String("output", "table", "table, markdown or json")
	docs := flags.String("docs", "", "directory of a page bench.md to write numbers and charts into; what is not measured stays")
	if err := parse(flags, os.Args[1:], bench.Report{}, output); err != nil {
		return err
	}
	if *only != "" {
		c.Only = strings.Split(*only, ",")
	}
	c.Progress = tell
	ctx, stop := interruptible()
	defer stop()
	report, err := bench.Compare(ctx, c)
	if err != nil {
		return err
	}
	if err := show(report, *docs, *output); err != nil || !gate {
		return err
	}
	return report.Gate()
}

// result is what a command has measured.
type result interface {
	Write(w io.Writer, format string) error
	WriteDocs(dir string) error
}

// parse reads the flags of a command, and tries whether its result can be written in the chosen
// format before it is measured.
func parse(flags *flag.FlagSet, args []string, empty result, output *string) error {
	if err := flags.Parse(args); err != nil {
		return errors.Wrap(err, "read flags")
	}
	if flags.NArg() > 0 {
		return errors.Errorf("unexpected argument %q", flags.Arg(0))
	}
	return empty.Write(io.Discard, *output)
}

// show writes a result to a page, if there is one, and to the terminal.
func show(r result, docs, output string) error {
	if docs != "" {
		if err := r.WriteDocs(docs); err != nil {
			return err
		}
	}
	return r.Write(os.Stdout, output)
}

func tell(what string) { fmt.Fprintln(os.Stderr, what) }

func interruptible() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
}

// numbers reads a list of numbers from a flag.
func numbers(list *[]int) func(string) error {
	return func(text string) error {
		*list = nil
		if text == "" {
			return nil
		}
		for _, field := range strings.Split(text, ",") {
			n, err := strconv.Atoi(field)
			if err != nil || n < 1 {
				return errors.Errorf("%q is not a number above 0", field)
			}
			*list = append(*list, n)
		}
		return nil
	}
}
