package tsdb_test

import (
	"fmt"
	"math"
	"path"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/sweep"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

func TestStats_BeginAtZero(t *testing.T) {
	f := newFixture(t, nil)
	s := f.db.Stats()
	require.Positive(t, s.HeadSizeBytes)
	require.Positive(t, s.Log.Bytes, "the header of the first segment")
	s.HeadSizeBytes, s.Log.Bytes = 0, 0
	s.Log.Syncs, s.Log.SyncTime, s.Log.MaxSync, s.Log.LastSync = 0, 0, 0, 0
	require.Equal(t, tsdb.Stats{MinT: math.MaxInt64, MaxT: math.MinInt64, MaxExemplars: 100_000,
		AcceptsFrom: math.MinInt64 + 1, AcceptsInOrderFrom: math.MinInt64 + 1, AcceptsTo: testNow.Add(time.Hour).UnixMilli(), Log: tsdb.LogStats{Segments: 1}}, s)
}

func TestStats_CountCommitsSamplesAndSeries(t *testing.T) {
	f := newFixture(t, nil)
	f.commit(sample{`{a="b"}`, -5, 1}, sample{`{a="c"}`, 7, 1})
	f.commit(sample{`{a="b"}`, 10, 1})
	slow := f.db.Appender()
	for i, ls := range []string{`{a="b"}`, `{a="c"}`, `{a="d"}`} {
		_, err := slow.Append(0, series(t, ls), 20, float64(i))
		require.NoError(t, err)
	}
	f.commit(sample{`{a="b"}`, 30, 1}, sample{`{a="c"}`, 20, 1}) // an exact repeat of what is on its way
	res, err := slow.Commit(ctx)
	require.NoError(t, err)
	require.Len(t, res.Rejected, 1)
	rolled := f.db.Appender()
	_, err = rolled.Append(0, series(t, `{a="gone"}`), 1, 1)
	require.NoError(t, err)
	_, err = rolled.Append(0, series(t, `{a="b"}`), 1, 1)
	require.ErrorIs(t, err, tsdb.ErrOutOfOrder)
	require.Equal(t, 4, f.db.Stats().Series, "it counts while somebody may commit it")
	require.NoError(t, rolled.Rollback())
	empty := f.db.Appender()
	_, err = empty.Commit(ctx)
	require.NoError(t, err)

	s := f.db.Stats()
	require.Equal(t, 3, s.Series)
	require.EqualValues(t, -5, s.MinT)
	require.EqualValues(t, 30, s.MaxT)
	require.EqualValues(t, 4, s.Commits, "without the empty one")
	require.Zero(t, s.CommitsFailed)
	require.EqualValues(t, 6, s.SamplesAppended)
	require.EqualValues(t, 1, s.SamplesRejected)
	require.EqualValues(t, 4, s.SeriesCreated)
	require.EqualValues(t, 1, s.SeriesRemoved)
	require.EqualValues(t, 4, s.Log.Commits)
	require.EqualValues(t, 4, s.Log.Writes)
	require.Equal(t, 1, s.Log.MaxGroup)

	f.reopen()
	s = f.db.Stats()
	require.Equal(t, 3, s.Series)
	require.EqualValues(t, -5, s.MinT)
	require.EqualValues(t, 30, s.MaxT)
	require.Zero(t, s.Commits)
	require.Zero(t, s.SeriesCreated)
	require.Equal(t, 1, s.Log.Segment)
}

// Samples that are not taken count by the reason, whoever finds out, when their Appender ends.
func TestStats_CountRefusedSamplesByTheReason(t *testing.T) {
	f := newFixture(t, nil)
	f.commit(sample{`{a="b"}`, 100, 1})
	future := testNow.Add(2 * time.Hour).UnixMilli()
	refused := func() []uint64 {
		s := f.db.Stats()
		return []uint64{s.SamplesOutOfOrder, s.SamplesDuplicate, s.SamplesOutOfBounds}
	}
	one, slow := f.db.Appender(), f.db.Appender()
	ref, err := one.Append(0, series(t, `{a="b"}`), 99, 1)
	require.ErrorIs(t, err, tsdb.ErrOutOfOrder)
	_, err = one.Append(ref, labels.Labels{}, 100, 2)
	require.ErrorIs(t, err, tsdb.ErrDuplicateSample)
	_, err = one.Append(ref, labels.Labels{}, 100, 1)
	require.NoError(t, err, "an exact repeat")
	_, err = one.Append(ref, labels.Labels{}, future, 1)
	require.ErrorIs(t, err, tsdb.ErrOutOfBounds)
	_, err = one.Append(1<<40, labels.Labels{}, 1, 1)
	require.ErrorIs(t, err, tsdb.ErrNotFound)
	rejected, err := one.AppendBatch(98, []tsdb.SeriesRef{ref, ref}, []float64{1, 1}, nil)
	require.NoError(t, err)
	require.Len(t, rejected, 2)
	require.Equal(t, []uint64{0, 0, 0}, refused(), "it is under way")
	require.NoError(t, one.Rollback())
	require.Equal(t, []uint64{3, 1, 1}, refused())

	_, err = slow.Append(ref, labels.Labels{}, 110, 1)
	require.NoError(t, err)
	f.commit(sample{`{a="b"}`, 120, 1})
	res, err := slow.Commit(ctx)
	require.NoError(t, err)
	require.Len(t, res.Rejected, 1)
	require.Equal(t, []uint64{4, 1, 1}, refused())
	require.EqualValues(t, 1, f.db.Stats().SamplesRejected)
}

// Samples count by kind, those that are taken and those that are not, whoever finds out.
func TestStats_CountSamplesByKind(t *testing.T) {
	f := newFixture(t, nil)
	ints, counts := bucketed(1, 2), bucketed(1, 2).ToFloat(nil)
	stage := func(app *tsdb.Appender, at int64) {
		for i, s := range []tsdb.Sample{{V: 1}, {V: 1, ST: 1}, {H: ints}, {H: ints, ST: 1}, {H: ints}, {FH: counts}} {
			s.T = at
			_, err := app.AppendSample(0, series(t, fmt.Sprintf(`{i="%d"}`, i)), s)
			require.NoError(t, err)
		}
	}
	first, slow := f.db.Appender(), f.db.Appender()
	stage(first, 100)
	stage(slow, 90)
	res, err := first.Commit(ctx)
	require.NoError(t, err)
	require.Equal(t, tsdb.CommitResult{Samples: 6, Floats: 2, Histograms: 3, FloatHistograms: 1}, res)
	res, err = slow.Commit(ctx)
	require.NoError(t, err)
	require.Len(t, res.Rejected, 6)
	require.Zero(t, res.Samples+res.Floats+res.Histograms+res.FloatHistograms)

	app := f.db.Appender()
	ls := series(t, `{i="5"}`)
	_, err = app.AppendSample(0, ls, tsdb.Sample{T: 99, FH: counts})
	require.ErrorIs(t, err, tsdb.ErrOutOfOrder)
	_, err = app.AppendSample(0, ls, tsdb.Sample{T: 100, H: ints})
	require.ErrorIs(t, err, tsdb.ErrDuplicateSample)
	_, err = app.AppendSample(0, ls, tsdb.Sample{T: math.MaxInt64, FH: counts})
	require.ErrorIs(t, err, tsdb.ErrOutOfBounds)
	_, err = app.Append(0, ls, 100, 1)
	require.ErrorIs(t, err, tsdb.ErrDuplicateSample)
	require.NoError(t, app.Rollback())

	s := f.db.Stats()
	require.Equal(t, [4]uint64{6, 2, 3, 1}, [4]uint64{s.SamplesAppended, s.FloatsAppended, s.HistogramsAppended, s.FloatHistogramsAppended})
	require.Equal(t, [3]uint64{7, 2, 1}, [3]uint64{s.SamplesOutOfOrder, s.SamplesDuplicate, s.SamplesOutOfBounds})
	require.Equal(t, [3]uint64{5, 1, 1}, [3]uint64{s.HistogramsOutOfOrder, s.HistogramsDuplicate, s.HistogramsOutOfBounds})
}

// The number of chunks of the head is that of counting them, whatever becomes of them.
func TestStats_CountChunksOfTheHead(t *testing.T) {
	f := newFixture(t, func(o *tsdb.Options) {
		o.Blocks.Manual = true
		o.Head.SamplesPerChunk = 16
	})
	check := func(what string, removed bool) {
		t.Helper()
		s := f.db.Stats()
		require.Equal(t, tsdb.HeadChunks(f.db), s.HeadChunks, what)
		require.Equal(t, removed, s.HeadChunksRemoved > 0, what)
		require.Less(t, s.HeadChunksRemoved, uint64(1000), what)
	}
	check("empty", false)
	base := testNow.UnixMilli() / (2 * hour) * (2 * hour)
	f.scrapes(5, base-4*hour, base-2*hour)
	check("of one range", false)
	require.Greater(t, f.db.Stats().HeadChunks, 10)
	require.EqualValues(t, f.db.Stats().HeadChunks, f.db.Stats().HeadChunksCreated)
	f.scrapes(3, base-2*hour, base-10*minute)
	f.reopen()
	check("after a replay", false)
	require.Zero(t, f.db.Stats().HeadChunksCreated)
	require.NoError(t, tsdb.TakeHeadSnapshot(f.db))
	f.scrapes(3, base-10*minute, base-minute)
	f.reopen()
	check("after a snapshot", false)
	require.NoError(t, f.db.Delete(ctx, base-4*hour, base-3*hour))
	check("after a delete", false)
	f.commit(sample{`{i="9"}`, base + 20*minute, 1})
	require.NoError(t, f.db.Compact(ctx))
	require.NotEmpty(t, f.db.Blocks())
	check("after a flush", true)
	require.NoError(t, f.db.Flush(ctx))
	check("when all is in blocks", true)
	f.scrapes(4, base+21*minute, base+30*minute)
	check("again", true)
	f.reopen()
	check("again after a replay", false)
}

// What maintenance does, and what of it fails, is counted.
func TestStats_CountMaintenance(t *testing.T) {
	f := newFixture(t, manual)
	base := testNow.UnixMilli() / (2 * hour) * (2 * hour)
	f.scrapes(2, base-4*hour, base-2*hour)
	failOn(f.fs, tsdbtest.OpWrite, "checkpoint")
	require.Error(t, f.db.Flush(ctx))
	f.fs.SetHook(nil)
	s := f.db.Stats()
	require.Equal(t, []uint64{0, 1}, []uint64{s.Checkpoints, s.CheckpointErrors})
	f.scrapes(2, base-2*hour, base)
	require.NoError(t, f.db.Flush(ctx))
	s = f.db.Stats()
	require.Equal(t, []uint64{1, 1}, []uint64{s.Checkpoints, s.CheckpointErrors})

	require.NoError(t, f.db.Compact(ctx))
	s = f.db.Stats()
	require.Equal(t, []uint64{1, 0}, []uint64{s.Reloads, s.ReloadErrors})
	bad := path.Join(fixtureDir, numberedULID(7).String())
	require.NoError(t, f.fs.MkdirAll(bad))
	require.NoError(t, f.fs.WriteFile(path.Join(bad, "meta.json"), []byte("{")))
	require.Error(t, f.db.Compact(ctx))
	s = f.db.Stats()
	require.Equal(t, []uint64{2, 1}, []uint64{s.Reloads, s.ReloadErrors})
}

func TestStats_CountWhyRetentionRemovesBlocks(t *testing.T) {
	for _, c := range []struct {
		name string
		set  func(*tsdb.BlockOptions)
		want []uint64
	}{
		{"nothing", func(*tsdb.BlockOptions) {}, []uint64{0, 0}},
		{"by time", func(o *tsdb.BlockOptions) { o.Retention = 3 * time.Hour }, []uint64{1, 0}},
		{"by bytes", func(o *tsdb.BlockOptions) { o.RetentionBytes = 1 }, []uint64{0, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t, func(o *tsdb.Options) {
				o.Blocks.Manual = true
				c.set(&o.Blocks)
			})
			base := testNow.UnixMilli() / (2 * hour) * (2 * hour)
			for from := base - 8*hour; from < base; from += 2 * hour {
				f.scrapes(2, from, from+2*hour)
				require.NoError(t, f.db.Flush(ctx))
			}
			require.NoError(t, f.db.Compact(ctx))
			s := f.db.Stats()
			require.Equal(t, c.want, []uint64{s.TimeRetentions, s.ByteRetentions})
			require.Equal(t, c.want[0]+c.want[1] > 0, s.BlocksRemoved > 0)
		})
	}
}

