package bench

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"github.com/pkg/errors"
	"github.com/prometheus/client_golang/prometheus"
	theirs "github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/util/compression"

	"github.com/seed347100a3/tsdb"
)

// The rows about late samples: of each series so many, all of them older than its newest one, and none
// older than the window.
const (
	lateWindow   = 2 * time.Hour
	lateStep     = 60_000 // between two scrapes, in milliseconds
	lateScrapes  = 150    // in order, before anything is late
	lateSamples  = 60     // of each series in one round
	lateBlocks   = 3      // rounds that become blocks, which overlap
	lateInterval = 97_000 // between two late samples of a series
	lateBetween  = 5      // scrapes in order between two rounds
	lateTurns    = 16     // of a database with a window and one without
)

// latecomer is an engine that takes late samples.
type latecomer interface {
	engine
	// flushAll makes blocks of all that is in the head, late samples included.
	flushAll() error
}

func openLate(name, dir string, window time.Duration) (latecomer, error) {
	switch name {
	case Ours:
		o := tsdb.DefaultOptions()
		o.WAL.Sync = tsdb.SyncRotate()
		o.Blocks.Manual = true
		o.Limits.MaxFuture = -1
		o.Head.OutOfOrderWindow = window
		db, err := tsdb.Open(dir, o)
		if err != nil {
			return nil, err
		}
		return newOurs(db), nil
	case Reference:
		o := theirs.DefaultOptions()
		o.WALCompression = compression.Snappy
		o.OutOfOrderTimeWindow = window.Milliseconds()
		db, err := theirs.Open(dir, slog.New(slog.DiscardHandler), prometheus.NewRegistry(), o, nil)
		if err != nil {
			return nil, errors.Wrap(err, "open reference")
		}
		db.DisableCompactions()
		return &reference{db: db}, nil
	default:
		return nil, errors.Errorf("no engine %q that takes late samples", name)
	}
}

func (o *ours) flushAll() error { return o.flush() }

func (r *reference) flushAll() error {
	if err := r.flush(); err != nil {
		return err
	}
	return errors.Wrap(r.db.CompactOOOHead(context.Background()), "compact late samples")
}

// lateWork appends to an engine, in order and late.
type lateWork struct {
	e      latecomer
	values *values
	vs     []float64
	newest int64
	rounds int64 // of late samples
}

func (t task) lateWork(e latecomer) *lateWork {
	return &lateWork{e: e, values: newValues(t.Series, seed), vs: make([]float64, t.Series), newest: startMillis}
}

// inOrder appends scrapes in order.
func (w *lateWork) inOrder(scrapes int) error {
	for range scrapes {
		w.newest += lateStep
		w.values.scrape(w.vs)
		if err := scrape(w.e.append, w.newest, w.vs, perCommit); err != nil {
			return err
		}
	}
	return nil
}

// late appends a round of late samples, at times that no other round has.
func (w *lateWork) late() error {
	w.rounds++
	first := w.newest - lateSamples*lateInterval - lateStep
	for k := range int64(lateSamples) {
		w.values.scrape(w.vs)
		if err := scrape(w.e.append, first+k*lateInterval+w.rounds, w.vs, perCommit); err != nil {
			return err
		}
	}
	return nil
}

// begin makes the series, and brings them to where something can be late.
func (t task) begin(w *lateWork) error {
	w.values.scrape(w.vs)
	if err := w.e.create(t.sets(), startMillis, w.vs, perCommit); err != nil {
		return err
	}
	return w.inOrder(lateScrapes)
}

// fillLate leaves a directory with late samples in the log as a process that is killed does.
func fillLate(t task) (measures, error) {
	e, err := openLate(t.Engine, t.Dir, lateWindow)
	if err != nil {
		return nil, err
	}
	w := t.lateWork(e)
	if err := t.begin(w); err != nil {
		return nil, err
	}
	return nil, w.late()
}

// lateRows measures the recovery of late samples, appending them, and reading over the head, late
// samples and blocks that overlap.
func lateRows(t task) (measures, error) {
	m := measures{}
	if err := t.lateReplay(m); err != nil {
		return nil, err
	}
	dir := t.Dir
	t.Dir = filepath.Join(dir, "again") // goes with it
	if err := t.lateAppend(m); err != nil {
		return nil, err
	}
	t.Dir = filepath.Join(dir, "unused")
	return m, t.lateUnused(m)
}

