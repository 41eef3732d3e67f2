package blockdir

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oklog/ulid/v2"
	"github.com/pkg/errors"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/faultfs"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

var newID = ulid.MustParseStrict("01HF7Q8ZK0000000000000TES9")

// salvage salvages the test block, and returns the dump of what was saved.
func salvage(t *testing.T, m fileutil.FS) (string, Salvaged, error) {
	t.Helper()
	s, err := Salvage(context.Background(), m, Path(dataDir, testID), dataDir, newID, SalvageOptions{WriterOptions: WriterOptions{SegmentBytes: 100}, Undelete: true})
	if err != nil {
		return "", s, err
	}
	d, err := Open(m, Path(dataDir, newID))
	require.NoError(t, err)
	rep, err := Verify(context.Background(), d, nil)
	require.NoError(t, err)
	require.Empty(t, rep.Problems)
	require.Equal(t, s.Meta, d.Meta())
	text, err := dump(d)
	require.NoError(t, err)
	require.NoError(t, d.Close())
	return text, s, nil
}

// partlyDeleted is the test block in several segments, with some samples deleted.
func partlyDeleted(t *testing.T) (*tsdbtest.MemFS, Meta) {
	t.Helper()
	m := newDisk(t)
	_, err := create(m, testID, testBlock(), testMeta(), WriterOptions{SegmentBytes: 60})
	require.NoError(t, err)
	d := openTest(t, m)
	ids := seriesIDs(t, d)
	require.NoError(t, d.SetTombstones(deleted(10, 15, ids[0], ids[1])))
	require.NoError(t, d.SetMeta(func(m *Meta) { m.Compaction.Failed = true }))
	meta := d.Meta()
	require.NoError(t, d.Close())
	return m, meta
}

// requirePart: every line of part is one of whole, in order. It returns how many are not.
func requirePart(t *testing.T, part, whole string) (lost int) {
	t.Helper()
	lines := strings.SplitAfter(whole, "\n")
	for _, l := range strings.SplitAfter(part, "\n") {
		for len(lines) > 0 && lines[0] != l {
			lines = lines[1:]
			lost++
		}
		require.NotEmpty(t, lines, "%q was not in the block", l)
		lines = lines[1:]
	}
	return lost + len(lines)
}

func TestSalvage_WholeBlock_IsCopiedWithWhatIsDeleted(t *testing.T) {
	m, meta := partlyDeleted(t)
	before := tree(t, m)
	want := content(t, m)
	got, s, err := salvage(t, m)
	require.NoError(t, err)
	require.Equal(t, want, got)
	meta.ULID, meta.Compaction.Failed = newID, false
	require.Equal(t, Salvaged{Meta: meta}, s)
	after := tree(t, m)
	for name, text := range before {
		require.Equal(t, text, after[name], "the old block stays as it is")
	}
}

func TestSalvage_DamagedChunk_CostsThatChunkOnly(t *testing.T) {
	m, _ := partlyDeleted(t)
	want := content(t, m)
	for _, name := range []string{"chunks/000001", "chunks/000002"} {
		good, err := m.ReadFile(inBlock(name))
		require.NoError(t, err)
		for i := range good {
			b := append([]byte{}, good...)
			b[i] ^= 0x40
			left := m.KillClone()
			require.NoError(t, left.WriteFile(inBlock(name), b))
			got, s, err := salvage(t, left)
			require.NoError(t, err)
			requirePart(t, got, want)
			if i >= 8 {
				require.EqualValues(t, 1, s.LostChunks)
				require.LessOrEqual(t, s.LostSamples, uint64(3))
				require.Len(t, s.Damage, 1)
				require.ErrorContains(t, s.Damage[0], filepath.Base(name))
			}
			require.Zero(t, s.LostSeries)
		}
	}
}

func TestSalvage_MissingFiles(t *testing.T) {
	whole, meta := partlyDeleted(t)
	want := content(t, whole)
	for name, check := range map[string]func(got string, s Salvaged){
		"chunks/000001": func(got string, s Salvaged) {
			require.Positive(t, requirePart(t, got, want))
			require.Positive(t, s.LostChunks)
			require.Positive(t, s.LostSamples)
			require.Greater(t, s.Total, 1)
		},
		"meta.json": func(got string, s Salvaged) {
			require.Equal(t, want, got)
			require.True(t, s.MetaLost)
			require.EqualValues(t, 0, s.Meta.MinTime)
			require.EqualValues(t, 100, s.Meta.MaxTime)
			require.Equal(t, []ulid.ULID{newID}, s.Meta.Compaction.Sources)
		},
		"tombstones": func(got string, s Salvaged) {
			require.Equal(t, 2, requirePart(t, want, got), "the deleted samples are back")
			require.True(t, s.DeletedLost)
			require.Equal(t, meta.Compaction.Sources, s.Meta.Compaction.Sources)
		},
	} {
		m := whole.KillClone()
		require.NoError(t, m.Remove(inBlock(name)))
		got, s, err := salvage(t, m)
		require.NoError(t, err, name)
		require.NotEmpty(t, s.Damage)
		check(got, s)
	}
	m := whole.KillClone()
	require.NoError(t, m.Remove(inBlock("index")))
	_, _, err := salvage(t, m)
	requireCorruptFile(t, err, filepath.ToSlash(inBlock("index")))
	m = whole.KillClone()
	require.NoError(t, fileutil.RemoveAll(m, inBlock("chunks")))
	_, _, err = salvage(t, m)
	requireCorruptFile(t, err, filepath.ToSlash(inBlock("chunks")))
	m = whole.KillClone()
	names, err := m.ReadDir(inBlock("chunks"))
	require.NoError(t, err)
	for _, e := range names {
		require.NoError(t, m.Remove(filepath.Join(inBlock("chunks"), e.Name())))
	}
	_, _, err = salvage(t, m)
	require.ErrorIs(t, err, ErrEmpty)
	ids, err := List(m, dataDir)
	require.NoError(t, err)
	require.Equal(t, []ulid.ULID{testID}, ids)
}