func TestStats_CountFailedCommits(t *testing.T) {
	f := newFixture(t, nil)
	f.commit(sample{`{a="b"}`, 1, 1})
	f.fs.SetCapacity(f.fs.Used())
	app := f.db.Appender()
	_, err := app.Append(0, series(t, `{a="b"}`), 2, 1)
	require.NoError(t, err)
	_, err = app.Commit(ctx)
	require.ErrorIs(t, err, tsdb.ErrDiskFull)
	s := f.db.Stats()
	require.EqualValues(t, 1, s.Commits)
	require.EqualValues(t, 1, s.CommitsFailed)
	require.EqualValues(t, 1, s.SamplesAppended)
	require.EqualValues(t, 1, s.MaxT, "nothing of it is there")
	f.fs.SetCapacity(0)
	f.commit(sample{`{a="b"}`, 2, 1})
	require.EqualValues(t, 2, f.db.Stats().Commits)
}

func TestStats_FollowFullChunksIntoTheirFiles(t *testing.T) {
	f := newFixture(t, func(o *tsdb.Options) { o.Head.SamplesPerChunk = 16 })
	for k := range 100 {
		f.commit(sample{`{a="b"}`, int64(k), 1})
	}
	full := f.db.Stats()
	require.Positive(t, full.FullBytes)
	require.Zero(t, full.HeadChunksWritten)
	f.fs.SetHook(func(op tsdbtest.Op) error {
		if op.Kind == tsdbtest.OpWrite && strings.Contains(op.Name, "chunks_head") {
			return syscall.EIO
		}
		return nil
	})
	require.Error(t, tsdb.WriteHeadChunks(f.db))
	for range 3 { // a second tick comes when the first one is done with
		f.clock.Advance(time.Second)
	}
	s := f.db.Stats()
	f.fs.SetHook(nil)
	require.Equal(t, full.FullBytes, s.FullBytes, "they wait for another attempt")
	require.GreaterOrEqual(t, s.HeadChunkWriteErrors, uint64(2))

	for range 2 {
		f.clock.Advance(time.Second)
	}
	s = f.db.Stats()
	require.Zero(t, s.FullBytes)
	require.Equal(t, 1, s.HeadChunkFiles)
	require.Positive(t, s.HeadChunksWritten)
	require.Greater(t, s.HeadChunkBytes, full.FullBytes, "each chunk with its series, times and checksum")
	chunks := s.HeadChunksWritten
	require.Len(t, f.all()[`{a="b"}`], 100)

	f.reopen()
	s = f.db.Stats()
	require.Zero(t, s.HeadChunksWritten, "this time")
	require.Equal(t, 1, s.HeadChunkFiles)
	require.EqualValues(t, chunks, f.db.OpenReport().HeadChunks)
}

