package blockdir

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/oklog/ulid/v2"
	"github.com/pkg/errors"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/tombstones"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// blockFiles are the files of testBlock that cannot be missing.
var blockFiles = []string{"chunks/000001", "index", "meta.json"}

func inBlock(name string) string { return filepath.Join(Path(dataDir, testID), name) }

// verifyTest opens and verifies the block and returns everything that is wrong with it.
func verifyTest(tb testing.TB, fsys fileutil.FS) error {
	tb.Helper()
	d, err := Open(fsys, Path(dataDir, testID))
	if err != nil {
		return err
	}
	rep, err := Verify(context.Background(), d, nil)
	require.NoError(tb, err)
	require.NoError(tb, d.Close())
	return fileutil.JoinErrors(rep.Problems...)
}

func TestOpen_MissingFiles_AreNamed(t *testing.T) {
	for _, name := range blockFiles {
		m := newBlock(t)
		require.NoError(t, m.Remove(inBlock(name)))
		_, err := Open(m, Path(dataDir, testID))
		if name == "chunks/000001" {
			name = "chunks"
		}
		requireCorruptFile(t, err, filepath.ToSlash(inBlock(name)))
		require.ErrorContains(t, err, "missing")
		require.Empty(t, m.OpenHandles())
	}
	m := newBlock(t)
	require.NoError(t, fileutil.RemoveAll(m, inBlock("chunks")))
	_, err := Open(m, Path(dataDir, testID))
	requireCorruptFile(t, err, filepath.ToSlash(inBlock("chunks")))
	_, err = Open(m, filepath.Join(dataDir, "nothing"))
	requireCorruptFile(t, err, dataDir+"/nothing/meta.json")
}

// Bug 46, R7 of the reference: without its tombstones file a block shows what was deleted.
func TestOpen_MissingTombstones_AreDamageOnlyWhereSomethingIsDeleted(t *testing.T) {
	m := newBlock(t)
	want := content(t, m)
	require.NoError(t, m.Remove(inBlock("tombstones")))
	require.Equal(t, want, content(t, m))

	d := openTest(t, m)
	require.NoError(t, d.SetTombstones(deleted(0, 10, seriesIDs(t, d)...)))
	require.NoError(t, d.Close())
	require.NotEqual(t, want, content(t, m))
	for _, b := range [][]byte{nil, tombstones.Encode(&tombstones.Set{})} {
		require.NoError(t, fileutil.RemoveAll(m, inBlock("tombstones")))
		if b != nil {
			require.NoError(t, m.WriteFile(inBlock("tombstones"), b))
		}
		_, err := Open(m, Path(dataDir, testID))
		requireCorruptFile(t, err, filepath.ToSlash(inBlock("tombstones")))
		require.Empty(t, m.OpenHandles())
	}
}

// Bug 34: an empty meta file after a crash.
func TestOpen_EmptyAndForeignFiles_AreNamed(t *testing.T) {
	for _, name := range append([]string{"tombstones"}, blockFiles...) {
		for what, b := range map[string][]byte{
			"empty": {}, "zeros": make([]byte, 300), "text": []byte(strings.Repeat("hello\n", 50)), "magic only": {0xba, 0xaa, 0xd7, 0},
		} {
			m := newBlock(t)
			require.NoError(t, m.WriteFile(inBlock(name), b))
			_, err := Open(m, Path(dataDir, testID))
			requireCorruptFile(t, err, filepath.ToSlash(inBlock(name)))
			require.Empty(t, m.OpenHandles(), what)
		}
		m := newBlock(t)
		require.NoError(t, m.Remove(inBlock(name)))
		require.NoError(t, m.MkdirAll(inBlock(name)))
		_, err := Open(m, Path(dataDir, testID))
		require.Error(t, err, "a directory in the place of %s", name)
		require.ErrorContains(t, err, filepath.Base(name))
	}
	m := newBlock(t)
	require.NoError(t, m.WriteFile(inBlock("no-compact-mark.json"), []byte("{}")))
	require.NoError(t, m.WriteFile(inBlock("meta.json.tmp"), []byte("half")))
	require.NoError(t, verifyTest(t, m), "other files are nobody's business")
}

