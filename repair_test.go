package tsdb_test

import (
	"bytes"
	"context"
	"math"
	"path"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/faultfs"
	"github.com/seed347100a3/tsdb/internal/sweep"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// repair repairs a directory, and requires that it is clean then.
func repair(t *testing.T, fs tsdb.FS, change func(*tsdb.RepairOptions)) *tsdb.RepairReport {
	t.Helper()
	o := &tsdb.RepairOptions{Options: &tsdb.Options{FS: fs, Clock: tsdbtest.NewClock(testNow)}}
	if change != nil {
		change(o)
	}
	r, err := tsdb.Repair(ctx, fixtureDir, o)
	require.NoError(t, err)
	return r
}

// openFiles opens what is on a disk, requires that nothing is wrong, and reads it.
func openFiles(t *testing.T, fs tsdb.FS) map[string][]point {
	t.Helper()
	db := openWorld(t, fs)
	require.Empty(t, warningsOf(t, db, math.MinInt64, math.MaxInt64))
	all := dump(t, db, math.MinInt64, math.MaxInt64)
	require.NoError(t, db.Close())
	return all
}

// requireKept: every file of before that is not as it was is in quarantine as it was, but for
// the lock, the list of blocks and how far the log reached.
func requireKept(t *testing.T, before, after *tsdbtest.MemFS) {
	t.Helper()
	for _, name := range namesUnder(before, "") {
		if strings.HasPrefix(name, "lock") || name == "blocks.tsdb" || name == "log_reach" {
			continue
		}
		was, err := before.ReadFile(path.Join(fixtureDir, name))
		require.NoError(t, err)
		now, err := after.ReadFile(path.Join(fixtureDir, name))
		kept := err == nil && bytes.Equal(was, now) || len(was) == 0
		for _, q := range namesUnder(after, "quarantine/") {
			data, err := after.ReadFile(path.Join(fixtureDir, q))
			require.NoError(t, err)
			kept = kept || bytes.Equal(was, data)
		}
		require.True(t, kept, "%s is gone", name)
	}
}

func TestRepair_OfAGoodDirectoryChangesNoBlock(t *testing.T) {
	f, want := blocksFixture(t)
	before := blockNames(f.fs)
	r := repair(t, f.fs, nil)
	require.True(t, r.Clean())
	require.Empty(t, r.Blocks)
	require.Equal(t, before, blockNames(f.fs))
	require.Empty(t, namesUnder(f.fs, "quarantine/"))
	require.True(t, sameData(want, openFiles(t, f.fs)))
}

func TestRepair_SavesWhatIsReadableAndKeepsTheOriginal(t *testing.T) {
	f, want := blocksFixture(t)
	first, last := blockNames(f.fs)[0], blockNames(f.fs)[2] // the first one has deleted samples
	for _, c := range []struct {
		name   string
		change func(*tsdbtest.MemFS) error
		lost   func(*testing.T, tsdb.BlockRepair)
	}{
		{"chunk", flipped(first+"/chunks/000001", 100), func(t *testing.T, b tsdb.BlockRepair) {
			require.EqualValues(t, 1, b.LostChunks)
			require.LessOrEqual(t, b.LostSamples, uint64(16))
			require.Equal(t, first+"/000001", b.Damages[0].File)
		}},
		{"newest block", flipped(last+"/chunks/000001", 100), func(t *testing.T, b tsdb.BlockRepair) {
			require.EqualValues(t, 1, b.LostChunks)
			require.True(t, b.Saved.HasHint("from-out-of-order"), "the log may have more")
		}},
		{"meta", written(first+"/meta.json", ""), func(t *testing.T, b tsdb.BlockRepair) {
			require.True(t, b.MetaLost)
			require.Zero(t, b.LostChunks+b.LostSeries)
		}},
		{"count", func(fs *tsdbtest.MemFS) error {
			if err := taken(first + "/meta.json.crc")(fs); err != nil {
				return err
			}
			return edited(first+"/meta.json", `"numChunks": 27`, `"numChunks": 28`)(fs)
		}, func(t *testing.T, b tsdb.BlockRepair) { require.Zero(t, b.LostChunks+b.LostSeries) }},
		{"set aside before", func(fs *tsdbtest.MemFS) error {
			if err := written(first+"/meta.json.crc", "")(fs); err != nil {
				return err
			}
			return moved(first, "quarantine/"+first+".7")(fs)
		}, func(t *testing.T, b tsdb.BlockRepair) {
			require.Equal(t, "quarantine/"+first+".7", b.Original)
			require.Zero(t, b.LostChunks+b.LostSeries)
		}},
		{"name of another block", moved(first, "01HF7Q8ZK0000000000000TES9"), func(t *testing.T, b tsdb.BlockRepair) {
			require.Zero(t, b.LostChunks+b.LostSeries)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			fs := f.fs.KillClone()
			require.NoError(t, c.change(fs))
			before := fs.KillClone()
			r := repair(t, fs, nil)
			require.Len(t, r.Blocks, 1)
			b := r.Blocks[0]
			require.NoError(t, b.Err)
			require.True(t, strings.HasPrefix(b.Original, "quarantine/"))
			c.lost(t, b)
			require.Equal(t, b.LostSamples+b.LostChunks+b.LostSeries == 0, r.Clean())
			requireKept(t, before, fs)
			got := openFiles(t, fs)
			missing := 0
			for series, ps := range want {
				require.Subset(t, ps, got[series])
				missing += len(ps) - len(got[series])
			}
			require.LessOrEqual(t, missing, int(b.LostSamples), "deleted samples stay deleted")
			require.True(t, verify(t, fs).Clean())
			require.Equal(t, tsdb.RepairReport{Log: repair(t, fs, nil).Log}.Blocks, repair(t, fs, nil).Blocks, "once is enough")
		})
	}
}

func TestRepair_WhatCannotBeSavedStaysInQuarantineAndQueriesWarn(t *testing.T) {
	f, want := blocksFixture(t)
	names := blockNames(f.fs)
	require.NoError(t, taken(names[1]+"/index")(f.fs))
	require.NoError(t, taken(names[0]+"/tombstones")(f.fs))
	r := repair(t, f.fs, nil)
	require.Len(t, r.Blocks, 2)
	require.False(t, r.Clean())
	for _, b := range r.Blocks {
		require.Error(t, b.Err)
		require.Nil(t, b.Saved)
	}
	f.open()
	require.Len(t, warningsOf(t, f.db, math.MinInt64, math.MaxInt64), 2)
	require.NoError(t, f.db.Close())

	// The deleted samples come back if that is what is wanted.
	r = repair(t, f.fs, func(o *tsdb.RepairOptions) { o.Undelete = true })
	require.Len(t, r.Blocks, 2)
	for _, b := range r.Blocks {
		require.Equal(t, b.Original == "quarantine/"+names[0], b.Saved != nil)
		require.Equal(t, b.Saved != nil, b.DeletedLost)
	}
	f.open()
	require.Len(t, warningsOf(t, f.db, math.MinInt64, math.MaxInt64), 1)
	require.Len(t, f.all()[`{i="1"}`], len(want[`{i="1"}`])+61-120, "an hour is back, two are missing")
}

func TestRepair_RenamesAMisspeltBlock(t *testing.T) {
	f, want := blocksFixture(t)
	name := blockNames(f.fs)[1]
	require.NoError(t, moved(name, strings.ToLower(name))(f.fs))
	r := repair(t, f.fs, nil)
	require.Equal(t, []string{name}, r.Renamed)
	require.True(t, r.Clean())
	require.True(t, sameData(want, openFiles(t, f.fs)))
}

func TestRepair_GoesOnBehindMissingSegmentsOfTheLog(t *testing.T) {
	f, want := blocksFixture(t)
	segments := namesUnder(f.fs, "wal/0")
	require.Greater(t, len(segments), 1)
	require.NoError(t, taken(segments[0])(f.fs))
	_, err := tsdb.Open(fixtureDir, f.opts)
	require.ErrorIs(t, err, tsdb.ErrCorrupt)
	r := repair(t, f.fs, nil)
	require.Equal(t, []string{segments[0]}, r.Filled)
	require.False(t, r.Clean())
	f.open()
	got := f.all()
	for series, ps := range want {
		require.Subset(t, ps, got[series])
	}
	require.NoError(t, f.db.Close())
	f.db = nil
	require.Empty(t, repair(t, f.fs, nil).Filled)
}

func TestRepair_RefusesADirectoryThatIsOpenOrNotThere(t *testing.T) {
	f := newFixture(t, manual)
	_, err := tsdb.Repair(ctx, fixtureDir, &tsdb.RepairOptions{Options: f.opts})
	require.ErrorIs(t, err, tsdb.ErrLocked)
	_, err = tsdb.Repair(ctx, "elsewhere", &tsdb.RepairOptions{Options: f.opts})
	require.ErrorContains(t, err, "elsewhere")
	require.Empty(t, namesUnder(f.fs, "elsewhere"))
}

func TestRepair_WithoutRoomLeavesABlockWhereItIs(t *testing.T) {
	f, _ := blocksFixture(t)
	name := blockNames(f.fs)[0]
	require.NoError(t, flipped(name+"/chunks/000001", 100)(f.fs))
	f.fs.SetCapacity(f.fs.Used() + 1<<10)
	r := repair(t, f.fs, nil)
	require.Len(t, r.Blocks, 1)
	require.ErrorIs(t, r.Blocks[0].Err, tsdb.ErrDiskFull)
	require.ErrorContains(t, r.Blocks[0].Err, "copy what can be read of block "+name)
	require.Equal(t, name, r.Blocks[0].Original)
	require.Contains(t, blockNames(f.fs), name)
	f.fs.SetCapacity(0)
	r = repair(t, f.fs, nil)
	require.Len(t, r.Blocks, 1)
	require.NotNil(t, r.Blocks[0].Saved)
}

// Whatever fails, and wherever power goes, another Repair ends with what the first one
// would have, and the original is there.
func TestRepair_InterruptedAnywhereCanBeDoneAgain(t *testing.T) {
	t.Parallel()
	f, _ := blocksFixture(t)
	name := blockNames(f.fs)[0]
	require.NoError(t, flipped(name+"/chunks/000001", 100)(f.fs))
	damaged := f.fs
	whole := damaged.KillClone()
	repair(t, whole, nil)
	want := openFiles(t, whole)
	// A place of a mapping that cannot be read is damage as well, and not tried again.
	match := func(op tsdbtest.Op) bool { return op.Kind != tsdbtest.OpMapRead }
	places := sweep.Of(t, 1, 7)
	for _, fault := range []faultfs.Fault{{Err: syscall.EIO, Match: match}, {Err: syscall.ENOSPC, Match: match}} {
		for fault.Nth = int64(1 + places.First); ; fault.Nth += int64(places.Step) {
			disk := damaged.KillClone()
			fsys := faultfs.New(disk)
			fsys.Inject(fault)
			_, err := tsdb.Repair(context.Background(), fixtureDir, &tsdb.RepairOptions{
				Options: &tsdb.Options{FS: fsys, Clock: tsdbtest.NewClock(testNow)}})
			if len(fsys.Hits()) == 0 {
				require.NoError(t, err)
				break
			}
			for _, after := range []*tsdbtest.MemFS{disk.KillClone(), disk.CrashClone(tsdbtest.CrashOptions{Seed: uint64(fault.Nth)})} {
				repair(t, after, nil)
				requireKept(t, damaged, after)
				require.True(t, sameData(want, openFiles(t, after)), "%v %d: %v", fault.Err, fault.Nth, fsys.Hits())
			}
		}
	}
}
