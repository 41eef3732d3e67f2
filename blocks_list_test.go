package tsdb_test

import (
	"fmt"
	"log/slog"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/blocklist"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// listedBlocks returns the blocks that the list on a disk has, in the order of their times.
func listedBlocks(t *testing.T, fs *tsdbtest.MemFS) (names []string) {
	t.Helper()
	list, state, err := blocklist.Read(fs, fixtureDir)
	require.NoError(t, err)
	require.Equal(t, blocklist.Good, state)
	slices.SortFunc(list, func(a, b blocklist.Block) int { return int(a.MinTime - b.MinTime) })
	for _, b := range list {
		names = append(names, b.ULID.String())
	}
	return names
}

// openOn opens the directory of a fixture on another disk, and closes it behind the test.
func openOn(t *testing.T, f *fixture, disk *tsdbtest.MemFS, log *logRecords) *tsdb.DB {
	t.Helper()
	o := *f.opts
	o.FS = disk
	if log != nil {
		o.Logger = slog.New(log)
	}
	db, err := tsdb.Open(fixtureDir, &o)
	require.NoError(t, err)
	return db
}

// A block that somebody took away is told by every way into the directory, until it is back: first
// and last blocks, and those between.
func TestOpen_ABlockThatVanishedIsToldUntilItIsBack(t *testing.T) {
	f, want := blocksFixture(t)
	require.Equal(t, blockNames(f.fs), listedBlocks(t, f.fs))
	for i, name := range blockNames(f.fs) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			disk := f.fs.KillClone()
			require.NoError(t, moved(name, "../attic/"+name)(disk))
			var meta tsdb.BlockMeta
			for round := range 3 { // by itself it does not become good
				r := verify(t, disk)
				require.False(t, r.Clean())
				require.Len(t, findings(r, tsdb.SeverityWarning), 1)
				require.Equal(t, name, r.Findings[0].File)
				require.Contains(t, r.Findings[0].What, "not there any more")

				reader, err := tsdb.OpenReadOnly(fixtureDir, &tsdb.Options{FS: disk, Clock: f.clock})
				require.NoError(t, err)
				require.Equal(t, 1, reader.OpenReport().BlocksVanished)
				require.Equal(t, 1, reader.Stats().BlocksMissing)
				require.NoError(t, reader.Close())

				log := &logRecords{}
				db := openOn(t, f, disk, log)
				report := db.OpenReport()
				require.False(t, report.Clean())
				require.Equal(t, 1, report.BlocksVanished, "round %d", round)
				require.Len(t, report.Damages, 1)
				require.Equal(t, name, report.Damages[0].File)
				require.Equal(t, 1, db.Stats().BlocksMissing)
				require.Len(t, log.of("block has vanished"), 1)
				e := log.one(t, "block has vanished")
				meta.MinTime, meta.MaxTime = e.attrs["mint"].Int64(), e.attrs["maxt"].Int64()+1
				for _, at := range []int64{meta.MinTime, meta.MaxTime - 1} {
					ws := warningsOf(t, db, at, at)
					require.Len(t, ws, 1)
					require.ErrorIs(t, ws[0], tsdb.ErrMissing)
					require.ErrorContains(t, ws[0], name)
				}
				require.Empty(t, warningsOf(t, db, meta.MaxTime, math.MaxInt64))
				require.Empty(t, warningsOf(t, db, math.MinInt64, meta.MinTime-1))
				require.NoError(t, db.Close())
			}

			running := disk.KillClone() // it comes back while the database is open
			db := openOn(t, f, running, nil)
			require.NoError(t, moved("../attic/"+name, name)(running))
			require.NoError(t, db.Compact(ctx))
			require.Empty(t, warningsOf(t, db, math.MinInt64, math.MaxInt64))
			require.Zero(t, db.Stats().BlocksMissing)
			require.NoError(t, db.Close())

			require.NoError(t, moved("../attic/"+name, name)(disk))
			require.Empty(t, verify(t, disk).Findings)
			db = openOn(t, f, disk, nil)
			r := db.OpenReport()
			require.True(t, r.Clean())
			require.Empty(t, warningsOf(t, db, math.MinInt64, math.MaxInt64))
			require.Equal(t, want, dump(t, db, math.MinInt64, math.MaxInt64))
			require.NoError(t, db.Close())
			require.Equal(t, blockNames(disk), listedBlocks(t, disk))
		})
	}
}

