package tsdb_test

import (
	"bytes"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/sweep"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// damagedHead opens what a kill left behind a snapshot of the head, on a disk that was changed.
func damagedHead(t *testing.T, change func(*tsdbtest.MemFS)) (f *fixture, want map[string][]point) {
	t.Helper()
	before := snapshotFixture(t)
	want = before.all()
	require.NoError(t, tsdb.TakeHeadSnapshot(before.db))
	f = &fixture{t: t, fs: before.fs.KillClone(), clock: tsdbtest.NewClock(testNow)}
	change(f.fs)
	o := *before.opts
	o.FS, o.Clock = f.fs, f.clock
	f.opts = &o
	f.open()
	t.Cleanup(func() {
		if f.db != nil {
			require.NoError(t, f.db.Close())
		}
	})
	return f, want
}

const firstChunkFile = "data/chunks_head/000001"

// flipByte changes a byte of a file, counted from its end if it is negative.
func flipByte(t *testing.T, fs *tsdbtest.MemFS, name string, at int) {
	t.Helper()
	data, err := fs.ReadFile(name)
	require.NoError(t, err)
	data[(at+len(data))%len(data)] ^= 0x10
	require.NoError(t, fs.WriteFile(name, data))
}

func tryRead(t *testing.T, db *tsdb.DB, mint, maxt int64) (map[string][]point, tsdb.Warnings, error) {
	t.Helper()
	q, err := db.Querier(mint, maxt)
	require.NoError(t, err)
	defer func() { require.NoError(t, q.Close()) }()
	got, err := readAll(q)
	set := q.Select(ctx, nil)
	for set.Next() {
	}
	return got, set.Warnings(), err
}

// Every byte of a file that Open does not read, as a snapshot vouches for it: whoever comes upon
// the damage is told, and from then on the chunk is as it was, as the log has its samples.
func TestMend_ADamagedHeadChunkIsMadeAnewFromTheLogAndFlushed(t *testing.T) {
	sample, _ := damagedHead(t, func(*tsdbtest.MemFS) {})
	data, err := sample.fs.ReadFile(firstChunkFile)
	require.NoError(t, err)
	noticed := 0
	for _, at := range sweep.Of(t, 3, 37).Below(len(data)) {
		f, want := damagedHead(t, func(fs *tsdbtest.MemFS) { flipByte(t, fs, firstChunkFile, at) })
		_, _, err := tryRead(t, f.db, math.MinInt64, math.MaxInt64)
		require.NoError(t, f.db.Flush(ctx), "byte %d", at)
		require.NoError(t, f.db.Health())
		require.Equal(t, want, f.all(), "byte %d", at)
		s := f.db.Stats()
		require.Zero(t, s.HeadSamplesLost)
		if err != nil {
			require.ErrorIs(t, err, tsdb.ErrCorrupt)
			require.EqualValues(t, 1, s.HeadChunksDamaged)
			kept, err := f.fs.ReadFile("data/quarantine/000001")
			require.NoError(t, err)
			require.Equal(t, len(data), len(kept))
			require.False(t, bytes.Equal(data, kept), "with its damage")
			noticed++
		}
		f.reopen()
		require.Equal(t, want, f.all(), "byte %d", at)
		require.NoError(t, f.db.Close())
		f.db = nil
	}
	require.GreaterOrEqual(t, noticed, 10)
}

// Nobody has to flush: within a second the chunk is there again, and a flush that comes upon it
// first needs no reader.
func TestMend_ADamagedHeadChunkIsSetAsideWithinASecond(t *testing.T) {
	f, want := damagedHead(t, func(fs *tsdbtest.MemFS) { flipByte(t, fs, firstChunkFile, 60) })
	require.NoError(t, f.db.Health(), "nobody has seen it")
	_, _, err := tryRead(t, f.db, math.MinInt64, math.MaxInt64)
	require.ErrorIs(t, err, tsdb.ErrCorrupt)
	require.ErrorIs(t, f.db.Health(), tsdb.ErrCorrupt)
	f.clock.Advance(2 * time.Second)
	require.ErrorIs(t, f.db.Health(), tsdb.ErrCorrupt, "the file is still there")
	require.ErrorContains(t, f.db.Health(), "1 chunks of the head are damaged in their files")
	got, warnings, err := tryRead(t, f.db, math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	require.Empty(t, warnings, "nothing is missing")
	require.Equal(t, want, got)
	require.EqualValues(t, 1, f.db.Stats().HeadChunksDamaged)
	q, err := f.db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	chunked := dumpChunks(t, q)
	require.NoError(t, q.Close())
	require.Equal(t, want, chunked)

	f, want = damagedHead(t, func(fs *tsdbtest.MemFS) { flipByte(t, fs, firstChunkFile, 60) })
	require.NoError(t, f.db.Flush(ctx))
	require.Equal(t, want, f.all())
	require.Len(t, f.db.Blocks(), 1)
}

// After a flush the damage is in no file that counts, and snapshots are taken again.
func TestMend_SnapshotsAreTakenAgainWhenTheFileIsGone(t *testing.T) {
	f, _ := damagedHead(t, func(fs *tsdbtest.MemFS) { flipByte(t, fs, firstChunkFile, 60) })
	_, _, err := tryRead(t, f.db, math.MinInt64, math.MaxInt64)
	require.ErrorIs(t, err, tsdb.ErrCorrupt)
	require.NoError(t, f.db.Flush(ctx))
	for k := range int64(100) {
		f.commit(sample{`{a="b"}`, 100_000 + k*1000, float64(k)})
	}
	require.NoError(t, f.db.Flush(ctx))
	require.NoError(t, f.db.Health())
	f.commit(sample{`{a="b"}`, 300_000, 1})
	require.NoError(t, tsdb.TakeHeadSnapshot(f.db))
	f.clock.Advance(2 * time.Second)
	require.NotEmpty(t, bothWays(t, f.fs, *f.opts).Snapshot)
}

// What the log lost, too, is lost: it is counted, queries of its time warn of it, the rest is
// there, and the flush goes on.
func TestMend_WhatTheLogHasNotIsToldAndTheRestGoesOn(t *testing.T) {
	f, want := damagedHead(t, func(fs *tsdbtest.MemFS) {
		flipByte(t, fs, firstChunkFile, 60)
		flipByte(t, fs, "data/wal/00000000", 400)
	})
	early, err := f.db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	defer func() { require.NoError(t, early.Close()) }()
	_, _, err = tryRead(t, f.db, math.MinInt64, math.MaxInt64)
	require.ErrorIs(t, err, tsdb.ErrCorrupt)
	f.clock.Advance(2 * time.Second)
	s := f.db.Stats()
	require.EqualValues(t, 1, s.HeadChunksDamaged)
	require.Positive(t, s.HeadSamplesLost)
	_, err = readAll(early)
	require.ErrorIs(t, err, tsdb.ErrCorrupt, "who began before was not warned")

	check := func() {
		got, warnings, err := tryRead(t, f.db, math.MinInt64, math.MaxInt64)
		require.NoError(t, err)
		require.Len(t, warnings, 1)
		require.ErrorIs(t, warnings[0], tsdb.ErrMissing)
		missing := 0
		for series, ps := range want {
			for _, p := range ps {
				if !contains(got[series], p) {
					missing++
				}
			}
			for _, p := range got[series] {
				require.True(t, contains(ps, p), "nothing is there that was not")
			}
		}
		require.EqualValues(t, s.HeadSamplesLost, missing)
		_, warnings, err = tryRead(t, f.db, 40_000, math.MaxInt64)
		require.NoError(t, err)
		require.Empty(t, warnings, "of another time")
	}
	check()
	require.NoError(t, f.db.Flush(ctx))
	check()
	require.ErrorIs(t, f.db.Health(), tsdb.ErrMissing)
	f.commit(sample{`{a="b"}`, 900_000, 1}) // it takes commits
	f.reopen()
	require.NoError(t, f.db.Health())
}

func contains(ps []point, p point) bool {
	for _, other := range ps {
		if other == p {
			return true
		}
	}
	return false
}

// A full disk has no room for the copy: then nothing is set aside, and it is tried again.
func TestMend_WithoutRoomForTheCopyItIsTriedAgain(t *testing.T) {
	f, want := damagedHead(t, func(fs *tsdbtest.MemFS) { flipByte(t, fs, firstChunkFile, 60) })
	f.fs.SetHook(func(op tsdbtest.Op) error {
		if op.Kind.Mutates() && strings.Contains(op.Name+op.NewName, "quarantine") {
			return os.ErrPermission
		}
		return nil
	})
	require.ErrorIs(t, f.db.Flush(ctx), os.ErrPermission)
	require.Zero(t, f.db.Stats().HeadChunksDamaged)
	require.ErrorIs(t, f.db.Health(), tsdb.ErrCorrupt)
	require.ErrorContains(t, f.db.Health(), "to be set aside")
	f.fs.SetHook(nil)
	require.NoError(t, f.db.Flush(ctx))
	require.Equal(t, want, f.all())
}

// A head-chunk file that somebody cuts while the database has it open.
func TestMend_AHeadChunkFileThatIsCutWhileRunning(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	opts := &tsdb.Options{}
	opts.Blocks.Manual, opts.Head.SamplesPerChunk = true, 16
	db, err := tsdb.Open(dir, opts)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	for k := range int64(2000) {
		app := db.Appender()
		for _, name := range []string{"a", "b", "c"} {
			_, err := app.Append(0, labels.FromStrings("a", name), k*1000, math.Sqrt(float64(k)))
			require.NoError(t, err)
		}
		_, err := app.Commit(ctx)
		require.NoError(t, err)
	}
	require.NoError(t, tsdb.WriteHeadChunks(db))
	want := dump(t, db, math.MinInt64, math.MaxInt64)
	require.NoError(t, os.Truncate(filepath.Join(dir, "chunks_head", "000001"), 4096))
	_, _, err = tryRead(t, db, math.MinInt64, math.MaxInt64)
	require.ErrorIs(t, err, tsdb.ErrCorrupt)
	require.NoError(t, db.Flush(ctx))
	require.NoError(t, db.Health())
	require.Equal(t, want, dump(t, db, math.MinInt64, math.MaxInt64))
	require.Greater(t, db.Stats().HeadChunksDamaged, uint64(100))
	require.Zero(t, db.Stats().HeadSamplesLost)
}

func TestEvents_OfADamagedHeadChunk(t *testing.T) {
	log := &logRecords{}
	f, _ := damagedHead(t, func(fs *tsdbtest.MemFS) { flipByte(t, fs, firstChunkFile, 60) })
	f.opts.Logger = slog.New(log)
	crashed := f.fs.KillClone()
	require.NoError(t, f.db.Close())
	f.fs, f.opts.FS = crashed, crashed
	f.open()
	_, _, err := tryRead(t, f.db, math.MinInt64, math.MaxInt64)
	require.ErrorIs(t, err, tsdb.ErrCorrupt)
	failOn(f.fs, tsdbtest.OpMkdirAll, "quarantine")
	f.clock.Advance(2 * time.Second)
	e := wantEvent(t, log, "a head chunk is damaged; its samples are read from the log again")
	require.ErrorIs(t, e.attrs["error"].Any().(error), tsdb.ErrCorrupt)
	wantEvent(t, log, "set aside damaged head chunks")
	require.Len(t, log.of("set aside damaged head chunks"), 1, "told once")
	f.fs.SetHook(nil)
	f.clock.Advance(2 * time.Second)
	e = wantEvent(t, log, "damaged head chunks were set aside")
	require.EqualValues(t, 1, e.attrs["chunks"].Int64())
	require.Zero(t, e.attrs["lost_samples"].Int64())
}
