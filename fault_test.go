package tsdb_test

import (
	"bytes"
	stderrors "errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/pkg/errors"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/faultfs"
	"github.com/seed347100a3/tsdb/internal/sweep"
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
	before []string // the earlier life; it ends with close or kill, or by ending
	ending string   // crash: a power failure; damage: one bit flips in two files
	ops    []string
}

var faultWorkloads = []faultWorkload{
	{name: "commits", ops: []string{"commit", "commit", "sync", "commit", "tick", "commit", "close"}},
	{name: "big", ops: []string{"commit", "big", "commit", "close"}},
	{name: "rotate", ops: []string{"commit", "rotate", "commit", "close"}},
	{name: "chunks", ops: []string{"chunks", "commit", "chunks", "tick", "close"}},
	{name: "loop", ops: []string{"commit", "loop", "loop", "commit", "close"}},
	{name: "reopen", before: []string{"chunks", "rotate", "commit", "close"}, ops: []string{"commit", "close", "chunks", "close"}},
	{name: "killed", before: []string{"chunks", "rotate", "commit", "kill"}, ops: []string{"commit", "chunks", "close", "open"}},
	{name: "torn", before: []string{"chunks", "commit", "rotate", "rotate", "commit", "chunks"}, ending: "crash", ops: []string{"commit", "close", "open"}},
	{name: "flush", before: []string{"chunks"}, ops: []string{"flush", "commit", "flush", "close", "open"}},
	{name: "ended", before: []string{"chunks"}, ops: []string{"ended", "commit", "ended", "close", "open"}},
	{name: "due", before: []string{"flush", "commit"}, ops: []string{"due", "commit", "close"}},
	{name: "merge", before: []string{"blocks"}, ops: []string{"merge", "commit", "close", "open"}},
	{name: "delete", before: []string{"blocks", "commit"}, ops: []string{"delete", "flush", "close", "open"}},
	{name: "clean", before: []string{"blocks", "delete", "deleteold", "close"}, ops: []string{"clean", "delete", "close"}},
	{name: "retain", before: []string{"blocks", "tidy", "commit"}, ops: []string{"retain", "commit", "close"}},
	{name: "late", ops: []string{"commit", "late", "late", "flush", "late", "headsnap", "late", "close", "open"}},
	{name: "latekilled", before: []string{"blocks", "late", "kill"}, ops: []string{"late", "merge", "late", "delete", "close", "open"}},
	{name: "headsnap", ops: []string{"commit", "headsnap", "chunks", "headsnap", "close", "open"}},
	{name: "headsnapkilled", before: []string{"chunks", "headsnap", "commit", "kill"}, ops: []string{"commit", "headsnap", "close", "open"}},
	{name: "damaged", before: []string{"commit", "chunks", "rotate", "chunks", "close"}, ending: "damage", ops: []string{"commit", "close", "open"}},
}

// late reports whether it has late samples.
func (w faultWorkload) late() bool { return slices.Contains(w.ops, "late") }

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

// faultBase is where the runs of a workload begin.
type faultBase struct {
	*crasher
	// precious is what Open puts into the quarantine when nothing fails. It must not get
	// lost when something does.
	precious [][]byte
	seen     seenDisks
	reached  [tsdbtest.OpClose + 1]int64 // operations by kind of the workload without a fault
}

// places returns at how many places a fault can strike.
func (b *faultBase) places(fault faultfs.Fault) (n int64) {
	for _, kind := range fault.Kinds {
		n += b.reached[kind]
	}
	return n
}

// base makes the disk that the earlier life left.
func (w faultWorkload) base(setup crashSetup) (*faultBase, error) {
	c := newCrasher(setup, 1)
	for _, op := range w.before {
		if err := c.do(op); err != nil {
			return nil, err
		}
	}
	c.use(c.disk.KillClone())
	if c.db != nil {
		defer c.db.Close()
		c.db = nil
	}
	b := &faultBase{crasher: c}
	switch w.ending {
	case "crash":
		return b, b.tear()
	case "damage":
		return b, b.flip()
	}
	return b, nil
}

// tear looks for a power failure that leaves much to repair.
func (b *faultBase) tear() error {
	whole, most := b.disk, [][]byte(nil)
	h, p := b.history, b.promise()
	for seed := range uint64(40) {
		disk := whole.CrashClone(tsdbtest.CrashOptions{Seed: seed})
		k, err := b.tryOut(disk.KillClone(), h, p)
		if err != nil {
			return err
		}
		if len(b.precious) > len(most) {
			most = b.precious
			b.use(disk)
			b.history, b.durable = h.prefix(k), k
		}
	}
	if b.precious = most; most == nil {
		return errors.New("no crash leaves anything to repair")
	}
	return nil
}