// With a block of which all was deleted nothing is lost, whoever removes it.
func TestOpen_AnEmptyBlockThatIsGoneIsNotMissed(t *testing.T) {
	f, want := blocksFixture(t)
	f.open()
	block, n := f.db.Blocks()[0], 0
	for name := range want {
		require.NoError(t, f.db.Delete(ctx, block.MinTime, block.MaxTime-1, labels.Equal("i", series(t, name).Get("i"))))
		n++
		missing := 1
		if n == len(want) {
			missing = 0
		}
		require.Contains(t, listedBlocks(t, f.fs), block.ULID.String(), "it is there yet")
		for range 2 {
			disk := f.fs.KillClone()
			require.NoError(t, moved(block.ULID.String(), "../attic/"+block.ULID.String())(disk))
			db := openOn(t, f, disk, nil)
			require.Equal(t, missing, db.OpenReport().BlocksVanished, "%d of %d series deleted", n, len(want))
			require.NoError(t, db.Close())
			f.reopen()
		}
	}
}

// Repair says what is lost for the last time.
func TestRepair_ForgetsWhatVanished(t *testing.T) {
	f, _ := blocksFixture(t)
	names := blockNames(f.fs)
	require.NoError(t, moved(names[1], "../attic/"+names[1])(f.fs))
	r := repair(t, f.fs, nil)
	require.Equal(t, []string{names[1]}, r.Forgotten)
	require.False(t, r.Clean())
	require.Zero(t, r.Log.BlocksVanished)
	require.Equal(t, []string{names[0], names[2]}, listedBlocks(t, f.fs))
	require.Empty(t, verify(t, f.fs).Findings)
	r = repair(t, f.fs, nil)
	require.True(t, r.Clean())
	require.NoError(t, moved("../attic/"+names[1], names[1])(f.fs), "it may come back all the same")
	f.open()
	require.Len(t, f.db.Blocks(), 3)
	require.NoError(t, f.db.Close())
	f.db = nil
	require.Equal(t, names, listedBlocks(t, f.fs))
}

// A list that is not there, or not to be read, says nothing, and is written anew.
func TestOpen_WithoutAListNothingIsMissedAndThereIsOneAfterwards(t *testing.T) {
	f, want := blocksFixture(t)
	names := blockNames(f.fs)
	for name, change := range map[string]func(*tsdbtest.MemFS) error{
		"none": taken("blocks.tsdb"), "empty": written("blocks.tsdb", ""), "flipped": flipped("blocks.tsdb", 40), "of another kind": written("blocks.tsdb", "[]"),
	} {
		t.Run(name, func(t *testing.T) {
			disk := f.fs.KillClone()
			require.NoError(t, change(disk))
			require.NoError(t, moved(names[0], "../attic/"+names[0])(disk))
			require.True(t, verify(t, disk).Clean())
			db := openOn(t, f, disk, nil)
			r := db.OpenReport()
			require.True(t, r.Clean())
			require.NoError(t, db.Close())
			require.Equal(t, names[1:], listedBlocks(t, disk))
			require.NoError(t, moved("../attic/"+names[0], names[0])(disk))
			db = openOn(t, f, disk, nil)
			require.Equal(t, want, dump(t, db, math.MinInt64, math.MaxInt64))
			require.NoError(t, db.Close())
			require.Equal(t, names, listedBlocks(t, disk))
		})
	}
}

