package tsdb_test

import (
	"fmt"
	"math"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// Logs whose newest segment is empty, missing or cut between two commits look whole. What was
// noted beside them, and full chunks, know better.

// reachFixture has two log segments: series old stands in the first and has samples in both,
// series born in the second only. In both segments there is a full chunk of old, in the second
// one of born. Samples of the first are those before half.
func reachFixture(t *testing.T) (f *fixture, half int64) {
	f = newFixture(t, func(o *tsdb.Options) {
		manual(o)
		o.Head.SamplesPerChunk = 16
		o.WAL.Sync = tsdb.SyncCommit()
	})
	base := testNow.UnixMilli() / (2 * hour) * (2 * hour)
	half = base + 24_000
	for ts := base; ts < half; ts += 1000 {
		f.commit(sample{`{i="old"}`, ts, 1})
	}
	f.reopen()
	for ts := half; ts < half+40_000; ts += 1000 {
		f.commit(sample{`{i="old"}`, ts, 2}, sample{`{i="born"}`, ts, 3})
	}
	require.NoError(t, tsdb.WriteHeadChunks(f.db))
	return f, half
}

// newestSegment returns the path of the newest log segment that has commits.
func newestSegment(t *testing.T, fs *tsdbtest.MemFS) (newest string) {
	t.Helper()
	for _, name := range fs.Files() {
		if dir, base := path.Split(name); dir == "data/wal/" && strings.Trim(base, "0123456789") == "" {
			newest = max(newest, name)
		}
	}
	require.NotEmpty(t, newest)
	return newest
}

func times(ps []point) (ts []int64) {
	for _, p := range ps {
		ts = append(ts, p.T)
	}
	return ts
}

func TestOpen_NewestLogSegmentEmptyMissingOrCut_ServesChunksAndSaysWhatIsLost(t *testing.T) {
	damages := map[string]func(*testing.T, *tsdbtest.MemFS){
		"empty":   func(t *testing.T, fs *tsdbtest.MemFS) { require.NoError(t, fs.WriteFile(newestSegment(t, fs), nil)) },
		"missing": func(t *testing.T, fs *tsdbtest.MemFS) { require.NoError(t, fs.Remove(newestSegment(t, fs))) },
		"cut": func(t *testing.T, fs *tsdbtest.MemFS) { // behind its header
			name := newestSegment(t, fs)
			data, err := fs.ReadFile(name)
			require.NoError(t, err)
			size := 7 + int(data[1])<<8 + int(data[2])
			require.NoError(t, fs.WriteFile(name, data[:size]))
		},
	}
	for name, damage := range damages {
		for _, closed := range []bool{false, true} {
			for _, noted := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s, closed %t, noted %t", name, closed, noted), func(t *testing.T) {
					f, half := reachFixture(t)
					all := times(f.all()[`{i="old"}`])
					fs := f.fs.KillClone()
					if closed {
						require.NoError(t, f.db.Close())
						f.db = nil
						fs = f.fs
					}
					if !noted {
						require.NoError(t, fs.Remove("data/log_reach"))
					}
					damage(t, fs)
					opts := *f.opts
					opts.FS = fs
					requireCutLog(t, &opts, all, half, noted)
				})
			}
		}
	}
}

// requireCutLog opens a directory of reachFixture that has lost its second segment, in all ways.
func requireCutLog(t *testing.T, opts *tsdb.Options, all []int64, half int64, noted bool) {
	t.Helper()
	verified, err := tsdb.Verify(ctx, "data", &tsdb.VerifyOptions{FS: opts.FS})
	require.NoError(t, err)
	require.False(t, verified.Clean(), "%+v", verified.Findings)

	check := func(got map[string][]point, r tsdb.OpenReport) {
		t.Helper()
		require.False(t, r.Clean())
		require.Len(t, r.Damages, 1)
		require.False(t, r.Damages[0].Tail)
		if noted {
			require.Equal(t, 40, r.DroppedCommits)
		}
		require.Positive(t, r.ChunksBeyondLog)
		require.Positive(t, r.ChunksUnknown, "those of born")
		old := times(got[`{i="old"}`])
		require.Equal(t, all[:len(old)], old)
		require.Greater(t, old[len(old)-1], half, "full chunks are served")
		require.Len(t, got, 1)
	}
	ro, err := tsdb.OpenReadOnly("data", opts)
	require.NoError(t, err)
	q, err := ro.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	served := dumpQuerier(t, q)
	check(served, ro.OpenReport())
	require.NoError(t, q.Close())
	require.NoError(t, ro.Close())

	for round := range 3 {
		db, err := tsdb.Open("data", opts)
		require.NoError(t, err)
		if round == 0 {
			check(dump(t, db, math.MinInt64, math.MaxInt64), db.OpenReport())
		} else {
			r := db.OpenReport()
			require.True(t, r.Clean(), "it was told: %+v", r.Damages)
			require.Equal(t, served[`{i="old"}`], dump(t, db, math.MinInt64, math.MaxInt64, labels.Equal("i", "old"))[`{i="old"}`])
		}
		commitRows(t, db, rows{{`{i="born"}`, all[len(all)-1] + int64(round+1)*1000, 4}})
		require.NoError(t, db.Close())
	}
	verified, err = tsdb.Verify(ctx, "data", &tsdb.VerifyOptions{FS: opts.FS})
	require.NoError(t, err)
	require.True(t, verified.Clean(), "%+v", verified.Findings)
}

