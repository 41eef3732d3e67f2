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
	Series  int // of append, log, replay, reopen and backfill; values has a fifth
	Samples int // of each of them
	Logged  int // of each of those of replay and reopen
	New     int // series of create
	Many    int // series of memory and select
	Few     int // samples of each of those of create and memory
	Chunks  int // and of select
	Blocks  int // series of flush, blocks and latency; a merge has half as many, remote read a tenth
	Points  int // samples of each of those in two hours, at most 480
	Runs    int // of each measurement; the table has medians

	Time time.Duration // for each select row, in each run
	Only []string      // of Groups, or "curves"; none: all
	Pair bool          // ours and the reference only
	Dir  string        // for the data, removed at the end; empty: the system's temporary directory

	// Curve is the numbers of series for curves, Selected those for curves of remote reads;
	// none: there are no curves.
	Curve, Selected []int

	// Profile is a directory for processor profiles of the measurements, one file each with
	// the preparation in it; empty: none are taken.
	Profile string

	// Progress is told what is about to be done. Nil: nobody is.
	Progress func(what string)
}

// DefaultConfig has the sizes of the project's goals. It takes 40 to 60 minutes on two
// processors, and 12 GB of disk.
func DefaultConfig() Config {
	return Config{
		Series: 10_000, Samples: 1000, Logged: 10_000, New: 1_000_000, Many: 100_000, Few: 15, Chunks: 120, Blocks: 100_000, Points: maxPoints, Runs: 3,
		Time: 300 * time.Millisecond, Curve: []int{10_000, 100_000, 1_000_000}, Selected: []int{100, 1000, 10_000, 100_000},
	}
}

// QuickConfig takes a few minutes. What depends on size, it does not show.
func QuickConfig() Config {
	return Config{
		Series: 5_000, Samples: 300, Logged: 300, New: 50_000, Many: 20_000, Few: 15, Chunks: 120, Blocks: 10_000, Points: 240, Runs: 1,
		Time: 100 * time.Millisecond, Curve: []int{1_000, 10_000, 100_000}, Selected: []int{100, 1000, 10_000},
	}
}

// onlyCurves is a group that has no rows.
const onlyCurves = "curves"

// maxPoints are the samples in two hours.
const maxPoints = blockRange / blockStep

// comparison is one run of Compare.
type comparison struct {
	Config
	dir  string
	all  map[string]map[string][]float64 // by row, by engine, a value for each run
	fork func(context.Context, task) (measures, error)

	began    time.Time
	loads    map[string]float64 // by group: what others took of the processors meanwhile
	filled   filled
	profiles int // taken so far
}

// filled is what the last fill left: a directory for each engine, and the most memory that
// the process had which wrote it.
type filled struct {
	by   task
	dirs map[string]string
	left map[string]measures // what the processes that filled them said of themselves
}

// Compare measures the engines in turns and returns the rows. It starts this program
// again for each measurement, so the program must have called RunChild. When ctx is
// cancelled it returns what was measured so far.
func Compare(ctx context.Context, c Config) (Report, error) {
	return compare(ctx, c, func(ctx context.Context, t task) (measures, error) { return t.runInChild(ctx) })
}

func compare(ctx context.Context, c Config, fork func(context.Context, task) (measures, error)) (rep Report, err error) {
	for _, group := range c.Only {
		if group != onlyCurves && !slices.Contains(Groups, group) {
			return rep, errors.Errorf("no group %q, there are %v and %s", group, Groups, onlyCurves)
		}
	}
	if min(c.Series, c.Samples, c.Logged, c.New, c.Many, c.Few, c.Chunks, c.Blocks, c.Points, c.Runs) < 1 {
		return rep, errors.New("every number must be at least 1")
	}
	if c.Points > maxPoints {
		return rep, errors.Errorf("%d samples in two hours, at most %d are possible", c.Points, maxPoints)
	}
	dir, remove, err := scratch(c.Dir)
	if err != nil {
		return rep, err
	}
	defer remove(&err)
	cmp := &comparison{Config: c, dir: dir, began: time.Now(), all: map[string]map[string][]float64{}, loads: map[string]float64{}, fork: fork}
	err = cmp.rows(ctx)
	if err == nil || ctx.Err() != nil {
		interrupted := err != nil
		if rep, err = cmp.report(); err != nil {
			return rep, err
		}
		rep.Interrupted = interrupted
	}
	if err == nil && !rep.Interrupted && c.wants(onlyCurves) {
		err = cmp.timed(onlyCurves, func() error {
			rep.Curves, err = cmp.curves(ctx)
			return err
		})
	}
	if err != nil && ctx.Err() != nil {
		rep.Interrupted, err = true, nil
	}
	return rep, err
}

