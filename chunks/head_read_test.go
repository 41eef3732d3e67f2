package chunks

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/fileutil"
)

func TestRead_PlacesWithoutAChunk_AreErrors(t *testing.T) {
	h, _, _ := openLoaded(t, fileutil.OS, headDir(t), HeadOptions{})
	_, _, err := h.Read(NewRef(1, 8), nil)
	require.ErrorIs(t, err, ErrUnknownRef)
	refs := write(t, h, fullChunks(1, 3))
	for _, ref := range []Ref{0, NewRef(0, 8), NewRef(1, 0), NewRef(1, 7), h.End(), NewRef(1, 1<<32-1), NewRef(2, 8), 1<<64 - 1} {
		_, data, err := h.Read(ref, []byte("abc"))
		require.ErrorIs(t, err, ErrUnknownRef, "%x", uint64(ref))
		require.Empty(t, data)
	}
	for off := refs[0] + 1; off < h.End(); off++ {
		if off == refs[1] || off == refs[2] {
			continue
		}
		_, data, err := h.Read(off, nil)
		require.ErrorIs(t, err, encbuf.ErrCorrupt)
		var at *encbuf.CorruptError
		require.ErrorAs(t, err, &at)
		require.Equal(t, filepath.Join(h.w.out.dir, "000001"), at.File)
		require.GreaterOrEqual(t, at.Offset, int64(off.Offset()))
		require.Empty(t, data)
	}
	require.NoError(t, h.Close())
	_, _, err = h.Read(refs[0], nil)
	require.ErrorIs(t, err, ErrClosed)
}

func TestRead_FileCutOrChangedBehindOurBack_IsDamageAndNotASignal(t *testing.T) {
	h, _, _ := openLoaded(t, fileutil.OS, headDir(t), HeadOptions{})
	all := fullChunks(0, 300)
	refs := write(t, h, all)
	requireChunks(t, h, refs, all)
	path := filepath.Join(h.w.out.dir, "000001")

	b, err := os.ReadFile(path)
	require.NoError(t, err)
	b[refs[5].Offset()+40] ^= 4
	require.NoError(t, os.WriteFile(path, b, 0o666)) // the same file, written over
	_, _, err = h.Read(refs[5], nil)
	require.ErrorIs(t, err, encbuf.ErrCorrupt)
	requireChunks(t, h, refs[:5], all)

	require.NoError(t, os.Truncate(path, 4096))
	damaged := 0
	for i, ref := range refs {
		_, data, err := h.Read(ref, nil)
		if err == nil {
			require.Equal(t, all[i].Data, data)
			continue
		}
		require.ErrorIs(t, err, encbuf.ErrCorrupt)
		require.Empty(t, data)
		damaged++
	}
	require.Greater(t, damaged, 200)
	require.NoError(t, h.Close())
}

func TestRead_AllocatesNothing(t *testing.T) {
	h, _, _ := openLoaded(t, fileutil.OS, headDir(t), HeadOptions{})
	refs := write(t, h, fullChunks(1, 10))
	dst := make([]byte, 0, 1000)
	require.Zero(t, testing.AllocsPerRun(50, func() {
		for _, ref := range refs {
			if _, _, err := h.Read(ref, dst); err != nil {
				panic(err)
			}
		}
	}))
	require.NoError(t, h.Close())
}

func TestWrite_SteadyState_AllocatesNothing(t *testing.T) {
	h, _, _ := openLoaded(t, fileutil.OS, headDir(t), HeadOptions{})
	batch := fullChunks(1, 50)
	write(t, h, batch)
	require.Zero(t, testing.AllocsPerRun(20, func() {
		if _, err := h.Write(batch); err != nil {
			panic(err)
		}
	}))
	require.NoError(t, h.Close())
}

