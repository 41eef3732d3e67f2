//go:build unix

// Directories that are open can be renamed on Unix.

package tsdb_test

import (
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// diskTree returns what is in each file below a directory of the operating system.
func diskTree(t *testing.T, dir string) map[string]string {
	t.Helper()
	tree := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		rel, _ := filepath.Rel(dir, name)
		tree[rel] = string(data)
		return err
	}))
	return tree
}

// heldFixture is a database on a real disk: two blocks, something deleted in one, and a head.
type heldFixture struct {
	*testing.T
	dir  string
	opts *tsdb.Options
	log  *logRecords
	db   *tsdb.DB
	next int64
}

func newHeld(t *testing.T, dir string) *heldFixture {
	h := &heldFixture{T: t, dir: dir, log: &logRecords{}, next: testNow.UnixMilli() - 20*hour}
	h.opts = &tsdb.Options{Clock: tsdbtest.NewClock(testNow), Logger: slog.New(h.log)}
	h.opts.Blocks.Manual, h.opts.Blocks.RetentionBytes = true, 1
	h.opts.Limits.MaxFuture = -1
	h.opts.WAL.SegmentSize, h.opts.Head.SamplesPerChunk = 32<<10, 16
	var err error
	h.db, err = tsdb.Open(dir, h.opts)
	require.NoError(t, err)
	require.NoError(t, h.commits(50))
	require.NoError(t, h.db.Flush(ctx))
	require.NoError(t, h.commits(50))
	require.NoError(t, h.db.Flush(ctx))
	require.NoError(t, h.commits(50))
	require.NoError(t, tsdb.WriteHeadChunks(h.db))
	return h
}

// commits commits n times a minute further, and returns the first error.
func (h *heldFixture) commits(n int) error {
	for range n {
		app := h.db.Appender()
		h.next += hour / 60
		for _, name := range []string{"a", "b"} {
			_, err := app.Append(0, labels.FromStrings("__name__", name), h.next, float64(h.next))
			require.NoError(h, err)
		}
		if _, err := app.Commit(ctx); err != nil {
			return err
		}
	}
	return nil
}

// everything that writes, each with the error that it gives.
func (h *heldFixture) work() map[string]error {
	err := map[string]error{"flush": h.db.Flush(ctx)}
	err["snapshot"] = h.db.Snapshot(ctx, h.dir+"-copy")
	err["head snapshot"] = tsdb.TakeHeadSnapshot(h.db)
	err["head chunks"] = tsdb.WriteHeadChunks(h.db)
	err["delete"] = h.db.Delete(ctx, math.MinInt64, h.next, labels.Equal("__name__", "a"))
	err["clean"] = h.db.CleanTombstones(ctx)
	err["compact"] = h.db.Compact(ctx)
	return err
}

// Whatever stands under the path of a database by now, no file of it is touched: another database,
// a copy with files of the same names, nothing at all. What was acknowledged is where the directory
// is.
func TestHeld_NothingIsWrittenWhereAnotherDirectoryIs(t *testing.T) {
	for name, put := range map[string]func(t *testing.T, moved, dir string){
		"another database": func(t *testing.T, _, dir string) {
			db, err := tsdb.Open(dir, nil)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, db.Close()) })
		},
		"a copy":             func(t *testing.T, moved, dir string) { require.NoError(t, os.CopyFS(dir, os.DirFS(moved))) },
		"an empty directory": func(t *testing.T, _, dir string) { require.NoError(t, os.Mkdir(dir, 0o777)) },
		"nothing":            func(*testing.T, string, string) {},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			dir, moved := filepath.Join(root, "data"), filepath.Join(root, "moved")
			h := newHeld(t, dir)
			want, err := everything(h.db)
			require.NoError(t, err)
			require.NoError(t, os.Rename(dir, moved))
			put(t, moved, dir)
			_, statErr := os.Stat(dir)
			before := map[string]string{}
			if statErr == nil {
				before = diskTree(t, dir)
			}

			for what, err := range h.work() {
				if what != "head chunks" && what != "clean" { // which may have nothing to do
					require.Error(t, err, what)
				}
			}
			require.ErrorIs(t, h.commits(1), tsdb.ErrPoisoned)
			health := h.db.Health()
			require.ErrorIs(t, health, tsdb.ErrPoisoned)
			require.ErrorContains(t, health, dir)
			require.ErrorContains(t, health, "moved or replaced")
			require.Len(t, h.log.of("data directory is lost"), 1)
			got, err := everything(h.db)
			require.NoError(t, err, "reads go on")
			require.Equal(t, want, got)
			require.ErrorIs(t, h.db.Close(), tsdb.ErrPoisoned)

			if statErr == nil {
				require.Equal(t, before, diskTree(t, dir))
			} else {
				require.NoDirExists(t, dir)
			}
			require.NoDirExists(t, dir+"-copy")
			h.opts.Blocks.RetentionBytes = 0
			db, err := tsdb.Open(moved, h.opts)
			require.NoError(t, err)
			r := db.OpenReport()
			require.True(t, r.Clean(), "%+v", r)
			got, err = everything(db)
			require.NoError(t, err)
			require.Equal(t, want, got)
			require.NoError(t, db.Close())
		})
	}
}