// Whatever the database does with its blocks, and wherever it is killed or the power fails
// meanwhile: none is missed that it has merged, removed or set aside itself.
func TestBlocks_NoneIsMissedThatTheDatabaseRemoved(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *tsdb.Options) {
		manual(o)
		o.Blocks.Retention = 30 * time.Hour
		o.WAL.Sync = tsdb.SyncCommit()
	})
	states := 0
	try := func(disk *tsdbtest.MemFS) {
		r, err := tsdb.OpenReadOnly(fixtureDir, &tsdb.Options{FS: disk, Clock: f.clock})
		require.NoError(t, err)
		report := r.OpenReport()
		require.Zero(t, report.BlocksVanished, "%+v", report.Damages)
		require.NoError(t, r.Close())
		states++
	}
	watch := func(do func() error) {
		t.Helper()
		busy := false
		f.fs.SetHook(func(op tsdbtest.Op) error {
			if busy || !op.Kind.Mutates() {
				return nil
			}
			busy = true
			defer func() { busy = false }()
			try(f.fs.KillClone())
			try(f.fs.CrashClone(tsdbtest.CrashOptions{Seed: uint64(states)}))
			try(f.fs.CrashClone(tsdbtest.CrashOptions{Choose: tsdbtest.LoseAll}))
			return nil
		})
		require.NoError(t, do())
		f.fs.SetHook(nil)
	}
	base := testNow.UnixMilli()/(6*hour)*(6*hour) - 60*hour
	n := int64(0)
	for at := base; at < base+60*hour; at += 2 * hour {
		f.commit(sample{`{a="x"}`, at, 1}, sample{`{a="y"}`, at + hour, 2})
		if (at-base)%(10*hour) == 8*hour {
			watch(func() error { return f.db.Flush(ctx) })
			watch(func() error { return f.db.Compact(ctx) })
			n++
		} else {
			require.NoError(t, f.db.Flush(ctx))
		}
	}
	watch(func() error { return f.db.Delete(ctx, base+40*hour, base+43*hour, labels.Equal("a", "x")) })
	watch(func() error { return f.db.CleanTombstones(ctx) })
	watch(func() error { return f.db.Delete(ctx, base+44*hour, base+50*hour) })
	watch(func() error { return f.db.CleanTombstones(ctx) })
	watch(func() error { return f.db.Compact(ctx) })
	require.EqualValues(t, 6, n)
	require.Positive(t, f.db.Stats().BlocksRemoved)
	require.Positive(t, f.db.Stats().Merges)
	names := blockNames(f.fs)
	require.NoError(t, flipped(names[0]+"/meta.json", 60)(f.fs))
	watch(func() error { f.reopen(); return nil })
	require.Equal(t, 1, f.db.Stats().BlocksMissing)
	require.Equal(t, names[1:], listedBlocks(t, f.fs))
	require.NoError(t, f.db.Close())
	f.db = nil
	for _, name := range namesUnder(f.fs, "quarantine/") {
		f.remove(name)
	}
	f.remove("quarantine/" + names[0] + "/chunks")
	f.remove("quarantine/" + names[0])
	f.open()
	require.Zero(t, f.db.Stats().BlocksMissing, "somebody took it out of quarantine, which frees the room, as is documented")
	require.Greater(t, states, 500)
}

// When there is no room for a shorter list the blocks go all the same, and so does the list: it
// must not miss them. With room there is one again.
func TestRetention_OnAFullDiskTheListGoesBeforeTheBlocks(t *testing.T) {
	f, _ := blocksFixture(t)
	f.opts.Blocks.RetentionBytes = 1
	f.open()
	full := true
	f.fs.SetHook(func(op tsdbtest.Op) error {
		if full && op.Kind == tsdbtest.OpWrite {
			return syscall.ENOSPC
		}
		return nil
	})
	require.Error(t, f.db.Compact(ctx), "the newest block needs a checkpoint")
	require.Less(t, len(f.db.Blocks()), 3)
	_, err := f.fs.Stat(path.Join(fixtureDir, "blocks.tsdb"))
	require.Error(t, err)
	killed := f.fs.KillClone()
	killed.SetHook(nil)
	db := openOn(t, f, killed, nil)
	r := db.OpenReport()
	require.True(t, r.Clean(), "%+v", r)
	require.NoError(t, db.Close())
	full = false
	f.opts.Blocks.RetentionBytes = 0
	f.commit(sample{`{a="z"}`, testNow.UnixMilli() + hour/2, 1})
	require.NoError(t, f.db.Compact(ctx))
	require.Equal(t, len(f.db.Blocks()), len(listedBlocks(t, f.fs)))
	f.fs.SetHook(nil)
}

