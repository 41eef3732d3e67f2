package tsdb_test

import (
	stderrors "errors"
	"testing"

	"github.com/pkg/errors"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/faultfs"
	"github.com/seed347100a3/tsdb/internal/sweep"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// The disk gets full at every point of a workload, and at every point of recovery, in the
// middle of a write. Commits fail, reads go on; when there is room again so do commits,
// and nothing that failed comes back.

// capacityRun is a run without other faults than a full disk.
func capacityRun(base *faultBase) *faultRun {
	r := newFaultRun(base.setup, base.disk.KillClone(), faultfs.Fault{Name: "ENOSPC"})
	r.history = base.history.prefix(base.history.len())
	r.now, r.serial, r.durable = base.now, base.serial, base.durable
	return r
}

// fillUp works on a disk with some room until it is full, and makes room again.
func fillUp(base *faultBase, room int64, ops []string, y *faultCount) (full bool, err error) {
	r := capacityRun(base)
	defer func() {
		if r.db != nil {
			err = stderrors.Join(err, r.db.Close())
		}
	}()
	r.history.lied = true // a write that ended too early leaves bytes where no commit is
	for round := range 2 {
		r.disk.SetCapacity(r.disk.Used() + room)
		for i, op := range ops {
			if err := stderrors.Join(r.step(op), base.kept(r.disk)); err != nil {
				return false, errors.WithMessagef(err, "round %d, step %d, %s", round, i, op)
			}
			if i == len(ops)/2 { // the power fails while it is full
				if err := r.crashFull(y); err != nil {
					return false, errors.WithMessagef(err, "round %d, step %d, crash", round, i)
				}
			}
		}
		full = full || r.history.failed > 0
		r.disk.SetCapacity(0)
		if err := r.well(); err != nil {
			return false, err
		}
	}
	if r.syncFailed() || r.poisons > 0 {
		return false, errors.New("a full disk is no failed sync")
	}
	f := faultTry{setup: base.setup}
	return full, f.crash(r, base, y)
}

// crashFull opens what a power failure leaves of a full disk, still full: all can be read.
func (r *faultRun) crashFull(y *faultCount) error {
	for seed := range uint64(2) {
		y.crashes.Add(1)
		disk := r.disk.CrashClone(tsdbtest.CrashOptions{Seed: seed})
		disk.SetCapacity(disk.Used())
		c := &crasher{setup: r.setup, disk: disk, clock: tsdbtest.NewClock(testNow)}
		db, err := tsdb.Open(fixtureDir, c.setup.options(disk, c.clock))
		if err != nil {
			return err
		}
		_, err = verifyOpen(db, r.history, r.promise())
		if health := db.Health(); health != nil && (!errors.Is(health, tsdb.ErrDiskFull) || !errors.Is(health, tsdb.ErrReadOnly)) {
			err = stderrors.Join(err, health)
		}
		disk.SetCapacity(0)
		c.clock.Advance(2 * loopInterval)
		if err := stderrors.Join(err, db.Health(), db.Close()); err != nil {
			return errors.WithMessage(err, disk.FateString())
		}
	}
	return nil
}

func TestFullDisk_FilledAtEveryPoint(t *testing.T) {
	y := &faultCount{}
	rooms := sweep.Of(t, 1201, 6007).Below(96 << 10) // bytes; primes, so that it ends everywhere within records and pages
	var tries []func()
	for _, w := range []faultWorkload{
		{name: "new", ops: []string{"commit", "loop", "commit", "rotate", "loop", "commit", "close", "commit"}},
		{name: "killed", before: []string{"chunks", "rotate", "commit", "kill"}, ops: []string{"open", "commit", "big", "loop", "commit"}},
		{name: "torn", before: []string{"chunks", "commit", "rotate", "rotate", "commit", "chunks"}, ending: "crash", ops: []string{"open", "commit", "loop", "commit"}},
		{name: "damaged", before: []string{"commit", "chunks", "rotate", "chunks", "close"}, ending: "damage", ops: []string{"open", "commit", "loop", "commit"}},
	} {
		for _, setup := range faultSetups {
			base, err := w.base(setup)
			require.NoError(t, err)
			for _, room := range rooms {
				tries = append(tries, func() {
					if y.failures() >= maxFailures {
						return
					}
					full, err := fillUp(base, int64(room), w.ops, y)
					if err != nil {
						y.fail("%s, %v, room for %d bytes: %v", w.name, setup, room, err)
					}
					if full {
						y.injected.Add(1)
					}
				})
			}
		}
	}
	inParallel(len(tries), func(i int) { tries[i]() })
	t.Logf("%d points, %d of them with failed commits; %d crashes; ghost commits: 0", len(tries), y.injected.Load(), y.crashes.Load())
	y.report(t)
	require.Positive(t, y.injected.Load())
}
