package blockdir

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/faultfs"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// statesAtEachStep is how many power cuts are looked at before each operation.
const statesAtEachStep = 40

// atEveryCrash runs work and calls check with what a power cut may leave before each of its
// operations, and behind the last one.
func atEveryCrash(tb testing.TB, m *tsdbtest.MemFS, work func() error, check func(left *tsdbtest.MemFS, done bool)) {
	tb.Helper()
	states := 0
	look := func(done bool) {
		for left := range m.CrashStates(statesAtEachStep) {
			states++
			check(left, done)
		}
	}
	m.SetHook(func(op tsdbtest.Op) error {
		if op.Kind.Mutates() {
			look(false)
		}
		return nil
	})
	err := work()
	m.SetHook(nil)
	require.NoError(tb, err)
	look(true)
	require.Greater(tb, states, 10)
}

// Bug 34 of the reference: an empty meta file after a crash.
func TestCommit_CrashAnywhere_BlockIsThereWholeOrNotAtAll(t *testing.T) {
	want := content(t, newBlock(t))
	m := newDisk(t)
	there := 0
	atEveryCrash(t, m, func() error {
		_, err := create(m, testID, testBlock(), testMeta(), WriterOptions{SegmentBytes: 60})
		return err
	}, func(left *tsdbtest.MemFS, done bool) {
		switch got := content(t, left); got {
		case want:
			there++
		default:
			require.Empty(t, got, left.FateString())
			require.False(t, done, "a committed block is gone: %s", left.FateString())
		}
	})
	require.Positive(t, there)
}

// Bug 33: a crash while a block is removed leaves a part of it.
func TestRemove_CrashAnywhere_BlockIsThereWholeOrNotAtAll(t *testing.T) {
	m := newBlock(t)
	want := content(t, m)
	gone := 0
	atEveryCrash(t, m, func() error { return Remove(m, dataDir, testID) }, func(left *tsdbtest.MemFS, done bool) {
		switch got := content(t, left); got {
		case "":
			gone++
			require.NoError(t, Remove(left, dataDir, testID))
			requireNothing(t, left, "the next Remove takes what is left")
		default:
			require.Equal(t, want, got)
			require.False(t, done, "a removed block is back: %s", left.FateString())
		}
	})
	require.Positive(t, gone)
	requireNothing(t, m)
	require.NoError(t, Remove(m, dataDir, testID), "what does not exist is fine")
}

// Bug 46: what was deleted is back after a restart.
func TestSetTombstones_CrashAnywhere_NothingDeletedIsBack(t *testing.T) {
	m := newBlock(t)
	d := openTest(t, m)
	ids := seriesIDs(t, d)
	require.NoError(t, d.SetTombstones(deleted(10, 20, ids[0])))
	before, err := dump(d)
	require.NoError(t, err)
	both := deleted(10, 20, ids[0])
	for _, ref := range deleted(0, 99, ids[1]).Refs() {
		both.Add(ref, deleted(0, 99, ids[1]).Of(ref)[0])
	}
	var after string
	atEveryCrash(t, m, func() error { return d.SetTombstones(both) }, func(left *tsdbtest.MemFS, done bool) {
		if done {
			after, err = dump(d)
			require.NoError(t, err)
			require.NotEqual(t, before, after)
		}
		got := content(t, left)
		if got != before {
			require.Less(t, len(got), len(before))
		}
		if done {
			require.Equal(t, after, got, left.FateString())
		}
	})
	require.NoError(t, d.Close())
}

func TestSetMeta_CrashAnywhere_BlockOpens(t *testing.T) {
	m := newBlock(t)
	d := openTest(t, m)
	atEveryCrash(t, m, func() error {
		return d.SetMeta(func(m *Meta) { m.Compaction.Deletable = true })
	}, func(left *tsdbtest.MemFS, done bool) {
		got, err := ReadMeta(left, Path(dataDir, testID))
		require.NoError(t, err, left.FateString())
		require.True(t, got.Compaction.Deletable || !done)
	})
	require.True(t, d.Meta().Compaction.Deletable)
	require.NoError(t, d.Close())
}

// requireNothing: the data directory is empty.
func requireNothing(t *testing.T, m *tsdbtest.MemFS, msg ...any) {
	t.Helper()
	require.Equal(t, []string{dataDir + "/"}, m.Files(), msg...)
}

// sweep runs work with every operation failing in every way. work gets a fresh disk.
func sweep(t *testing.T, disk func() *tsdbtest.MemFS, work func(fsys fileutil.FS) error, check func(t *testing.T, fault faultfs.Fault, f *faultfs.FS, m *tsdbtest.MemFS, err error)) {
	total := 0
	for _, fault := range faultfs.Standard() {
		t.Run(fault.Name, func(t *testing.T) {
			for fault.Nth = 1; ; fault.Nth++ {
				m := disk()
				f := faultfs.New(m)
				f.Inject(fault)
				err := work(f)
				hits := len(f.Hits())
				total += hits
				f.Lift()
				if hits == 0 {
					require.NoError(t, err)
					return
				}
				require.Empty(t, m.OpenHandles(), "%v\n%s", err, f.TraceString())
				check(t, fault, f, m, err)
			}
		})
	}
	require.Greater(t, total, 10)
}

