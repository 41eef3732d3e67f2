package tsdb_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/histtest"
	"github.com/seed347100a3/tsdb/internal/sweep"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// Samples come late and in order, are deleted, flushed, merged and snapshotted, and the power is
// cut at every operation of the disk. What is there afterwards is what was there behind one of the
// commits: none that was on stable storage is missing, and none is there in part. It stays so when
// late samples become blocks, and when the database is opened once more.

// lateState is what there is behind a commit: values by series and time.
type lateState map[string]map[int64]uint64

func (s lateState) clone() lateState {
	c := lateState{}
	for name, at := range s {
		c[name] = maps.Clone(at)
	}
	return c
}

// lateWorkload works on a database and knows what a power cut may leave. Where its disk stays
// broken it goes on with what works, and is without a database when none can be opened.
type lateWorkload struct {
	t       *testing.T
	rng     *rand.Rand
	disk    *tsdbtest.MemFS
	opts    *tsdb.Options
	db      *tsdb.DB
	states  []lateState      // behind each commit
	deletes map[int][2]int64 // those of these that are deletes: their first and last time
	durable int              // commits of these that no power cut takes
	now     int64
	faulty  bool // one operation of the disk fails
	broken  bool // some fail for good
}

func (w *lateWorkload) last() lateState { return w.states[len(w.states)-1].clone() }

func (w *lateWorkload) open() {
	w.opts.FS = w.disk
	w.done(func() (err error) {
		w.db = nil
		db, err := tsdb.Open(fixtureDir, w.opts)
		if err == nil && db.Health() != nil && !w.broken { // reading only, as there was no room
			return errors.Join(db.Health(), db.Close())
		}
		if err == nil {
			w.db = db
		}
		return err
	})
}

// sample draws one of any kind.
func (w *lateWorkload) sample(at int64) anySample {
	s := anySample{T: at}
	switch w.rng.IntN(5) {
	case 0:
		s.H = histtest.Draw(w.rng.Int64N)
	case 1:
		s.FH = histtest.Floats(histtest.Draw(w.rng.Int64N))
	default:
		s.V = math.Float64bits(w.rng.Float64())
	}
	if s.digest()>>52%2 == 0 {
		s.ST = at - 3
	}
	return s
}

// commit commits samples of some series, most of them late.
func (w *lateWorkload) commit(samples int) {
	if w.db == nil {
		return
	}
	next := w.last()
	app := w.db.Appender()
	add := func(name string, at int64) {
		if _, there := next[name][at]; there && !w.opts.Head.LastWriteWins {
			return
		}
		s := w.sample(at)
		_, err := app.AppendSample(0, labels.FromStrings("s", name), s.sample())
		require.NoError(w.t, err)
		if next[name] == nil {
			next[name] = map[int64]uint64{}
		}
		next[name][at] = s.value()
	}
	w.now += 5000
	add("steady", w.now)
	for range samples {
		add(fmt.Sprint(w.rng.IntN(3)), w.now-w.rng.Int64N(200)*1000)
	}
	w.states = append(w.states, next)
	res, err := app.Commit(ctx)
	if w.told(err) {
		require.Empty(w.t, res.Rejected)
		w.acked()
	}
}

// told takes the answer of a commit, or a delete, whose state is noted. It reports whether that is
// there for sure.
func (w *lateWorkload) told(err error) bool {
	switch {
	case (w.faulty || w.broken) && errors.Is(err, tsdb.ErrNotCommitted):
		w.states = w.states[:len(w.states)-1]
		delete(w.deletes, len(w.states))
	case !w.broken:
		require.NoError(w.t, err)
	}
	return err == nil
}

// done wants an operation to succeed, at the second try if the disk is faulty. There is none if the
// disk is broken.
func (w *lateWorkload) done(op func() error) {
	err := op()
	if err != nil && w.faulty {
		err = op()
	}
	if !w.broken {
		require.NoError(w.t, err)
	}
}

// acked notes what is on stable storage.
func (w *lateWorkload) acked() {
	if w.opts.WAL.Sync == tsdb.SyncCommit() {
		w.durable = len(w.states) - 1
	}
}