func TestOpen_DirectoryWithAnotherBlocksName_IsRefused(t *testing.T) {
	m := newBlock(t)
	other := ulid.MustParseStrict("01HF7Q8ZK0000000000000TES9")
	require.NoError(t, m.Rename(Path(dataDir, testID), Path(dataDir, other)))
	_, err := Open(m, Path(dataDir, other))
	requireCorruptFile(t, err, filepath.ToSlash(filepath.Join(Path(dataDir, other), "meta.json")))
	require.ErrorContains(t, err, testID.String())
	require.NoError(t, m.Rename(Path(dataDir, other), "quarantine"))
	d, err := Open(m, "quarantine")
	require.NoError(t, err, "a directory that is no block's")
	require.NoError(t, d.Close())
}

func TestOpen_NewerVersion_IsRefusedByName(t *testing.T) {
	m := newBlock(t)
	b, err := m.ReadFile(inBlock("meta.json"))
	require.NoError(t, err)
	require.NoError(t, m.WriteFile(inBlock("meta.json"), []byte(strings.Replace(string(b), `"version": 1`, `"version": 3`, 1))))
	_, err = Open(m, Path(dataDir, testID))
	requireCorruptFile(t, err, filepath.ToSlash(inBlock("meta.json"))) // the sidecar knows better
	require.NoError(t, m.Remove(inBlock("meta.json.crc")))
	_, err = Open(m, Path(dataDir, testID))
	require.ErrorIs(t, err, ErrUnsupportedVersion)
	require.False(t, errors.Is(err, encbuf.ErrCorrupt))
	require.ErrorContains(t, err, "meta.json")
}

// uncovered are the bytes of a block that nothing looks at, as docs/format-coverage.md lists
// them.
func uncovered(name string, off int, b []byte) bool {
	switch name {
	case "chunks/000001":
		return off >= 5 && off < 8 // spare
	case "index":
		return off == 4 && b[4] == 3 // a version that is read like 2
	}
	return false
}

// Bug 39: a damaged table of contents, chunk or tombstones file is a panic.
func TestVerify_EveryFlippedBitOfEveryFile_IsSeenOrListed(t *testing.T) {
	m := newBlock(t)
	d := openTest(t, m)
	require.NoError(t, d.SetTombstones(deleted(0, 10, seriesIDs(t, d)...)))
	meta := d.Meta()
	require.NoError(t, d.Close())
	want := content(t, m)
	for _, name := range append([]string{"tombstones", "meta.json.crc"}, blockFiles...) {
		good, err := m.ReadFile(inBlock(name))
		require.NoError(t, err)
		silent := map[int]bool{}
		for bit := range len(good) * 8 {
			b := append([]byte{}, good...)
			b[bit/8] ^= 1 << (bit % 8)
			left := m.KillClone()
			require.NoError(t, left.WriteFile(inBlock(name), b))
			err := verifyTest(t, left)
			if err != nil {
				require.True(t, errors.Is(err, encbuf.ErrCorrupt) || errors.Is(err, ErrUnsupportedVersion), "%v", err)
				require.ErrorContains(t, err, filepath.Base(name))
				continue
			}
			silent[bit/8] = true
			require.Equal(t, want, content(t, left), "%s bit %d", name, bit)
			switch {
			case name == "meta.json.crc":
				_, side, err := readMeta(left, Path(dataDir, testID))
				require.NoError(t, err)
				require.True(t, side.stale, "it is renewed")
			case name == "meta.json":
				got, err := ReadMeta(left, Path(dataDir, testID))
				require.NoError(t, err)
				if got.Stats.NumFloatSamples == 0 { // its name is damaged: as if an old writer had dropped it
					got.Stats.NumFloatSamples = meta.Stats.NumFloatSamples
				}
				got.Stats.NumTombstones, got.Extra, got.Version = meta.Stats.NumTombstones, Extra{}, meta.Version
				require.Equal(t, meta, got, "no more than that may differ, bit %d", bit)
			default:
				require.True(t, uncovered(name, bit/8, b), "%s bit %d", name, bit)
			}
		}
		if name == "chunks/000001" {
			require.Len(t, silent, 3)
		}
	}
}

func TestOpen_EveryCutOfEveryFile_IsSeen(t *testing.T) {
	m := newBlock(t)
	for _, name := range append([]string{"tombstones"}, blockFiles...) {
		good, err := m.ReadFile(inBlock(name))
		require.NoError(t, err)
		for cut := range good {
			left := m.KillClone()
			require.NoError(t, left.WriteFile(inBlock(name), good[:cut]))
			require.ErrorIs(t, verifyTest(t, left), encbuf.ErrCorrupt, "%s cut at %d", name, cut)
			require.Empty(t, left.OpenHandles())
		}
	}
}

