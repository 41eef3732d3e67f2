package tsdb_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/headsnap"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// snapshotFixture is a database with open and full chunks, deleted samples, and a series that
// has nothing in memory.
func snapshotFixture(t *testing.T) *fixture {
	f := newFixture(t, func(o *tsdb.Options) {
		manual(o)
		o.Head.SamplesPerChunk = 16
		o.WAL.Sync = tsdb.SyncCommit()
	})
	for k := range int64(50) {
		f.commit(sample{`{a="b"}`, k * 1000, float64(k)}, sample{`{a="c"}`, k * 1000, 1.5})
	}
	for k := range int64(16) {
		f.commit(sample{`{a="one chunk"}`, k * 1000, 2})
	}
	f.commit(sample{`{a="all deleted"}`, 1, 3})
	require.NoError(t, f.db.Delete(ctx, 10_000, 20_000, labels.Equal("a", "c")))
	require.NoError(t, f.db.Delete(ctx, math.MinInt64, math.MaxInt64, labels.Equal("a", "all deleted")))
	return f
}

// bothWays opens copies of what a kill would leave, with and without the snapshot. They
// are the same: samples, and what they take and refuse. It returns what the first one
// found.
func bothWays(t *testing.T, disk *tsdbtest.MemFS, opts tsdb.Options) tsdb.OpenReport {
	t.Helper()
	var contents [2]map[string][]point
	var answers [2][]string
	var report tsdb.OpenReport
	for i, threshold := range []int64{math.MaxInt64, -1} {
		o := opts
		o.FS, o.Head.SnapshotThreshold = disk.KillClone(), threshold
		db, err := tsdb.Open(fixtureDir, &o)
		require.NoError(t, err)
		contents[i] = dump(t, db, math.MinInt64, math.MaxInt64)
		answers[i] = askAppender(db, contents[i])
		if r := db.OpenReport(); i == 0 {
			report = r
			require.True(t, r.Clean(), "%+v", r)
		} else {
			require.Empty(t, r.Snapshot)
			require.Equal(t, r.Samples+r.SamplesInChunks, report.Samples+report.SamplesInChunks)
			require.Equal(t, r.LastSeq, report.LastSeq)
			require.LessOrEqual(t, report.Series, r.Series, "the log may have some that are gone")
		}
		require.NoError(t, db.Close())
	}
	require.Equal(t, contents[1], contents[0])
	require.Equal(t, answers[1], answers[0])
	return report
}

// askAppender appends, without committing, around the newest sample of each series, and one
// of a new series.
func askAppender(db *tsdb.DB, content map[string][]point) (answers []string) {
	app := db.Appender()
	ask := func(ls labels.Labels, ts int64, v float64) {
		ref, err := app.Append(0, ls, ts, v)
		answers = append(answers, fmt.Sprint(ls, ts, v, ref > 0, err))
	}
	var names []string
	for name := range content {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		ms, err := labels.ParseSelector(name)
		if err != nil {
			return []string{err.Error()}
		}
		var b labels.Builder
		for _, m := range ms {
			b.Set(m.Name(), m.Value())
		}
		last := content[name][len(content[name])-1]
		v := math.Float64frombits(last.V)
		for _, p := range []struct {
			t int64
			v float64
		}{{last.T - 1, v}, {last.T, v + 1}, {last.T, v}, {last.T + 1, v}} {
			ask(b.Labels(), p.t, p.v)
		}
	}
	ask(labels.FromStrings("a", "all deleted"), 0, 0)
	ask(labels.FromStrings("a", "new"), 1<<40, 0)
	answers = append(answers, fmt.Sprint(app.Rollback()))
	return answers
}