func TestPin_KeepsTruncatedFilesReadable(t *testing.T) {
	fsys := newTestFS()
	h, _, _ := openLoaded(t, fsys, headDir(t), HeadOptions{FileBytes: 300})
	all := fullChunks(0, 30)
	refs := write(t, h, all)
	first, err := h.Acquire()
	require.NoError(t, err)
	require.NoError(t, h.TruncateBefore(NewRef(3, 0)))
	second, err := h.Acquire()
	require.NoError(t, err)
	require.NoError(t, h.TruncateBefore(NewRef(5, 0)))
	require.Equal(t, 4, h.Stats().KeptFiles)
	requireChunks(t, h, refs, all)
	fsys.takeLog()

	require.NoError(t, second.Release())
	require.Empty(t, filterLog(fsys.takeLog(), "unmap"), "the first pin still keeps all of them")
	requireChunks(t, h, refs, all)
	require.NoError(t, first.Release())
	require.Len(t, filterLog(fsys.takeLog(), "unmap"), 4)
	require.Zero(t, h.Stats().KeptFiles)
	_, _, err = h.Read(refs[0], nil)
	require.ErrorIs(t, err, ErrUnknownRef)
	require.Panics(t, func() { _ = first.Release() })

	// Released in the other order, the older ones go first.
	write(t, h, fullChunks(30, 10))
	third, err := h.Acquire()
	require.NoError(t, err)
	require.NoError(t, h.TruncateBefore(NewRef(7, 0)))
	fourth, err := h.Acquire()
	require.NoError(t, err)
	require.NoError(t, h.TruncateBefore(NewRef(8, 0)))
	fsys.takeLog()
	require.NoError(t, third.Release())
	require.Len(t, filterLog(fsys.takeLog(), "unmap"), 2)
	require.NoError(t, fourth.Release())
	require.Len(t, filterLog(fsys.takeLog(), "unmap"), 1)
	require.NoError(t, h.Close())
}

func TestPin_ClosesTheFilesAtTheLastReleaseAfterClose(t *testing.T) {
	fsys := newTestFS()
	h, _, _ := openLoaded(t, fsys, headDir(t), HeadOptions{FileBytes: 300})
	all := fullChunks(0, 30)
	refs := write(t, h, all)
	pins := make([]*Pin, 3)
	for i := range pins {
		var err error
		pins[i], err = h.Acquire()
		require.NoError(t, err)
	}
	require.NoError(t, h.Close())
	_, err := h.Acquire()
	require.ErrorIs(t, err, ErrClosed)
	for _, p := range pins {
		requireChunks(t, h, refs, all) // maps them, some for the first time
		require.NoError(t, p.Release())
	}
	_, _, err = h.Read(refs[0], nil)
	require.ErrorIs(t, err, ErrClosed)
	log := fsys.takeLog()
	require.Len(t, filterLog(log, "unmap"), len(filterLog(log, "mmap")))
	require.Zero(t, h.Stats().Files)
}

// pinned returns a pin and a cursor for its holder.
func pinned(t *testing.T, h *HeadFiles) (*Pin, *HeadCursor) {
	t.Helper()
	pin, err := h.Acquire()
	require.NoError(t, err)
	c := &HeadCursor{}
	c.Reset(pin)
	return pin, c
}

func TestHeadCursor_ReadsWhatItsPinKeeps(t *testing.T) {
	h, _, _ := openLoaded(t, newTestFS(), headDir(t), HeadOptions{FileBytes: 300})
	all := fullChunks(0, 30)
	refs := write(t, h, all)
	pin, c := pinned(t, h)
	requireNext := func(i int) {
		t.Helper()
		enc, data, err := c.Read(refs[i])
		require.NoError(t, err)
		require.Equal(t, all[i].Encoding, enc)
		require.Equal(t, all[i].Data, data)
	}
	for _, i := range []int{0, 1, 29, 0, 15, 14} {
		requireNext(i)
	}
	_, _, err := c.Read(refs[0] + 1)
	require.ErrorIs(t, err, encbuf.ErrCorrupt)
	requireNext(0)
	_, _, err = c.Read(NewRef(1000, 8))
	require.ErrorIs(t, err, ErrUnknownRef)
	requireNext(0)
	_, _, err = c.Read(NewRef(refs[0].File(), 1<<32-1))
	require.ErrorIs(t, err, ErrUnknownRef)

	require.NoError(t, h.TruncateBefore(NewRef(5, 0)))
	refs = append(refs, write(t, h, fullChunks(30, 5))...)
	all = append(all, fullChunks(30, 5)...)
	require.NoError(t, h.Close())
	for i := range refs {
		requireNext(i)
	}
	require.Zero(t, testing.AllocsPerRun(50, func() {
		_, _, err := c.Read(refs[3])
		require.NoError(t, err)
	}))
	require.NoError(t, pin.Release())
}

