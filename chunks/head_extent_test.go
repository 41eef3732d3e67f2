package chunks

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// loadTrusting opens the files of dir, of which extents say what is known.
func loadTrusting(tb testing.TB, fsys fileutil.FS, dir string, extents []HeadExtent) (*HeadFiles, []HeadChunk, LoadReport) {
	tb.Helper()
	h, err := OpenHead(fsys, dir, HeadOptions{FileBytes: 240})
	require.NoError(tb, err)
	require.NoError(tb, h.Trust(extents))
	var got []HeadChunk
	rep, err := h.Load(func(c HeadChunk) error {
		got = append(got, c)
		return nil
	})
	require.NoError(tb, err)
	return h, got, rep
}

// extentDir writes some chunks, takes the extents, and writes more. It returns where the chunks
// are, and how many were there when the extents were taken.
func extentDir(tb testing.TB) (dir string, extents []HeadExtent, refs []Ref, all []Full, known int) {
	tb.Helper()
	h, _, _ := openLoaded(tb, fileutil.OS, headDir(tb), HeadOptions{FileBytes: 240})
	list, err := h.SyncExtents()
	require.NoError(tb, err)
	require.Empty(tb, list, "nothing was written")
	all = fullChunks(2, 7)
	const before = 4
	refs = write(tb, h, all[:before])
	extents, err = h.SyncExtents()
	require.NoError(tb, err)
	refs = append(refs, write(tb, h, all[before:])...)
	require.NoError(tb, h.Close())
	return h.w.out.dir, extents, refs, all, before
}

func TestSyncExtents_EndWithTheNewestChunkAndAreSynced(t *testing.T) {
	fsys := newTestFS()
	h, _, _ := openLoaded(t, fsys, headDir(t), HeadOptions{FileBytes: 240})
	var sizes []int64
	for i := range 7 {
		write(t, h, fullChunks(i, 1))
		fsys.takeLog()
		list, err := h.SyncExtents()
		require.NoError(t, err)
		require.Contains(t, fsys.takeLog(), fmt.Sprintf("sync %s", fileName(list[len(list)-1].File)))
		require.Equal(t, h.End(), NewRef(list[len(list)-1].File, uint32(list[len(list)-1].Size)))
		for k, e := range list {
			require.EqualValues(t, k+1, e.File)
			data, err := os.ReadFile(filepath.Join(h.w.out.dir, fileName(e.File)))
			require.NoError(t, err)
			require.EqualValues(t, len(data), e.Size)
			require.Equal(t, binary.BigEndian.Uint32(data[e.Size-4:]), e.Tail)
		}
		sizes = append(sizes, list[len(list)-1].Size)
	}
	require.Len(t, sizes, 7)

	fsys.failOn("sync", 0, 1, syscall.EIO)
	write(t, h, fullChunks(7, 1))
	_, err := h.SyncExtents()
	require.ErrorIs(t, err, ErrPoisoned)
	require.ErrorIs(t, h.Close(), ErrPoisoned)
	_, err = h.SyncExtents()
	require.Error(t, err)
}

// A process that is killed leaves chunks in files that nobody synced. Who vouches for them syncs
// them first, once.
func TestSyncExtents_OfFilesThatAKilledProcessLeft_OutliveAPowerCut(t *testing.T) {
	const dir = "data/chunks_head"
	disk := tsdbtest.NewMemFS()
	require.NoError(t, disk.MkdirAll("data"))
	var extents []HeadExtent
	var refs []Ref
	all := fullChunks(3, 6)
	for life := range 3 { // the last one writes nothing
		h, _, _ := openLoaded(t, disk, dir, HeadOptions{})
		if life == 2 {
			var err error
			extents, err = h.SyncExtents()
			require.NoError(t, err)
			require.Len(t, extents, 2)
			syncs := 0
			disk.SetHook(func(op tsdbtest.Op) error {
				if op.Kind == tsdbtest.OpSync {
					syncs++
				}
				return nil
			})
			again, err := h.SyncExtents()
			require.NoError(t, err)
			require.Equal(t, extents, again)
			require.Zero(t, syncs)
			disk.SetHook(nil)
			disk = disk.CrashClone(tsdbtest.CrashOptions{Seed: 1})
			continue
		}
		refs = append(refs, write(t, h, all[3*life:3*life+3])...)
		disk = disk.KillClone()
	}
	h, got, rep := loadTrusting(t, disk, dir, extents)
	require.False(t, rep.NeedsRepair(), "%v", rep.Damage)
	require.Equal(t, extents, rep.Trusted)
	require.Empty(t, got)
	requireChunks(t, h, refs, all)
	require.NoError(t, h.Close())
}