func TestHeadSnapshot_TheNextOpenFindsTheSame(t *testing.T) {
	f := snapshotFixture(t)
	require.NoError(t, tsdb.TakeHeadSnapshot(f.db))
	require.EqualValues(t, 1, f.db.Stats().HeadSnapshots)
	r := bothWays(t, f.fs, *f.opts)
	require.Equal(t, "head_snapshot.00000001", r.Snapshot)
	require.Positive(t, r.SnapshotBytes)
	require.Equal(t, 1, r.Segments, "what is before is not read")
	require.Zero(t, r.Commits)
	require.Empty(t, r.SnapshotsIgnored)

	// The log goes on behind it, with old and new series, chunks and deletes.
	for k := range int64(40) {
		f.commit(sample{`{a="b"}`, 50_000 + k*1000, float64(k)}, sample{`{a="d"}`, k, 1}, sample{`{a="one chunk"}`, 16_000 + k, 2})
	}
	require.NoError(t, f.db.Delete(ctx, 45_000, 55_000, labels.Equal("a", "b")))
	require.NoError(t, tsdb.WriteHeadChunks(f.db))
	r = bothWays(t, f.fs, *f.opts)
	require.Equal(t, "head_snapshot.00000001", r.Snapshot)
	require.Equal(t, 41, r.Commits)

	// A second one takes the place of the first.
	require.NoError(t, tsdb.TakeHeadSnapshot(f.db))
	r = bothWays(t, f.fs, *f.opts)
	require.Equal(t, "head_snapshot.00000002", r.Snapshot)
	list, err := headsnap.List(f.fs, fixtureDir)
	require.NoError(t, err)
	require.Len(t, list, 1)
	v, err := tsdb.Verify(ctx, fixtureDir, &tsdb.VerifyOptions{FS: f.fs, Clock: f.clock})
	require.NoError(t, err)
	require.Empty(t, v.Findings)
}

// A snapshot whose segment of the log went into a checkpoint goes with it.
func TestHeadSnapshot_GoesWithTheLogThatItContinuesWith(t *testing.T) {
	f := newFixture(t, manual)
	f.commit(sample{`{a="b"}`, 1000, 1})
	require.NoError(t, tsdb.TakeHeadSnapshot(f.db))
	f.commit(sample{`{a="b"}`, 2000, 2})
	require.NoError(t, f.db.Flush(ctx))
	list, err := headsnap.List(f.fs, fixtureDir)
	require.NoError(t, err)
	require.Empty(t, list)
	require.NoError(t, f.db.Close())
	v, err := tsdb.Verify(ctx, fixtureDir, &tsdb.VerifyOptions{FS: f.fs, Clock: f.clock})
	require.NoError(t, err)
	require.Empty(t, v.Findings)
	f.open()
	require.Empty(t, f.db.OpenReport().SnapshotsIgnored)
}

// What is committed, filled, stored and deleted while a snapshot is written may be in it,
// or not; the log behind it has it in any case.
func TestHeadSnapshot_WhatComesWhileItIsWrittenIsThereOnce(t *testing.T) {
	moments := []func(op tsdbtest.Op) bool{
		func(op tsdbtest.Op) bool {
			return op.Kind == tsdbtest.OpMkdirAll && strings.Contains(op.Name, "tmp-head")
		},
		func(op tsdbtest.Op) bool {
			return op.Kind == tsdbtest.OpCreate && strings.HasSuffix(op.Name, "tmp-head-snapshot/00000000")
		},
		func(op tsdbtest.Op) bool {
			return op.Kind == tsdbtest.OpWrite && strings.HasSuffix(op.Name, "tmp-head-snapshot/00000000")
		},
		func(op tsdbtest.Op) bool {
			return op.Kind == tsdbtest.OpCreate && strings.HasSuffix(op.Name, "tmp-head-snapshot/sidecar")
		},
		func(op tsdbtest.Op) bool {
			return op.Kind == tsdbtest.OpRename && strings.Contains(op.Name, "tmp-head")
		},
	}
	for i, at := range moments {
		f := snapshotFixture(t)
		done := false
		f.fs.SetHook(func(op tsdbtest.Op) error {
			if done || !at(op) {
				return nil
			}
			done = true
			for k := range int64(40) { // more than two chunks, one of them in a file
				f.commit(sample{`{a="b"}`, 50_000 + k*1000, float64(k)}, sample{`{a="while"}`, k, 1})
				if k == 20 {
					require.NoError(t, tsdb.WriteHeadChunks(f.db))
				}
			}
			require.NoError(t, f.db.Delete(ctx, 45_000, 55_000, labels.Equal("a", "b")))
			return nil
		})
		require.NoError(t, tsdb.TakeHeadSnapshot(f.db))
		f.fs.SetHook(nil)
		require.True(t, done, "moment %d", i)
		require.NotEmpty(t, bothWays(t, f.fs, *f.opts).Snapshot)
		require.NotEmpty(t, bothWays(t, f.fs.CrashClone(tsdbtest.CrashOptions{Seed: uint64(i)}), *f.opts).Snapshot, "all of it is synced")
	}
}

