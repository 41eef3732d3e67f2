package backup_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/backup"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// A block that goes while it is taken is not taken without what was deleted of it.
func TestTake_ABlockThatGoesHasItsDeletes(t *testing.T) {
	w := newWorld(t)
	w.scrape(2)
	require.NoError(t, w.db.Flush(ctx))
	require.NoError(t, w.db.Delete(ctx, math.MinInt64, w.clock.Now().UnixMilli(), labels.Equal("i", "3")))
	want := dump(t, w.db)
	for _, last := range []string{"meta.json", "tombstones", "index"} {
		on := &world{T: t, fs: w.fs.KillClone(), clock: w.clock}
		on.store, on.db = backup.NewDirStore("backups", on.fs), on.open("data", on.fs)
		id, fired := "", false
		for _, m := range on.db.Blocks() {
			if m.Stats.NumTombstones > 0 {
				id = m.ULID.String()
			}
		}
		require.NotEmpty(t, id)
		on.fs.SetHook(func(op tsdbtest.Op) error {
			if !fired && op.Name == filepath.Join("data", id, last) && op.Kind == tsdbtest.OpOpen {
				fired = true
				require.NoError(t, on.db.CleanTombstones(ctx))
			}
			return nil
		})
		r := on.take()
		on.fs.SetHook(nil)
		require.True(t, fired, last)
		require.Equal(t, want, on.restored(r.Name), last)
		require.NoError(t, on.db.Close())
	}
}

// What a process that was killed has stored is durable when a later backup counts on it.
func TestTake_WhatItFindsIsDurable(t *testing.T) {
	w := newWorld(t)
	w.scrape(15)
	for at := 1; ; at++ {
		disk, n := w.fs.KillClone(), 0
		var killed *tsdbtest.MemFS
		disk.SetHook(func(op tsdbtest.Op) error {
			if op.Kind == tsdbtest.OpSyncDir && strings.HasPrefix(op.Name, "backups") {
				if n++; n == at {
					killed = disk.KillClone()
					return errors.New("killed")
				}
			}
			return nil
		})
		_, err := backup.Take(ctx, "data", backup.NewDirStore("backups", disk), &backup.Options{FS: disk, Clock: w.clock})
		disk.SetHook(nil)
		if killed == nil {
			require.NoError(t, err)
			require.Greater(t, at, 5)
			return
		}
		_, err = backup.Take(ctx, "data", backup.NewDirStore("backups", killed), &backup.Options{FS: killed, Clock: w.clock})
		require.NoError(t, err)
		after := backup.NewDirStore("backups", killed.CrashClone(tsdbtest.CrashOptions{Choose: tsdbtest.LoseAll}))
		list, err := backup.List(ctx, after)
		require.NoError(t, err)
		require.NotEmpty(t, list, "at %d", at)
		problems, err := backup.Verify(ctx, after, nil)
		require.NoError(t, err)
		require.Empty(t, problems, "at %d", at)
	}
}

// What a restore finds of an earlier one is on stable storage when it returns.
func TestRestore_WhatItFindsIsDurable(t *testing.T) {
	w := newWorld(t)
	w.scrape(15)
	w.take()
	var killed *tsdbtest.MemFS
	w.fs.SetHook(func(op tsdbtest.Op) error {
		if killed == nil && op.Kind == tsdbtest.OpSync && strings.Contains(op.Name, "r.tmp-restore") {
			killed = w.fs.KillClone()
			return errors.New("killed")
		}
		return nil
	})
	_, err := backup.Restore(ctx, w.store, "", "r", w.options())
	require.Error(t, err)
	w.fs.SetHook(nil)
	_, err = backup.Restore(ctx, backup.NewDirStore("backups", killed), "", "r", &backup.Options{FS: killed})
	require.NoError(t, err)
	after := killed.CrashClone(tsdbtest.CrashOptions{Choose: tsdbtest.LoseAll})
	n := 0
	for _, name := range killed.Files() {
		if strings.HasPrefix(name, "r/") {
			want, err := killed.ReadFile(name)
			require.NoError(t, err)
			got, err := after.ReadFile(name)
			require.NoError(t, err, name)
			require.Equal(t, want, got, name)
			n++
		}
	}
	require.Positive(t, n)
}