func TestTrust_LoadBeginsBehindTheExtents(t *testing.T) {
	dir, extents, refs, all, known := extentDir(t)
	h, got, rep := loadTrusting(t, fileutil.OS, dir, extents)
	require.Equal(t, extents, rep.Trusted)
	require.False(t, rep.NeedsRepair())
	requireLoaded(t, got, refs[known:], all[known:])
	require.Equal(t, len(all)-known, rep.Chunks)
	requireChunks(t, h, refs, all)
	more := write(t, h, fullChunks(90, 1))
	require.Greater(t, more[0].File(), refs[len(refs)-1].File())
	next, err := h.SyncExtents()
	require.NoError(t, err)
	require.NoError(t, h.Close())

	h, got, rep = loadTrusting(t, fileutil.OS, dir, next)
	require.Empty(t, got)
	require.Equal(t, next, rep.Trusted)
	requireChunks(t, h, append(refs, more...), append(all, fullChunk(90)))
	require.Error(t, h.Trust(next), "they were loaded")
	require.NoError(t, h.Close())
}

// What is not as the extents say is read as if nobody had vouched for it: each file by itself.
func TestTrust_OtherFilesAreReadWhole(t *testing.T) {
	dir, extents, refs, all, _ := extentDir(t)
	for name, change := range map[string]func(e HeadExtent) HeadExtent{
		"another tail":    func(e HeadExtent) HeadExtent { e.Tail ^= 1; return e },
		"longer":          func(e HeadExtent) HeadExtent { e.Size = 1 << 30; return e },
		"not the same":    func(e HeadExtent) HeadExtent { e.Size--; return e },
		"shorter than it": func(e HeadExtent) HeadExtent { e.Size = headHeaderSize - 1; return e },
		"negative":        func(e HeadExtent) HeadExtent { e.Size = -5; return e },
		"another number":  func(e HeadExtent) HeadExtent { e.File += 77; return e },
	} {
		t.Run(name, func(t *testing.T) {
			for i := range extents {
				list := append([]HeadExtent(nil), extents...)
				list[i] = change(list[i])
				h, got, rep := loadTrusting(t, fileutil.OS, dir, list)
				require.Len(t, rep.Trusted, len(extents)-1)
				require.False(t, rep.NeedsRepair())
				var wantRefs []Ref
				var want []Full
				for k, ref := range refs {
					trusted := false
					for j, e := range extents {
						trusted = trusted || j != i && ref.File() == e.File && int64(ref.Offset()) < e.Size
					}
					if !trusted {
						wantRefs, want = append(wantRefs, ref), append(want, all[k])
					}
				}
				requireLoaded(t, got, wantRefs, want)
				requireChunks(t, h, refs, all)
				require.NoError(t, h.Close())
			}
		})
	}
}