func TestStats_KnowTheQueriers(t *testing.T) {
	f := threeJobs(t)
	before := f.db.Stats().Queriers
	var qs []*tsdb.Querier
	for range 3 {
		q, err := f.db.Querier(0, 100)
		require.NoError(t, err)
		qs = append(qs, q)
		f.clock.Set(f.clock.Now().Add(time.Second))
	}
	check := func(open int, oldest time.Duration) {
		t.Helper()
		s := f.db.Stats()
		require.Equal(t, before+3, s.Queriers)
		require.Equal(t, open, s.QueriersOpen)
		require.Equal(t, oldest, s.OldestQuerierSince)
	}
	check(3, 3*time.Second)
	require.NoError(t, qs[0].Close())
	check(2, 2*time.Second)
	require.NoError(t, qs[2].Close())
	check(1, 2*time.Second)
	require.NoError(t, qs[2].Close())
	check(1, 2*time.Second)
	require.NoError(t, qs[1].Close())
	check(0, 0)
}

func TestStats_OfTheLog(t *testing.T) {
	f := newFixture(t, func(o *tsdb.Options) {
		o.WAL.Sync, o.WAL.SegmentSize, o.WAL.Compression = tsdb.SyncCommit(), 32<<10, tsdb.CompressionNone
	})
	for k := range 300 {
		f.commit(sample{`{a="b"}`, int64(k), 1}, sample{fmt.Sprintf(`{a="c", pad="%0200d"}`, k), int64(k), 1})
	}
	s := f.db.Stats().Log
	require.EqualValues(t, 300, s.Commits)
	require.EqualValues(t, 300, s.Writes)
	require.GreaterOrEqual(t, s.Syncs, uint64(300))
	require.Greater(t, s.Segment, 1)
	require.EqualValues(t, s.Segment+1, s.Segments)
	onDisk := int64(0)
	for name, data := range dataFiles(t, f.fs) {
		if strings.HasPrefix(name, "wal/") {
			onDisk += int64(len(data))
		}
	}
	require.EqualValues(t, onDisk, s.Bytes)
	require.GreaterOrEqual(t, s.SyncTime, s.MaxSync)
	require.GreaterOrEqual(t, s.MaxSync, s.LastSync)
}

