package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/pkg/errors"
)

// Config is what to compare, and with how much data.
type Config struct {
	Series  int // that are appended to and replayed
	Samples int // of each of them
	Many    int // series of the rows about memory and select
	Few     int // samples of each of those in the row about memory
	Chunks  int // and in the rows about select
	Blocks  int // series of the rows about blocks; a merge has half as many, remote read a tenth
	Points  int // samples of each of those in two hours, at most 480
	Runs    int // of each measurement; the table has medians

	Time time.Duration // for each select row, in each run
	Only []string      // of Groups; none: all
	Dir  string        // for the data, removed at the end; empty: the system's temporary directory

	// Profile is a directory for processor profiles of the measurements, one file each with
	// the preparation in it; empty: none are taken.
	Profile string

	// Progress is told what is about to be done. Nil: nobody is.
	Progress func(what string)
}

// DefaultConfig takes ten minutes on two processors.
func DefaultConfig() Config {
	return Config{Series: 10_000, Samples: 1000, Many: 100_000, Few: 15, Chunks: 120, Blocks: 100_000, Points: maxPoints, Runs: 3, Time: 300 * time.Millisecond}
}

// maxPoints are the samples in two hours.
const maxPoints = blockRange / blockStep

// Groups are the names for Config.Only, in the order in which they run.
var Groups = []string{"append", "appendbatch", "create", "replay", "reopen", "memory", "select", "decode", "flush", "blocks", "index", "merge", "backfill", "remote", "remotehead"}

// comparison is one run of Compare.
type comparison struct {
	Config
	dir  string
	all  map[string]map[string][]float64 // by row, by engine, a value for each run
	fork func(context.Context, task) (measures, error)

	profiles int // taken so far
}

// Compare measures both engines in turns and returns the rows. It starts this program
// again for each measurement, so the program must have called RunChild.
func Compare(ctx context.Context, c Config) (Report, error) {
	return compare(ctx, c, func(ctx context.Context, t task) (measures, error) { return t.runInChild(ctx) })
}

func compare(ctx context.Context, c Config, fork func(context.Context, task) (measures, error)) (rep Report, err error) {
	for _, group := range c.Only {
		if !slices.Contains(Groups, group) {
			return rep, errors.Errorf("no group %q, there are %v", group, Groups)
		}
	}
	if min(c.Series, c.Samples, c.Many, c.Few, c.Chunks, c.Blocks, c.Points, c.Runs) < 1 {
		return rep, errors.New("every number must be at least 1")
	}
	if c.Points > maxPoints {
		return rep, errors.Errorf("%d samples in two hours, at most %d are possible", c.Points, maxPoints)
	}
	dir, err := os.MkdirTemp(c.Dir, "tsdb-bench-")
	if err != nil {
		return rep, errors.Wrap(err, "make directory for data")
	}
	defer func() {
		if removeErr := os.RemoveAll(dir); err == nil {
			err = errors.Wrap(removeErr, "remove data")
		}
	}()
	cmp := &comparison{Config: c, dir: dir, all: map[string]map[string][]float64{}, fork: fork}
	for _, group := range Groups {
		if len(c.Only) > 0 && !slices.Contains(c.Only, group) {
			continue
		}
		if err := cmp.group(ctx, group); err != nil {
			return rep, err
		}
	}
	return cmp.report()
}

// group measures one kind of work, the engines in turns, the other one first in every
// second run.
func (c *comparison) group(ctx context.Context, kind string) error {
	t := c.task(kind)
	filled := map[string]string{}
	if fill := dataFor(kind); fill != "" {
		for _, engine := range []string{Ours, Reference} {
			filled[engine] = filepath.Join(c.dir, "filled-"+engine)
			f := t
			f.Kind, f.Engine, f.Dir = fill, engine, filled[engine]
			c.tell("fill for " + kind + ", " + engine)
			if _, err := c.fork(ctx, f); err != nil {
				return err
			}
		}
	}
	for run := range c.Runs {
		order := []string{Ours, Reference}
		if run%2 == 1 {
			slices.Reverse(order)
		}
		for _, engine := range order {
			t.Engine = engine
			if err := c.measure(ctx, t, filled[engine]); err != nil {
				return err
			}
		}
	}
	for _, dir := range filled {
		if err := os.RemoveAll(dir); err != nil {
			return errors.Wrap(err, "remove data")
		}
	}
	return nil
}

// task is one kind of work with the sizes that are configured for it.
func (c *comparison) task(kind string) task {
	t := task{Kind: kind, Series: c.Series, Samples: c.Samples, Time: c.Time}
	switch kind {
	case "create":
		t.Series, t.Samples = c.Many, 1
	case "memory":
		t.Series, t.Samples = c.Many, c.Few
	case "select":
		t.Series, t.Samples = c.Many, c.Chunks
	case "flush", "blocks", "index":
		t.Series, t.Samples = c.Blocks, c.Points
	case "merge":
		t.Series, t.Samples = (c.Blocks+1)/2, c.Points
	case "remote", "remotehead":
		t.Series, t.Samples = (c.Blocks+9)/10, c.Points
	}
	return t
}

// dataFor names the task that fills the directory that some work begins with; none: it
// begins with an empty one.
func dataFor(kind string) string {
	switch kind {
	case "replay", "reopen", "memory", "select":
		return "fill"
	case "blocks", "index":
		return "fillblocks"
	case "merge":
		return "fillmerge"
	case "remote":
		return "fillremote"
	default:
		return ""
	}
}

// copyData makes a directory for one task out of one that was filled.
func copyData(kind, dst, src string) error {
	if dataFor(kind) == "fill" {
		return errors.Wrap(os.CopyFS(dst, os.DirFS(src)), "copy data")
	}
	return linkTree(dst, src)
}

// measure does a task once, in a fresh directory or in a copy of a filled one.
func (c *comparison) measure(ctx context.Context, t task, from string) error {
	t.Dir = filepath.Join(c.dir, "work")
	if from != "" {
		if err := copyData(t.Kind, t.Dir, from); err != nil {
			return err
		}
	}
	if c.Profile != "" {
		c.profiles++
		t.Profile = filepath.Join(c.Profile, fmt.Sprintf("%s-%s-%d.pprof", t.Kind, t.Engine, c.profiles))
	}
	c.tell(t.Kind + ", " + t.Engine)
	m, err := c.fork(ctx, t)
	if err != nil {
		return err
	}
	for row, value := range m {
		if c.all[row] == nil {
			c.all[row] = map[string][]float64{}
		}
		c.all[row][t.Engine] = append(c.all[row][t.Engine], value)
	}
	return errors.Wrap(os.RemoveAll(t.Dir), "remove data")
}

func (c *comparison) tell(what string) {
	if c.Progress != nil {
		c.Progress(what)
	}
}