// The end of a file behind its extent is cut, or damaged, at any byte: as without the extent, and
// what is in it stays.
func TestTrust_DamageBehindTheExtentIsFoundAndRepaired(t *testing.T) {
	dir, extents, _, all, known := extentDir(t)
	last := extents[len(extents)-1]
	path := filepath.Join(dir, fileName(last.File))
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Greater(t, int64(len(data)), last.Size, "a chunk behind the extent in the same file")
	kept := map[string][]byte{}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		kept[e.Name()] = b
	}
	fsys := newTestFS()
	fsys.noSync = true
	try := func(content []byte, about string) {
		var found [2]map[Ref]HeadChunk
		var reports [2]LoadReport
		for i, list := range [][]HeadExtent{nil, extents} {
			require.NoError(t, os.RemoveAll(dir))
			require.NoError(t, os.MkdirAll(dir, 0o777))
			for name, b := range kept {
				require.NoError(t, os.WriteFile(filepath.Join(dir, name), b, 0o666))
			}
			require.NoError(t, os.WriteFile(path, content, 0o666))
			h, got, rep := loadTrusting(t, fsys, dir, list)
			reports[i], found[i] = rep, map[Ref]HeadChunk{}
			for _, c := range got {
				found[i][c.Ref] = c
			}
			if rep.NeedsRepair() {
				quarantine := filepath.Join(t.TempDir(), "q")
				_, err := h.Repair(quarantine)
				require.NoError(t, err)
			}
			require.NoError(t, h.Close())
		}
		require.Len(t, reports[1].Trusted, len(extents), about)
		require.Equal(t, reports[0].Damage, reports[1].Damage, about)
		require.Equal(t, reports[0].GoodBytes, reports[1].GoodBytes, about)
		require.Equal(t, reports[0].Bytes, reports[1].Bytes, about)
		require.Equal(t, reports[0].DroppedFiles, reports[1].DroppedFiles, about)
		require.Equal(t, reports[0].DroppedBytes, reports[1].DroppedBytes, about)
		require.Len(t, found[0], len(found[1])+known, about)
		for ref, c := range found[1] {
			require.Equal(t, found[0][ref], c, about)
		}
		require.LessOrEqual(t, len(found[0]), len(all))
		// Behind the repair the extents hold as before.
		h, _, rep := loadTrusting(t, fsys, dir, extents)
		require.Equal(t, extents, rep.Trusted, about)
		require.False(t, rep.NeedsRepair(), about)
		require.NoError(t, h.Close())
	}
	for n := int(last.Size); n <= len(data); n++ {
		try(data[:n], fmt.Sprintf("cut to %d", n))
	}
	for i := int(last.Size); i < len(data); i++ {
		flipped := bytes.Clone(data)
		flipped[i] ^= 0x20
		try(flipped, fmt.Sprintf("byte %d", i))
	}
}

// A file that somebody made anew under the same number, and files that are gone.
func TestTrust_FilesThatAreGoneOrOfSomebodyElse(t *testing.T) {
	dir, extents, refs, all, _ := extentDir(t)
	require.Greater(t, len(extents), 1)
	for i, e := range extents {
		require.NoError(t, os.Rename(filepath.Join(dir, fileName(e.File)), filepath.Join(dir, "aside")))
		h, _, rep := loadTrusting(t, fileutil.OS, dir, extents)
		require.NotContains(t, rep.Trusted, e)
		if i == 0 { // as after a truncation: the rest is whole
			require.False(t, rep.NeedsRepair())
			require.Equal(t, extents[1:], rep.Trusted)
		}
		require.NoError(t, h.Close())
		require.NoError(t, os.Rename(filepath.Join(dir, "aside"), filepath.Join(dir, fileName(e.File))))
	}

	other, _, _ := openLoaded(t, fileutil.OS, headDir(t), HeadOptions{FileBytes: 240})
	content := fullChunks(40, 7)
	otherRefs := write(t, other, content)
	require.NoError(t, other.Close())
	h, got, rep := loadTrusting(t, fileutil.OS, other.w.out.dir, extents)
	require.Empty(t, rep.Trusted)
	requireLoaded(t, got, otherRefs, content)
	require.NoError(t, h.Close())
	h, _, rep = loadTrusting(t, fileutil.OS, filepath.Join(other.w.out.dir, "nowhere"), extents)
	require.Empty(t, rep.Trusted)
	require.NoError(t, h.Close())

	// A header that was damaged since.
	path := filepath.Join(dir, fileName(extents[0].File))
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	data[1] ^= 1
	require.NoError(t, os.WriteFile(path, data, 0o666))
	h, got, rep = loadTrusting(t, fileutil.OS, dir, extents)
	require.NotNil(t, rep.Damage)
	require.Empty(t, rep.Trusted)
	require.Empty(t, got)
	require.NoError(t, h.Close())
	require.Len(t, all, len(refs))
}