// exactStore wants to know how long an object is before it reads it, as a bucket does, and takes
// nothing that is shorter then.
type exactStore struct {
	backup.Store
	before func(size int64)
}

func (s *exactStore) Put(ctx context.Context, name string, r io.Reader) error {
	sized, ok := r.(interface{ ObjectSize() (int64, error) })
	if !ok { // the manifest
		return s.Store.Put(ctx, name, r)
	}
	size, err := sized.ObjectSize()
	if err != nil {
		return err
	}
	s.before(size)
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if int64(len(text)) != size {
		return errors.New("shorter than it was said to be")
	}
	return s.Store.Put(ctx, name, bytes.NewReader(text))
}

// A segment of the log that is cut while it is stored, as room behind its end is, is taken again.
func TestTake_AFileThatGetsShorter(t *testing.T) {
	w := newWorld(t)
	w.scrape(3)
	segment := filepath.Join("data", "wal", "00000000")
	about, err := w.fs.Stat(segment)
	require.NoError(t, err)
	require.NoError(t, w.db.Close())
	f, err := w.fs.OpenWrite(segment)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, f.Truncate(about.Size()+1000)) // nothing follows: it is room
	cut := false
	store := &exactStore{Store: w.store, before: func(size int64) {
		if size == about.Size()+1000 {
			cut = true
			require.NoError(t, f.Truncate(about.Size()))
		}
	}}
	_, err = backup.Take(ctx, "data", store, w.options())
	require.NoError(t, err)
	require.True(t, cut)
	w.restored("")
}

// Two databases may be in one store, though their logs have files of one name and size.
func TestTake_TwoDatabasesInOneStore(t *testing.T) {
	fs, clock := tsdbtest.NewMemFS(), tsdbtest.NewClock(time.UnixMilli(1_700_000_000_000))
	store := backup.NewDirStore("backups", fs)
	want, names := map[string]map[string][]string{}, map[string]string{}
	for _, dir := range []string{"a", "b"} {
		opts := &tsdb.Options{FS: fs, Clock: clock, WAL: tsdb.WALOptions{SegmentSize: 1 << 15}, Blocks: tsdb.BlockOptions{Manual: true, Range: 10 * time.Minute}}
		db, err := tsdb.Open(dir, opts)
		require.NoError(t, err)
		for m := range 41 {
			app := db.Appender()
			for i := range 20 {
				_, err := app.Append(0, labels.FromStrings("__name__", "m", "who", dir, "i", fmt.Sprint(i)), 1_700_000_000_000+int64(m)*60_000, float64(m))
				require.NoError(t, err)
			}
			_, err = app.Commit(ctx)
			require.NoError(t, err)
			if m == 39 {
				require.NoError(t, db.Flush(ctx))
			}
		}
		r, err := backup.Take(ctx, dir, store, &backup.Options{FS: fs, Clock: clock})
		require.NoError(t, err)
		names[dir], want[dir] = r.Name, dump(t, db)
		require.NoError(t, db.Close())
	}
	for dir, name := range names {
		_, err := backup.Restore(ctx, store, name, "r"+dir, &backup.Options{FS: fs})
		require.NoError(t, err)
		r, err := tsdb.OpenReadOnly("r"+dir, &tsdb.Options{FS: fs})
		require.NoError(t, err)
		require.Equal(t, want[dir], dump(t, r))
		require.NoError(t, r.Close())
	}
}

// A directory may be named in any way; one that cannot be replaced is refused before anything is
// copied.
func TestRestore_IntoDirectoriesOfAnyKind(t *testing.T) {
	top := t.TempDir()
	db, err := tsdb.Open(filepath.Join(top, "data"), nil)
	require.NoError(t, err)
	app := db.Appender()
	_, err = app.Append(0, labels.FromStrings("a", "b"), time.Now().UnixMilli(), 1)
	require.NoError(t, err)
	_, err = app.Commit(ctx)
	require.NoError(t, err)
	require.NoError(t, db.Close())
	store := backup.NewDirStore(filepath.Join(top, "store"), nil)
	_, err = backup.Take(ctx, filepath.Join(top, "data"), store, nil)
	require.NoError(t, err)
	slash := filepath.Join(top, "slash") + string(filepath.Separator)
	_, err = backup.Restore(ctx, store, "", slash, nil)
	require.NoError(t, err)
	r, err := tsdb.OpenReadOnly(slash, nil)
	require.NoError(t, err)
	require.Len(t, dump(t, r), 0, "it has no name")
	require.NoError(t, r.Close())

}

