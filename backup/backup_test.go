package backup_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/backup"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

var ctx = context.Background()

// world is a database in memory, with a clock that moves when it is told to.
type world struct {
	*testing.T
	fs    *tsdbtest.MemFS
	clock *tsdbtest.Clock
	db    *tsdb.DB
	store *backup.DirStore
}

func newWorld(t *testing.T) *world {
	w := &world{T: t, fs: tsdbtest.NewMemFS(), clock: tsdbtest.NewClock(time.UnixMilli(1_700_000_000_000))}
	w.store = backup.NewDirStore("backups", w.fs)
	w.db = w.open("data", w.fs)
	t.Cleanup(func() { require.NoError(t, w.db.Close()) })
	return w
}

func (w *world) open(dir string, fsys tsdb.FS) *tsdb.DB {
	w.Helper()
	db, err := tsdb.Open(dir, &tsdb.Options{FS: fsys, Clock: w.clock, WAL: tsdb.WALOptions{SegmentSize: 1 << 15},
		Head:   tsdb.HeadOptions{OutOfOrderWindow: time.Hour},
		Blocks: tsdb.BlockOptions{Manual: true, Range: 10 * time.Minute, MaxRange: 30 * time.Minute}})
	require.NoError(w, err)
	return db
}

func (w *world) options() *backup.Options { return &backup.Options{FS: w.fs, Clock: w.clock} }

// scrape commits a minute of samples, and one that is late.
func (w *world) scrape(minutes int) {
	w.Helper()
	for range minutes {
		w.clock.Advance(time.Minute)
		app, now := w.db.Appender(), w.clock.Now().UnixMilli()
		for i := range 20 {
			_, err := app.Append(0, labels.FromStrings("__name__", "m", "i", fmt.Sprint(i)), now, float64(now+int64(i)))
			require.NoError(w, err)
		}
		for _, at := range []int64{now, now - 30_000} { // the second one is late
			_, err := app.Append(0, labels.FromStrings("__name__", "late"), at, 1)
			require.NoError(w, err)
		}
		_, err := app.Commit(ctx)
		require.NoError(w, err)
	}
}

func (w *world) take() backup.Result {
	w.Helper()
	r, err := backup.Take(ctx, "data", w.store, w.options())
	require.NoError(w, err)
	return r
}

// dump is all samples of a database.
func dump(t testing.TB, db interface {
	Querier(mint, maxt int64) (*tsdb.Querier, error)
}) map[string][]string {
	t.Helper()
	q, err := db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	defer func() { require.NoError(t, q.Close()) }()
	all := map[string][]string{}
	for s, err := range q.Select(ctx, nil, labels.NotEqual("__name__", "")).All() {
		require.NoError(t, err)
		name := s.Labels().String()
		for at, v := range s.Samples() {
			all[name] = append(all[name], fmt.Sprint(at, " ", v))
		}
		require.NoError(t, s.Err())
	}
	return all
}

// restored restores a backup and returns what is in it.
func (w *world) restored(name string) map[string][]string {
	w.Helper()
	dir := "restored-" + name
	_, err := backup.Restore(ctx, w.store, name, dir, w.options())
	require.NoError(w, err)
	report, err := tsdb.Verify(ctx, dir, &tsdb.VerifyOptions{FS: w.fs})
	require.NoError(w, err)
	require.True(w, report.Clean(), "%+v", report.Findings)
	db := w.open(dir, w.fs)
	r := db.OpenReport()
	require.True(w, r.Clean(), "%+v", r)
	defer func() { require.NoError(w, db.Close()) }()
	return dump(w, db)
}

