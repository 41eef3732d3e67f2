package tsdb_test

import (
	"math"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// Where the head begins is known from blocks. When the last of them goes the log knows it.

// startFixture has a block of 24 samples and a head of 26. A file of the head has chunks of both,
// and one that has some of both.
func startFixture(t *testing.T) (f *fixture, start int64) {
	f = newFixture(t, func(o *tsdb.Options) {
		manual(o)
		o.Blocks.Range = 6 * time.Hour
		o.Head.SamplesPerChunk = 16
		o.Head.OutOfOrderWindow = time.Hour
		o.WAL.Sync = tsdb.SyncCommit()
	})
	base := testNow.UnixMilli()/(6*hour)*(6*hour) - 6*hour
	for i := range int64(50) {
		f.commit(sample{`{i="0"}`, base + i*5*minute, 1})
	}
	require.NoError(t, tsdb.WriteHeadChunks(f.db))
	f.opts.Blocks.Range = 2 * time.Hour
	f.kill()
	require.NoError(t, f.db.Compact(ctx))
	require.Len(t, f.db.Blocks(), 1)
	require.Equal(t, base+2*hour, f.db.Stats().AcceptsFrom)
	return f, base + 2*hour
}

// requireFrom requires the samples from a time on, however the directory is opened.
func (f *fixture) requireFrom(start int64) {
	f.t.Helper()
	check := func(got map[string][]point) {
		f.t.Helper()
		ts := times(got[`{i="0"}`])
		require.Len(f.t, ts, 26)
		require.Equal(f.t, start, ts[0])
	}
	check(f.all())
	require.LessOrEqual(f.t, start, f.db.Stats().AcceptsFrom)
	ro, err := tsdb.OpenReadOnly(fixtureDir, f.opts)
	require.NoError(f.t, err)
	q, err := ro.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(f.t, err)
	check(dumpQuerier(f.t, q))
	require.NoError(f.t, q.Close())
	require.NoError(f.t, ro.Close())
}

func TestOpen_BlocksThatRetentionTook_DoNotComeBackInChunksOfTheHead(t *testing.T) {
	for name, again := range map[string]func(*fixture){
		"killed": (*fixture).kill, "closed": (*fixture).reopen,
		"with a snapshot": func(f *fixture) {
			require.NoError(t, tsdb.TakeHeadSnapshot(f.db))
			f.kill()
			require.NotEmpty(t, f.db.OpenReport().Snapshot)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f, start := startFixture(t)
			require.NoError(t, f.db.SetRetention(tsdb.RetentionLimits{Bytes: 1}))
			require.NoError(t, f.db.Compact(ctx))
			require.Empty(t, f.db.Blocks())
			f.requireFrom(start)
			for i := range int64(3) {
				again(f)
				f.requireFrom(start)
				// Behind late samples that become a block the log is shortened.
				f.commit(sample{`{i="late"}`, f.db.Stats().MaxT - i - 1, 1})
				require.NoError(t, f.db.Compact(ctx))
				f.requireFrom(start)
			}
			require.NoError(t, f.db.Flush(ctx))
			again(f)
			f.requireFrom(start)
		})
	}
}

// A block that is lost is another matter: what the log still has of it is read.
func TestOpen_ABlockThatIsLost_IsReadFromWhatTheLogStillHas(t *testing.T) {
	f, _ := startFixture(t)
	f.commit(sample{`{i="0"}`, f.db.Stats().MaxT + 1000, 1})
	var unshortened *tsdbtest.MemFS
	f.fs.SetHook(func(op tsdbtest.Op) error {
		if unshortened == nil && strings.HasPrefix(path.Base(op.Name), "tmp-checkpoint") {
			unshortened = f.fs.KillClone()
		}
		return nil
	})
	require.NoError(t, f.db.Flush(ctx))
	f.fs.SetHook(nil)
	require.NotNil(t, unshortened)
	require.NoError(t, f.db.Close())
	f.fs, f.opts.FS = unshortened, unshortened
	for _, name := range f.fs.Files() {
		if strings.HasSuffix(name, "/meta.json") {
			require.NoError(t, f.fs.WriteFile(name, nil))
		}
	}
	for range 3 {
		f.open()
		require.Empty(t, f.db.Blocks())
		require.Len(t, times(f.all()[`{i="0"}`]), 51)
		require.NoError(t, f.db.Close())
	}
	f.db = nil
}
