package tsdb_test

import (
	stderrors "errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/pkg/errors"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/sweep"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// Long random workloads, power cuts at random moments, life going on with one of the
// states that they leave. Also cuts during the recovery from a cut, three deep.

// powerlossSeed makes the random test run one seed only, as a failure printed it.
var powerlossSeed = flag.Uint64("powerloss.seed", 0, "seed of the random power-loss test to try alone")

const (
	randomOps   = 60 // of a run
	crashEvery  = 25 // changes of the disk, on average, between two power cuts
	siblings    = 8  // states of each power cut that are tried beside the one that lives on
	nestedDepth = 3  // power cuts during recovery from one another
)

// randomOpOdds: each operation as often as it stands there.
var randomOpOdds = []string{
	"commit", "commit", "commit", "commit", "commit", "commit", "big", "rotate", "rotate", "chunks", "chunks",
	"sync", "tick", "crowd", "crowd", "reopen", "close", "kill", "headsnap", "headsnap",
}

// randomBlockOdds are those of half of the worlds: in the other half every sample stays in
// the head.
var randomBlockOdds = []string{
	"commit", "commit", "commit", "chunks", "rotate", "sync", "tick", "crowd", "reopen", "close", "kill",
	"flush", "flush", "flush", "flush", "due", "due", "tidy", "tidy", "tidy", "deletesome", "deletesome", "deletesome",
	"deleteold", "deletein", "clean", "clean", "retain", "ended", "ended", "backfill", "snapshot", "headsnap", "headsnap", "headsnap",
}

// randomLateOdds are those of half of these. No series ends there, and nothing is deleted while a
// block is written: what becomes of late ones then the oracle does not know.
var randomLateOdds = append([]string{"late", "late", "late", "late", "late", "late"}, slices.DeleteFunc(slices.Clone(randomBlockOdds), func(op string) bool {
	return op == "ended" || op == "deletein"
})...)

// randomRun is one world that lives through power cuts.
type randomRun struct {
	*crasher
	seed  uint64
	rng   *rand.Rand
	tally *tally
}

func (r *randomRun) randomSetup() crashSetup {
	return crashSetup{
		sync:        syncNames[r.rng.IntN(len(syncNames))],
		compression: compressions[r.rng.IntN(len(compressions))],
		samples:     16 + r.rng.IntN(8),
		late:        r.seed%4 == 0,
	}
}

func (r *randomRun) run() error {
	r.setup = r.randomSetup()
	for done := 0; done < randomOps; {
		point, n, err := r.untilCrash()
		if done += n; err != nil {
			return err
		}
		if err := r.crash(point); err != nil {
			return errors.WithMessagef(err, "crash before %s, %+v", point.op, point.promise)
		}
	}
	return r.close()
}

// untilCrash works until the power fails, and returns that moment.
func (r *randomRun) untilCrash() (point crashPoint, ops int, err error) {
	var left atomic.Int64 // the database's own goroutines change the disk, too
	left.Store(1 + r.rng.Int64N(2*crashEvery))
	var power atomic.Pointer[crashPoint]
	r.visit = func(op tsdbtest.Op) {
		if left.Add(-1) == 0 {
			p := r.moment(op.String())
			power.Store(&p)
		}
	}
	defer func() { r.visit = nil }()
	for ; left.Load() > 0 && ops < 2*randomOps; ops++ {
		odds := randomOpOdds
		switch {
		case r.seed%4 == 0:
			odds = randomLateOdds
		case r.seed%2 == 0:
			odds = randomBlockOdds
		}
		op := odds[r.rng.IntN(len(odds))]
		if err := r.do(op); err != nil && !errors.Is(err, errIdle) {
			return point, ops, errors.WithMessagef(err, "operation %d", ops)
		}
		if op == "close" || op == "kill" {
			r.setup = r.randomSetup()
		}
	}
	if p := power.Load(); p != nil {
		point = *p
	}
	if point.disk == nil {
		point = r.moment("the end")
	}
	point.settle(r.setup)
	return point, ops, nil
}

// crash tries some of the states that a power cut at a moment leaves, and goes on with
// another one.
func (r *randomRun) crash(point crashPoint) error {
	r.tally.points.Add(1)
	x := &examiner{setup: r.setup, history: r.history, tally: r.tally, rng: r.rng}
	for range siblings {
		r.tally.states.Add(1)
		r.tally.disks.Add(1)
		disk := point.disk.CrashClone(randomCrash(r.rng))
		if _, err := x.try(disk, point.promise, r.rng.IntN(nestedDepth+1)); err != nil {
			return errors.WithMessage(err, disk.FateString())
		}
	}
	if old := r.db; old != nil {
		r.db = nil
		r.disk.SetHook(nil)
		if err := old.Close(); err != nil {
			return err
		}
	}
	next := point.disk.CrashClone(randomCrash(r.rng))
	r.use(next)
	_, err := r.openCrashed(r.history, point.promise)
	return errors.WithMessage(err, next.FateString())
}

func TestPowerLoss_RandomWorldsLiveThroughManyPowerCuts(t *testing.T) {
	y := &tally{}
	first, runs := uint64(1), 18
	switch {
	case *powerlossSeed > 0:
		first, runs = *powerlossSeed, 1
	case *powerlossCase != "":
		t.Skip("a workload was asked for")
	case !sweep.Whole():
		runs = 4
	}
	inParallel(runs, func(i int) {
		seed := first + uint64(i)
		r := &randomRun{crasher: newCrasher(crashSetup{}, seed), seed: seed, rng: crashRand(seed + 1<<32), tally: y}
		if err := r.run(); err != nil {
			if r.db != nil {
				err = stderrors.Join(err, r.db.Close())
			}
			y.fail("go test -run TestPowerLoss_Random -powerloss.seed=%d\n%v", seed, err)
		}
	})
	y.report(t)
	require.Positive(t, y.points.Load(), fmt.Sprint(first))
}
