// Command compare runs this library beside the reference engine and prints a table.
//
//	go run ./cmd/compare                 # a few minutes
//	go run ./cmd/compare --full          # replay of 1e8 samples
//	go run ./cmd/compare --only replay --runs 5 --output markdown
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/prom/bench"
)

type config struct {
	sizes  bench.Sizes
	runs   int
	only   string
	output string
	dir    string
	child  string
}

func main() {
	var c config
	full := flag.Bool("full", false, "replay 1e8 samples: 10,000 series of 10,000")
	flag.IntVar(&c.sizes.Series, "series", 10_000, "series of append and replay")
	flag.IntVar(&c.sizes.Samples, "samples", 500, "samples of each of them")
	flag.IntVar(&c.sizes.Many, "many", 100_000, "series of memory and select")
	flag.IntVar(&c.runs, "runs", 3, "runs of each engine, in turns")
	flag.StringVar(&c.only, "only", "", "rows whose name contains this")
	flag.StringVar(&c.output, "output", "table", "table, markdown or json")
	flag.StringVar(&c.dir, "dir", "", "where to write; default: the system's temporary directory")
	flag.StringVar(&c.child, "child", "", "") // an engine's number: measure one row and print the figure
	flag.Parse()
	if *full {
		c.sizes.Samples = 10_000
	}
	if err := c.run(); err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

func (c *config) run() error {
	if c.child != "" {
		return c.runChild()
	}
	var results []bench.Result
	for _, row := range bench.Rows() {
		if !strings.Contains(row.Name, c.only) {
			continue
		}
		fmt.Fprintln(os.Stderr, row.Name)
		r := bench.Result{Row: row.Name, Unit: row.Unit, Goal: row.Goal}
		for range c.runs {
			for i, to := range []*[]float64{&r.Ours, &r.Theirs} {
				v, err := c.measure(row, i)
				if err != nil {
					return err
				}
				*to = append(*to, v)
			}
		}
		results = append(results, r)
	}
	return c.print(results)
}

func (c *config) measure(row bench.Row, engine int) (float64, error) {
	if !row.Child {
		return bench.Measure(row, bench.Engines()[engine], c.dir, c.sizes)
	}
	self, err := os.Executable()
	if err != nil {
		return 0, errors.Wrap(err, "find this program")
	}
	cmd := exec.Command(self, "--child", strconv.Itoa(engine), "--only", row.Name, "--dir", c.dir,
		"--series", strconv.Itoa(c.sizes.Series), "--samples", strconv.Itoa(c.sizes.Samples), "--many", strconv.Itoa(c.sizes.Many))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return 0, errors.Wrapf(err, "run %s in a process of its own", row.Name)
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
	return v, errors.Wrap(err, "read what the process measured")
}

func (c *config) runChild() error {
	engine, err := strconv.Atoi(c.child)
	if err != nil || engine < 0 || engine >= len(bench.Engines()) {
		return errors.Errorf("--child %s is no engine", c.child)
	}
	for _, row := range bench.Rows() {
		if row.Name == c.only {
			v, err := bench.Measure(row, bench.Engines()[engine], c.dir, c.sizes)
			fmt.Println(v)
			return err
		}
	}
	return errors.Errorf("no row %q", c.only)
}

func (c *config) print(results []bench.Result) error {
	switch c.output {
	case "json":
		enc := json.NewEncoder(os.Stdout)
		enc.SetIndent("", "  ")
		return errors.Wrap(enc.Encode(results), "write")
	case "markdown":
		fmt.Printf("%s, %s, %d CPUs, %s; medians of %d interleaved runs\n\n", time.Now().Format(time.DateOnly),
			runtime.Version(), runtime.GOMAXPROCS(0), runtime.GOARCH, c.runs)
		fmt.Println("| work | unit | tsdb | Prometheus | ratio | goal | spread of ours |")
		fmt.Println("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
		for _, r := range results {
			fmt.Printf("| %s | %s | %s | %s | %.2f x | %s | ±%.0f%% |\n", r.Row, r.Unit, figure(bench.Median(r.Ours)),
				figure(bench.Median(r.Theirs)), r.Ratio(), goal(r), 100*r.Spread())
		}
		return nil
	default:
		tw := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
		fmt.Fprintln(tw, "WORK\tUNIT\tTSDB\tPROMETHEUS\tRATIO\tGOAL\tSPREAD")
		for _, r := range results {
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%.2f x\t%s\t±%.0f%%\n", r.Row, r.Unit, figure(bench.Median(r.Ours)),
				figure(bench.Median(r.Theirs)), r.Ratio(), goal(r), 100*r.Spread())
		}
		return errors.Wrap(tw.Flush(), "write")
	}
}

func figure(v float64) string {
	switch {
	case v < 10:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case v < 100:
		return strconv.FormatFloat(v, 'f', 1, 64)
	default:
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
}

func goal(r bench.Result) string {
	switch {
	case r.Goal == 0:
		return "-"
	case r.Ratio() >= r.Goal:
		return fmt.Sprintf("%.2f, reached", r.Goal)
	default:
		return fmt.Sprintf("%.2f, MISSED", r.Goal)
	}
}