// Another engine that had the directory removes the oldest blocks and merges others without a word.
// What is gone between blocks that are there, nobody's retention took.
func TestOpen_WhatAnotherEngineRemovedIsNotMissed(t *testing.T) {
	f, _ := blocksFixture(t)
	names := blockNames(f.fs)
	segments := namesUnder(f.fs, "wal/0")
	last, err := strconv.Atoi(path.Base(segments[len(segments)-1]))
	require.NoError(t, err)
	for name, c := range map[string]struct {
		gone     []string
		vanished int
	}{
		"the oldest":     {names[:1], 0},
		"all but one":    {names[:2], 0},
		"all":            {names, 0},
		"one between":    {names[1:2], 1},
		"the newest":     {names[2:], 1},
		"first and last": {[]string{names[0], names[2]}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			disk := f.fs.KillClone()
			for _, gone := range c.gone {
				require.NoError(t, moved(gone, "../attic/"+gone)(disk))
			}
			ours := disk.KillClone()
			db := openOn(t, f, ours, nil)
			require.Equal(t, len(c.gone), db.OpenReport().BlocksVanished, "nobody else was there")
			require.NoError(t, db.Close())
			require.NoError(t, written(fmt.Sprintf("wal/%08d", last+1), "")(disk)) // it begins a segment
			for range 2 {
				db = openOn(t, f, disk, nil)
				require.Equal(t, c.vanished, db.OpenReport().BlocksVanished)
				require.NoError(t, db.Close())
			}
		})
	}
}

// Blocks go while a Reader looks at the directory. It does not miss what the writer removes.
func TestReader_DoesNotMissWhatIsRemovedWhileItLooks(t *testing.T) {
	f, _ := blocksFixture(t)
	f.opts.Blocks.RetentionBytes = 1
	f.open()
	removed := false
	f.fs.SetHook(func(op tsdbtest.Op) error {
		if !removed && op.Kind == tsdbtest.OpReadDir && op.Name == fixtureDir {
			removed = true // the reader has read the list, and not yet the directory
			require.NoError(t, f.db.Compact(ctx))
			require.Less(t, len(f.db.Blocks()), 3)
		}
		return nil
	})
	r, err := tsdb.OpenReadOnly(fixtureDir, &tsdb.Options{FS: f.fs, Clock: f.clock, AnyDirectory: true})
	f.fs.SetHook(nil)
	require.NoError(t, err)
	require.True(t, removed)
	report := r.OpenReport()
	require.Zero(t, report.BlocksVanished, "%+v", report.Damages)
	require.NoError(t, r.Close())
}

// What retention would have removed by now is not waited for.
func TestRetention_ForgetsWhatVanishedBeforeWhatItRemoves(t *testing.T) {
	f, _ := blocksFixture(t)
	names := blockNames(f.fs)
	require.NoError(t, moved(names[0], "../attic/"+names[0])(f.fs))
	f.opts.Blocks.RetentionBytes = 1
	f.open()
	require.Equal(t, 1, f.db.Stats().BlocksMissing)
	require.NoError(t, f.db.Compact(ctx))
	require.NotContains(t, strings.Join(listedBlocks(t, f.fs), " "), names[0])
	f.reopen()
	require.Zero(t, f.db.OpenReport().BlocksVanished)
}