// flip damages what was on stable storage, in the first segment and in a chunk file.
func (b *faultBase) flip() error {
	flipped := []string{"data/wal/00000000", "data/chunks_head/000001"}
	for _, name := range flipped {
		data, err := b.disk.ReadFile(name)
		if err != nil {
			return err
		}
		data[len(data)/2] ^= 0x10
		if err := b.disk.WriteFile(name, data); err != nil {
			return err
		}
	}
	disk := b.disk.KillClone()
	db, err := tsdb.Open(fixtureDir, b.setup.options(disk, tsdbtest.NewClock(testNow)))
	if err != nil {
		return err
	}
	got, err := readContent(db)
	if err := stderrors.Join(err, db.Close()); err != nil {
		return err
	}
	b.history, b.durable = &history{base: &content{series: got}}, 0
	for _, name := range flipped {
		data, err := b.disk.ReadFile(name)
		if err != nil {
			return err
		}
		b.precious = append(b.precious, data)
	}
	return nil
}

// tryOut opens a disk without faults, and notes what of it is precious.
func (b *faultBase) tryOut(disk *tsdbtest.MemFS, h *history, p promise) (int, error) {
	c := &crasher{setup: b.setup, disk: disk}
	f, err := c.openCrashed(h, p)
	k := f.commits
	if err != nil {
		return k, err
	}
	b.precious = nil
	for _, name := range c.db.OpenReport().Quarantined {
		data, err := disk.ReadFile("data/" + name)
		if err != nil {
			return k, err
		}
		if len(data) > 0 {
			b.precious = append(b.precious, data)
		}
	}
	return k, c.db.Close()
}

// kept looks for what is precious among all files of a disk.
func (b *faultBase) kept(disk *tsdbtest.MemFS) error {
	for i, want := range b.precious {
		found := false
		for _, name := range disk.Files() {
			if !strings.HasSuffix(name, "/") && !found {
				data, err := disk.ReadFile(name)
				found = err == nil && bytes.Equal(data, want)
			}
		}
		if !found {
			return errors.Errorf("file %d that should be in the quarantine is nowhere", i)
		}
	}
	return nil
}

// run returns the run, and whether the fault hit anything.
func (f faultTry) run(base *faultBase, y *faultCount) (hit bool, err error) {
	r := newFaultRun(f.setup, base.disk.KillClone(), f.fault)
	r.history = base.history.prefix(base.history.len())
	r.now, r.serial = base.now, base.serial
	r.durable, r.effects = base.durable, base.effects
	if f.fault.Name != "" {
		r.fs.Inject(f.fault)
	}
	err = f.finish(r, base, y)
	if r.db != nil {
		r.disk.SetHook(nil)
		r.fs.Lift()
		_ = r.db.Close() // whatever is wrong has been said
	}
	hits := len(r.fs.Hits())
	if err != nil {
		err = errors.WithMessagef(err, "told: %v\n%s", r.told, tail(r.fs.TraceString(), *faultTrace))
	}
	return hits > 0, err
}

func (f faultTry) finish(r *faultRun, base *faultBase, y *faultCount) error {
	for i, op := range f.ops {
		if err := stderrors.Join(r.step(op), base.kept(r.disk)); err != nil {
			return errors.WithMessagef(err, "step %d, %s", i, op)
		}
	}
	if err := r.nothingSwallowed(); err != nil {
		return err
	}
	if f.fault.Name == "" {
		for kind := range base.reached {
			base.reached[kind] = r.fs.Ops(tsdbtest.OpKind(kind))
		}
	}
	if err := r.well(); err != nil {
		return errors.WithMessage(err, "well again")
	}
	y.poisoned.Add(int64(r.poisons))
	if len(r.told) > 0 {
		y.told.Add(1)
	} else {
		y.healed.Add(1)
	}
	return f.crash(r, base, y)
}

// writes says that an operation changes what is on the disk, or makes it durable.
func writes(op tsdbtest.Op) bool { return op.Kind.Mutates() || op.Kind == tsdbtest.OpClose }

// heals says that a fault may pass without a caller who is told: where a link cannot be
// made a copy can, and a full chunk that a loop cannot write stays in memory and is
// written later, with a warning and a count in Stats. What the out-of-order log lacks the log has.
func heals(op tsdbtest.Op) bool {
	durable := op.Kind == tsdbtest.OpSync || op.Kind == tsdbtest.OpSyncDir || op.Kind == tsdbtest.OpClose
	// Who closes a file of a block has synced it, or only read it.
	read := op.Kind == tsdbtest.OpClose && ofBlocks(op)
	// What is left under a temporary name goes when the directory is opened the next time.
	left := op.Kind == tsdbtest.OpRemove && strings.HasPrefix(op.Name, "data/tmp-block-")
	left = left || op.Kind == tsdbtest.OpRemove && op.Name == "data/tmp-blocks.tsdb"
	// How far the log reached is noted again, and helps after damage only.
	note := op.Name == "data/log_reach" && op.Kind != tsdbtest.OpSync
	late := strings.HasPrefix(op.Name, "data/wbl") && !durable
	return read || left || note || late || op.Kind == tsdbtest.OpLink || strings.Contains(op.Name, "chunks_head") && !durable
}