// wants tells whether a group is to be measured.
func (c *Config) wants(kind string) bool { return len(c.Only) == 0 || slices.Contains(c.Only, kind) }

// rows measures all groups.
func (c *comparison) rows(ctx context.Context) error {
	for _, g := range plan {
		if !c.wants(g.kind) {
			continue
		}
		load := watchLoad()
		err := c.timed(g.kind, func() error { return c.group(ctx, g) })
		c.loads[g.kind] = load.others()
		if err != nil {
			return err
		}
	}
	return c.forget()
}

// group measures one kind of work, the engines in turns, another one first in every run.
func (c *comparison) group(ctx context.Context, g group) error {
	if c.Pair {
		g.engines = slices.DeleteFunc(slices.Clone(g.engines), func(e string) bool { return e == Victoria })
	}
	t := c.task(g.kind)
	if err := c.fill(ctx, g, t); err != nil {
		return err
	}
	for run := range c.runs(g) {
		for i := range g.engines {
			t.Engine = g.engines[(i+run)%len(g.engines)]
			if t.Engine == Victoria && g.slow && run > 0 {
				continue
			}
			if err := c.measure(ctx, t); err != nil {
				return err
			}
		}
	}
	return nil
}

// runs is how often a group is measured. The most of something varies more than its middle;
// extremes and the longest series take long, and are about orders of magnitude.
func (c *comparison) runs(g group) int {
	switch {
	case g.kind == "latency" && c.Runs > 1:
		return max(c.Runs, latencyRuns)
	case g.kind == "extremes" || g.kind == "giant":
		return 1
	default:
		return c.Runs
	}
}

// fill writes the directories that a group begins with, those that are not there.
func (c *comparison) fill(ctx context.Context, g group, t task) error {
	t.Kind = g.fill
	if t != c.filled.by {
		if err := c.forget(); err != nil {
			return err
		}
		c.filled = filled{t, map[string]string{}, map[string]measures{}}
	}
	for _, engine := range g.engines {
		if g.fill == "" || c.filled.dirs[engine] != "" {
			continue
		}
		if err := c.fillOne(ctx, t, engine); err != nil {
			return err
		}
	}
	return nil
}

func (c *comparison) fillOne(ctx context.Context, t task, engine string) error {
	t.Engine, t.Dir = engine, filepath.Join(c.dir, "filled-"+engine)
	c.tell(t.Kind + ", " + engine)
	m, err := c.fork(ctx, t)
	if err != nil {
		return err
	}
	c.filled.dirs[engine], c.filled.left[engine] = t.Dir, m
	return nil
}

// forget removes what was filled.
func (c *comparison) forget() error {
	for _, dir := range c.filled.dirs {
		if err := os.RemoveAll(dir); err != nil {
			return errors.Wrap(err, "remove data")
		}
	}
	c.filled = filled{}
	return nil
}

// copyData makes a directory for one task out of one that was filled. Blocks are never
// changed in place; of logs there must be a copy.
func copyData(fill, dst, src string) error {
	if fill == "fill" || fill == "filllate" || fill == "killed" {
		return errors.Wrap(os.CopyFS(dst, os.DirFS(src)), "copy data")
	}
	return linkTree(dst, src)
}

// measure does a task once, in a fresh directory or in a copy of a filled one.
func (c *comparison) measure(ctx context.Context, t task) error {
	t.Dir = filepath.Join(c.dir, "work")
	if from := c.filled.dirs[t.Engine]; from != "" {
		if err := copyData(c.filled.by.Kind, t.Dir, from); err != nil {
			return err
		}
		t.Peak, t.Own = c.filled.left[t.Engine]["peak"], c.filled.left[t.Engine]["own"]
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

// timed tells what a group took: time, and processor time of all its processes.
func (c *comparison) timed(kind string, work func() error) error {
	begin, used := time.Now(), cpuTime()+childTime()
	err := work()
	c.tell(fmt.Sprintf("%s took %v, %v of processor time", kind, time.Since(begin).Round(time.Second), (cpuTime() + childTime() - used).Round(time.Second)))
	return err
}

// tell says what is done, and how long all has taken so far.
func (c *comparison) tell(what string) {
	if c.Progress != nil {
		c.Progress(fmt.Sprintf("%7v  %s", time.Since(c.began).Round(time.Second), what))
	}
}

// scratch makes a directory for data in dir. What it returns beside it removes it, and says so if
// it cannot and nothing else went wrong.
func scratch(dir string) (path string, remove func(*error), err error) {
	path, err = os.MkdirTemp(dir, "tsdb-bench-")
	remove = func(err *error) {
		if removeErr := os.RemoveAll(path); *err == nil {
			*err = errors.Wrap(removeErr, "remove data")
		}
	}
	return path, remove, errors.Wrap(err, "make directory for data")
}