func (w *lateWorkload) erase() {
	if w.db == nil {
		return
	}
	mint := w.now - w.rng.Int64N(150_000)
	maxt := mint + w.rng.Int64N(60_000)
	w.deletes[len(w.states)] = [2]int64{mint, maxt}
	w.states = append(w.states, w.last().without(mint, maxt))
	var err error
	for range 2 {
		if err = w.db.Delete(ctx, mint, maxt, labels.NotEqual("s", "2")); err == nil || !w.faulty {
			break
		}
	}
	if w.told(err) {
		w.acked()
	}
}

// snapshot takes a snapshot of the head. It waits for a flush where the out-of-order log lacks
// something.
func (w *lateWorkload) snapshot() {
	if err := tsdb.TakeHeadSnapshot(w.db); err != nil {
		if w.faulty {
			w.done(func() error { return w.db.Flush(ctx) })
			err = tsdb.TakeHeadSnapshot(w.db)
		}
		if !w.broken {
			require.NoError(w.t, err)
		}
	}
}

func (w *lateWorkload) sync() {
	commits := len(w.states) - 1
	w.done(func() error {
		err := w.db.Sync()
		if err == nil {
			w.durable = commits
		}
		return err
	})
}

// run is a workload that has everything late samples meet.
func (w *lateWorkload) run() {
	flush := func() { w.done(func() error { return w.db.Flush(ctx) }) }
	steps := []func(){
		func() { w.commit(3) }, func() { w.commit(50) }, w.erase, func() { w.commit(5) },
		flush, func() { w.commit(20) }, w.snapshot, func() { w.commit(4) },
		func() { w.done(w.db.Close); w.open() }, func() { w.commit(40) }, w.erase,
		func() { w.done(func() error { return w.db.Compact(ctx) }) }, func() { w.commit(6) },
		w.sync, flush, func() { w.commit(7) }, func() { w.done(w.db.Close) },
	}
	w.open()
	for _, step := range steps {
		if w.db == nil { // on a broken disk
			w.open()
		}
		if w.db != nil {
			step()
		}
	}
}

// same reports whether a database has what a state has, at least what of it less has, too.
func (s lateState) same(all map[string][]point, less lateState) bool {
	series := 0
	for name, at := range s {
		got := all[labels.FromStrings("s", name).String()]
		there := map[int64]bool{}
		for _, p := range got {
			if v, known := at[p.T]; !known || v != p.V {
				return false
			}
			there[p.T] = true
		}
		for t := range at {
			if _, stays := less[name][t]; !there[t] && stays {
				return false
			}
		}
		series += min(len(got), 1)
	}
	return series == len(all)
}

// without returns a state without what a delete takes.
func (s lateState) without(mint, maxt int64) lateState {
	next := s.clone()
	for name, at := range next {
		if name != "2" {
			maps.DeleteFunc(at, func(t int64, _ uint64) bool { return t >= mint && t <= maxt })
		}
	}
	return next
}

// verify opens what a power cut left: it is one of the states from lo on. What deletes behind that
// take may be gone from blocks: they do not wait for the log.
func (w *lateWorkload) verify(disk *tsdbtest.MemFS, lo int, states []lateState, what string) {
	opts := *w.opts
	opts.FS = disk
	db, err := tsdb.Open(fixtureDir, &opts)
	require.NoError(w.t, err, what)
	all := dump(w.t, db, math.MinInt64, math.MaxInt64)
	is := false
	for k := lo; k < len(states) && !is; k++ {
		less := states[k]
		for i := k + 1; i < len(states); i++ {
			if d, deletes := w.deletes[i]; deletes {
				less = less.without(d[0], d[1])
			}
		}
		is = states[k].same(all, less)
	}
	require.True(w.t, is, "%s: content is that of no commit from %d to %d: %v\n%+v", what, lo, len(states)-1, all, db.OpenReport())
	require.NoError(w.t, db.Flush(ctx), what)
	require.NoError(w.t, db.Compact(ctx), what)
	require.Equal(w.t, all, dump(w.t, db, math.MinInt64, math.MaxInt64), "%s: in blocks", what)
	require.NoError(w.t, db.Close(), what)
	db, err = tsdb.Open(fixtureDir, &opts)
	require.NoError(w.t, err, what)
	require.Equal(w.t, all, dump(w.t, db, math.MinInt64, math.MaxInt64), "%s: opened again", what)
	require.NoError(w.t, db.Close(), what)
}

