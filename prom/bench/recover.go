package bench

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/pkg/errors"
)

// The promise of recovery: after a kill, opening takes no more processor time than these, however
// much was written before. docs/design/head-snapshots.md says where it goes.
const (
	promisedSeries = 25e-6 // seconds a series: ten labels, sampled once a second
	promisedLog    = 10e-3 // seconds a MiB of log that is read
)

// RecoverConfig is how the promise is tried: databases of some sizes are written by processes
// that are killed while they append, and opened again and again.
type RecoverConfig struct {
	Series  int   `json:"series"`
	Samples []int `json:"samples"` // of each of them, a second apart: a database for each number
	Runs    int   `json:"runs"`    // how often each is opened in each way

	Dir      string            `json:"-"` // for the data, removed at the end; empty: the system's temporary directory
	Progress func(what string) `json:"-"` // is told what happens. Nil: nobody is
}

// DefaultRecoverConfig has a database of 1e8 samples and one of 1e9. It takes eight minutes on two
// processors, and 20 GB of disk.
func DefaultRecoverConfig() RecoverConfig {
	return RecoverConfig{Series: 10_000, Samples: []int{10_000, 100_000}, Runs: 3}
}

// recoverRange is the range of a block, the default.
const recoverRange = 2 * time.Hour

// order is what the processes of one database are told.
func (c RecoverConfig) order(dir string, samples int) sustainOrder {
	return sustainOrder{
		Dir: dir, Series: c.Series, Rate: c.Series, Time: time.Duration(samples) * time.Second, Range: recoverRange, Speed: 1, Writers: 1,
	}
}

func (c RecoverConfig) validate() error {
	for _, n := range append([]int{c.Series, c.Runs, len(c.Samples)}, c.Samples...) {
		if n < 1 {
			return errors.New("every number must be at least 1")
		}
	}
	return nil
}

// recoverWay is a way to open a database that a kill left.
type recoverWay struct {
	name    string
	whole   bool // the log alone: head chunks and snapshots are taken away
	limited bool // with hardly more memory than the process that was killed needed
}

var recoverWays = []recoverWay{
	{name: "defaults"},
	{name: "defaults, limited", limited: true},
	{name: "log alone", whole: true},
	{name: "log alone, limited", whole: true, limited: true},
}

// limitOver is how much more a limit of memory is than what the runtime of the killed process
// needed when it had just collected garbage: less would have it collect all the time.
const limitOver = 1.1

// recovering is one run of Recover.
type recovering struct {
	RecoverConfig
	stopwatch
	dir string
	rep RecoverReport
}

// Recover writes the databases, opens them, and reads all samples back that were acknowledged: one
// that is missing, or another one, is an error. It starts this program again for each process,
// so the program must have called RunChild.
func Recover(ctx context.Context, c RecoverConfig) (rep RecoverReport, err error) {
	if err := c.validate(); err != nil {
		return rep, err
	}
	if runtime.GOOS != "linux" {
		return rep, errors.Errorf("the memory of other processes is not known on %s, only on Linux", runtime.GOOS)
	}
	dir, remove, err := scratch(c.Dir)
	if err != nil {
		return rep, err
	}
	defer remove(&err)
	r := &recovering{RecoverConfig: c, stopwatch: stopwatch{time.Now(), c.Progress}, dir: dir}
	r.rep = RecoverReport{Date: r.begin.Format(time.DateOnly), System: system(), Config: c}
	load := watchLoad()
	for _, samples := range c.Samples {
		if err := r.database(ctx, samples); err != nil {
			return rep, errors.WithMessagef(err, "%s samples", count(samples*c.Series))
		}
	}
	r.rep.Load = load.others()
	return r.rep, nil
}

// database tries the promise with one size.
func (r *recovering) database(ctx context.Context, samples int) error {
	left, opened := r.order(filepath.Join(r.dir, "left"), samples), r.order(filepath.Join(r.dir, "opened"), samples)
	if err := os.Mkdir(left.Dir, 0o777); err != nil {
		return errors.Wrap(err, "make directory for data")
	}
	written, err := r.write(ctx, left, samples)
	if err != nil {
		return err
	}
	try := func(kind string, way recoverWay) (m measures, err error) {
		if err := copyKilled(opened, left); err != nil {
			return nil, err
		}
		t := task{Kind: kind, Engine: Ours, Dir: opened.dataDir(), Sustain: &opened, Whole: way.whole}
		if way.limited {
			t.Limit = written.Limit
		}
		if m, err = t.runInChild(ctx); err != nil {
			return nil, err
		}
		return m, errors.Wrap(os.RemoveAll(opened.Dir), "remove data")
	}
	for range r.Runs {
		for i, way := range recoverWays {
			r.tell("open: " + way.name)
			m, err := try("recoveropen", way)
			if err != nil {
				return errors.WithMessage(err, way.name)
			}
			written.note(i, m)
		}
	}
	for _, way := range recoverWays {
		if way.limited {
			continue
		}
		r.tell("read everything back: " + way.name)
		m, err := try("recovercheck", way)
		if err != nil {
			return errors.WithMessage(err, way.name)
		}
		written.Checked = append(written.Checked, m["samples"])
	}
	r.rep.Databases = append(r.rep.Databases, written)
	return errors.Wrap(os.RemoveAll(left.Dir), "remove data")
}