func TestHealth_SaysWhyCommitsAreRefused(t *testing.T) {
	f := newFixture(t, nil)
	require.NoError(t, f.db.Health())
	f.commit(sample{`{a="b"}`, 1, 1})
	fail := func() error {
		app := f.db.Appender()
		_, err := app.Append(0, series(t, `{a="b"}`), 2, 1)
		require.NoError(t, err)
		_, err = app.Commit(ctx)
		return err
	}

	f.fs.SetCapacity(f.fs.Used())
	require.ErrorIs(t, fail(), tsdb.ErrDiskFull)
	require.ErrorIs(t, f.db.Health(), tsdb.ErrDiskFull)
	require.NotErrorIs(t, f.db.Health(), tsdb.ErrPoisoned)
	f.fs.SetCapacity(0)
	require.NoError(t, fail())
	require.NoError(t, f.db.Health(), "it heals with the next commit")

	f.fs.SetHook(func(op tsdbtest.Op) error {
		if op.Kind == tsdbtest.OpSync && strings.Contains(op.Name, "wal") {
			return syscall.EIO
		}
		return nil
	})
	require.ErrorIs(t, f.db.Sync(), tsdb.ErrPoisoned)
	f.fs.SetHook(nil)
	require.ErrorIs(t, f.db.Sync(), tsdb.ErrPoisoned, "it stays")
	health := f.db.Health()
	require.ErrorIs(t, health, tsdb.ErrPoisoned)
	require.ErrorIs(t, health, tsdb.ErrReadOnly)
	require.ErrorContains(t, health, "sync log segment 00000000")
	app := f.db.Appender()
	_, err := app.Append(0, series(t, `{a="b"}`), 3, 1)
	require.NoError(t, err)
	_, err = app.Commit(ctx)
	require.ErrorIs(t, err, tsdb.ErrNotCommitted)
	require.ErrorIs(t, err, tsdb.ErrPoisoned)
	require.Equal(t, points(1, 1, 2, 1), f.all()[`{a="b"}`], "reads go on")

	require.ErrorIs(t, f.db.Close(), tsdb.ErrPoisoned)
	require.ErrorIs(t, f.db.Health(), tsdb.ErrClosed)
	f.open()
	require.NoError(t, f.db.Health())
	require.Equal(t, points(1, 1, 2, 1), f.all()[`{a="b"}`])
}

