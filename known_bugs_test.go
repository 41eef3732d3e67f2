package tsdb_test

import (
	"math"
	"path"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/faultfs"
	"github.com/seed347100a3/tsdb/internal/sweep"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// Bugs that engines of this kind had, in a whole database. docs/design/known-bugs.md lists
// them and the tests of parts.

// Bug 33: a crash while a block is removed leaves a part of it, and nothing starts.
func TestDB_Bug33_ABlockGoesWholeOrNotAtAll(t *testing.T) {
	f, _ := blocksFixture(t)
	f.opts.Blocks.Retention = 3 * time.Hour
	f.open()
	whole := f.all()
	blocks := len(f.db.Blocks())
	states := disksDuring(f.fs, func() { require.NoError(t, f.db.Compact(ctx)) })
	kept := f.all()
	require.Less(t, len(kept[`{i="0"}`]), len(whole[`{i="0"}`]))
	const both, operations = 2, 6 // of an operation; of a block: renamed, synced, and its files and directories removed
	require.GreaterOrEqual(t, len(states), both*operations*(blocks-len(f.db.Blocks())))
	for i, fs := range states {
		got := openFiles(t, fs)
		require.True(t, sameData(kept, got) || atLeast(got, kept) == "" && atLeast(whole, got) == "", "state %d", i)
		requireNoDebris(t, fs)
	}
}

// disksDuring returns what a power cut or a kill would leave at every operation of do.
func disksDuring(fs *tsdbtest.MemFS, do func()) (states []*tsdbtest.MemFS) {
	busy, n := false, uint64(0)
	fs.SetHook(func(op tsdbtest.Op) error {
		if op.Kind.Mutates() && !busy {
			busy = true
			n++
			states = append(states, fs.KillClone(), fs.CrashClone(tsdbtest.CrashOptions{Seed: n}))
			busy = false
		}
		return nil
	})
	do()
	fs.SetHook(nil)
	return states
}

// requireNoDebris: nothing temporary is in the directory.
func requireNoDebris(t *testing.T, fs *tsdbtest.MemFS) {
	t.Helper()
	for _, name := range fs.Files() {
		require.NotContains(t, name, "tmp", "%v", fs.Files())
	}
}

// Bug 34: an empty meta file after a crash: nothing starts, or the block is silently
// skipped.
func TestDB_Bug34_AnEmptyMetaFileIsTold(t *testing.T) {
	f, want := blocksFixture(t)
	name := blockNames(f.fs)[1]
	require.NoError(t, written(name+"/meta.json", "")(f.fs))
	f.open()
	r := f.db.OpenReport()
	require.Equal(t, 1, r.BlocksSetAside)
	require.Equal(t, path.Join(name, "meta.json"), r.Damages[0].File)
	require.NotEmpty(t, warningsOf(t, f.db, math.MinInt64, math.MaxInt64))
	require.Empty(t, atLeast(want, f.all()))
	require.NoError(t, f.db.Close())
	f.db = nil
	require.NotNil(t, repair(t, f.fs, nil).Blocks[0].Saved)
	require.True(t, sameData(want, openFiles(t, f.fs)), "only the meta file was lost")
}

// Bug 35: the result of a merge beside its inputs overlaps with them, and nothing starts.
func TestDB_Bug35_AnInterruptedMergeIsFinished(t *testing.T) {
	f := newFixture(t, func(o *tsdb.Options) {
		manual(o)
		o.Blocks.MaxRange = 6 * time.Hour
	})
	base := testNow.UnixMilli()/(6*hour)*(6*hour) - 12*hour
	f.scrapes(2, base, base+10*hour)
	require.NoError(t, f.db.Flush(ctx))
	want := f.all()
	inputs := f.fs.KillClone()
	states := disksDuring(f.fs, func() { require.NoError(t, f.db.Compact(ctx)) })
	require.Less(t, len(blockNames(f.fs)), len(blockNames(inputs)))
	// The result beside its inputs, as a crash between the two leaves them.
	for _, name := range namesUnder(f.fs, "01") {
		data, err := f.fs.ReadFile(path.Join(fixtureDir, name))
		require.NoError(t, err)
		require.NoError(t, inputs.WriteFile(path.Join(fixtureDir, name), data))
	}
	for i, fs := range append(states, inputs) {
		require.True(t, sameData(want, openFiles(t, fs)), "state %d", i)
		requireNoDebris(t, fs)
	}
	require.ElementsMatch(t, blockNames(f.fs), blockNames(inputs), "the inputs are gone")
}

// Bug 36: a merge that fails is tried for ever, and its leftovers fill the disk. Bug 37: data
// goes because the disk is full.
func TestDB_Bug36And37_AFullDiskInAFlushOrMergeHealsAndCostsNothing(t *testing.T) {
	base := testNow.UnixMilli()/(6*hour)*(6*hour) - 12*hour
	for _, work := range []string{"flush", "merge"} {
		failed := 0
		for nth := 1; ; nth++ {
			f := newFixture(t, func(o *tsdb.Options) {
				manual(o)
				o.Blocks.MaxRange = 6 * time.Hour
				o.Head.SamplesPerChunk = 16
			})
			f.scrapes(4, base, base+9*hour)
			do := func() error { return f.db.Flush(ctx) }
			if work == "merge" {
				require.NoError(t, do())
				do = func() error { return f.db.Compact(ctx) }
			}
			want, blocks := f.all(), blockNames(f.fs)
			f.fillAt(nth)
			err := do()
			if err != nil {
				failed++
				require.ErrorIs(t, err, tsdb.ErrDiskFull)
				require.Subset(t, blockNames(f.fs), blocks, "nothing goes because of it")
				requireNoDebris(t, f.fs)
			}
			require.True(t, sameData(want, f.all()), "%s, full at write %d", work, nth)
			if failed%4 == 1 { // opened as it is
				if err := f.db.Close(); err != nil {
					require.ErrorIs(t, err, syscall.ENOSPC, "full chunks may find no room")
				}
				f.open()
				require.True(t, sameData(want, f.all()))
			}
			f.fs.SetHook(nil)
			f.clock.Advance(2 * time.Second) // recovery tries again
			require.NoError(t, do(), "there is room")
			require.True(t, sameData(want, f.all()))
			require.Equal(t, work == "flush", len(f.db.Blocks()) == 5)
			f.reopen()
			require.True(t, sameData(want, f.all()))
			require.NoError(t, f.db.Close())
			f.db = nil
			if err == nil {
				break
			}
		}
		t.Logf("%s: failed at %d places", work, failed)
		require.Greater(t, failed, 5, work)
	}
}

// fillAt makes the disk full from the n-th write into a new block on.
func (f *fixture) fillAt(n int) {
	f.fs.SetHook(func(op tsdbtest.Op) error {
		if op.Kind != tsdbtest.OpWrite && op.Kind != tsdbtest.OpCreate {
			return nil
		}
		if n > 0 && strings.Contains(op.Name, "tmp-block-") {
			n--
		}
		if n > 0 {
			return nil
		}
		return syscall.ENOSPC
	})
}

// Bug 37: damage of one block makes others go.
func TestDB_Bug37_DamageOfOneBlockCostsNoOther(t *testing.T) {
	f, want := blocksFixture(t)
	names := blockNames(f.fs)
	f.opts.Blocks.Retention = 4 * time.Hour
	for i, name := range names {
		fs := f.fs.KillClone()
		require.NoError(t, written(name+"/index", "")(fs))
		o := *f.opts
		o.FS = fs
		db, err := tsdb.Open(fixtureDir, &o)
		require.NoError(t, err)
		require.Equal(t, 1, db.OpenReport().BlocksSetAside)
		require.NoError(t, db.Compact(ctx))
		require.NoError(t, db.Close())
		var left []string
		for _, other := range names[1:] { // the first one is too old, damaged or not
			if other != name {
				left = append(left, other)
			}
		}
		require.Equal(t, left, slices.DeleteFunc(blockNames(fs), func(n string) bool { return n == names[0] }), "block %d was damaged", i)
		require.NotEmpty(t, namesUnder(fs, "quarantine/"+name))
	}
	require.True(t, sameData(want, openFiles(t, f.fs)))
}

// Bug 39: a file that is too short is a panic. Each is cut at each length by
// TestDamage_NoCutFileOfABlockIsSilent; this is the one that was found.
func TestDB_Bug39_ATombstonesFileOfEightBytesIsDamage(t *testing.T) {
	f, _ := blocksFixture(t)
	name := blockNames(f.fs)[2]
	require.NoError(t, written(name+"/tombstones", "\x01\x30\xba\x30\x01\x00\x00\x00")(f.fs))
	f.open()
	require.Equal(t, 1, f.db.OpenReport().BlocksSetAside)
	require.NotEmpty(t, warningsOf(t, f.db, math.MinInt64, math.MaxInt64))
}

// Bug 45: merging fails after a delete, and queries see half of one.
func TestDB_Bug45_DeletesAreMergedAndChangeNoOpenQuery(t *testing.T) {
	f, _ := blocksFixture(t)
	f.open()
	metas := f.db.Blocks()
	q, err := f.db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	before := dumpQuerier(t, q)
	for i := int64(0); i < 20; i++ {
		mint := metas[0].MinTime + i*10*minute
		require.NoError(t, f.db.Delete(ctx, mint, mint+i*minute/2, labels.Equal("i", "0")))
	}
	require.NoError(t, f.db.Delete(ctx, metas[1].MinTime, metas[1].MaxTime)) // all of it
	want := f.all()
	require.True(t, sameData(before, dumpQuerier(t, q)))
	require.NoError(t, q.Close())
	require.NoError(t, f.db.CleanTombstones(ctx))
	require.NoError(t, f.db.Compact(ctx))
	require.True(t, sameData(want, f.all()))
	for _, m := range f.db.Blocks() {
		require.Zero(t, m.Stats.NumTombstones)
		require.NotEqual(t, metas[1].ULID, m.ULID, "nothing was left of it")
	}
	f.reopen()
	require.True(t, sameData(want, f.all()))
}

// Bug 46: deleted data is back after a restart; after the third one, after a crash, after
// the list of what was deleted was lost.
func TestDB_Bug46_DeletedSamplesStayAway(t *testing.T) {
	f, _ := blocksFixture(t)
	f.open()
	metas := f.db.Blocks()
	require.NoError(t, f.db.Delete(ctx, metas[2].MaxTime-10*minute, metas[2].MaxTime+10*minute, labels.Equal("i", "2")))
	require.NoError(t, f.db.Sync())
	want := f.all()
	for range 3 {
		killed := f.fs.CrashClone(tsdbtest.CrashOptions{Choose: tsdbtest.LoseAll})
		require.True(t, sameData(want, openFiles(t, killed)))
		f.reopen()
		require.True(t, sameData(want, f.all()))
	}
	require.NoError(t, f.db.Close())
	f.db = nil
	name := metas[2].ULID.String()
	for _, lose := range []func(*tsdbtest.MemFS) error{taken(name + "/tombstones"), written(name+"/tombstones", ""), flipped(name+"/tombstones", 7)} {
		fs := f.fs.KillClone()
		require.NoError(t, lose(fs))
		o := *f.opts
		o.FS = fs
		db, err := tsdb.Open(fixtureDir, &o)
		require.NoError(t, err)
		require.Equal(t, 1, db.OpenReport().BlocksSetAside)
		require.Empty(t, atLeast(want, dump(t, db, math.MinInt64, math.MaxInt64)), "nothing is back")
		require.NoError(t, db.Close())
		r := repair(t, fs, nil)
		require.ErrorIs(t, r.Blocks[0].Err, blockdir.ErrDeletedLost)
		require.Nil(t, r.Blocks[0].Saved)
	}
}

// More files than may be open: what needs one fails and says so, nothing is taken for
// damaged, and everything works again when there are some.
func TestDB_TooManyOpenFilesAreNoDamage(t *testing.T) {
	f, want := blocksFixture(t)
	few := faultfs.Fault{Err: syscall.EMFILE, Kinds: []tsdbtest.OpKind{tsdbtest.OpOpen, tsdbtest.OpCreate, tsdbtest.OpOpenWrite}}
	opened, refused := 0, 0
	places := sweep.Of(t, 1, 5)
	for few.Nth = 1; ; few.Nth += int64(places.Step) {
		for _, few.Sticky = range []bool{true, false} {
			disk := f.fs.KillClone()
			fsys := faultfs.New(disk)
			fsys.Inject(few)
			o := *f.opts
			o.FS = fsys
			db, err := tsdb.Open(fixtureDir, &o)
			if err != nil {
				refused++
				require.ErrorIs(t, err, syscall.EMFILE)
			} else {
				opened++
				report := db.OpenReport()
				require.Zero(t, report.BlocksSetAside)
				for _, err := range []error{db.Flush(ctx), db.Compact(ctx), db.CleanTombstones(ctx)} {
					if err != nil {
						require.ErrorIs(t, err, syscall.EMFILE)
					}
				}
				require.True(t, sameData(want, dump(t, db, math.MinInt64, math.MaxInt64)), "reading needs no more files")
				fsys.Lift()
				require.NoError(t, db.Compact(ctx))
				require.NoError(t, db.Flush(ctx))
				require.True(t, sameData(want, dump(t, db, math.MinInt64, math.MaxInt64)))
				if err := db.Close(); err != nil {
					require.ErrorIs(t, err, syscall.EMFILE)
				}
			}
			require.Empty(t, namesUnder(disk, "quarantine/"))
			require.True(t, sameData(want, openFiles(t, disk)), "%d", few.Nth)
			if len(fsys.Hits()) == 0 {
				require.Positive(t, opened)
				require.Positive(t, refused)
				return
			}
		}
	}
}

// A name that is none of ours is never touched, whatever the database does.
func TestDB_ForeignNamesAreLeftAlone(t *testing.T) {
	f, _ := blocksFixture(t)
	foreign := []string{"readme", "lost+found/x", "wal/note", "chunks_head/note", "01HF7Q8ZK0000000000000TES9.tmp-for-creation/index"}
	for _, name := range foreign {
		require.NoError(t, written(name, "x")(f.fs))
	}
	f.open()
	require.NoError(t, f.db.Compact(ctx))
	require.NoError(t, f.db.Flush(ctx))
	require.NoError(t, f.db.Close())
	f.db = nil
	repair(t, f.fs, nil)
	for _, name := range foreign {
		data, err := f.fs.ReadFile(path.Join(fixtureDir, name))
		require.NoError(t, err, name)
		require.Equal(t, "x", strings.TrimSpace(string(data)))
	}
}
