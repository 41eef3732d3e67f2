package tsdb_test

import (
	stderrors "errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pkg/errors"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/sweep"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// Power is cut after every file operation of every short workload, the disk is left in
// every state it may be in, and each is opened: also with another power cut during that.

// powerlossCase makes the tests try one workload only, as a failure printed it.
var powerlossCase = flag.String("powerloss", "", "workload of the power-loss tests to try alone, and crash point and state if given")

// maxFailures is how many failures are printed before a test gives up.
const maxFailures = 5

// statesPerPoint is how many states of the disk are tried for each moment, if there are
// as many.
func statesPerPoint() int {
	if !sweep.Whole() {
		return 8
	}
	return 64
}

// sampling says how many moments to go on by, and how many states to try of each. With blocks
// there are many small files, and most states differ in what nobody reads.
func (w workload) sampling(blocks bool) (step, states int) {
	switch {
	case !blocks:
		return 1, statesPerPoint()
	case !sweep.Whole():
		return 8, 4
	case slices.Contains(w.ops, "backfill") || slices.Contains(w.ops, "snapshot"):
		return 2, 8
	default:
		return 2, 10
	}
}

// deepEvery says of how many moments that are tried one is followed by a second crash.
func (w workload) deepEvery(blocks bool) int {
	switch {
	case !sweep.Whole() && blocks:
		return 1
	case !sweep.Whole():
		return 4
	case blocks:
		return 3
	default:
		return 1
	}
}

// crashPoint is a moment of a workload.
type crashPoint struct {
	disk    *tsdbtest.MemFS // as it was, not synced data included
	promise promise
	op      string // the operation that did not happen any more

	crowd *crowd // commits under way; see settle
	acked []int
}

// tally counts over all workloads, and collects what goes wrong.
type tally struct {
	points, states, disks, nested atomic.Int64

	mu     sync.Mutex
	failed []string
}

func (y *tally) fail(format string, args ...any) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.failed = append(y.failed, fmt.Sprintf(format, args...))
}

func (y *tally) failures() int {
	y.mu.Lock()
	defer y.mu.Unlock()
	return len(y.failed)
}

func (y *tally) report(t *testing.T) {
	t.Helper()
	t.Logf("%d crash points, %d states of the disk, %d of them different and opened, %d more after a crash during recovery",
		y.points.Load(), y.states.Load(), y.disks.Load(), y.nested.Load())
	for _, text := range y.failed[:min(len(y.failed), maxFailures)] {
		t.Error(text)
	}
	require.Zero(t, len(y.failed), "failures")
}

// workload is a list of operations under a setup. The power fails during the last of
// them, behind the first so many.
type workload struct {
	setup crashSetup
	ops   []string
	first int
}

func (w workload) String() string { return w.setup.String() + "," + strings.Join(w.ops, "+") }

// points runs the workload and returns the moments before each change of the disk, and
// the one after the last.
func (w workload) points() (*crasher, []crashPoint, error) {
	c := newCrasher(w.setup, 1)
	var points []crashPoint
	for i, op := range w.ops {
		if i == w.first {
			c.visit = func(op tsdbtest.Op) { points = append(points, c.moment(op.String())) }
		}
		if err := c.do(op); err != nil {
			return nil, nil, err
		}
	}
	points = append(points, c.moment("the end"))
	c.visit = nil
	if c.db != nil {
		return c, points, c.db.Close()
	}
	return c, points, nil
}

// examination is what one state of a disk gave: equal ones are opened once.
type examination struct {
	finding
	err error
}

// run tries all states of all crash points, or of some of them that the seed of the sweep chooses.
func (w workload) run(y *tally, seed uint64, onlyPoint, onlyState int) {
	c, points, err := w.points()
	if err != nil {
		y.fail("%v: without a crash: %v", w, err)
		return
	}
	x := &examiner{setup: w.setup, history: c.history, tally: y}
	seen := map[uint64]examination{}
	step, states := w.sampling(c.history.blocks)
	moments, deepEvery := sweep.Places{First: int(seed % uint64(step)), Step: step}, w.deepEvery(c.history.blocks)
	for i, point := range points {
		if onlyPoint >= 0 && i != onlyPoint || onlyPoint < 0 && !moments.Has(i) && i < len(points)-1 {
			continue
		}
		// Of some moments a second crash follows one of the states.
		deepState, nth := -1, i/step+int(seed%uint64(deepEvery))
		if nth%deepEvery == 0 {
			deepState = nth / deepEvery % states
		}
		y.points.Add(1)
		n := -1
		for disk := range point.disk.CrashStates(states) {
			if n++; onlyState >= 0 && n != onlyState {
				continue
			}
			y.states.Add(1)
			if y.failures() >= maxFailures {
				return
			}
			got, err := x.once(disk, point.promise, seen, n == deepState || onlyState >= 0)
			if err == nil {
				err = got.err
			}
			if err == nil && x.history.base == nil {
				err = got.against(x.history, point.promise)
			}
			if err != nil {
				y.fail("go test -run TestPowerLoss -sweep.whole=%v -powerloss=%v,%d,%d # before %s\n%s%v", sweep.Whole(), w, i, n, point.op, disk.FateString(), err)
			}
		}
	}
}