// heap returns the bytes of live objects.
func heap() int64 {
	var m runtime.MemStats
	for range 3 { // pools let go of what they keep in the second one
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestStats_HeadSizeIsThatOfTheHeap(t *testing.T) {
	if !sweep.Whole() {
		t.Skip("100,000 series take seconds to make")
	}
	const series, scrapes = 100_000, 70
	dir, clock := t.TempDir(), tsdbtest.NewClock(testNow)
	open := func() *tsdb.DB {
		db, err := tsdb.Open(dir, &tsdb.Options{
			Clock: clock,
			Head:  tsdb.HeadOptions{SamplesPerChunk: 30},
			WAL:   tsdb.WALOptions{Sync: tsdb.SyncNever()},
		})
		require.NoError(t, err)
		return db
	}
	before := heap()
	db := open()
	defer func() { require.NoError(t, db.Close()) }()
	refs, values := make([]tsdb.SeriesRef, series), make([]float64, series)
	mine := heap() - before // the test's own
	compare := func(when string) {
		t.Helper()
		real, said := heap()-before-mine, db.Stats().HeadSizeBytes
		t.Logf("%s: heap %d bytes, Stats %d, %.1f%% off, %d a series", when, real, said, 100*float64(said-real)/float64(real), real/series)
		require.InEpsilon(t, real, said, 0.1, when)
	}
	for from := 0; from < series; from += 1000 {
		app := db.Appender()
		for i := from; i < from+1000; i++ {
			var err error
			refs[i], err = app.Append(0, labels.FromStrings("__name__", fmt.Sprintf("metric_%d", i%100), "job", fmt.Sprintf("job_%d", i%7),
				"instance", fmt.Sprintf("10.0.%d.%d:9100", i/100%256, i/25600), "path", fmt.Sprintf("/api/v1/endpoint/%d", i%997)), 0, 0)
			require.NoError(t, err)
		}
		_, err := app.Commit(ctx)
		require.NoError(t, err)
	}
	compare("after one sample each")
	for k := 1; k <= scrapes; k++ {
		for from := 0; from < series; from += 1000 {
			for i := from; i < from+1000; i++ {
				values[i] = float64(k*(i%13)) + float64(i%10)/10
			}
			app := db.Appender()
			rejected, err := app.AppendBatch(int64(k)*15_000, refs[from:from+1000], values[from:from+1000], nil)
			require.NoError(t, err)
			require.Empty(t, rejected)
			_, err = app.Commit(ctx)
			require.NoError(t, err)
		}
		if k == 10 {
			compare("with open chunks")
		}
	}
	for range 2 { // a second tick comes when the first one is done with
		clock.Advance(time.Second)
	}
	require.Zero(t, db.Stats().FullBytes)
	require.Positive(t, db.Stats().HeadChunksWritten)
	compare("with full chunks in files")
	require.NoError(t, db.Close())
	db = open()
	compare("after recovery")
}