// nothingSwallowed: somebody was told of each fault of writing, or it heals; and Close does
// without its mark.
func (r *faultRun) nothingSwallowed() error {
	i := slices.IndexFunc(r.fs.Hits(), func(op tsdbtest.Op) bool {
		return writes(op) && op.N != r.marks && !heals(op) && (!ofBlocks(op) || r.warned.count() == 0)
	})
	if i < 0 || len(r.told) > 0 {
		return nil
	}
	return errors.Errorf("nobody was told of %v", r.fs.Hits()[i])
}

// crash opens what the death of the process, or of the machine, leaves at the end.
func (f faultTry) crash(r *faultRun, base *faultBase, y *faultCount) error {
	all := r.history.with(append(slices.Clone(r.history.commits), r.unsure...))
	all.lied = all.lied || r.syncFailed()
	acked := r.history.len()
	x := &examiner{setup: f.setup, history: all, tally: &y.tally}
	killed := r.disk.KillClone()
	disks := []*tsdbtest.MemFS{killed}
	promises := []promise{{lo: acked, hi: all.len(), begun: all.len(), effects: r.effects, maybe: r.maybe}}
	for _, opts := range []tsdbtest.CrashOptions{{Choose: tsdbtest.LoseAll}, {Seed: 1}, {Seed: uint64(f.fault.Nth), Ordered: true}} {
		disks = append(disks, r.disk.CrashClone(opts))
		promises = append(promises, promise{lo: r.durable, hi: all.len(), begun: all.len(), effects: r.effects, maybe: r.maybe})
	}
	for i, disk := range disks {
		y.crashes.Add(1)
		err := base.seen.once(disk, all, promises[i], 0, func() error {
			y.disks.Add(1)
			_, err := x.try(disk, promises[i], 0)
			return err
		})
		if err != nil {
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
func (w faultWorkload) sweep(base *faultBase, fault faultfs.Fault, y *faultCount, places sweep.Places) {
	n := base.places(fault)
	for fault.Nth = int64(1 + places.First); fault.Nth <= n && y.failures() < maxFailures; fault.Nth += int64(places.Step) {
		f := faultTry{w, base.setup, fault}
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

// faults are the standard ones, and a full disk that shows only when it is synced.
func faults() []faultfs.Fault {
	full := faultfs.Fault{Name: "sync-ENOSPC", Kinds: []tsdbtest.OpKind{tsdbtest.OpSync, tsdbtest.OpSyncDir}, Err: syscall.ENOSPC}
	always := full
	always.Name, always.Sticky = full.Name+"-sticky", true
	return append(faultfs.Standard(), full, always)
}

// shortageStep: of the places where descriptors or memory may lack, one in so many is tried, a
// prime so that all kinds are met. -fault.whole tries all.
const shortageStep = 11

var faultWhole = flag.Bool("fault.whole", false, "lack descriptors and memory at every operation of the fault tests")

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
	shortages := shortageStep
	if *faultWhole {
		shortages = 1
	}
	ofLog, ofBlocks := sweep.Of(t, 1, 41), sweep.Of(t, 37, 397)
	ofLogShort, ofBlocksShort := sweep.Of(t, shortages, 41), sweep.Of(t, max(37, shortages), 397)
	seed, sweeps := sweep.Seed(t), []func(){}
	for i, w := range faultWorkloads {
		places, placesShort, setups := ofLog, ofLogShort, faultSetups
		if slices.ContainsFunc(slices.Concat(w.before, w.ops), needsBlocks) {
			places, placesShort = ofBlocks, ofBlocksShort
			if !sweep.Whole() { // a hundred bases less to make
				one := (uint64(i) + seed) % uint64(len(setups))
				setups = setups[one:][:1]
			}
		}
		for _, setup := range setups {
			setup.late = w.late()
			base := sync.OnceValues(func() (*faultBase, error) {
				b, err := w.base(setup)
				if err == nil {
					_, err = faultTry{faultWorkload: w, setup: setup}.run(b, y) // without a fault
				}
				return b, err
			})
			add := func(places sweep.Places, faults []faultfs.Fault) {
				for _, fault := range faults {
					sweeps = append(sweeps, func() {
						if b, err := base(); err != nil {
							y.fail("%s: %v", w.name, err)
						} else {
							w.sweep(b, fault, y, places)
						}
					})
				}
			}
			add(places, faults())
			add(placesShort, faultfs.Shortages())
		}
	}
	inParallel(len(sweeps), func(i int) { sweeps[i]() })
	t.Logf("%d faults: %d told, %d healed unseen, %d poisoned; %d crashes after them",
		y.injected.Load(), y.told.Load(), y.healed.Load(), y.poisoned.Load(), y.crashes.Load())
	y.report(t)
	if sweep.Whole() {
		require.GreaterOrEqual(t, y.injected.Load(), int64(15_000), "each operation, not some of them")
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
			setup.late = w.late()
			for _, fault := range slices.Concat(faults(), faultfs.Shortages()) {
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
