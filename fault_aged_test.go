package tsdb_test

import (
	stderrors "errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pkg/errors"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/faultfs"
	"github.com/seed347100a3/tsdb/internal/sweep"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// What TestFault does to a database that keeps everything, done to one that removes old blocks by
// time and by bytes, while its clock jumps, others put blocks into its directory, and its disk is
// small. What it acknowledged is there afterwards, unless it is too old by an honest clock or the
// bytes do not allow it; what was refused never appears; and it goes on.

var faultAgedCase = flag.String("fault.aged", "", "case of the aged fault tests to try alone, as a failure printed it")

// agedWorkload begins on a disk that has three hours of history.
type agedWorkload struct {
	name   string
	killed bool // the earlier life ended without Close
	ops    []string
}

var agedWorkloads = []agedWorkload{
	{name: "hour", ops: []string{"pass", "hour", "pass", "compact", "honest", "pass", "compact", "close", "open"}},
	{name: "decade", killed: true, ops: []string{"decade", "compact", "pass", "honest", "pass", "compact", "close"}},
	{name: "restarts", ops: []string{"decade", "compact", "close", "hour", "open", "pass", "compact", "close", "honest", "open", "compact"}},
	{name: "wrongly", ops: []string{"clock", "pass", "compact", "flush", "close", "honest", "open", "pass"}},
	{name: "imports", ops: []string{"import", "compact", "pass", "future", "compact", "flush", "close", "import", "open", "compact"}},
	{name: "foreign", ops: []string{"odd", "pass", "compact", "close", "odd", "repair", "open", "compact", "read"}},
	{name: "odd", killed: true, ops: []string{"odd", "read", "repair", "read", "pass", "import", "compact", "close"}},
	{name: "small", ops: []string{"small", "pass", "compact", "import", "pass", "flush", "close", "open", "room", "pass", "compact"}},
	{name: "old", ops: []string{"pass", "night", "pass", "flush", "compact", "headsnap", "pass", "close", "open"}},
}

// agedSetup is what the workloads run under.
type agedSetup struct {
	sync  string
	bytes int64 // Options.Blocks.RetentionBytes
}

func (s agedSetup) String() string { return fmt.Sprintf("%s,%d", s.sync, s.bytes) }

// faultAgedBytes is less than what three hours take.
const faultAgedBytes = 24 << 10

var agedSetups = []agedSetup{{"commit", 0}, {"interval", 0}, {"commit", faultAgedBytes}, {"never", faultAgedBytes}}

// agedTry is one run: a workload with one fault.
type agedTry struct {
	agedWorkload
	setup agedSetup
	fault faultfs.Fault
}

func (f agedTry) String() string {
	return fmt.Sprintf("%s,%v,%s,%d", f.name, f.setup, f.fault.Name, f.fault.Nth)
}

// agedBase makes the disk that the earlier life left.
func agedBase(setup agedSetup, killed bool) (*agedRun, error) {
	r := newAgedRun(setup, tsdbtest.NewMemFS(), agedWorld{samples: map[int64]agedSample{}})
	for range agedHistory {
		if err := stderrors.Join(r.step("pass"), r.step("compact")); err != nil {
			return nil, err
		}
	}
	if killed {
		disk := r.disk.KillClone()
		err := r.step("close")
		r.disk = disk
		return r, err
	}
	return r, r.step("close")
}

// agedHang is when a run that does not end is taken for one that hangs.
const agedHang = 3 * time.Minute

func (f agedTry) run(base *agedRun, y *agedTally) (r *agedRun, err error) {
	watch := time.AfterFunc(agedHang, func() { panic(fmt.Sprintf("it hangs: -fault.aged=%v", f)) })
	defer watch.Stop()
	r = newAgedRun(f.setup, base.disk.KillClone(), base.agedWorld)
	r.fault = f.fault.Name
	if f.fault.Name != "" {
		r.fs.Inject(f.fault)
	}
	err = f.finish(r, y)
	if r.db != nil {
		r.fs.Lift()
		_ = r.db.Close() // whatever is wrong has been said
	}
	if err != nil {
		err = errors.WithMessagef(err, "told: %v\n%s", r.told, tail(r.fs.TraceString(), *faultTrace))
	}
	y.gone.Add(int64(r.gone))
	y.refused.Add(int64(r.refused))
	if r.fault != "" && len(r.told) > 0 {
		y.told.Add(1)
	}
	return r, err
}

func (f agedTry) finish(r *agedRun, y *agedTally) error {
	for i, op := range f.ops {
		if err := r.step(op); err != nil {
			return errors.WithMessagef(err, "step %d, %s", i, op)
		}
	}
	if err := r.well(); err != nil {
		return errors.WithMessage(err, "well again")
	}
	killed := r.disk.KillClone()
	if err := r.step("close"); err != nil {
		return errors.WithMessage(err, "close at the end")
	}
	disks := []*tsdbtest.MemFS{killed, r.disk.KillClone()}
	if f.setup.sync == "commit" {
		for _, opts := range []tsdbtest.CrashOptions{{Choose: tsdbtest.LoseAll}, {Seed: uint64(f.fault.Nth)}} {
			disks = append(disks, killed.CrashClone(opts))
		}
	}
	for i, disk := range disks {
		y.opened.Add(1)
		if err := r.reopened(disk, i >= 2); err != nil {
			return errors.WithMessagef(err, "disk %d at the end\n%s", i, disk.FateString())
		}
	}
	return nil
}

// agedTally counts what the sweep did.
type agedTally struct {
	tally
	injected, told, opened, gone, refused atomic.Int64
}

// sweep tries one fault at each so many of the places where it can strike, beginning at some one.
func (w agedWorkload) sweep(base *agedRun, setup agedSetup, fault faultfs.Fault, y *agedTally, first, every int64) {
	for fault.Nth = first; y.failures() < maxFailures; fault.Nth += every {
		f := agedTry{w, setup, fault}
		r, err := f.run(base, y)
		if err != nil {
			y.fail("go test -run TestFaultAged -fault.aged=%v\n%v", f, err)
		}
		if len(r.fs.Hits()) == 0 {
			return
		}
		y.injected.Add(1)
	}
}

// agedEvery: of the places where a fault can strike one in so many is tried, a prime so that all
// kinds are met; and each fault meets each workload under one setup. -fault.whole tries all places,
// each under one setup.
const agedEvery = 503

func TestFaultAged_NothingGoesThatAnHonestClockAndTheBytesKeep(t *testing.T) {
	y := &agedTally{}
	var sweeps []func()
	for k, setup := range agedSetups {
		bases := map[bool]*agedRun{}
		for _, killed := range []bool{false, true} {
			var err error
			bases[killed], err = agedBase(setup, killed)
			require.NoError(t, err, "%v", setup)
		}
		for i, w := range agedWorkloads {
			if !sweep.Whole() && i%len(agedSetups) != k {
				continue
			}
			base := bases[w.killed]
			r, err := agedTry{agedWorkload: w, setup: setup}.run(base, y)
			require.NoError(t, err, "%s, %v, without a fault", w.name, setup)
			if *faultAgedCase != "" {
				w.tryAlone(t, base, setup, y)
				continue
			}
			for n, fault := range slices.Concat(faults(), faultfs.Shortages()) {
				step := min(agedEvery, r.fs.Ops(fault.Kinds...))
				first := 1 + int64(i*7+n)*13%step
				if *faultWhole {
					first, step = int64(1+k), int64(len(agedSetups))
				} else if (i+n)%len(agedSetups) != k {
					continue
				}
				sweeps = append(sweeps, func() { w.sweep(base, setup, fault, y, first, step) })
			}
		}
	}
	gone := y.gone.Load()
	inParallel(len(sweeps), func(i int) { sweeps[i]() })
	t.Logf("%d faults, %d of them told; %d disks opened at the end; %d times gone, %d refused",
		y.injected.Load(), y.told.Load(), y.opened.Load(), y.gone.Load(), y.refused.Load())
	for _, text := range y.failed[:min(len(y.failed), maxFailures)] {
		t.Error(text)
	}
	require.Positive(t, gone, "retention removed nothing")
	require.Positive(t, y.refused.Load())
	if sweep.Whole() && *faultAgedCase == "" {
		require.GreaterOrEqual(t, y.injected.Load(), int64(300))
	}
}

func (w agedWorkload) tryAlone(t *testing.T, base *agedRun, setup agedSetup, y *agedTally) {
	t.Helper()
	at := strings.LastIndex(*faultAgedCase, ",")
	nth, err := strconv.ParseInt((*faultAgedCase)[at+1:], 10, 64)
	require.NoError(t, err)
	for _, fault := range slices.Concat(faults(), faultfs.Shortages()) {
		fault.Nth = nth
		if f := (agedTry{w, setup, fault}); f.String() == *faultAgedCase {
			r, err := f.run(base, y)
			require.NoError(t, err)
			t.Logf("hit: %v", r.fs.Hits())
		}
	}
}

// agedWorld is what may be on a disk, and what time it is.
type agedWorld struct {
	samples map[int64]agedSample // by their times, which no two commits or imports share
	elapsed time.Duration        // since testNow, by an honest clock
	oldest  int64
}

func (w agedWorld) clone() agedWorld {
	w.samples = maps.Clone(w.samples)
	return w
}

func (w *agedWorld) honest() time.Time { return testNow.Add(w.elapsed) }

// agedSample is a sample of each series at one time.
type agedSample struct {
	when  time.Duration // it was written
	state agedState
}

type agedState uint8

const (
	agedThere   agedState = iota + 1
	agedComing            // in a block that the database has not looked for yet
	agedMaybe             // nobody knows
	agedGone              // it was there, and could go
	agedRefused           // it was said not to be there
)