const (
	killAfter = 2 * time.Second // how long a process goes on appending when it has as many samples as were asked for
	giveUp    = time.Minute     // and when it ends by itself, as whom it should have killed is gone
)

// write runs the process that writes a database, kills it, and says what is left.
func (r *recovering) write(ctx context.Context, order sustainOrder, samples int) (d RecoverDatabase, err error) {
	r.tell("write " + count(samples*r.Series) + " samples")
	p, err := task{Kind: "recoverwrite", Engine: Ours, Sustain: &order, Samples: samples, Time: giveUp}.start(ctx)
	if err != nil {
		return d, err
	}
	watch := watchProcess(p.cmd.Process.Pid)
	begin, end := time.Now(), sustainEnded{toKill: true}
	var killer *time.Timer
	end.read = p.each(func(m sustainMessage) {
		if m.Event == nil || m.Event.Kind != eventStart {
			return
		}
		d.Writing = time.Since(begin).Seconds()
		end.started, d.Limit = true, limitOver*m.Least
		killer = time.AfterFunc(killAfter, func() {
			watch.stop()
			_ = p.cmd.Process.Kill() // one that has ended is noticed below
		})
	})
	if end.read != nil {
		_ = p.cmd.Process.Kill() // nobody reads what it says, so it would wait for ever
	}
	end.early = killer != nil && killer.Stop()
	end.process = p.wait()
	end.exited = p.cmd.ProcessState.Exited()
	watch.stop()
	if err := ctx.Err(); err != nil {
		return d, err
	}
	if err := end.err(); err != nil {
		return d, err
	}
	r.tell("killed it")
	if d.Peak, d.Own = watch.peak, watch.own; min(d.Peak, d.Own, d.Limit) <= 0 {
		return d, errors.New("the memory of the process that was killed is not known")
	}
	return d, d.look(order)
}

// look says what a process left.
func (d *RecoverDatabase) look(order sustainOrder) error {
	want, err := order.wanted()
	if err != nil {
		return err
	}
	all := want.total()
	d.Series, d.Samples = all.series, all.samples
	entries, err := os.ReadDir(order.dataDir())
	if err != nil {
		return errors.Wrap(err, "look at what is left")
	}
	for _, e := range entries {
		size, err := sizeOf(filepath.Join(order.dataDir(), e.Name()))
		switch {
		case err != nil:
			return err
		case isBlock(e.Name()):
			d.Blocks++
			d.BlockBytes += size
		case e.Name() == "wal":
			d.LogBytes = size
		}
	}
	return nil
}

func isBlock(name string) bool {
	_, err := ulid.ParseStrict(name)
	return err == nil
}

// copyKilled makes a copy of what a process left. Blocks are never changed in place.
func copyKilled(dst, src sustainOrder) error {
	entries, err := os.ReadDir(src.dataDir())
	if err != nil {
		return errors.Wrap(err, "look at what is left")
	}
	if err := os.MkdirAll(dst.dataDir(), 0o777); err != nil {
		return errors.Wrap(err, "copy data")
	}
	for _, e := range entries {
		from, to := filepath.Join(src.dataDir(), e.Name()), filepath.Join(dst.dataDir(), e.Name())
		switch {
		case isBlock(e.Name()):
			err = linkTree(to, from)
		case e.IsDir():
			err = errors.Wrap(os.CopyFS(to, os.DirFS(from)), "copy data")
		default:
			err = copyFile(to, from)
		}
		if err != nil {
			return err
		}
	}
	return copyFile(dst.ackFile(), src.ackFile())
}

func copyFile(dst, src string) error {
	data, err := os.ReadFile(src)
	if err == nil {
		err = os.WriteFile(dst, data, 0o666)
	}
	return errors.Wrap(err, "copy data")
}

// promised is the most processor time that opening may take.
func promised(series int, logBytes float64) float64 {
	return promisedSeries*float64(series) + promisedLog*logBytes/(1<<20)
}