// What a checkpoint left of the log may be the series alone: their chunks are served all the same.
func TestOpen_LogBehindACheckpointGone_ServesChunksThatAreNotInIt(t *testing.T) {
	for how := range 4 {
		noted, empty := how%2 == 0, how/2 == 0
		f, _ := reachFixture(t)
		require.NoError(t, f.db.Flush(ctx))
		last := f.all()[`{i="old"}`]
		from := last[len(last)-1].T + 1000
		for ts := from; ts < from+40_000; ts += 1000 {
			f.commit(sample{`{i="old"}`, ts, 5})
		}
		require.NoError(t, tsdb.WriteHeadChunks(f.db))
		want := f.all()[`{i="old"}`]
		fs := f.fs.KillClone()
		opts := *f.opts
		opts.FS = fs
		require.NoError(t, fs.Remove(newestSegment(t, fs)))
		if empty {
			require.NoError(t, fs.WriteFile(newestSegment(t, f.fs), nil))
		}
		if !noted {
			require.NoError(t, fs.Remove("data/log_reach"))
		}
		for round := range 3 {
			db, err := tsdb.Open("data", &opts)
			require.NoError(t, err)
			r := db.OpenReport()
			require.Equal(t, round > 0, r.Clean(), "%+v", r)
			got := dump(t, db, math.MinInt64, math.MaxInt64)[`{i="old"}`]
			require.Equal(t, want[:len(got)], got)
			require.GreaterOrEqual(t, got[len(got)-1].T, from+31_000, "full chunks")
			require.NoError(t, db.Close())
		}
	}
}

// Chunks that are left over from before everything was deleted and flushed are no loss.
func TestOpen_ChunksFromBeforeTheLogWasTruncated_DoNotComeBack(t *testing.T) {
	f, _ := reachFixture(t)
	require.NoError(t, f.db.Delete(ctx, math.MinInt64, math.MaxInt64, labels.Equal("i", "old")))
	require.NoError(t, f.db.Delete(ctx, math.MinInt64, math.MaxInt64, labels.Equal("i", "born")))
	fs := f.fs.KillClone()
	require.NoError(t, f.db.Flush(ctx))
	require.Empty(t, f.all())
	require.NoError(t, f.db.Close())
	for _, name := range fs.Files() { // as a truncation that could not remove them leaves it
		if strings.HasPrefix(name, "data/chunks_head/") && !slices.Contains(f.fs.Files(), name) {
			data, err := fs.ReadFile(name)
			require.NoError(t, err)
			require.NoError(t, f.fs.WriteFile(name, data))
		}
	}
	f.open()
	for range 2 {
		r := f.db.OpenReport()
		require.True(t, r.Clean(), "%+v", r)
		require.Positive(t, r.HeadChunks)
		require.Empty(t, f.all())
		f.reopen()
	}
}

// Without a note a snapshot of the head knows how far the log reached.
func TestOpen_LogThatEndsBeforeWhatASnapshotKnows_IsDamage(t *testing.T) {
	f, half := reachFixture(t)
	require.NoError(t, tsdb.TakeHeadSnapshot(f.db))
	fs := f.fs.KillClone()
	require.NoError(t, fs.Remove("data/log_reach"))
	newest := newestSegment(t, fs)
	require.NoError(t, fs.Remove(newest)) // that of the snapshot, which has no commit yet
	require.NoError(t, fs.WriteFile(newestSegment(t, fs), nil))
	for name, data := range dataFiles(t, fs) { // nor is there a full chunk that shows it
		if strings.HasPrefix(name, "chunks_head/") {
			require.NotEmpty(t, data)
			require.NoError(t, fs.Remove("data/"+name))
		}
	}
	opts := *f.opts
	opts.FS = fs
	db, err := tsdb.Open("data", &opts)
	require.NoError(t, err)
	r := db.OpenReport()
	require.False(t, r.Clean())
	require.Equal(t, 40, r.DroppedCommits)
	require.NotEmpty(t, r.SnapshotsIgnored)
	require.Contains(t, r.Quarantined, "quarantine/head_snapshot.00000002")
	got := times(dump(t, db, math.MinInt64, math.MaxInt64)[`{i="old"}`])
	require.Less(t, got[len(got)-1], half)
	require.NoError(t, db.Close())
}