// Commits go on until the log needs a new file: what is acknowledged is in the directory that was
// opened.
func TestHeld_CommitsEndWithTheSegment(t *testing.T) {
	root := t.TempDir()
	dir, moved := filepath.Join(root, "data"), filepath.Join(root, "moved")
	h := newHeld(t, dir)
	require.NoError(t, os.Rename(dir, moved))
	require.NoError(t, h.commits(1), "the file is open")
	want, err := everything(h.db)
	require.NoError(t, err)
	err = h.commits(10_000)
	require.ErrorIs(t, err, tsdb.ErrPoisoned)
	require.ErrorIs(t, err, tsdb.ErrNotCommitted)
	require.ErrorIs(t, h.db.Health(), tsdb.ErrPoisoned)
	require.NoDirExists(t, dir)
	require.NoError(t, os.Rename(moved, dir), "and back")
	require.ErrorIs(t, h.db.Health(), tsdb.ErrPoisoned, "it stays")
	require.Error(t, h.commits(1))
	require.ErrorIs(t, h.db.Close(), tsdb.ErrPoisoned)
	db, err := tsdb.Open(dir, h.opts)
	require.NoError(t, err)
	got, err := everything(db)
	require.NoError(t, err)
	for series, ps := range want {
		require.Equal(t, ps, got[series][:len(ps)])
	}
	require.NoError(t, db.Close())
}

// Without its lock file nobody keeps another program out.
func TestHeld_TheLockFileRemovedOrReplaced(t *testing.T) {
	for name, change := range map[string]func(lock string) error{
		"removed":  os.Remove,
		"replaced": func(lock string) error { return os.Rename(lock+".owner", lock) },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHeld(t, filepath.Join(t.TempDir(), "data"))
			require.NoError(t, h.db.Health())
			require.NoError(t, change(filepath.Join(h.dir, "lock")))
			require.ErrorIs(t, h.db.Flush(ctx), tsdb.ErrPoisoned)
			require.ErrorContains(t, h.db.Health(), "lock file was removed")
			require.ErrorIs(t, h.db.Close(), tsdb.ErrPoisoned)
		})
	}
}

// A relative path means what it meant when the database was opened.
func TestHeld_ARelativePathOutlivesAChangeOfTheWorkingDirectory(t *testing.T) {
	root := t.TempDir()
	for _, sub := range []string{"here", "there"} {
		require.NoError(t, os.Mkdir(filepath.Join(root, sub), 0o777))
	}
	t.Chdir(filepath.Join(root, "here"))
	h := newHeld(t, "data")
	require.Equal(t, filepath.Join(root, "here", "data"), h.db.Dir())
	r, err := tsdb.OpenReadOnly("data", nil)
	require.NoError(t, err)
	w, err := tsdb.NewBlockWriter("data", nil)
	require.NoError(t, err)
	require.NoError(t, w.Append(labels.FromStrings("__name__", "old"), h.next-1000*hour, 1))

	t.Chdir(filepath.Join(root, "there"))
	require.NoError(t, h.commits(2000))
	_, err = w.Flush(ctx)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.NoError(t, r.Refresh(ctx))
	require.NoError(t, r.Close())
	h.dir = "data"
	for what, err := range h.work() {
		require.NoError(t, err, what)
	}
	require.NoError(t, h.db.Health())
	require.NoError(t, h.db.Close())
	there := diskTree(t, filepath.Join(root, "there"))
	for name := range there {
		require.Contains(t, name, "data-copy", "only what was asked for relative to where it was asked")
	}
	require.NotEmpty(t, there)
	rep, err := tsdb.Verify(ctx, filepath.Join(root, "here", "data"), nil)
	require.NoError(t, err)
	require.True(t, rep.Clean())
}

// A copy to a relative path is made where that was when it was asked for, and not inside the
// database.
func TestHeld_SnapshotLooksUpARelativePathOnce(t *testing.T) {
	root := t.TempDir()
	t.Chdir(root)
	require.NoError(t, os.Mkdir("elsewhere", 0o777))
	h := newHeld(t, "data")
	defer func() { require.NoError(t, h.db.Close()) }()
	require.NoError(t, h.commits(100))
	require.ErrorIs(t, h.db.Snapshot(ctx, filepath.Join("data", "wal", "copy")), fs.ErrInvalid)
	require.ErrorIs(t, h.db.Snapshot(ctx, filepath.Join("data", "quarantine")), fs.ErrInvalid)
	require.NoError(t, h.db.Snapshot(ctx, "copy"))
	t.Chdir(filepath.Join(root, "elsewhere"))
	require.ErrorIs(t, h.db.Snapshot(ctx, filepath.Join("..", "copy")), fs.ErrExist)
	require.Empty(t, diskTree(t, filepath.Join(root, "elsewhere")))
}

// The blocks of a BlockWriter do not go into a directory that took the place of its own.
func TestHeld_ABlockWriterWritesWhereItBegan(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "data")
	w, err := tsdb.NewBlockWriter(dir, nil)
	require.NoError(t, err)
	require.NoError(t, w.Append(labels.FromStrings("a", "b"), 1, 1))
	require.NoError(t, os.Rename(dir, filepath.Join(root, "moved")))
	require.NoError(t, os.Mkdir(dir, 0o777))
	_, err = w.Flush(ctx)
	require.ErrorIs(t, err, tsdb.ErrPoisoned)
	require.NoError(t, w.Close())
	require.Empty(t, diskTree(t, dir))
}