// Only some users of Windows may make links: there is nothing to test for the others.
func TestRestore_IntoALink_IsRefused(t *testing.T) {
	top := t.TempDir()
	store := backup.NewDirStore(filepath.Join(top, "store"), nil)
	db, err := tsdb.Open(filepath.Join(top, "data"), nil)
	require.NoError(t, err)
	require.NoError(t, db.Close())
	_, err = backup.Take(ctx, filepath.Join(top, "data"), store, nil)
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(filepath.Join(top, "elsewhere"), 0o777))
	link := filepath.Join(top, "link")
	if err := os.Symlink(filepath.Join(top, "elsewhere"), link); err != nil {
		t.Skip("this user may not make links:", err)
	}
	_, err = backup.Restore(ctx, store, "", link, nil)
	require.ErrorIs(t, err, fs.ErrExist)
	require.ErrorContains(t, err, "is a link")
	_, err = os.Lstat(link)
	require.NoError(t, err)
	_, err = os.Stat(link + backup.RestoreSuffix)
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// Backups are in the order in which they were taken, whatever the clock shows.
func TestTake_WhenTheClockGoesBack(t *testing.T) {
	w := newWorld(t)
	var names []string
	for i := range 4 {
		w.scrape(1)
		at := tsdbtest.NewClock(time.UnixMilli(1_700_000_000_000 - int64(i/2)*3600_000)) // twice the same
		r, err := backup.Take(ctx, "data", w.store, &backup.Options{FS: w.fs, Clock: at})
		require.NoError(t, err)
		names = append(names, r.Name)
	}
	list, err := backup.List(ctx, w.store)
	require.NoError(t, err)
	require.Len(t, list, 4)
	for i, b := range list {
		require.Equal(t, names[i], b.Name)
	}
	p, err := backup.Prune(ctx, w.store, 1, nil)
	require.NoError(t, err)
	require.Equal(t, names[:3], p.Backups)
}

// A block that lacks a file is backed up as it is, and keeps nothing from being backed up.
func TestTake_OfADamagedBlock(t *testing.T) {
	w := newWorld(t)
	w.scrape(45)
	require.NoError(t, w.db.Compact(ctx))
	id := w.db.Blocks()[0].ULID.String()
	require.NoError(t, w.fs.Remove(filepath.Join("data", id, "index")))
	r := w.take()
	require.Equal(t, []string{id}, r.Damaged)
	_, err := backup.Restore(ctx, w.store, r.Name, "restored", w.options())
	require.NoError(t, err)
	report, err := tsdb.Verify(ctx, "restored", &tsdb.VerifyOptions{FS: w.fs})
	require.NoError(t, err)
	require.False(t, report.Clean())
}

// An object that is damaged is stored again when it is removed, as long as its bytes are there.
func TestRemoveDamaged_LetsTheNextBackupMend(t *testing.T) {
	w := newWorld(t)
	w.scrape(45)
	require.NoError(t, w.db.Compact(ctx))
	w.take()
	for _, name := range w.fs.Files() {
		if strings.HasPrefix(name, "backups/objects/") {
			b, err := w.fs.ReadFile(name)
			require.NoError(t, err)
			b[0] ^= 1
			require.NoError(t, w.fs.Remove(name))
			require.NoError(t, w.fs.WriteFile(name, b))
		}
	}
	problems, err := backup.Verify(ctx, w.store, nil)
	require.NoError(t, err)
	require.NotEmpty(t, problems)
	require.NoError(t, backup.RemoveDamaged(ctx, w.store, problems, w.options()))
	r := w.take()
	problems, err = backup.Verify(ctx, w.store, nil)
	require.NoError(t, err)
	require.Empty(t, problems, "those of the first one are whole again, too")
	require.Equal(t, dump(t, w.db), w.restored(r.Name))
}
