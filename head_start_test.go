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
	f, base := unflushedFixture(t)
	require.NoError(t, f.db.Compact(ctx))
	require.Len(t, f.db.Blocks(), 1)
	require.Equal(t, base+2*hour, f.db.Stats().AcceptsFrom)
	return f, base + 2*hour
}

// unflushedFixture has that, and nothing of it is in a block yet.
func unflushedFixture(t *testing.T) (f *fixture, base int64) {
	f = newFixture(t, func(o *tsdb.Options) {
		manual(o)
		o.Blocks.Range = 6 * time.Hour
		o.Head.SamplesPerChunk = 16
		o.Head.OutOfOrderWindow = time.Hour
		o.WAL.Sync = tsdb.SyncCommit()
	})
	base = testNow.UnixMilli()/(6*hour)*(6*hour) - 6*hour
	for i := range int64(50) {
		f.commit(sample{`{i="0"}`, base + i*5*minute, 1})
		if i%10 == 9 {
			f.kill() // the next Open begins a segment
		}
	}
	require.NoError(t, tsdb.WriteHeadChunks(f.db))
	f.opts.Blocks.Range = 2 * time.Hour
	f.kill()
	return f, base
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

// A block that is lost is another matter: what is left of it in the log, in chunks of the head, and
// in a snapshot of it, is read at every Open.
func TestOpen_ABlockThatIsLost_IsReadFromWhatIsLeftOfIt(t *testing.T) {
	for name, c := range map[string]struct {
		snapshot bool // of the head
		crash    bool // before the log is shortened
		unlisted bool // nobody knows that there was a block
		want     int
	}{
		"chunks":              {false, false, false, 36},
		"log":                 {false, true, false, 51},
		"log, without a list": {false, true, true, 51},
		"snapshot":            {true, false, false, 51},
		"snapshot and log":    {true, true, false, 51},
	} {
		t.Run(name, func(t *testing.T) {
			f, base := unflushedFixture(t)
			f.commit(sample{`{i="0"}`, f.db.Stats().MaxT + 1000, 1})
			if c.snapshot {
				require.NoError(t, tsdb.TakeHeadSnapshot(f.db))
			}
			disk := f.fs
			f.fs.SetHook(func(op tsdbtest.Op) error {
				if c.crash && disk == f.fs && strings.HasPrefix(path.Base(op.Name), "tmp-checkpoint") {
					disk = f.fs.KillClone()
				}
				return nil
			})
			require.NoError(t, f.db.Compact(ctx))
			f.fs.SetHook(nil)
			require.Equal(t, c.crash, disk != f.fs, "the log is shortened")
			require.Equal(t, base+2*hour, f.db.Stats().AcceptsFrom)
			if disk == f.fs {
				disk = f.fs.KillClone()
			}
			require.NoError(t, f.db.Close())
			f.fs, f.opts.FS = disk, disk
			for _, name := range f.fs.Files() {
				if strings.HasSuffix(name, "/meta.json") {
					require.NoError(t, f.fs.WriteFile(name, nil))
					if c.unlisted {
						require.NoError(t, moved(path.Base(path.Dir(name)), "../attic/lost")(f.fs))
						require.NoError(t, f.fs.Remove("data/blocks.tsdb"))
					}
				}
			}
			for range 3 {
				f.open()
				require.Empty(t, f.db.Blocks())
				require.Len(t, times(f.all()[`{i="0"}`]), c.want)
				require.Equal(t, int64(math.MinInt64+1), f.db.Stats().AcceptsInOrderFrom)
				require.NoError(t, f.db.Close())
			}
			f.db = nil
		})
	}
}