// once tries a disk, unless an equal one was seen.
func (x *examiner) once(disk *tsdbtest.MemFS, p promise, seen map[uint64]examination, deep bool) (examination, error) {
	sum, err := diskSum(disk)
	if got, known := seen[sum]; known || err != nil {
		return got, err
	}
	x.tally.disks.Add(1)
	depth := 0
	if deep {
		depth = 1
	}
	var got examination
	got.finding, got.err = x.try(disk, p, depth)
	seen[sum] = got
	return got, nil
}

// examiner opens disks that a crash left.
type examiner struct {
	setup   crashSetup
	history *history
	tally   *tally
	// rng chooses the moments of further crashes; nil: all moments, two states each.
	rng  *rand.Rand
	seen seenDisks // after a second crash
}

// try opens a disk, commits, closes and opens once more. With depth it also crashes while
// it recovers, and tries what that leaves, as deep.
func (x *examiner) try(disk *tsdbtest.MemFS, p promise, depth int) (finding, error) {
	var during []*tsdbtest.MemFS
	if depth > 0 {
		disk.SetHook(func(op tsdbtest.Op) error {
			if op.Kind.Mutates() {
				during = append(during, disk.KillClone())
			}
			return nil
		})
	}
	if err := p.copy.verify(disk, x.setup, x.history); err != nil {
		return finding{}, err
	}
	c := &crasher{setup: x.setup, disk: disk, now: 1 << 40, serial: 1 << 20}
	f, err := c.openCrashed(x.history, p)
	disk.SetHook(nil)
	if err != nil {
		return f, err
	}
	err = x.tryNested(during, promise{lo: f.commits, hi: f.commits, begun: p.begun, effects: f.effects}, depth-1)
	return f, stderrors.Join(err, c.goOn())
}

// tryNested tries disks that a second crash left: now nothing may change any more, as
// all that the first crash left is durable.
func (x *examiner) tryNested(during []*tsdbtest.MemFS, p promise, depth int) error {
	states := 2
	if x.rng != nil && len(during) > 0 {
		i := x.rng.IntN(len(during))
		during, states = during[i:i+1], 1
	}
	for i, moment := range during {
		for seed := range uint64(states) {
			opts := tsdbtest.CrashOptions{Seed: uint64(i)<<1 | seed, Ordered: seed == 0}
			if x.rng != nil {
				opts = randomCrash(x.rng)
			}
			x.tally.nested.Add(1)
			disk := moment.CrashClone(opts)
			err := x.seen.once(disk, x.history, p, depth, func() error {
				x.tally.disks.Add(1)
				_, err := x.try(disk, p, depth)
				return err
			})
			if err != nil {
				return errors.WithMessagef(err, "second crash before change %d of recovery\n%s", i, disk.FateString())
			}
		}
	}
	return nil
}

func randomCrash(rng *rand.Rand) tsdbtest.CrashOptions {
	opts := tsdbtest.CrashOptions{Seed: rng.Uint64(), Ordered: rng.IntN(2) == 0}
	switch rng.IntN(8) {
	case 0:
		opts.Choose = tsdbtest.LoseAll
	case 1:
		opts.Choose = tsdbtest.KeepAll
	}
	return opts
}

// openCrashed opens what a crash left and checks what is there.
func (c *crasher) openCrashed(h *history, p promise) (f finding, err error) {
	before, err := everyFile(c.disk)
	if err != nil {
		return f, err
	}
	c.clock = tsdbtest.NewClock(testNow)
	if c.db, err = tsdb.Open(fixtureDir, c.setup.options(c.disk, c.clock)); err != nil {
		return f, errors.WithMessage(err, "open")
	}
	f, err = verifyOpen(c.db, h, p)
	if err == nil {
		err = verifyFiles(c.disk, before, c.db.OpenReport())
	}
	if err != nil {
		_ = c.db.Close()
		return f, err
	}
	c.history, c.durable, c.effects, c.maybe, c.copy = h.prefix(f.commits), f.commits, f.effects, nil, nil
	return f, c.db.Health()
}

// goOn commits once more, and opens again: nothing is lost, and nothing needs repair.
func (c *crasher) goOn() error {
	c.rng = crashRand(7)
	for _, op := range []string{"commit", "reopen"} {
		if err := c.do(op); err != nil {
			return errors.WithMessage(err, "going on")
		}
	}
	if err := undamaged(c.db.OpenReport()); err != nil {
		return err
	}
	return c.close()
}