// Every backup is what the database had then, whatever it did since, and what did not change is not
// stored again.
func TestTake_EachIsWhatWasThere(t *testing.T) {
	w := newWorld(t)
	want := map[string]map[string][]string{}
	var results []backup.Result
	for i := range 8 {
		w.scrape(25)
		switch i {
		case 2:
			require.NoError(t, w.db.Delete(ctx, 0, w.clock.Now().Add(-20*time.Minute).UnixMilli(), labels.Equal("i", "3")))
		case 4:
			require.NoError(t, w.db.Flush(ctx))
		}
		require.NoError(t, w.db.Compact(ctx))
		r := w.take()
		results = append(results, r)
		want[r.Name] = dump(t, w.db)
	}
	list, err := backup.List(ctx, w.store)
	require.NoError(t, err)
	require.Len(t, list, len(results))
	for i, b := range list {
		require.Equal(t, results[i].Backup, b)
		require.Equal(t, want[b.Name], w.restored(b.Name))
	}
	problems, err := backup.Verify(ctx, w.store, nil)
	require.NoError(t, err)
	require.Empty(t, problems)

	w.clock.Advance(time.Second)
	again := w.take()
	require.Zero(t, again.StoredBytes, "nothing has changed")
	require.Less(t, again.ReadBytes, again.Bytes/2, "blocks are not read again")

	name, err := backup.At(ctx, w.store, results[3].Time.Add(time.Minute), nil)
	require.NoError(t, err)
	require.Equal(t, results[3].Name, name)
	_, err = backup.At(ctx, w.store, results[0].Time.Add(-time.Millisecond), nil)
	require.ErrorIs(t, err, fs.ErrNotExist)

	p, err := backup.Prune(ctx, w.store, 2, nil)
	require.NoError(t, err)
	require.Len(t, p.Backups, 7)
	require.Positive(t, p.Objects)
	problems, err = backup.Verify(ctx, w.store, nil)
	require.NoError(t, err)
	require.Empty(t, problems)
	_, err = backup.Restore(ctx, w.store, "", "newest", w.options())
	require.NoError(t, err)
	_, err = backup.Restore(ctx, w.store, results[0].Name, "oldest", w.options())
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// An error, a kill or a power failure anywhere leaves the backups before it, and the next one
// succeeds.
func TestTake_EndsAnywhere(t *testing.T) {
	w := newWorld(t)
	w.scrape(45)
	require.NoError(t, w.db.Compact(ctx))
	first := w.take()
	wantFirst := dump(t, w.db)
	w.scrape(15)
	require.NoError(t, w.db.Compact(ctx))
	want := dump(t, w.db)
	ops := 0
	for at := 1; ; at++ {
		fs := w.fs.KillClone()
		n, cut := 0, (*tsdbtest.MemFS)(nil)
		fs.SetHook(func(op tsdbtest.Op) error {
			if !strings.HasPrefix(op.Name, "backups") || !op.Kind.Mutates() {
				return nil
			}
			if n++; n == at {
				cut = fs.CrashClone(tsdbtest.CrashOptions{})
				return errors.New("cut")
			}
			return nil
		})
		opts := &backup.Options{FS: fs, Clock: w.clock}
		_, failed := backup.Take(ctx, "data", backup.NewDirStore("backups", fs), opts)
		fs.SetHook(nil)
		if cut == nil {
			require.NoError(t, failed)
			ops = n
			break
		}
		for _, disk := range []*tsdbtest.MemFS{fs, cut} {
			if disk == fs && failed == nil {
				continue // it was of no weight
			}
			on := &world{T: t, fs: disk, clock: w.clock, store: backup.NewDirStore("backups", disk)}
			require.Equal(t, wantFirst, on.restored(first.Name))
			if disk == cut {
				continue // the data directory was not synced
			}
			r, err := backup.Take(ctx, "data", on.store, on.options())
			require.NoError(t, err, "at %d", at)
			require.Equal(t, want, on.restored(r.Name))
			problems, err := backup.Verify(ctx, on.store, nil)
			require.NoError(t, err)
			require.Empty(t, problems)
			_, err = backup.Prune(ctx, on.store, 1, on.options())
			require.NoError(t, err)
			for _, name := range disk.Files() {
				require.NotContains(t, name, ".tmp-backup")
			}
		}
	}
	require.Greater(t, ops, 20)
}

// Damage in a store is told by name, and no backup with it is restored.
func TestVerify_FindsEveryDamagedFile(t *testing.T) {
	w := newWorld(t)
	w.scrape(45)
	require.NoError(t, w.db.Compact(ctx))
	w.take()
	n := 0
	for _, name := range w.fs.Files() {
		if !strings.HasPrefix(name, "backups/objects/") && !strings.HasPrefix(name, "backups/backups/") {
			continue
		}
		n++
		for _, how := range []string{"flip", "cut", "longer", "gone"} {
			disk := w.fs.KillClone()
			b, err := disk.ReadFile(name)
			require.NoError(t, err)
			switch how {
			case "flip":
				b[len(b)/2] ^= 1
			case "cut":
				b = b[:len(b)-1]
			case "longer":
				b = append(b, 'x')
			}
			require.NoError(t, disk.Remove(name))
			if how != "gone" {
				require.NoError(t, disk.WriteFile(name, b))
			}
			store := backup.NewDirStore("backups", disk)
			problems, err := backup.Verify(ctx, store, nil)
			require.NoError(t, err)
			manifest := strings.HasPrefix(name, "backups/backups/")
			if manifest && how == "gone" {
				continue
			}
			require.NotEmpty(t, problems, "%s %s", how, name)
			_, err = backup.Restore(ctx, store, "", "restored", &backup.Options{FS: disk})
			require.Error(t, err, "%s %s", how, name)
			if how != "gone" {
				require.ErrorIs(t, problems[0].Err, tsdb.ErrCorrupt)
				require.ErrorIs(t, err, tsdb.ErrCorrupt)
			}
			_, err = disk.Stat("restored")
			require.ErrorIs(t, err, fs.ErrNotExist)
		}
	}
	require.Greater(t, n, 10)
}

func TestRestore_TakesNothingAway(t *testing.T) {
	w := newWorld(t)
	w.scrape(5)
	w.take()
	require.NoError(t, w.fs.MkdirAll("full"))
	require.NoError(t, w.fs.WriteFile("full/file", []byte("x")))
	_, err := backup.Restore(ctx, w.store, "", "full", w.options())
	require.ErrorIs(t, err, fs.ErrExist)
	require.NoError(t, w.fs.MkdirAll("empty"))
	_, err = backup.Restore(ctx, w.store, "", "empty", w.options())
	require.NoError(t, err)
	_, err = backup.Restore(ctx, backup.NewDirStore("nothing", w.fs), "", "other", w.options())
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = backup.Take(ctx, "missing", w.store, w.options())
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = backup.Take(ctx, "full", w.store, w.options())
	require.ErrorContains(t, err, "no data directory")
	_, err = backup.Prune(ctx, w.store, 0, nil)
	require.ErrorIs(t, err, tsdb.ErrInvalidArgument)
}

// A restore that ends anywhere leaves no directory that could be taken for a whole one, and the
// next one goes on.
func TestRestore_EndsAnywhere(t *testing.T) {
	w := newWorld(t)
	w.scrape(25)
	require.NoError(t, w.db.Compact(ctx))
	w.take()
	want := dump(t, w.db)
	for at := 1; ; at++ {
		disk := w.fs.KillClone()
		n, cut := 0, (*tsdbtest.MemFS)(nil)
		disk.SetHook(func(op tsdbtest.Op) error {
			if !op.Kind.Mutates() {
				return nil
			}
			if n++; n == at {
				cut = disk.CrashClone(tsdbtest.CrashOptions{})
				return errors.New("cut")
			}
			return nil
		})
		_, failed := backup.Restore(ctx, backup.NewDirStore("backups", disk), "", "restored", &backup.Options{FS: disk})
		disk.SetHook(nil)
		if cut == nil {
			require.NoError(t, failed)
			require.Greater(t, at, 20)
			return
		}
		for _, disk := range []*tsdbtest.MemFS{disk, cut} {
			on := &world{T: t, fs: disk, clock: w.clock, store: backup.NewDirStore("backups", disk)}
			_, err := disk.Stat("restored")
			if err != nil {
				_, err = backup.Restore(ctx, on.store, "", "restored", on.options())
			}
			require.NoError(t, err, "at %d", at)
			db := on.open("restored", disk)
			require.Equal(t, want, dump(t, db), "at %d", at)
			require.NoError(t, db.Close())
		}
	}
}