func TestOpen_BlockOfPrometheus21_GetsItsVersionNumbersRight(t *testing.T) {
	good := newBlock(t)
	want := content(t, good)
	bug := func() *tsdbtest.MemFS {
		m := newBlock(t)
		b, err := m.ReadFile(inBlock("meta.json"))
		require.NoError(t, err)
		require.NoError(t, m.WriteFile(inBlock("meta.json"), []byte(strings.Replace(string(b), `"version": 1`, `"version": 2`, 1))))
		b, err = m.ReadFile(inBlock("index"))
		require.NoError(t, err)
		b[4] = 1
		require.NoError(t, m.WriteFile(inBlock("index"), b))
		return m
	}
	m := bug()
	_, err := OpenReadOnly(m, Path(dataDir, testID))
	require.ErrorIs(t, err, ErrNeedsRepair)
	atEveryCrash(t, m, func() error {
		d, err := Open(m, Path(dataDir, testID))
		if err != nil {
			return err
		}
		return d.Close()
	}, func(left *tsdbtest.MemFS, _ bool) {
		require.Equal(t, want, content(t, left), left.FateString())
	})
	require.Equal(t, tree(t, good), tree(t, m))

	m = bug()
	require.NoError(t, m.Remove(inBlock("index")))
	_, err = Open(m, Path(dataDir, testID))
	requireCorruptFile(t, err, filepath.ToSlash(inBlock("index")))
	require.NoError(t, m.WriteFile(inBlock("index"), []byte{1}))
	_, err = Open(m, Path(dataDir, testID))
	requireCorruptFile(t, err, filepath.ToSlash(inBlock("index")))
}

func TestSetTombstones_PublishesASnapshotAndNeverUndeletes(t *testing.T) {
	m := newBlock(t)
	d := openTest(t, m)
	ids := seriesIDs(t, d)
	before := d.Tombstones()
	set := deleted(0, 20, ids[0])
	require.NoError(t, d.SetTombstones(set))
	require.Zero(t, before.Len(), "who has the old one keeps it")
	require.Same(t, set, d.Tombstones())
	require.EqualValues(t, 1, d.Meta().Stats.NumTombstones)
	require.ErrorIs(t, d.SetTombstones(&tombstones.Set{}), ErrInvalid)
	require.NoError(t, d.Close())
	require.NotContains(t, content(t, m), "a,1, 10 ")
	left := m.CrashClone(tsdbtest.CrashOptions{Choose: tsdbtest.LoseAll})
	require.Equal(t, content(t, m), content(t, left), "it is on stable storage on return")
}

func TestSetMeta_ChangesWhatMayChange(t *testing.T) {
	m := newBlock(t)
	d := openTest(t, m)
	require.NoError(t, d.SetMeta(func(m *Meta) {
		m.Compaction.Failed = true
		m.Stats.NumTombstones = 5
	}))
	for name, change := range map[string]func(m *Meta){
		"times":   func(m *Meta) { m.MaxTime++ },
		"ulid":    func(m *Meta) { m.ULID[3]++ },
		"samples": func(m *Meta) { m.Stats.NumSamples-- },
		"hints":   func(m *Meta) { m.Compaction.Hints = []string{"x"} },
		"version": func(m *Meta) { m.Version = 2 },
	} {
		require.ErrorIs(t, d.SetMeta(change), ErrInvalid, name)
	}
	require.NoError(t, d.Close())
	got, err := ReadMeta(m, Path(dataDir, testID))
	require.NoError(t, err)
	require.True(t, got.Compaction.Failed)
	require.Zero(t, got.Stats.NumTombstones, "that count is the tombstones file's")
	require.EqualValues(t, 100, got.MaxTime)
}

func TestDir_ManyReadWhileOneDeletes(t *testing.T) {
	d := openTest(t, newBlock(t))
	ids := seriesIDs(t, d)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 50 {
				if i == 0 {
					if err := d.SetTombstones(deleted(0, int64(j), ids...)); err != nil {
						t.Error(err)
					}
					continue
				}
				if _, err := dump(d); err != nil {
					t.Error(err)
				}
				_ = fmt.Sprint(d.Meta())
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 3, d.Meta().Stats.NumTombstones)
	require.NoError(t, d.Close())
	require.NoError(t, d.Close())
}
