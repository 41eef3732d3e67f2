package tsdb_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// requireOrderedChunks checks what other engines want of head-chunk files: the chunks of a series
// follow each other.
func requireOrderedChunks(t *testing.T, disk *tsdbtest.MemFS) {
	t.Helper()
	h, err := chunks.OpenHead(disk, fixtureDir+"/chunks_head", chunks.HeadOptions{})
	require.NoError(t, err)
	last := map[chunks.SeriesRef]int64{}
	_, err = h.Load(func(c chunks.HeadChunk) error {
		if maxt, ok := last[c.Series]; ok {
			require.Greater(t, c.MinT, maxt, "series %d", c.Series)
		}
		last[c.Series] = c.MaxT
		return nil
	})
	require.NoError(t, err)
	require.NoError(t, h.Close())
}

// openAndStore opens a disk with a snapshot, puts full chunks into files, and closes it.
func openAndStore(t *testing.T, disk *tsdbtest.MemFS, opts tsdb.Options) tsdb.OpenReport {
	t.Helper()
	opts.FS = disk
	db, err := tsdb.Open(fixtureDir, &opts)
	require.NoError(t, err)
	require.NoError(t, tsdb.WriteHeadChunks(db))
	require.NoError(t, db.Close())
	return db.OpenReport()
}

// Chunks that come into files while a snapshot is written, before or behind the copy of their
// series, are found by recovery and not written once more.
func TestHeadSnapshot_ChunksStoredMeanwhileAreThereOnce(t *testing.T) {
	for _, at := range []string{"/00000000", "/sidecar"} {
		for _, kind := range []tsdbtest.OpKind{tsdbtest.OpCreate, tsdbtest.OpWrite, tsdbtest.OpSync} {
			f := snapshotFixture(t)
			done := false
			f.fs.SetHook(func(op tsdbtest.Op) error {
				if !done && op.Kind == kind && strings.HasSuffix(op.Name, "tmp-head-snapshot"+at) {
					done = true
					for k := range int64(40) {
						f.commit(sample{`{a="b"}`, 50_000 + k*1000, float64(k)}, sample{`{a="new"}`, k, 1})
					}
					require.NoError(t, tsdb.WriteHeadChunks(f.db))
				}
				return nil
			})
			require.NoError(t, tsdb.TakeHeadSnapshot(f.db))
			f.fs.SetHook(nil)
			require.True(t, done)
			require.NotEmpty(t, bothWays(t, f.fs, *f.opts).Snapshot)
			disk := f.fs.KillClone()
			require.NotEmpty(t, openAndStore(t, disk, *f.opts).Snapshot)
			requireOrderedChunks(t, disk)
			disk = f.fs.CrashClone(tsdbtest.CrashOptions{Choose: tsdbtest.LoseAll})
			require.NotEmpty(t, openAndStore(t, disk, *f.opts).Snapshot, "what it says is in files is synced")
			requireOrderedChunks(t, disk)
		}
	}
}
