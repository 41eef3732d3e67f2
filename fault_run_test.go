package tsdb_test

import (
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/faultfs"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// faultRun does what a program does on a disk that fails: it goes on after every error,
// and remembers what it was told.
type faultRun struct {
	*crasher // its disk is below fs; its history is what was acknowledged
	fs       *faultfs.FS
	fault    faultfs.Fault

	unsure   []entry // commits that were indeterminate, since the last open
	told     []error // what public calls and Health returned
	again    []row   // of commits that failed; their series are tried again
	opened   int     // commits that were there at the last open; durable when recovery is done
	poisoned bool    // Health said so, since the last open
	poisons  int     // how often
	marks    int64   // number of the last operation, if it wrote the mark that Close leaves
	warned   *warnings
}

func newFaultRun(setup crashSetup, disk *tsdbtest.MemFS, fault faultfs.Fault) *faultRun {
	r := &faultRun{crasher: newCrasher(setup, 1), fs: faultfs.New(journaled{disk}), fault: fault, warned: &warnings{}}
	r.disk = disk
	return r
}

// journaled is a file system with a journal: a sync of a directory that failed leaves its
// names pending, and a later one that succeeds makes them durable. Content of files is
// another matter, see FailSync of tsdbtest.
type journaled struct{ *tsdbtest.MemFS }

// FailSync does nothing to names.
func (journaled) FailSync(string) error { return nil }

// step does one operation, and checks all that must hold whatever failed.
func (r *faultRun) step(op string) error {
	hits, told := len(r.fs.Hits()), len(r.told)+r.warned.count()
	if err := r.try(op); err != nil || r.db == nil {
		return err
	}
	if err := r.checkHealth(); err != nil {
		return err
	}
	for _, hit := range r.fs.Hits()[hits:] {
		// New directories and temporary files are made, and synced, again when there is room.
		again := r.diskFull() && (hit.Kind == tsdbtest.OpSyncDir || strings.HasPrefix(hit.Name, "data/tmp-"))
		// So are blocks, and what is deleted of them: who asked for it was told.
		again = again || ofBlocks(hit) && len(r.told)+r.warned.count() > told
		again = again || r.notTried(hit)
		if (hit.Kind == tsdbtest.OpSync || hit.Kind == tsdbtest.OpSyncDir) && !again && !r.poisoned {
			return errors.Errorf("%v failed, and the database goes on", hit)
		}
	}
	return nil
}

func (r *faultRun) try(op string) error {
	if r.db == nil && op != "close" {
		if err := r.tryOpen(); err != nil || r.db == nil {
			return err
		}
	}
	var err error
	switch op {
	case "open":
	case "commit":
		err = r.tryCommit(r.fewRows())
	case "late":
		r.history.blocks = true
		err = r.tryCommit(r.lateRows())
	case "big":
		err = r.tryCommit(r.bigRows(crashSegment + crashSegment/4))
	case "rotate":
		for n := 0; n < 4 && err == nil; n++ {
			err = r.tryCommit(r.bigRows(crashSegment / 3))
		}
	case "chunks":
		if err = r.tryCommit(r.chunkRows()); err == nil {
			err = r.tryChunks()
		}
	case "loop": // the same, by the loop that does it in time
		before := r.history.len()
		if err = r.tryCommit(r.chunkRows()); err == nil {
			r.tryLoop(r.history.len() > before)
		}
	case "headsnap":
		err = r.tryHeadSnapshot()
	case "sync":
		err = r.trySync()
	case "tick":
		r.clock.Advance(2 * crashTick)
	case "close":
		return r.tryClose()
	default:
		return r.tryBlocks(op)
	}
	return err
}

func (r *faultRun) tell(err error) {
	if err != nil {
		r.told = append(r.told, err)
	}
}

// tryOpen opens. What it finds settles what was indeterminate.
func (r *faultRun) tryOpen() error {
	r.clock = tsdbtest.NewClock(testNow)
	opts := r.setup.options(r.fs, r.clock)
	opts.Logger = slog.New(r.warned)
	db, err := tsdb.Open(fixtureDir, opts)
	if err != nil {
		r.tell(err)
		return r.noneOpen("a failed Open")
	}
	r.db, r.poisoned = db, false
	if n := db.OpenReport().BlocksVanished; n > 0 {
		return errors.Errorf("%d blocks are said to have vanished: %+v", n, db.OpenReport().Damages)
	}
	for _, s := range db.OpenReport().SnapshotsIgnored {
		r.tell(errors.New(s))
	}
	got, err := readContent(db)
	if err != nil {
		return r.readError(err)
	}
	all := r.history.with(append(slices.Clone(r.history.commits), r.unsure...))
	f, err := all.findContent(finding{got: got}, promise{lo: r.history.len(), hi: all.len(), begun: all.len(), effects: r.effects, maybe: r.maybe})
	if err != nil {
		return errors.WithMessage(err, "after opening again")
	}
	if err := all.verifyBeside(db, f.commits, f.effects, got); err != nil {
		return errors.WithMessage(err, "after opening again")
	}
	r.history, r.unsure, r.opened = all.prefix(f.commits), nil, f.commits
	r.effects, r.maybe = f.effects, nil
	r.durable = min(r.durable, f.commits)
	return r.checkHealth()
}

func (r *faultRun) noneOpen(what string) error {
	if open := r.disk.OpenHandles(); len(open) > 0 {
		return errors.Errorf("files are open after %s: %v", what, open)
	}
	return nil
}

// readError judges an error of reading: only faults of reading may cause one.
func (r *faultRun) readError(err error) error {
	r.tell(err)
	for _, op := range r.fs.Hits() {
		switch op.Kind {
		case tsdbtest.OpMmap, tsdbtest.OpMapRead, tsdbtest.OpOpen, tsdbtest.OpReadAt, tsdbtest.OpSize, tsdbtest.OpStat, tsdbtest.OpClose:
			return nil
		}
	}
	return errors.WithMessage(err, "reading")
}

func (r *faultRun) tryCommit(rows []row) error {
	for i, n := 0, len(rows); i < min(len(r.again), 4); i++ { // the newest, once each
		was := r.again[len(r.again)-1-i]
		if !slices.ContainsFunc(rows[:n], func(row row) bool { return row.ls == was.ls }) {
			r.now++
			rows = append(rows, floatRow(was.ls, r.now, r.rng.NormFloat64()))
		}
	}
	segment := r.db.Stats().Log.Segment
	err := r.logRows(rows)
	r.tell(err)
	switch {
	case err == nil:
		r.history.add(rows)
	case errors.Is(err, tsdb.ErrIndeterminate):
		if !errors.Is(err, tsdb.ErrPoisoned) || !r.syncFailed() {
			return errors.WithMessage(err, "indeterminate without a failed sync")
		}
		r.unsure = append(r.unsure, entry{rows: rows})
	case errors.Is(err, tsdb.ErrNotCommitted):
		r.history.failed += 1 + sampleRecords(rows) + besideOf(rows).records()
		r.again = append(r.again, rows...)
	default:
		return errors.WithMessage(err, "commit says neither what is true nor that nobody knows")
	}
	if err == nil && r.setup.sync == "commit" {
		r.durable = r.history.len()
	} else if err == nil && r.setup.sync != "never" && r.db.Stats().Log.Segment > segment {
		r.durable = r.history.len() - 1
	}
	if err != nil && errors.Is(err, tsdb.ErrDiskFull) != r.diskFull() && !errors.Is(err, tsdb.ErrPoisoned) {
		return errors.WithMessage(err, "a full disk is not told from another fault")
	}
	return r.checkContent()
}

// syncFailed says that a sync or a close was hit.
func (r *faultRun) syncFailed() bool {
	return slices.ContainsFunc(r.fs.Hits(), func(op tsdbtest.Op) bool {
		return (op.Kind == tsdbtest.OpSync || op.Kind == tsdbtest.OpSyncDir || op.Kind == tsdbtest.OpClose) && !r.notTried(op)
	})
}

// notTried says that nothing was synced and nothing failed to be: the directory could not be
// opened.
func (r *faultRun) notTried(hit tsdbtest.Op) bool {
	return hit.Kind == tsdbtest.OpSyncDir && strings.HasPrefix(r.fault.Name, "shortage-")
}

func (r *faultRun) diskFull() bool { return strings.Contains(r.fault.Name, "ENOSPC") }

func (r *faultRun) tryChunks() error {
	before := r.db.Stats()
	err := tsdb.WriteHeadChunks(r.db)
	r.tell(err)
	if after := r.db.Stats(); after.HeadChunksWritten > before.HeadChunksWritten {
		r.durable = r.history.len()
	}
	return nil
}

// tryHeadSnapshot takes a snapshot of the head; one that fails costs nothing.
func (r *faultRun) tryHeadSnapshot() error {
	err := tsdb.TakeHeadSnapshot(r.db)
	r.tell(err)
	if err == nil {
		r.durable = r.history.len()
	}
	return nil
}

// tryLoop lets the time pass after which full chunks are written, and written again after
// a failure. The third tick is received when the work of the second is done, and finds
// nothing to do. If the newest commit filled chunks, the log is synced before they are
// written; without it those that are written may be of earlier commits. With SyncInterval the
// log is synced whatever happens.
func (r *faultRun) tryLoop(filled bool) {
	before := r.db.Stats()
	r.clock.Advance(3 * loopInterval)
	after := r.db.Stats()
	health := r.db.Health()
	ticked := r.setup.sync == "interval" && !errors.Is(health, tsdb.ErrPoisoned) && !errors.Is(health, tsdb.ErrReadOnly)
	if ticked || filled && after.HeadChunksWritten > before.HeadChunksWritten {
		r.durable = r.history.len()
	}
	if after.HeadChunkWriteErrors > before.HeadChunkWriteErrors {
		r.tell(errors.New("Stats.HeadChunkWriteErrors"))
	}
}

func (r *faultRun) trySync() error {
	err := r.db.Sync()
	r.tell(err)
	if err == nil {
		r.durable = r.history.len()
	}
	return nil
}

func (r *faultRun) tryClose() error {
	if r.db == nil {
		return nil
	}
	db := r.db
	r.db = nil
	poisoned := r.poisoned
	hits := len(r.fs.Hits())
	err := db.Close()
	r.tell(err)
	for _, op := range r.fs.Hits()[hits:] {
		r.marks = max(r.marks, markWrite(op))
	}
	switch {
	case poisoned && !errors.Is(err, tsdb.ErrPoisoned):
		return errors.Errorf("Close of a poisoned database: %v", err)
	case err == nil:
		r.durable = r.history.len()
	}
	return r.noneOpen("Close")
}

// markWrite returns the number of an operation of Close that writes the last frame. It is
// a help against damage later, and nothing is lost without it.
func markWrite(op tsdbtest.Op) int64 {
	if op.Kind == tsdbtest.OpWrite && strings.HasPrefix(op.Name, "data/wal/") {
		return op.N
	}
	return 0
}

// checkContent compares what can be read with what was acknowledged.
func (r *faultRun) checkContent() error {
	got, err := readContent(r.db)
	if err != nil {
		return r.readError(err)
	}
	if err := sameContent(got, r.history.after(r.history.len(), r.effects)); err != nil {
		return err
	}
	return r.history.verifyBeside(r.db, r.history.len(), r.effects, got)
}

// checkHealth: who is poisoned stays so, and says so whatever is asked.
func (r *faultRun) checkHealth() error {
	err := r.db.Health()
	r.tell(err)
	if !errors.Is(err, tsdb.ErrReadOnly) {
		r.durable = max(r.durable, r.opened)
	}
	if r.poisoned && !errors.Is(err, tsdb.ErrPoisoned) {
		return errors.Errorf("was poisoned, and Health is %v", err)
	}
	if !errors.Is(err, tsdb.ErrPoisoned) {
		return nil
	}
	if !r.poisoned {
		r.poisons++
	}
	r.poisoned = true
	if !r.syncFailed() {
		return errors.WithMessage(err, "poisoned without a failed sync")
	}
	if err := r.db.Sync(); !errors.Is(err, tsdb.ErrPoisoned) {
		return errors.Errorf("Sync of a poisoned database: %v", err)
	}
	if err := r.logRows(r.fewRows()); !errors.Is(err, tsdb.ErrPoisoned) || !errors.Is(err, tsdb.ErrNotCommitted) || errors.Is(err, tsdb.ErrIndeterminate) {
		return errors.Errorf("Commit of a poisoned database: %v", err)
	}
	return r.checkContent()
}

// loopInterval is how often full chunks are written, and an unfinished recovery is tried
// again.
const loopInterval = time.Second

// well says that the disk is well again, and checks that the database is, too, unless
// it must not be.
func (r *faultRun) well() error {
	r.fs.Lift()
	if r.db == nil {
		if err := r.tryOpen(); err != nil {
			return err
		}
		if r.db == nil {
			return errors.WithMessage(r.told[len(r.told)-1], "open on a disk that is well")
		}
	}
	if r.poisoned {
		return nil
	}
	if errors.Is(r.db.Health(), tsdb.ErrReadOnly) {
		r.clock.Advance(2 * loopInterval)
	}
	if err := r.checkHealth(); err != nil || r.poisoned {
		return err
	}
	told := len(r.told)
	if err := r.tryCommit(r.fewRows()); err != nil {
		return err
	}
	if n := len(r.told); n > told {
		return errors.WithMessage(r.told[n-1], "commit on a disk that is well")
	}
	if errors.Is(r.db.Health(), tsdb.ErrCorrupt) && strings.HasPrefix(r.fault.Name, "mapread-fault") {
		r.clock.Advance(2 * loopInterval) // a chunk could not be read: it is looked at again, and can be
	}
	if err := r.db.Health(); err != nil {
		return errors.WithMessage(err, "health on a disk that is well")
	}
	if err := tsdb.WriteHeadChunks(r.db); err != nil {
		return errors.WithMessage(err, "chunk files on a disk that is well")
	}
	if r.history.blocks {
		return r.wellBlocks()
	}
	return r.checkContent()
}
