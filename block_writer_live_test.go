package tsdb_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

const day = 24 * hour

// liveDB is a database that has written samples of the last ten minutes.
func liveDB(t *testing.T, flushed bool) (*fixture, int64) {
	t.Helper()
	f := newFixture(t, manual)
	now := testNow.UnixMilli() / minute * minute
	f.scrapes(2, now-10*minute, now)
	if flushed {
		require.NoError(t, f.db.Flush(ctx))
		f.scrapes(2, now, now+minute)
	}
	return f, now
}

// History that is imported becomes the same few blocks, whether or not the head was ever flushed,
// and stays what it is, and the head with it.
func TestBlockWriter_HistoryIntoALiveDatabaseIsFewBlocksWhateverTheHeadHolds(t *testing.T) {
	blocks := map[bool]int{}
	for _, flushed := range []bool{true, false} {
		f, now := liveDB(t, flushed)
		want := f.all()
		metas := f.backfill(want, 1, 3, now-90*day, now-15*minute)
		blocks[flushed] = len(metas)
		for range 2 {
			require.NoError(t, f.db.Compact(ctx))
			require.LessOrEqual(t, len(f.db.Blocks()), len(metas)+1)
			require.Equal(t, want, f.all())
			f.reopen()
			require.Equal(t, want, f.all())
		}
		killed := f.fs.KillClone()
		require.NoError(t, f.db.Close())
		f.fs, f.opts.FS = killed, killed
		f.open()
		require.Equal(t, want, f.all(), "the log still counts")

		f.scrapes(2, now+2*minute, now+10*minute)
		for name, ps := range f.all() {
			want[name] = ps
		}
		require.NoError(t, f.db.Flush(ctx))
		require.NoError(t, f.db.Compact(ctx))
		require.Equal(t, want, f.all())
		f.reopen()
		require.Equal(t, want, f.all())
		require.LessOrEqual(t, len(f.db.Blocks()), len(metas)+2)
	}
	require.Less(t, blocks[false], 10)
	require.LessOrEqual(t, blocks[false], blocks[true]+1)
}

// Many small imports into a database whose head was never flushed are merged with each other. None
// of the blocks says anything about the head before it is written.
func TestCompact_ImportsBesideAHeadThatWasNeverFlushedAreMerged(t *testing.T) {
	f, now := liveDB(t, false)
	want := f.all()
	head := maps.Clone(want)
	const days = 60
	n := 0
	for i := range int64(days) {
		n += len(f.backfill(want, 3, 4, now-(days-i)*day, now-(days-i-1)*day-hour))
	}
	require.GreaterOrEqual(t, n, days)
	require.NoError(t, f.db.Compact(ctx))
	require.Less(t, len(f.db.Blocks()), 20)
	for _, m := range f.db.Blocks() {
		require.True(t, m.HasHint("from-out-of-order"))
	}
	for range 2 {
		require.Equal(t, want, f.all())
		for name, ps := range head {
			require.Equal(t, ps, f.all()[name], "%s of the head", name)
		}
		f.reopen()
	}
	require.NoError(t, f.db.Flush(ctx))
	require.NoError(t, f.db.Compact(ctx))
	require.Equal(t, want, f.all())
	f.reopen()
	require.Equal(t, want, f.all())
}

// watchHandles keeps in the result how many files and mappings were open at most.
func watchHandles(fs *tsdbtest.MemFS) *atomic.Int64 {
	var most atomic.Int64
	most.Store(int64(len(fs.OpenHandles())))
	fs.SetHook(func(op tsdbtest.Op) error {
		switch op.Kind {
		case tsdbtest.OpCreate, tsdbtest.OpOpen, tsdbtest.OpOpenWrite, tsdbtest.OpMmap:
			now := int64(len(fs.OpenHandles()) + 1)
			for old := most.Load(); now > old && !most.CompareAndSwap(old, now); {
				old = most.Load()
			}
		}
		return nil
	})
	return &most
}

// Ten years are as many blocks as they are windows of three weeks. Neither while they are imported
// in little memory, in many runs, nor when they are there, are many files or mappings open.
func TestBlockWriter_TenYearsIntoALiveDatabaseKeepFewFilesOpen(t *testing.T) {
	f, now := liveDB(t, false)
	before := len(f.fs.OpenHandles())
	most := watchHandles(f.fs)
	w, err := tsdb.NewBlockWriter(fixtureDir, &tsdb.BlockWriterOptions{FS: f.fs, Clock: f.clock, MemoryBytes: 1 << 20})
	require.NoError(t, err)
	// One series after the other: each run has a part of each window.
	samples, spilled := 0, 0
	for i := range 30 {
		ls := series(t, fmt.Sprintf(`{history="%d"}`, i))
		for ts := now - 3650*day; ts < now-day; ts += 2 * hour {
			require.NoError(t, w.Append(ls, ts, float64(ts)))
			samples++
		}
	}
	for _, name := range f.fs.Files() {
		if strings.Contains(name, "tmp-backfill") {
			spilled++
		}
	}
	require.Greater(t, spilled, 60, "files of runs, or the test shows nothing")
	metas, err := w.Flush(ctx)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.Less(t, len(metas), 200)
	require.Less(t, int(most.Load())-before, 30, "open at a time while %d samples are imported", samples)

	require.NoError(t, f.db.Compact(ctx))
	require.Less(t, len(f.db.Blocks()), 200)
	f.fs.SetHook(nil)
	require.LessOrEqual(t, len(f.fs.OpenHandles())-before, 2*len(f.db.Blocks())+4, "an index and a chunk segment each")
	got := 0
	for _, ps := range dump(t, f.db, math.MinInt64, now-day) {
		got += len(ps)
	}
	require.Equal(t, samples, got)
	require.True(t, slices.ContainsFunc(f.db.Blocks(), func(m tsdb.BlockMeta) bool { return m.MinTime <= now-3650*day }))
}