func newLateWorkload(t *testing.T, sync tsdb.SyncPolicy) *lateWorkload {
	w := &lateWorkload{t: t, rng: crashRand(3), disk: tsdbtest.NewMemFS(), states: []lateState{{}}, deletes: map[int][2]int64{}}
	w.opts = &tsdb.Options{Clock: tsdbtest.NewClock(testNow)}
	w.opts.Limits.MaxFuture = -1
	w.opts.Blocks.Range, w.opts.Blocks.Manual = time.Minute, true
	w.opts.Head.OutOfOrderWindow = time.Hour
	w.opts.WAL.SegmentSize, w.opts.WAL.Sync = 32<<10, sync
	return w
}

// An operation of the disk fails, once, wherever: there is no room. What was acknowledged is there
// then and after a kill, and nothing else.
func TestFault_LateSamplesOnAFullDisk(t *testing.T) {
	t.Parallel()
	total := 0
	count := newLateWorkload(t, tsdb.SyncRotate())
	count.disk.SetHook(func(op tsdbtest.Op) error {
		if op.Kind.Mutates() && op.Kind != tsdbtest.OpSync && op.Kind != tsdbtest.OpSyncDir {
			total++
		}
		return nil
	})
	count.run()
	for _, place := range sweep.Of(t, 1, 7).Below(total) {
		w := newLateWorkload(t, tsdb.SyncRotate())
		w.faulty = true
		n, what := 0, ""
		w.disk.SetHook(func(op tsdbtest.Op) error {
			if !op.Kind.Mutates() || op.Kind == tsdbtest.OpSync || op.Kind == tsdbtest.OpSyncDir {
				return nil
			}
			if n++; n-1 == place {
				what = fmt.Sprintf("no room for %s of %s, place %d", op.Kind, op.Name, place)
				return &fs.PathError{Op: fmt.Sprint(op.Kind), Path: op.Name, Err: syscall.ENOSPC}
			}
			return nil
		})
		w.run()
		w.disk.SetHook(nil)
		w.verify(w.disk.KillClone(), len(w.states)-1, w.states, what)
	}
}

func TestPowerLoss_LateSamples(t *testing.T) {
	t.Parallel()
	for i, sync := range []tsdb.SyncPolicy{tsdb.SyncCommit(), tsdb.SyncCommit(), tsdb.SyncRotate(), tsdb.SyncRotate(), tsdb.SyncNever()} {
		wins := i%2 == 1
		t.Run(fmt.Sprintf("%v, last write wins: %v", sync, wins), func(t *testing.T) {
			places := sweep.Of(t, 1, 17)
			w := newLateWorkload(t, sync)
			w.opts.Head.LastWriteWins = wins
			type cut struct {
				disk   *tsdbtest.MemFS
				lo, hi int
				what   string
			}
			var cuts []cut
			n := 0
			w.disk.SetHook(func(op tsdbtest.Op) error {
				if op.Kind.Mutates() {
					if n++; places.Has(n) {
						for seed := range uint64(2) {
							disk := w.disk.CrashClone(tsdbtest.CrashOptions{Seed: seed + uint64(n)})
							cuts = append(cuts, cut{disk, w.durable, len(w.states), fmt.Sprintf("cut %d before %s of %s, seed %d", n, op.Kind, op.Name, seed)})
						}
					}
				}
				return nil
			})
			w.run()
			w.disk.SetHook(nil)
			for _, c := range cuts {
				w.verify(c.disk, c.lo, w.states[:c.hi], c.what)
			}
			require.Greater(t, len(cuts), 30)
		})
	}
}