// A commit that is on its way when a series is copied is in the log only.
func TestHeadSnapshot_ASeriesWhoseFirstCommitFailsIsNotInIt(t *testing.T) {
	f := snapshotFixture(t)
	f.fs.SetHook(func(op tsdbtest.Op) error {
		if op.Kind == tsdbtest.OpCreate && strings.HasSuffix(op.Name, "tmp-head-snapshot/00000000") {
			f.fs.SetCapacity(f.fs.Used())
			app := f.db.Appender()
			_, err := app.Append(0, labels.FromStrings("a", "never", "long", strings.Repeat("x", 4000)), 1, 1)
			require.NoError(t, err)
			_, err = app.Commit(ctx)
			require.ErrorIs(t, err, tsdb.ErrDiskFull)
			f.fs.SetCapacity(0)
		}
		return nil
	})
	require.NoError(t, tsdb.TakeHeadSnapshot(f.db))
	f.fs.SetHook(nil)
	r := bothWays(t, f.fs, *f.opts)
	require.NotEmpty(t, r.Snapshot)
}

func TestHeadSnapshot_IsTakenByCloseAndWhileTheLogGrows(t *testing.T) {
	f := newFixture(t, func(o *tsdb.Options) {
		o.Head.SnapshotThreshold = 64 << 10 // 1 KiB at the end
		o.WAL.Compression = tsdb.CompressionNone
	})
	for k := range int64(2000) {
		f.commit(sample{`{a="b"}`, k, float64(k)}, sample{`{a="c"}`, k, float64(k)})
	}
	require.Zero(t, f.db.Stats().HeadSnapshots)
	f.clock.Advance(3 * time.Second) // when the third tick is taken, the work of the second is done
	require.EqualValues(t, 1, f.db.Stats().HeadSnapshots)
	f.clock.Advance(3 * time.Second)
	require.EqualValues(t, 1, f.db.Stats().HeadSnapshots, "nothing new")
	require.NotEmpty(t, bothWays(t, f.fs, *f.opts).Snapshot)
	want := f.all()

	f.commit(sample{`{a="b"}`, 2000, 1})
	f.reopen()
	require.Equal(t, "head_snapshot.00000001", f.db.OpenReport().Snapshot, "the log is too short for another one")
	for k := range int64(20) {
		f.commit(sample{`{a="b"}`, 2001 + k, 1})
	}
	f.reopen()
	r := f.db.OpenReport()
	require.Greater(t, r.Snapshot, "head_snapshot.00000001")
	require.Zero(t, r.Commits)
	require.Len(t, f.all()[`{a="b"}`], len(want[`{a="b"}`])+21)
	before := r.Snapshot
	f.reopen()
	require.Equal(t, before, f.db.OpenReport().Snapshot, "nothing was committed")
}

func TestHeadSnapshot_NoneIsTakenOrUsedWhenItIsOff(t *testing.T) {
	f := newFixture(t, func(o *tsdb.Options) { o.Head.SnapshotThreshold = 1 })
	f.commit(sample{`{a="b"}`, 1, 1})
	f.reopen()
	require.NotEmpty(t, f.db.OpenReport().Snapshot)
	f.opts.Head.SnapshotThreshold = -1
	f.commit(sample{`{a="b"}`, 2, 1})
	f.reopen()
	require.Empty(t, f.db.OpenReport().Snapshot)
	require.Equal(t, 2, f.db.OpenReport().Commits)
	list, err := headsnap.List(f.fs, fixtureDir)
	require.NoError(t, err)
	require.Empty(t, list)
}

// minuteBlocks makes blocks and chunks short, by hand, and each commit durable.
func minuteBlocks(o *tsdb.Options) {
	manual(o)
	o.Blocks.Range = time.Minute
	o.Head.SamplesPerChunk = 16
	o.WAL.Sync = tsdb.SyncCommit()
}