// Bug 36: a failing compaction leaves its directories behind until the disk is full.
func TestCommit_EveryFailure_IsReportedAndLeavesNothing(t *testing.T) {
	want := content(t, newBlock(t))
	sweep(t, func() *tsdbtest.MemFS { return newDisk(t) }, func(fsys fileutil.FS) error {
		w, err := Create(fsys, dataDir, testID, WriterOptions{SegmentBytes: 60})
		if err != nil {
			return err
		}
		if err := fill(w, testBlock()); err != nil {
			return fileutil.JoinErrors(err, w.Abort())
		}
		_, err = w.Commit(t.Context(), testMeta())
		return err
	}, func(t *testing.T, fault faultfs.Fault, f *faultfs.FS, m *tsdbtest.MemFS, err error) {
		if err == nil {
			require.True(t, harmless(f), f.TraceString())
			require.Equal(t, want, content(t, m))
			return
		}
		require.Empty(t, content(t, m), "an error and a block: %v\n%s", err, f.TraceString())
		if !fault.Sticky {
			requireNothing(t, m, "%v\n%s", err, f.TraceString())
		}
	})
}

// harmless tells whether all that failed was giving back the page cache, behind the check of
// all files: the next mutation renames the block.
func harmless(f *faultfs.FS) bool {
	for _, op := range f.Hits() {
		if op.Kind != tsdbtest.OpOpen && op.Kind != tsdbtest.OpClose {
			return false
		}
	}
	return true
}

func TestAbort_AfterAnyFailure_CleansUpWhenTheDiskIsWellAgain(t *testing.T) {
	for _, fault := range faultfs.Standard() {
		if !fault.Sticky {
			continue
		}
		for fault.Nth = 1; ; fault.Nth++ {
			m := newDisk(t)
			f := faultfs.New(m)
			f.Inject(fault)
			w, err := Create(f, dataDir, testID, WriterOptions{SegmentBytes: 60})
			if err != nil {
				f.Lift()
				w, err = Create(f, dataDir, testID, WriterOptions{})
				require.NoError(t, err, "an earlier attempt is in nobody's way")
			} else if err = fill(w, testBlock()); err == nil {
				_, err = w.Commit(t.Context(), testMeta())
			}
			hits := len(f.Hits())
			f.Lift()
			require.NoError(t, w.Abort(), f.TraceString())
			require.NoError(t, w.Abort())
			if err != nil {
				require.NoError(t, Remove(f, dataDir, testID))
			}
			if len(content(t, m)) == 0 {
				requireNothing(t, m, f.TraceString())
			}
			if hits == 0 {
				break
			}
		}
	}
}

func TestSetTombstones_EveryFailure_IsReportedAndDeletesAllOrNothing(t *testing.T) {
	m := newBlock(t)
	before := content(t, m)
	d := openTest(t, m)
	id := seriesIDs(t, d)[0]
	require.NoError(t, d.SetTombstones(deleted(0, 20, id)))
	require.NoError(t, d.Close())
	after := content(t, m)
	sweep(t, func() *tsdbtest.MemFS { return newBlock(t) }, func(fsys fileutil.FS) error {
		d, err := Open(fsys, Path(dataDir, testID))
		if err != nil {
			return err
		}
		err = d.SetTombstones(deleted(0, 20, id))
		return fileutil.JoinErrors(err, d.Close())
	}, func(t *testing.T, _ faultfs.Fault, f *faultfs.FS, m *tsdbtest.MemFS, err error) {
		require.Error(t, err, f.TraceString())
		require.Contains(t, []string{before, after}, content(t, m))
		d := openTest(t, m)
		require.NoError(t, d.SetTombstones(deleted(0, 20, id)), "once more is safe")
		require.NoError(t, d.Close())
		require.Equal(t, after, content(t, m))
	})
}

func TestRemove_EveryFailure_IsReported(t *testing.T) {
	want := content(t, newBlock(t))
	sweep(t, func() *tsdbtest.MemFS { return newBlock(t) }, func(fsys fileutil.FS) error {
		return Remove(fsys, dataDir, testID)
	}, func(t *testing.T, _ faultfs.Fault, f *faultfs.FS, m *tsdbtest.MemFS, err error) {
		require.Error(t, err, f.TraceString())
		if got := content(t, m); got != "" {
			require.Equal(t, want, got)
		}
		require.NoError(t, Remove(f, dataDir, testID))
		requireNothing(t, m)
	})
}
