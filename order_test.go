package tsdb_test

import (
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// What must come before what: the log before chunks and blocks, an older commit before a newer
// one, a sample into a block before it leaves the log.

// A sample exactly where the head begins after a flush is in no block: the checkpoint keeps it,
// also when nothing of its segment is newer, and when an older one was committed with it.
func TestCheckpoint_KeepsTheSampleWhereTheHeadBegins(t *testing.T) {
	base := testNow.UnixMilli() / (2 * hour) * (2 * hour)
	border := base + 2*hour
	for _, pair := range []bool{false, true} {
		const n = 1500
		f := newFixture(t, func(o *tsdb.Options) {
			manual(o)
			o.WAL.SegmentSize, o.WAL.Sync, o.Limits.MaxFuture = 32<<10, tsdb.SyncNever(), -1
		})
		refs := make([]tsdb.SeriesRef, n)
		commit := func(ts ...int64) { // one commit for each series
			for i := range refs {
				app := f.db.Appender()
				for _, at := range ts {
					ref, err := app.Append(refs[i], labels.FromStrings("i", fmt.Sprint(i)), at, float64(at))
					require.NoError(t, err)
					refs[i] = ref
				}
				_, err := app.Commit(ctx)
				require.NoError(t, err)
			}
		}
		commit(base)
		if pair {
			commit(border-1, border)
		} else {
			commit(border)
		}
		commit(border + 2*hour)
		commit(border + 2*hour + 1)
		want := f.all()
		checkpoints := f.db.Stats().Checkpoints
		require.NoError(t, f.db.Compact(ctx))
		require.Len(t, f.db.Blocks(), 1)
		require.Equal(t, border, f.db.Blocks()[0].MaxTime)
		require.Equal(t, checkpoints+1, f.db.Stats().Checkpoints)
		require.Equal(t, want, f.all())
		opts := *f.opts
		opts.FS = f.fs.KillClone()
		db, err := tsdb.Open(fixtureDir, &opts)
		require.NoError(t, err)
		require.Equal(t, want, dump(t, db, base, border+4*hour))
		require.NoError(t, db.Close())
	}
}

// Neither full chunks nor a block are written when the log, which must have their samples first,
// could not be synced.
func TestSync_ThatFailsLetsNothingBeWrittenBehindTheLog(t *testing.T) {
	for what, do := range map[string]func(*tsdb.DB) error{
		"chunks": tsdb.WriteHeadChunks,
		"block":  func(db *tsdb.DB) error { return db.Flush(ctx) },
	} {
		t.Run(what, func(t *testing.T) {
			f := newFixture(t, func(o *tsdb.Options) { manual(o); o.WAL.Sync, o.Head.SamplesPerChunk = tsdb.SyncNever(), 16 })
			for i := range int64(100) {
				f.commit(sample{`{a="b"}`, testNow.UnixMilli() + i, float64(i)})
			}
			require.Positive(t, f.db.Stats().FullBytes)
			synced := 0
			var behind []string
			f.fs.SetHook(func(op tsdbtest.Op) error {
				switch {
				case op.Kind == tsdbtest.OpSync && strings.HasPrefix(op.Name, fixtureDir+"/wal/"):
					synced++
					return syscall.EIO
				case op.Kind == tsdbtest.OpWrite, op.Kind == tsdbtest.OpMkdirAll:
					behind = append(behind, op.Name)
				}
				return nil
			})
			require.ErrorIs(t, do(f.db), tsdb.ErrPoisoned)
			f.fs.SetHook(nil)
			require.Equal(t, 1, synced)
			require.Empty(t, behind)
			require.ErrorIs(t, f.db.Health(), tsdb.ErrPoisoned)
			require.Error(t, f.db.Close())
			f.db = nil
		})
	}
}

// A flush raises the least time that is taken to behind what it writes. What was staged before, and
// is older, is refused by Commit; a sample exactly there is taken.
func TestCommit_RefusesWhatAFlushHasPassedMeanwhile(t *testing.T) {
	f := newFixture(t, manual)
	f.commit(sample{`{i="0"}`, 100, 1})
	app := f.db.Appender()
	for i, at := range []int64{99, 100, 101} {
		_, err := app.Append(0, series(t, fmt.Sprintf(`{i="%d"}`, i+1)), at, 2)
		require.NoError(t, err)
	}
	require.NoError(t, f.db.Flush(ctx)) // up to 101
	res, err := app.Commit(ctx)
	require.NoError(t, err)
	require.Equal(t, 1, res.Samples)
	require.Len(t, res.Rejected, 2)
	for i, r := range res.Rejected {
		require.Equal(t, i, r.Index)
		require.ErrorIs(t, r.Err, tsdb.ErrOutOfBounds)
		var bounds *tsdb.BoundsError
		require.ErrorAs(t, r.Err, &bounds)
		require.Equal(t, tsdb.BoundsError{T: int64(99 + i), From: 101, To: f.db.Stats().AcceptsTo}, *bounds)
	}
	want := map[string][]point{`{i="0"}`: points(100, 1), `{i="3"}`: points(101, 2)}
	require.Equal(t, want, f.all())
	f.reopen()
	require.Equal(t, want, f.all())
}

// A commit that has its place in the log, and is not applied yet, is waited for by a flush: the
// block has it.
func TestFlush_WaitsForCommitsThatAreOnTheirWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, func(o *tsdb.Options) { manual(o); o.WAL.Sync = tsdb.SyncNever() })
		f.commit(sample{`{i="0"}`, 100, 1}, sample{`{i="1"}`, 50, 1})
		hold, held := make(chan struct{}), false
		release := sync.OnceFunc(func() { close(hold) })
		defer release()
		var behind []string
		f.fs.SetHook(func(op tsdbtest.Op) error {
			switch {
			case op.Kind == tsdbtest.OpWrite && ofTheLog(op) && !held:
				held = true
				<-hold
			case op.Kind == tsdbtest.OpMkdirAll:
				behind = append(behind, op.Name)
			}
			return nil
		})
		committed, flushed := make(chan error, 1), make(chan error, 1)
		app := f.db.Appender()
		_, err := app.Append(0, series(t, `{i="1"}`), 60, 2)
		require.NoError(t, err)
		go func() { _, err := app.Commit(ctx); committed <- err }()
		synctest.Wait()
		require.True(t, held)
		go func() { flushed <- f.db.Flush(ctx) }()
		synctest.Wait()
		require.Empty(t, behind, "no block is begun")
		release()
		require.NoError(t, <-committed)
		require.NoError(t, <-flushed)
		f.fs.SetHook(nil)
		require.NotEmpty(t, behind)
		require.EqualValues(t, 3, f.db.Blocks()[0].Stats.NumSamples)
		want := map[string][]point{`{i="0"}`: points(100, 1), `{i="1"}`: points(50, 1, 60, 2)}
		require.Equal(t, want, f.all())
		f.reopen()
		require.Equal(t, want, f.all())
		require.NoError(t, f.db.Close())
		f.db = nil
	})
}