// lateUnused measures what a window costs samples in order, if nothing is late: two databases take
// the same samples in turns, one with a window and one without.
func (t task) lateUnused(m measures) (err error) {
	var works [2]*lateWork
	for i, window := range []time.Duration{0, lateWindow} {
		var e latecomer
		if e, err = openLate(t.Engine, filepath.Join(t.Dir, window.String()), window); err != nil {
			return err
		}
		defer closing(e, &err)
		works[i] = t.lateWork(e)
		if err := t.begin(works[i]); err != nil {
			return err
		}
	}
	var ratios []float64
	for turn := range lateTurns {
		var costs [2]float64
		for k := range works {
			i := (turn + k) % len(works) // each is first in half of them
			before := nowCollected()
			if err := works[i].inOrder(lateScrapes); err != nil {
				return err
			}
			costs[i] = now().since(before).cpu.Seconds()
		}
		ratios = append(ratios, costs[1]/costs[0])
	}
	m["late/unused"] = median(ratios)
	return nil
}

func (t task) lateReplay(m measures) (err error) {
	if err := t.onlyLog(); err != nil {
		return err
	}
	before := now()
	e, err := openLate(t.Engine, t.Dir, lateWindow)
	if err != nil {
		return err
	}
	cost := now().since(before)
	defer closing(e, &err)
	m["late/replay/cpu"], m["late/replay/wall"] = cost.cpu.Seconds(), cost.wall.Seconds()
	return t.readLate(e, "late/replay", 1+lateScrapes+lateSamples, m)
}

// readLate reads all there is, and checks that nothing is missing.
func (t task) readLate(e engine, row string, each int, m measures) error {
	res, err := e.read(always(readSamples, matcher{"!=", "__name__", ""}))
	if err != nil {
		return err
	}
	if res.series != t.Series || res.samples != t.Series*each {
		return errors.Errorf("%s: %d series with %d samples, want %d with %d", row, res.series, res.samples, t.Series, t.Series*each)
	}
	res.note(m, row)
	return nil
}

func (t task) lateAppend(m measures) (err error) {
	e, err := openLate(t.Engine, t.Dir, lateWindow)
	if err != nil {
		return err
	}
	defer closing(e, &err)
	w := t.lateWork(e)
	if err := t.begin(w); err != nil {
		return err
	}
	heap, before := heapBytes(), nowCollected()
	if err := w.late(); err != nil {
		return err
	}
	cost := now().since(before)
	samples := float64(t.Series * lateSamples)
	m["late/append/cpu"] = samples / cost.cpu.Seconds()
	m["late/append/garbage"] = float64(cost.allocBytes) / samples
	m["late/append/heap"] = (heapBytes() - heap) / float64(t.Series)
	sets := t.sets()
	for range lateBlocks {
		if err := e.flushAll(); err != nil {
			return err
		}
		// What was in blocks only is no series of the head any more.
		w.newest += lateStep
		w.values.scrape(w.vs)
		if err := e.create(sets, w.newest, w.vs, perCommit); err != nil {
			return err
		}
		if err := w.inOrder(lateBetween - 1); err != nil {
			return err
		}
		if err := w.late(); err != nil {
			return err
		}
	}
	each := 1 + lateScrapes + lateSamples + lateBlocks*(lateBetween+lateSamples)
	for range 2 { // the first one warms up
		before = nowCollected()
		if err := t.readLate(e, "late/read", each, m); err != nil {
			return err
		}
		cost = now().since(before)
	}
	m["late/read/cpu"] = float64(t.Series*each) / cost.cpu.Seconds()
	m["late/read/wall"] = float64(t.Series*each) / cost.wall.Seconds()
	return nil
}

// lateSeries is how many series there are.
func (c *Config) late() (series, samples int) { return max(2, c.Series/5), lateSamples }

func (c *comparison) lateFigures() []figure {
	t := c.task("late")
	n := count(t.Series)
	return slices.Concat(
		section("late samples, "+count(lateSamples)+" of each of "+n+" series, 1000 a commit",
			more("late/append/cpu", "samples/CPU s").than(2.5), less("late/append/garbage", "B/sample"),
			less("late/append/heap", "heap B/series").than(2)),
		section("recovering them from the logs, and "+count(lateScrapes)+" in order",
			less("late/replay/cpu", "CPU s").than(2), less("late/replay/wall", "s").than(2)),
		section("reading head, late samples and blocks of three rounds that overlap",
			more("late/read/cpu", "samples/CPU s").than(1.5), more("late/read/wall", "samples/s")),
		section("appending in order with a window in which nothing is late",
			less("late/unused", "times the CPU s without one").within(1.02)))
}