// shortWorkloads are all sequences of the operations up to length 2, on an empty disk,
// and each operation behind some life, under all policies. Of two operations the power fails
// during the second: what the first one goes through is what it goes through alone.
func shortWorkloads() []workload {
	ops := []string{"commit", "big", "rotate", "chunks", "close", "reopen", "kill"}
	var list []workload
	for _, sync := range syncNames {
		setup := crashSetup{sync: sync}
		add := func(first int, ops ...string) {
			setup.compression = []tsdb.Compression{tsdb.CompressionNone, tsdb.CompressionSnappy}[len(list)%2]
			list = append(list, workload{setup, ops, first})
		}
		for _, a := range ops {
			add(0, a)
			add(0, a) // with the other compression
			add(3, "chunks", "rotate", "kill", a)
			for _, b := range ops {
				add(1, a, b)
			}
		}
	}
	return list
}

// blockWorkloads are operations on blocks, each behind what it needs to have something to
// do.
func blockWorkloads() []workload {
	lives := [][]string{
		{"flush"},
		{"commit", "chunks", "flush"},
		{"flush", "due"},
		{"blocks", "merge"},
		{"blocks", "commit", "delete"},
		{"blocks", "commit", "delete", "merge"},
		{"blocks", "commit", "delete", "flush"},
		{"blocks", "delete", "clean"},
		{"blocks", "deleteold", "clean"},
		{"flush", "due", "deleteall", "clean"},
		{"blocks", "deletein"},
		{"blocks", "retain"},
		{"blocks", "commit", "backfill"},
		{"blocks", "commit", "chunks", "delete", "snapshot"},
		{"commit", "headsnap"},
		{"chunks", "headsnap", "commit"},
		{"chunks", "headsnap", "chunks", "headsnap"},
		{"headsnap", "big", "headsnap", "kill", "commit"},
		{"chunks", "headsnap", "commit", "reopen"},
		{"blocks", "headsnap", "delete", "kill", "headsnap"},
		{"chunks", "headsnap", "flush"},
		{"chunks", "ended", "commit"},
		{"ended", "ended", "delete", "kill", "commit"},
		{"chunks", "ended", "headsnap", "reopen"},
		{"blocks", "headsnap", "due", "kill", "headsnap"},
		{"late", "late"},
		{"late", "chunks", "late", "headsnap"},
		{"late", "headsnap", "late", "kill", "late"},
		{"blocks", "late", "flush", "merge"},
		{"late", "flush", "late", "deleteall", "clean"},
	}
	var list []workload
	for i, ops := range lives {
		for _, sync := range syncNames {
			if sync == syncNames[i%4] || sync == syncNames[(i+2)%4] || i == 0 {
				compression := []tsdb.Compression{tsdb.CompressionNone, tsdb.CompressionSnappy}[len(list)%2]
				setup := crashSetup{sync: sync, compression: compression, late: slices.Contains(ops, "late")}
				list = append(list, workload{setup, ops, len(ops) - 1})
			}
		}
	}
	return list
}

// otherWorkload is one that is not in the lists; the power fails during its last operation.
func otherWorkload(sync, compression string, ops []string) workload {
	setup := crashSetup{sync: sync, compression: tsdb.CompressionSnappy, late: slices.Contains(ops, "late")}
	w := workload{setup, ops, len(ops) - 1}
	if compression == tsdb.CompressionNone.String() {
		w.setup.compression = tsdb.CompressionNone
	}
	return w
}

func TestPowerLoss_EveryStateAfterEveryOperationOpensWithAPrefix(t *testing.T) {
	list, blocks := shortWorkloads(), blockWorkloads()
	y := &tally{}
	if *powerlossCase != "" {
		list = append(list, blocks...)
		fields := strings.Split(*powerlossCase, ",")
		i := slices.IndexFunc(list, func(w workload) bool { return w.String() == strings.Join(fields[:3], ",") })
		if i < 0 {
			i, list = 0, []workload{otherWorkload(fields[0], fields[1], strings.Split(fields[2], "+"))}
		}
		only := [2]int{-1, -1}
		for k, f := range fields[3:] {
			n, err := strconv.Atoi(f)
			require.NoError(t, err)
			only[k] = n
		}
		list[i].run(y, sweep.Seed(t), only[0], only[1])
		y.report(t)
		return
	}
	seed := sweep.Seed(t)
	if !sweep.Whole() {
		pairs, nth := sweep.Of(t, 1, 23), -1
		list = slices.DeleteFunc(list, func(w workload) bool {
			if len(w.ops) != 2 {
				return false
			}
			nth++
			return !pairs.Has(nth)
		})
		sync := syncNames[seed%uint64(len(syncNames))]
		blocks = slices.DeleteFunc(blocks, func(w workload) bool { return w.setup.sync != sync })
	}
	list = append(list, blocks...)
	inParallel(len(list), func(i int) { list[i].run(y, seed, -1, -1) })
	y.report(t)
	if sweep.Whole() {
		require.GreaterOrEqual(t, y.states.Load(), int64(20_000))
	}
}