func TestSalvage_DamagedIndex_NeverGivesOtherSamples(t *testing.T) {
	m, _ := partlyDeleted(t)
	want := content(t, m)
	good, err := m.ReadFile(inBlock("index"))
	require.NoError(t, err)
	saved, some := 0, 0
	for bit := range len(good) * 8 {
		b := append([]byte{}, good...)
		b[bit/8] ^= 1 << (bit % 8)
		left := m.KillClone()
		require.NoError(t, left.WriteFile(inBlock("index"), b))
		got, s, err := salvage(t, left)
		if err != nil {
			require.True(t, errors.Is(err, encbuf.ErrCorrupt), "bit %d: %v", bit, err)
			continue
		}
		saved++
		if requirePart(t, got, want) > 0 {
			some++
			require.NotEmpty(t, s.Damage)
		}
	}
	require.Greater(t, saved, len(good), "damage of series and lists costs no more than a series")
	require.Positive(t, some)
}

func TestSalvage_EveryFailure_IsReportedAndLeavesNothing(t *testing.T) {
	m, _ := partlyDeleted(t)
	want := content(t, m)
	sweep(t, func() *tsdbtest.MemFS { return m.KillClone() }, func(fsys fileutil.FS) error {
		s, err := Salvage(context.Background(), fsys, Path(dataDir, testID), dataDir, newID, SalvageOptions{WriterOptions: WriterOptions{}, Undelete: true})
		return fileutil.JoinErrors(append(s.Damage, err)...)
	}, func(t *testing.T, fault faultfs.Fault, f *faultfs.FS, m *tsdbtest.MemFS, err error) {
		require.Equal(t, want, content(t, m))
		if err == nil {
			require.True(t, harmless(f), f.TraceString())
		}
		d, openErr := Open(m, Path(dataDir, newID))
		if openErr == nil {
			got, dumpErr := dump(d)
			require.NoError(t, dumpErr)
			requirePart(t, got, want)
			require.NoError(t, d.Close())
			return
		}
		require.Error(t, err)
		if !fault.Sticky {
			for _, name := range m.Files() {
				require.True(t, strings.HasPrefix(filepath.ToSlash(name), dataDir+"/"+testID.String()), "%s\n%s", name, f.TraceString())
			}
		}
	})
}

func TestSalvage_ContextEndsIt(t *testing.T) {
	m, _ := partlyDeleted(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := Salvage(ctx, m, Path(dataDir, testID), dataDir, newID, SalvageOptions{})
	require.ErrorIs(t, err, context.Canceled)
}

func TestSalvage_LostDeletes_AreNotUndoneUnlessAskedTo(t *testing.T) {
	m, _ := partlyDeleted(t)
	before := tree(t, m)
	require.NoError(t, m.WriteFile(inBlock("tombstones"), []byte("damaged")))
	_, err := Salvage(context.Background(), m, Path(dataDir, testID), dataDir, newID, SalvageOptions{})
	require.ErrorIs(t, err, ErrDeletedLost)
	require.Len(t, tree(t, m), len(before), "nothing is left behind")

	m = newDisk(t) // of this one nothing was ever deleted, so nothing comes back
	_, err = create(m, testID, testBlock(), testMeta(), WriterOptions{})
	require.NoError(t, err)
	want := content(t, m)
	require.NoError(t, m.WriteFile(inBlock("tombstones"), []byte("damaged")))
	s, err := Salvage(context.Background(), m, Path(dataDir, testID), dataDir, newID, SalvageOptions{
		Origin: func(m *Meta, _ bool) { m.Compaction.Parents = []Parent{{ULID: testID}} },
	})
	require.NoError(t, err)
	require.False(t, s.DeletedLost)
	require.Equal(t, []Parent{{ULID: testID}}, s.Meta.Compaction.Parents)
	d, err := Open(m, Path(dataDir, newID))
	require.NoError(t, err)
	got, err := dump(d)
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.NoError(t, d.Close())
}