// A flush behind it makes the log shorter, and the snapshot useless or not; what blocks have
// is not read from either.
func TestHeadSnapshot_BlocksThatCameLaterKeepTheirPart(t *testing.T) {
	f := newFixture(t, func(o *tsdb.Options) {
		minuteBlocks(o)
		o.WAL.SegmentSize = 32 << 10
	})
	for k := range int64(300) {
		f.commit(sample{`{a="b"}`, k * 1000, float64(k)})
		if k < 20 {
			f.commit(sample{`{a="idle"}`, k * 1000, 1})
		}
		switch {
		case k%70 == 69:
			require.NoError(t, tsdb.TakeHeadSnapshot(f.db))
		case k%50 == 49:
			require.NoError(t, f.db.Compact(ctx))
		}
		if k%10 == 9 {
			bothWays(t, f.fs, *f.opts)
		}
	}
	require.NoError(t, f.db.Flush(ctx))
	bothWays(t, f.fs, *f.opts)
}

// A reader beside the writer begins with a snapshot, too, and changes nothing.
func TestHeadSnapshot_ReadersBeginWithIt(t *testing.T) {
	f := snapshotFixture(t)
	require.NoError(t, tsdb.TakeHeadSnapshot(f.db))
	f.commit(sample{`{a="b"}`, 100_000, 1})
	before := allFiles(t, f.fs)
	r, err := tsdb.OpenReadOnly(fixtureDir, f.opts)
	require.NoError(t, err)
	require.Equal(t, "head_snapshot.00000001", r.OpenReport().Snapshot)
	read := func() map[string][]point {
		q, err := r.Querier(math.MinInt64, math.MaxInt64)
		require.NoError(t, err)
		defer func() { require.NoError(t, q.Close()) }()
		return dumpQuerier(t, q)
	}
	require.Equal(t, f.all(), read())
	require.Equal(t, before, allFiles(t, f.fs))

	f.commit(sample{`{a="b"}`, 200_000, 1})
	require.NoError(t, tsdb.TakeHeadSnapshot(f.db)) // the first one goes
	require.NoError(t, r.Refresh(ctx))
	require.Equal(t, "head_snapshot.00000002", r.OpenReport().Snapshot)
	require.Equal(t, f.all(), read())
	require.NoError(t, r.Close())
}

// A copy of the database has the log, and needs no snapshot.
func TestHeadSnapshot_IsNotPartOfACopy(t *testing.T) {
	f := snapshotFixture(t)
	require.NoError(t, tsdb.TakeHeadSnapshot(f.db))
	require.NoError(t, f.db.Snapshot(ctx, "copy"))
	list, err := headsnap.List(f.fs, "copy")
	require.NoError(t, err)
	require.Empty(t, list)
	o := *f.opts
	db, err := tsdb.Open("copy", &o)
	require.NoError(t, err)
	require.Equal(t, f.all(), dump(t, db, math.MinInt64, math.MaxInt64))
	require.NoError(t, db.Close())
}

// A writer's checkpoint may cover the segment that a reader is about to begin with.
func TestHeadSnapshot_AReaderWhoseLogIsShortenedMeanwhileLooksAgain(t *testing.T) {
	f := newFixture(t, func(o *tsdb.Options) {
		manual(o)
		o.Blocks.Range = time.Minute
		o.WAL.SegmentSize = 32 << 10
		o.WAL.Sync = tsdb.SyncCommit()
	})
	f.commit(sample{`{a="b"}`, 0, 0})
	require.NoError(t, tsdb.TakeHeadSnapshot(f.db))
	for k := range int64(2000) {
		f.commit(sample{`{a="b"}`, 1000 + k*100, float64(k)})
	}
	done := false
	f.fs.SetHook(func(op tsdbtest.Op) error {
		if !done && op.Kind == tsdbtest.OpClose && strings.HasSuffix(op.Name, "head_snapshot.00000001/00000000") {
			done = true
			require.NoError(t, f.db.Flush(ctx)) // all of the log becomes a checkpoint
			f.commit(sample{`{a="b"}`, 1_000_000, 1})
		}
		return nil
	})
	r, err := tsdb.OpenReadOnly(fixtureDir, f.opts)
	f.fs.SetHook(nil)
	require.NoError(t, err)
	require.True(t, done)
	require.Empty(t, r.OpenReport().Damages)
	q, err := r.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	require.Equal(t, f.all(), dumpQuerier(t, q))
	require.NoError(t, q.Close())
	require.NoError(t, r.Close())
}
