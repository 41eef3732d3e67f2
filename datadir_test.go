package tsdb_test

import (
	"io/fs"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// allWays are the ways into a directory, each of which closes again what it opened.
func allWays(disk *tsdbtest.MemFS, any bool) map[string]func(dir string) error {
	opts := func() *tsdb.Options {
		return &tsdb.Options{FS: disk, Clock: tsdbtest.NewClock(testNow), AnyDirectory: any}
	}
	return map[string]func(dir string) error{
		"Open": func(dir string) error {
			db, err := tsdb.Open(dir, opts())
			if err != nil {
				return err
			}
			return db.Close()
		},
		"OpenReadOnly": func(dir string) error {
			r, err := tsdb.OpenReadOnly(dir, opts())
			if err != nil {
				return err
			}
			return r.Close()
		},
		"Verify": func(dir string) error {
			_, err := tsdb.Verify(ctx, dir, &tsdb.VerifyOptions{FS: disk, AnyDirectory: any})
			return err
		},
		"Repair": func(dir string) error {
			_, err := tsdb.Repair(ctx, dir, &tsdb.RepairOptions{Options: opts()})
			return err
		},
		"BlockWriter": func(dir string) error {
			w, err := tsdb.NewBlockWriter(dir, &tsdb.BlockWriterOptions{FS: disk, AnyDirectory: any})
			if err != nil {
				return err
			}
			return w.Close()
		},
	}
}

// A mistyped path makes no database among files of another kind, and removes nothing of them.
func TestDataDir_ADirectoryOfSomethingElseIsRefusedByName(t *testing.T) {
	disk := tsdbtest.NewMemFS()
	for _, name := range []string{"thesis.tex", "tmp-drafts/1", "photos/1.jpg", ".git/config", "tmp-wal-x"} {
		require.NoError(t, disk.WriteFile("home/"+name, []byte(name)))
	}
	before := treeOf(t, disk)
	for name, into := range allWays(disk, false) {
		err := into("home")
		require.ErrorIs(t, err, tsdb.ErrNotDataDir, name)
		require.ErrorContains(t, err, "home", name)
		require.ErrorContains(t, err, `"photos" "thesis.tex" "tmp-drafts"`, name)
		require.ErrorContains(t, err, "and 1 more", name)
		require.Equal(t, before, treeOf(t, disk), name)
	}
	for name, into := range allWays(disk, true) {
		require.NoError(t, into("home"), name)
		for file, text := range before {
			require.Equal(t, text, treeOf(t, disk)[file], name)
		}
	}
	for name, into := range allWays(disk, false) {
		require.NoError(t, into("home"), "now it is one: %s", name)
	}
}

// diskWith is a disk with a directory d, which has one file, or a directory if the name ends so.
func diskWith(t *testing.T, file string) *tsdbtest.MemFS {
	disk := tsdbtest.NewMemFS()
	if strings.HasSuffix(file, "/") {
		require.NoError(t, disk.MkdirAll(path.Join("d", file)))
	} else {
		require.NoError(t, disk.WriteFile("d/"+file, nil))
	}
	return disk
}

// What a fresh volume has is nothing, and one thing of a database is enough.
func TestDataDir_WhatMakesOne(t *testing.T) {
	block := "01ARZ3NDEKTSV4RRFFQ69G5FAV"
	for _, c := range []struct {
		file string
		is   bool
	}{
		{"lost+found/", true}, {".snapshot/", true}, {".hidden", true},
		{"wal/", true}, {"chunks_head/", true}, {"wbl/", true}, {"quarantine/", true},
		{"lock", true}, {"lock.owner", true}, {"blocks.tsdb", true}, {"queries.active", true},
		{block + "/wal/00000000", true}, {strings.ToLower(block) + "/x", true}, {block + ".tmp-for-creation/x", true},
		{"head_snapshot.00000001/x", true}, {"chunk_snapshot.000001.0000000000/00000000", true},
		{"tmp-checkpoint/00000000", true}, {"tmp-block-" + block + "/index", true},
		{"x.tmp-snapshot/wal/", false}, // in a directory of copies one that is being made
		{"readme", false}, {"data/wal/00000000", false}, {"wal.old/", false}, {block + ".bak/", false}, {"tmp-x", false},
		{"tmp-block-x/", false},
	} {
		t.Run(c.file, func(t *testing.T) {
			for name := range allWays(nil, false) {
				disk := diskWith(t, c.file)
				require.NoError(t, disk.MkdirAll("d/.x"))
				err := allWays(disk, false)[name]("d")
				if c.is {
					require.NoError(t, err, name)
				} else {
					require.ErrorIs(t, err, tsdb.ErrNotDataDir, name)
				}
			}
		})
	}
}

// Among files of another kind only what nobody else has is enough: locks, logs and quarantines are
// known to others, too, and a directory of backups has copies that are being made.
func TestDataDir_WhatMakesOneAmongStrangers(t *testing.T) {
	for _, c := range []struct {
		file string
		is   bool
	}{
		{"lock", false}, {"quarantine/", false}, {"monday.tmp-snapshot/wal/00000000", false},
		{"wal/0000000000000000-0000000000000000.wal", false}, {"wal", false},
		{"wal/", true}, {"wal/00000000", true}, {"wal/checkpoint.00000000/00000000", true},
		{"lock.owner", true}, {"blocks.tsdb", true}, {"chunks_head/", true}, {"01ARZ3NDEKTSV4RRFFQ69G5FAV/index", true},
	} {
		t.Run(c.file, func(t *testing.T) {
			for name := range allWays(nil, false) {
				disk := diskWith(t, c.file)
				require.NoError(t, disk.WriteFile("d/readme", nil))
				before := treeOf(t, disk)
				err := allWays(disk, false)[name]("d")
				if c.is {
					require.NoError(t, err, name)
					continue
				}
				require.ErrorIs(t, err, tsdb.ErrNotDataDir, name)
				require.Equal(t, before, treeOf(t, disk), name)
			}
		})
	}
}

// A copy of the database must not stand where a database takes it for a block, the log, or a
// leftover.
func TestSnapshot_NotWhereADatabaseTakesItForAPartOfItself(t *testing.T) {
	f := newFixture(t, manual)
	f.commit(sample{`{a="b"}`, testNow.UnixMilli(), 1})
	block := "01ARZ3NDEKTSV4RRFFQ69G5FAV"
	require.NoError(t, f.fs.WriteFile("other/lock.owner", nil))
	require.NoError(t, f.fs.WriteFile("empty/readme", nil))
	before := treeOf(t, f.fs)
	for _, target := range []string{
		"data/" + block, "data/" + strings.ToLower(block), "data/./" + block, "data/wal", "data/wal/copy", "data/chunks_head/000009", "data/quarantine/copy", "data/lock",
		"data/tmp-checkpoint", "data/head_snapshot.00000009", "data/chunk_snapshot.000001.0000000000", "data/blocks.tsdb", "data/x.tmp-snapshot", "other/" + block, "other/wal",
	} {
		err := f.db.Snapshot(ctx, target)
		require.ErrorIs(t, err, fs.ErrInvalid, target)
		require.ErrorContains(t, err, "for a part of itself", target)
		require.Equal(t, before, treeOf(t, f.fs))
	}
	for _, target := range []string{"data/copies/" + block, "data/copy", "empty/" + block, "missing/" + block} {
		require.NoError(t, f.db.Snapshot(ctx, target), target)
	}
	f.reopen()
	r := f.db.OpenReport()
	require.True(t, r.Clean())
	require.Empty(t, r.Damages)
}

// What an interrupted Snapshot left goes with the next one; what else has that name stays.
func TestSnapshot_RemovesWhatItLeftAndNothingElse(t *testing.T) {
	f := newFixture(t, manual)
	f.commit(sample{`{a="b"}`, testNow.UnixMilli(), 1})
	require.NoError(t, f.fs.WriteFile("copy.tmp-snapshot/wal/00000000", []byte("left over")))
	require.NoError(t, f.fs.WriteFile("photos.tmp-snapshot/1.jpg", []byte("mine")))
	require.NoError(t, f.db.Snapshot(ctx, "copy"))
	require.NotContains(t, treeOf(t, f.fs), "copy.tmp-snapshot/wal/00000000")
	err := f.db.Snapshot(ctx, "photos")
	require.ErrorIs(t, err, fs.ErrExist)
	require.ErrorContains(t, err, "photos.tmp-snapshot")
	require.Equal(t, "mine", treeOf(t, f.fs)["photos.tmp-snapshot/1.jpg"])
}

// Files that a crash left of changes of a block go, unless somebody brings blocks and may be
// changing them.
func TestOpen_LeftoversInBlocksGo(t *testing.T) {
	f, want := blocksFixture(t)
	block := blockNames(f.fs)[0]
	for _, name := range []string{"meta.json.tmp", "meta.json.crc.tmp", "tombstones.tmp", "index.repaired"} {
		require.NoError(t, written(block+"/"+name, "left over")(f.fs))
	}
	for _, name := range []string{"notes.tmp", "index.tmp", "no-compact-mark.json", "chunks.tmp/x"} {
		require.NoError(t, written(block+"/"+name, "not ours")(f.fs))
	}
	w, err := tsdb.NewBlockWriter(fixtureDir, &tsdb.BlockWriterOptions{FS: f.fs, Clock: f.clock})
	require.NoError(t, err)
	require.NoError(t, w.Append(labels.FromStrings("a", "b"), 1, 1))
	f.open()
	require.Contains(t, namesUnder(f.fs, block), block+"/meta.json.tmp", "a writer is at work")
	require.NoError(t, w.Close())
	f.reopen()
	require.Equal(t, want, f.all())
	for _, name := range namesUnder(f.fs, block) {
		require.NotContains(t, []string{"meta.json.tmp", "meta.json.crc.tmp", "tombstones.tmp", "index.repaired"}, path.Base(name))
	}
	for _, name := range []string{"notes.tmp", "index.tmp", "no-compact-mark.json", "chunks.tmp/x"} {
		require.Contains(t, namesUnder(f.fs, block), block+"/"+name)
	}
}
