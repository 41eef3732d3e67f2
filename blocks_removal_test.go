package tsdb_test

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/tsdbtest"
)

// removals watches that of a block that was moved away no file is removed before a sync of the
// data directory that succeeded; and makes those syncs fail.
type removals struct {
	t      *testing.T
	failed int             // syncs that are still to fail, once a block was moved away
	moved  map[string]bool // names that no successful sync has seen
	told   int             // syncs that failed
}

func (r *removals) hook(op tsdbtest.Op) error {
	switch base := filepath.Base(op.NewName); {
	case op.Kind == tsdbtest.OpRename && strings.HasPrefix(base, "tmp-deleted-"):
		r.moved[base] = true
	case op.Kind == tsdbtest.OpSyncDir && op.Name == fixtureDir && len(r.moved) > 0:
		if r.failed > 0 {
			r.failed--
			r.told++
			return syscall.EIO
		}
		clear(r.moved)
	case op.Kind == tsdbtest.OpRemove:
		for name := range r.moved {
			require.NotContains(r.t, op.Name, name, "removed before its new name is on the disk")
		}
	}
	return nil
}

// Blocks that were merged are moved away and then removed. In between the directory is synced,
// or a power cut could give one its name back that has lost its files.
func TestCompact_ASyncThatFailsBehindAMerge_IsReturnedAndNothingIsRemovedBeforeTheNext(t *testing.T) {
	for _, failures := range []int{1, 2, 3, 100} {
		f := newFixture(t, manual)
		start := testNow.UnixMilli() / (6 * hour) * (6 * hour)
		f.scrapes(3, start-12*hour, start)
		require.NoError(t, f.db.Flush(ctx))
		want := f.all()
		require.Len(t, f.db.Blocks(), 6)
		r := &removals{t: t, failed: failures, moved: map[string]bool{}}
		f.fs.SetHook(r.hook)
		err := f.db.Compact(ctx)
		require.ErrorIs(t, err, syscall.EIO, "%d", failures)
		require.ErrorContains(t, err, "remove block")
		require.Less(t, len(f.db.Blocks()), 6, "they are merged")
		require.Equal(t, want, f.all())
		for _, opts := range []tsdbtest.CrashOptions{{Choose: tsdbtest.LoseAll}, {Seed: 1}, {Seed: 2}} {
			crashed := *f
			crashed.fs = f.fs.CrashClone(opts)
			o := *f.opts
			o.FS = crashed.fs
			crashed.opts = &o
			crashed.open()
			report := crashed.db.OpenReport()
			require.True(t, report.Clean(), "%+v", report)
			require.Equal(t, want, crashed.all())
			require.NoError(t, crashed.db.Close())
		}

		r.failed = 0
		require.NoError(t, f.db.Compact(ctx))
		require.Empty(t, movedAway(f), "what was left is gone")
		require.Equal(t, want, f.all())
		f.fs.SetHook(nil)
		require.NoError(t, f.db.Close())
		f.db = nil
	}
}

// Likewise when nothing replaces the block: what retention and deletes let go.
func TestCompact_ASyncThatFailsBehindAnObsoleteBlock_IsReturned(t *testing.T) {
	f := newFixture(t, manual)
	start := testNow.UnixMilli() / (2 * hour) * (2 * hour)
	f.scrapes(3, start-12*hour, start)
	require.NoError(t, f.db.Flush(ctx))
	require.NoError(t, f.db.Delete(ctx, start-12*hour, start-10*hour-1))
	r := &removals{t: t, failed: 1, moved: map[string]bool{}}
	f.fs.SetHook(r.hook)
	require.ErrorIs(t, f.db.CleanTombstones(ctx), syscall.EIO)
	require.Equal(t, 1, r.told)
	require.NoError(t, f.db.Compact(ctx))
	f.fs.SetHook(nil)
	require.Empty(t, movedAway(f))
}

// Those that one who still reads them keeps are removed by the last reader.
func TestCompact_WhatAReaderHoldsIsRemovedAllTheSame(t *testing.T) {
	f := newFixture(t, manual)
	start := testNow.UnixMilli() / (6 * hour) * (6 * hour)
	f.scrapes(3, start-12*hour, start)
	require.NoError(t, f.db.Flush(ctx))
	q, err := f.db.Querier(0, start)
	require.NoError(t, err)
	want := dumpQuerier(t, q)
	f.fs.SetHook(func(op tsdbtest.Op) error {
		if op.Kind == tsdbtest.OpRename && strings.Contains(op.NewName, "tmp-deleted-") {
			return syscall.EBUSY // as where open files cannot be renamed
		}
		return nil
	})
	require.NoError(t, f.db.Compact(ctx), "a reader is no failure")
	require.Equal(t, want, dumpQuerier(t, q))
	f.fs.SetHook(nil)
	require.NoError(t, q.Close())
	require.Empty(t, movedAway(f))
	require.Len(t, blockNames(f.fs), len(f.db.Blocks()))
}

// movedAway lists what is left of blocks that were to be removed.
func movedAway(f *fixture) (names []string) {
	for _, name := range leftovers(f.t, f.fs, fixtureDir) {
		if strings.Contains(name, "tmp-") {
			names = append(names, name)
		}
	}
	return names
}