// Ahead is advice: whatever it is given, Read says the same behind it as before.
func TestHeadCursor_AheadChangesNoAnswer(t *testing.T) {
	h, _, _ := openLoaded(t, fileutil.OS, headDir(t), HeadOptions{FileBytes: 300})
	all := fullChunks(0, 30)
	refs := write(t, h, all)
	pin, c := pinned(t, h)
	wrong := []Ref{0, NewRef(1000, 8), NewRef(refs[3].File(), 1<<32-1), refs[2] + 1}
	answer := func(ref Ref) string {
		enc, data, err := c.Read(ref)
		return fmt.Sprint(enc, data, err)
	}
	asked := append(slices.Clone(wrong), refs...)
	for round := range 3 { // knowing no length, and with what earlier rounds taught
		c.usual = round * 300
		for i, ref := range asked {
			want := answer(ref)
			c.Ahead(asked[i:])
			require.Equal(t, want, answer(ref))
			c.Ahead(wrong)
			require.Equal(t, want, answer(ref))
		}
	}
	c.Ahead(nil)
	c.usual = 1000
	c.Ahead(append(slices.Clone(wrong), refs[5]))
	require.Zero(t, testing.AllocsPerRun(50, func() { c.Ahead(refs) }))

	// A file that was cut behind our back is no crash.
	last := refs[len(refs)-1]
	require.NoError(t, os.Truncate(h.table.mu.byNum[last.File()].path, 0))
	c.Ahead(refs)
	_, _, err := c.Read(last)
	require.ErrorIs(t, err, encbuf.ErrCorrupt)
	_, data, err := c.Read(refs[0])
	require.NoError(t, err)
	require.Equal(t, all[0].Data, data)
	require.NoError(t, pin.Release())
	require.NoError(t, h.Close())
}

// Readers, each with a pin, beside a writer that truncates, and Close at the end.
func TestHeadFiles_ReadersBesideTheWriter(t *testing.T) {
	fsys := newTestFS()
	fsys.noSync = true
	h, _, _ := openLoaded(t, fsys, headDir(t), HeadOptions{FileBytes: 2000})
	const total, batch, keep = 1200, 8, 200
	var mu sync.Mutex
	var refs []Ref // refs[i] is chunk i
	var oldest atomic.Int64
	var wg sync.WaitGroup
	read := func() error {
		pin, err := h.Acquire()
		if err != nil {
			return nil // closed
		}
		from := int(oldest.Load())
		mu.Lock()
		known := refs[:len(refs):len(refs)]
		mu.Unlock()
		var files HeadCursor
		files.Reset(pin)
		for i := from; i < len(known); i += 17 {
			_, data, err := files.Read(known[i])
			if err != nil {
				return err
			}
			if string(data) != string(fullChunk(i).Data) {
				return fmt.Errorf("chunk %d has other data", i)
			}
		}
		return pin.Release()
	}
	errs := make(chan error, 4)
	for range cap(errs) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for {
				mu.Lock()
				done := len(refs) == total
				mu.Unlock()
				if err := read(); err != nil || done {
					errs <- err
					return
				}
			}
		}()
	}
	for i := 0; i < total; i += batch {
		got := write(t, h, fullChunks(i, batch))
		mu.Lock()
		refs = append(refs, got...)
		mu.Unlock()
		if i > keep && i%80 == 0 {
			oldest.Store(int64(i - keep))
			require.NoError(t, h.TruncateBefore(NewRef(refs[i-keep].File(), 0)))
		}
	}
	require.NoError(t, h.Close())
	wg.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	log := fsys.takeLog()
	require.Len(t, filterLog(log, "unmap"), len(filterLog(log, "mmap")))
}

func BenchmarkHeadRead(b *testing.B) {
	h, _, _ := openLoaded(b, fileutil.OS, headDir(b), HeadOptions{})
	batch := make([]Full, 1000)
	for i := range batch {
		batch[i] = Full{Series: 1, MinT: 1, MaxT: 2, Encoding: chunkenc.EncXOR, Data: make([]byte, 200)}
	}
	refs := write(b, h, batch)
	dst := make([]byte, 0, 1000)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, _, err := h.Read(refs[i%len(refs)], dst); err != nil {
			b.Fatal(err)
		}
	}
	require.NoError(b, h.Close())
}

func BenchmarkHeadWriteAndLoad(b *testing.B) {
	dir := headDir(b)
	h, _, _ := openLoaded(b, fileutil.OS, dir, HeadOptions{})
	batch := make([]Full, 1000)
	for i := range batch {
		batch[i] = Full{Series: 1, MinT: 1, MaxT: 2, Encoding: chunkenc.EncXOR, Data: make([]byte, 200)}
	}
	b.Run("write", func(b *testing.B) {
		for b.Loop() {
			write(b, h, batch)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(batch)), "ns/chunk")
	})
	for h.Stats().ChunksWritten < 400_000 {
		write(b, h, batch)
	}
	require.NoError(b, h.Close())
	b.Run("load", func(b *testing.B) {
		var n int
		for b.Loop() {
			n = 0
			h, err := OpenHead(fileutil.OS, dir, HeadOptions{})
			require.NoError(b, err)
			_, err = h.Load(func(HeadChunk) error { n++; return nil })
			require.NoError(b, err)
			require.NoError(b, h.Close())
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/chunk")
	})
}
