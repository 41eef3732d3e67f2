package tsdb_test

import (
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pkg/errors"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/faultfs"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// Every operation of every workload fails once, in every way, alone or with all that
// follow. Whatever was told to be true is, also after the disk is well again and after a
// crash; nothing that failed appears.

var faultTrace = flag.Int("fault.trace", 8, "operations to print when a fault test fails")

var faultCase = flag.String("fault", "", "case of the fault tests to try alone, as a failure printed it")

// faultWorkload begins on a disk that an earlier life left.
type faultWorkload struct {
	name   string
	before []string // the earlier life; it ends with close or kill
	ops    []string
}

var faultWorkloads = []faultWorkload{
	{"commits", nil, []string{"commit", "commit", "sync", "commit", "tick", "commit", "close"}},
	{"big", nil, []string{"commit", "big", "commit", "close"}},
	{"rotate", nil, []string{"commit", "rotate", "commit", "close"}},
	{"flush", nil, []string{"flush", "commit", "flush", "tick", "close"}},
	{"loop", nil, []string{"commit", "loop", "loop", "commit", "close"}},
	{"reopen", []string{"flush", "rotate", "commit", "close"}, []string{"commit", "close", "flush", "close"}},
	{"killed", []string{"flush", "rotate", "commit", "kill"}, []string{"commit", "flush", "close", "open"}},
}

// faultCount counts what the sweep did.
type faultCount struct {
	tally
	injected, told, healed, poisoned, crashes atomic.Int64
}

// faultTry is one run: a workload with one fault.
type faultTry struct {
	faultWorkload
	setup crashSetup
	fault faultfs.Fault
}

func (f faultTry) String() string {
	return fmt.Sprintf("%s,%v,%s,%d", f.name, f.setup, f.fault.Name, f.fault.Nth)
}

// base returns the disk that the earlier life left, and what it wrote.
func (w faultWorkload) base(setup crashSetup) (*crasher, error) {
	c := newCrasher(setup, 1)
	for _, op := range w.before {
		if err := c.do(op); err != nil {
			return nil, err
		}
	}
	c.disk.SetHook(nil)
	return c, nil
}

// run returns the run, and whether the fault hit anything.
func (f faultTry) run(base *crasher, y *faultCount) (hit bool, err error) {
	r := newFaultRun(f.setup, base.disk.KillClone(), f.fault)
	r.history = base.history.prefix(base.history.len())
	r.now, r.serial = base.now, base.serial
	r.durable = base.durable
	if f.fault.Name != "" {
		r.fs.Inject(f.fault)
	}
	err = f.finish(r, y)
	if r.db != nil {
		r.disk.SetHook(nil)
		_ = r.db.Close() // whatever is wrong has been said
	}
	hits := len(r.fs.Hits())
	if err != nil {
		err = errors.WithMessagef(err, "told: %v\n%s", r.told, tail(r.fs.TraceString(), *faultTrace))
	}
	return hits > 0, err
}

func (f faultTry) finish(r *faultRun, y *faultCount) error {
	for i, op := range f.ops {
		if err := r.step(op); err != nil {
			return errors.WithMessagef(err, "step %d, %s", i, op)
		}
	}
	if err := r.nothingSwallowed(); err != nil {
		return err
	}
	if err := r.well(); err != nil {
		return err
	}
	y.poisoned.Add(int64(r.poisons))
	if len(r.told) > 0 {
		y.told.Add(1)
	} else {
		y.healed.Add(1)
	}
	return f.crash(r, y)
}

// writes says that an operation changes what is on the disk, or makes it durable.
func writes(op tsdbtest.Op) bool { return op.Kind.Mutates() || op.Kind == tsdbtest.OpClose }

// nothingSwallowed: somebody was told of each fault of writing, or it healed.
func (r *faultRun) nothingSwallowed() error {
	i := slices.IndexFunc(r.fs.Hits(), func(op tsdbtest.Op) bool { return writes(op) && op.N != r.marks })
	if i < 0 || len(r.told) > 0 {
		return nil
	}
	return errors.Errorf("nobody was told of %v", r.fs.Hits()[i])
}

// crash opens what the death of the process, or of the machine, leaves at the end.
func (f faultTry) crash(r *faultRun, y *faultCount) error {
	all := &history{commits: append(slices.Clone(r.history.commits), r.maybe...), lied: r.syncFailed()}
	acked := r.history.len()
	x := &examiner{setup: f.setup, history: all, tally: &y.tally}
	killed := r.disk.KillClone()
	disks := []*tsdbtest.MemFS{killed}
	promises := []promise{{acked, all.len(), all.len()}}
	for _, opts := range []tsdbtest.CrashOptions{{Choose: tsdbtest.LoseAll}, {Seed: 1}, {Seed: uint64(f.fault.Nth), Ordered: true}} {
		disks = append(disks, r.disk.CrashClone(opts))
		promises = append(promises, promise{r.durable, all.len(), all.len()})
	}
	for i, disk := range disks {
		y.crashes.Add(1)
		if _, _, err := x.try(disk, promises[i], 0); err != nil {
			return errors.WithMessagef(err, "crash %d\n%s", i, disk.FateString())
		}
	}
	return nil
}

func tail(text string, lines int) string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// sweep tries one fault at every place where it can strike.
func (w faultWorkload) sweep(setup crashSetup, fault faultfs.Fault, y *faultCount, every int) {
	base, err := w.base(setup)
	if err != nil {
		y.fail("%s: %v", w.name, err)
		return
	}
	for fault.Nth = 1; y.failures() < maxFailures; fault.Nth += int64(every) {
		f := faultTry{w, setup, fault}
		hit, err := f.run(base, y)
		if err != nil {
			y.fail("go test -run TestFault -fault=%v\n%v", f, err)
		}
		if !hit {
			return
		}
		y.injected.Add(1)
	}
}

var faultSetups = []crashSetup{
	{sync: "commit", compression: tsdb.CompressionNone},
	{sync: "interval", compression: tsdb.CompressionSnappy},
	{sync: "never", compression: tsdb.CompressionNone},
}

func TestFault_EveryOperationFailsInEveryWay(t *testing.T) {
	y := &faultCount{}
	if *faultCase != "" {
		tryFaultCase(t, y)
		return
	}
	every := 1
	if testing.Short() {
		every = 9
	}
	var sweeps []func()
	for _, w := range faultWorkloads {
		for _, setup := range faultSetups {
			for _, fault := range faultfs.Standard() {
				sweeps = append(sweeps, func() { w.sweep(setup, fault, y, every) })
			}
		}
	}
	inParallel(len(sweeps), func(i int) { sweeps[i]() })
	t.Logf("%d faults: %d told, %d healed unseen, %d poisoned; %d crashes after them",
		y.injected.Load(), y.told.Load(), y.healed.Load(), y.poisoned.Load(), y.crashes.Load())
	y.report(t)
	if !testing.Short() {
		require.GreaterOrEqual(t, y.injected.Load(), int64(4_000))
	}
}

func tryFaultCase(t *testing.T, y *faultCount) {
	t.Helper()
	fields := strings.Split(*faultCase, ",")
	require.Len(t, fields, 5)
	nth, err := strconv.ParseInt(fields[4], 10, 64)
	require.NoError(t, err)
	for _, w := range faultWorkloads {
		for _, setup := range faultSetups {
			for _, fault := range faultfs.Standard() {
				fault.Nth = nth
				f := faultTry{w, setup, fault}
				if f.String() != *faultCase {
					continue
				}
				base, err := w.base(setup)
				require.NoError(t, err)
				hit, err := f.run(base, y)
				require.NoError(t, err)
				t.Logf("hit: %v", hit)
			}
		}
	}
}
