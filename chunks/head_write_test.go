package chunks

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/faultfs"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/xorchunk"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// fullChunk returns a chunk whose content follows from its number.
func fullChunk(i int) Full {
	var e xorchunk.Encoder
	t := int64(1000 * i)
	for k := range 3 + i%5 {
		t = int64(1000*i + 10*k)
		_ = e.Append(t, math.Sqrt(float64(i*k)))
	}
	return Full{Series: SeriesRef(i%7 + 1), MinT: int64(1000 * i), MaxT: t, Encoding: chunkenc.EncXOR, OutOfOrder: i%11 == 3, Data: e.AppendTo(nil)}
}

func fullChunks(from, n int) []Full {
	out := make([]Full, n)
	for i := range out {
		out[i] = fullChunk(from + i)
	}
	return out
}

func write(tb testing.TB, h *HeadFiles, batch []Full) []Ref {
	tb.Helper()
	refs, err := h.Write(batch)
	require.NoError(tb, err)
	require.Len(tb, refs, len(batch))
	return append([]Ref(nil), refs...)
}

// requireChunks checks that the chunks at refs are want.
func requireChunks(tb testing.TB, h *HeadFiles, refs []Ref, want []Full) {
	tb.Helper()
	var dst []byte
	for i, ref := range refs {
		enc, data, err := h.Read(ref, dst)
		require.NoError(tb, err)
		require.Equal(tb, want[i].Encoding, enc)
		require.Equal(tb, want[i].Data, data)
		dst = data
	}
}

// requireLoaded checks that loading found exactly want at refs.
func requireLoaded(tb testing.TB, got []HeadChunk, refs []Ref, want []Full) {
	tb.Helper()
	require.Len(tb, got, len(want))
	for i, w := range want {
		n := int(binary.BigEndian.Uint16(w.Data))
		require.Equal(tb, HeadChunk{w.Series, refs[i], w.MinT, w.MaxT, w.Encoding, n, w.OutOfOrder}, got[i])
	}
}

func TestWrite_CanBeReadAtOnceAndAfterReopen(t *testing.T) {
	dir := headDir(t)
	h, _, _ := openLoaded(t, fileutil.OS, dir, HeadOptions{FileBytes: 4096})
	require.Zero(t, h.End())
	all := fullChunks(0, 300)
	var refs []Ref
	for i := 0; i < len(all); i += 7 {
		part := all[i:min(i+7, len(all))]
		refs = append(refs, write(t, h, part)...)
		requireChunks(t, h, refs[i:], part)
		require.Greater(t, h.End(), refs[len(refs)-1])
	}
	s := h.Stats()
	require.Greater(t, s.Files, 2)
	require.Equal(t, uint64(300), s.ChunksWritten)
	require.Equal(t, uint64(s.Bytes), s.BytesWritten)
	require.NoError(t, h.Close())

	for _, name := range []string{"000001", "000002"} {
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		require.LessOrEqual(t, info.Size(), int64(4096))
		require.Greater(t, info.Size(), int64(4096-200), "full, not preallocated")
	}
	h2, got, rep := openLoaded(t, fileutil.OS, dir, HeadOptions{})
	require.False(t, rep.NeedsRepair())
	require.Equal(t, s.Files, rep.Files)
	require.Equal(t, s.Bytes, rep.Bytes)
	requireLoaded(t, got, refs, all)
	requireChunks(t, h2, refs, all)

	more := write(t, h2, fullChunks(300, 1))
	require.Equal(t, uint32(s.Files+1), more[0].File(), "opening never appends to a file")
	require.NoError(t, h2.Close())
}

func TestWrite_IsOneWritePerBatchAndFile_InTheRightOrder(t *testing.T) {
	fsys := newTestFS()
	h, _, _ := openLoaded(t, fsys, headDir(t), HeadOptions{FileBytes: 360})
	fsys.takeLog()
	write(t, h, fullChunks(1, 2))
	require.Equal(t, []string{"mkdir chunks_head", "syncdir " + filepath.Base(filepath.Dir(h.w.out.dir)), "create 000001", "syncdir chunks_head", "write 000001"}, fsys.takeLog())
	write(t, h, fullChunks(3, 1))
	require.Equal(t, []string{"write 000001"}, fsys.takeLog())
	write(t, h, fullChunks(4, 3))
	require.Equal(t, []string{"write 000001", "sync 000001", "close 000001", "create 000002", "syncdir chunks_head", "write 000002"}, fsys.takeLog())
	require.NoError(t, h.Sync())
	require.NoError(t, h.Sync())
	require.Equal(t, []string{"sync 000002"}, fsys.takeLog(), "nothing new, nothing to sync")
	require.NoError(t, h.Close())
	require.Equal(t, []string{"close 000002"}, fsys.takeLog())
}

func TestOpen_WritesNothing(t *testing.T) {
	dir, _ := writeVectors(t)
	fsys := newTestFS()
	h, _, _ := openLoaded(t, fsys, dir, HeadOptions{})
	require.NoError(t, h.Sync())
	copies, err := h.Repair(filepath.Join(filepath.Dir(dir), "quarantine"))
	require.NoError(t, err)
	require.Empty(t, copies)
	require.NoError(t, h.Close())
	for _, op := range fsys.takeLog() {
		require.Contains(t, []string{"open", "mmap", "close", "unmap"}, strings.Fields(op)[0], op)
	}

	h, _, _ = openLoaded(t, fsys, filepath.Join(t.TempDir(), "no", "such"), HeadOptions{})
	require.NoError(t, h.Close())
	require.NoDirExists(t, h.w.out.dir)
}

func TestWrite_InvalidChunks_StoreNothing(t *testing.T) {
	h, _, _ := openLoaded(t, fileutil.OS, headDir(t), HeadOptions{FileBytes: 1000})
	good := fullChunk(1)
	for name, spoil := range map[string]func(*Full){
		"series 0":        func(c *Full) { c.Series = 0 },
		"series 2^40":     func(c *Full) { c.Series = MaxSeriesRef + 1 },
		"mint after maxt": func(c *Full) { c.MinT = c.MaxT + 1 },
		"no encoding":     func(c *Full) { c.Encoding = 0 },
		"encoding 128":    func(c *Full) { c.Encoding = 128 },
		"no data":         func(c *Full) { c.Data = nil },
		"too much data":   func(c *Full) { c.Data = make([]byte, 1000) },
	} {
		bad := good
		spoil(&bad)
		refs, err := h.Write([]Full{good, bad})
		require.ErrorIs(t, err, ErrInvalidChunk, name)
		require.Empty(t, refs)
	}
	require.Zero(t, h.Stats())
	edge := Full{Series: MaxSeriesRef, MinT: math.MinInt64, MaxT: math.MaxInt64, Encoding: 127, Data: make([]byte, 1000-8-25-2-4)}
	requireChunks(t, h, write(t, h, []Full{edge}), []Full{edge})
	require.Equal(t, int64(1000), h.Stats().Bytes)
	require.NoError(t, h.Close())
}

func TestWrite_DiskFull_StoresNothingOfTheFailedPartAndHeals(t *testing.T) {
	for short := 0; short < 120; short += 17 {
		fsys := newTestFS()
		fsys.short = short
		h, _, _ := openLoaded(t, fsys, headDir(t), HeadOptions{FileBytes: 300})
		fsys.failOn("write", 0, 1, syscall.ENOSPC)
		refs, err := h.Write(fullChunks(1, 2))
		require.True(t, fileutil.IsDiskFull(err))
		require.Empty(t, refs)
		requireSize(t, h, "000001", 0)

		all := fullChunks(1, 2)
		kept := write(t, h, all)
		// The first file takes some of these, the second one fails.
		fsys.failOn("write", 1, 1, syscall.ENOSPC)
		batch := fullChunks(3, 4)
		refs, err = h.Write(batch)
		require.True(t, fileutil.IsDiskFull(err))
		require.NotEmpty(t, refs)
		require.Less(t, len(refs), len(batch))
		kept = append(kept, refs...)
		all = append(all, batch[:len(refs)]...)

		// The caller tries the rest again.
		rest := batch[len(refs):]
		kept = append(kept, write(t, h, rest)...)
		all = append(all, rest...)
		requireChunks(t, h, kept, all)
		require.NoError(t, h.Close())
		_, got, rep := openLoaded(t, fileutil.OS, h.w.out.dir, HeadOptions{})
		require.False(t, rep.NeedsRepair())
		requireLoaded(t, got, kept, all)
	}
}

func requireSize(t *testing.T, h *HeadFiles, name string, size int64) {
	t.Helper()
	info, err := os.Stat(filepath.Join(h.w.out.dir, name))
	require.NoError(t, err)
	require.Equal(t, size, info.Size())
}

func TestWrite_HalfWriteThatCannotBeCut_IsCutBeforeTheNextWrite(t *testing.T) {
	fsys := newTestFS()
	fsys.short = 30
	h, _, _ := openLoaded(t, fsys, headDir(t), HeadOptions{})
	refs := write(t, h, fullChunks(1, 2))
	size := h.Stats().Bytes
	fsys.hook = func(op, _ string) error {
		if op == "write" || op == "truncate" {
			return syscall.EIO
		}
		return nil
	}
	for range 2 {
		got, err := h.Write(fullChunks(3, 1))
		require.ErrorIs(t, err, syscall.EIO)
		require.Empty(t, got)
		requireSize(t, h, "000001", size+30)
		requireChunks(t, h, refs, fullChunks(1, 2))
		require.Equal(t, size, h.Stats().Bytes)
	}
	fsys.hook = nil
	refs = append(refs, write(t, h, fullChunks(3, 1))...)
	require.NoError(t, h.Close())
	_, got, rep := openLoaded(t, fileutil.OS, h.w.out.dir, HeadOptions{})
	require.False(t, rep.NeedsRepair())
	requireLoaded(t, got, refs, fullChunks(1, 3))
}

func TestClose_HalfWriteThatCannotBeCut_IsAnError(t *testing.T) {
	fsys := newTestFS()
	fsys.short = 30
	h, _, _ := openLoaded(t, fsys, headDir(t), HeadOptions{})
	refs := write(t, h, fullChunks(1, 2))
	fsys.hook = func(op, _ string) error {
		if op == "write" || op == "truncate" {
			return syscall.EIO
		}
		return nil
	}
	_, err := h.Write(fullChunks(3, 1))
	require.ErrorIs(t, err, syscall.EIO)
	require.ErrorIs(t, h.Close(), syscall.EIO)
	_, got, rep := openLoaded(t, fileutil.OS, h.w.out.dir, HeadOptions{})
	require.NotNil(t, rep.Damage)
	requireLoaded(t, got, refs, fullChunks(1, 2))
}

func TestWrite_AfterAFailedSync_IsPoisoned(t *testing.T) {
	for _, op := range []string{"sync", "close"} {
		fsys := newTestFS()
		h, _, _ := openLoaded(t, fsys, headDir(t), HeadOptions{FileBytes: 300})
		refs := write(t, h, fullChunks(1, 3))
		fsys.failOn(op, 0, 1, syscall.EIO)
		if op == "sync" {
			err := h.Sync()
			require.ErrorIs(t, err, ErrPoisoned)
			require.ErrorIs(t, err, syscall.EIO)
		}
		got, err := h.Write(fullChunks(4, 3)) // needs a new file
		require.ErrorIs(t, err, ErrPoisoned)
		refs = append(refs, got...)
		_, err = h.Write(fullChunks(7, 1))
		require.ErrorIs(t, err, ErrPoisoned, "no second try")
		require.ErrorIs(t, err, syscall.EIO)
		require.ErrorIs(t, h.Sync(), ErrPoisoned)
		requireChunks(t, h, refs, fullChunks(1, 3+len(got)))
		require.ErrorIs(t, h.Close(), ErrPoisoned)
	}
}

func TestWrite_FailedDirectorySync_IsPoisoned(t *testing.T) {
	for n := range 2 {
		fsys := newTestFS()
		h, _, _ := openLoaded(t, fsys, headDir(t), HeadOptions{})
		fsys.failOn("syncdir", n, 1, syscall.EIO)
		_, err := h.Write(fullChunks(1, 1))
		require.ErrorIs(t, err, ErrPoisoned)
		_, err = h.Write(fullChunks(1, 1))
		require.ErrorIs(t, err, ErrPoisoned)
		require.ErrorIs(t, h.Close(), ErrPoisoned)
		_, got, rep := openLoaded(t, fileutil.OS, h.w.out.dir, HeadOptions{})
		require.False(t, rep.NeedsRepair())
		require.Empty(t, got)
	}
}

func TestWrite_FailedCreate_IsTriedAgain(t *testing.T) {
	fsys := newTestFS()
	h, _, _ := openLoaded(t, fsys, headDir(t), HeadOptions{})
	for _, op := range []string{"mkdir", "create"} {
		fsys.failOn(op, 0, 1, syscall.ENOSPC)
		_, err := h.Write(fullChunks(1, 1))
		require.ErrorIs(t, err, syscall.ENOSPC)
	}
	requireChunks(t, h, write(t, h, fullChunks(1, 1)), fullChunks(1, 1))
	require.NoError(t, h.Close())
}

func TestClose_RemovesAFileThatGotNoChunk(t *testing.T) {
	fsys := newTestFS()
	h, _, _ := openLoaded(t, fsys, headDir(t), HeadOptions{})
	fsys.failOn("write", 0, 1, syscall.ENOSPC)
	_, err := h.Write(fullChunks(1, 1))
	require.Error(t, err)
	require.NoError(t, h.Close())
	require.NoFileExists(t, filepath.Join(h.w.out.dir, "000001"))
	_, err = h.Write(fullChunks(1, 1))
	require.ErrorIs(t, err, ErrClosed)
	require.ErrorIs(t, h.Sync(), ErrClosed)
	require.ErrorIs(t, h.Close(), ErrClosed)
	require.ErrorIs(t, h.TruncateBefore(NewRef(9, 0)), ErrClosed)
	_, err = h.Repair(t.TempDir())
	require.ErrorIs(t, err, ErrClosed)
}

func TestWrite_BeforeLoad_IsRefused(t *testing.T) {
	dir, _ := writeVectors(t)
	h, err := OpenHead(fileutil.OS, dir, HeadOptions{})
	require.NoError(t, err)
	_, err = h.Write(fullChunks(1, 1))
	require.ErrorIs(t, err, ErrNotLoaded)
	require.ErrorIs(t, h.TruncateBefore(NewRef(2, 0)), ErrNotLoaded)
	_, err = h.Repair(t.TempDir())
	require.ErrorIs(t, err, ErrNotLoaded)
	_, err = h.Load(func(HeadChunk) error { return nil })
	require.NoError(t, err)
	_, err = h.Load(func(HeadChunk) error { return nil })
	require.Error(t, err)
	require.NoError(t, h.Close())
}

func TestTruncateBefore_RemovesWholeFilesAndStartsANewOne(t *testing.T) {
	fsys := newTestFS()
	h, _, _ := openLoaded(t, fsys, headDir(t), HeadOptions{FileBytes: 300})
	all := fullChunks(0, 30)
	refs := write(t, h, all)
	last := refs[len(refs)-1].File()
	require.Greater(t, last, uint32(4))
	fsys.takeLog()
	require.NoError(t, h.TruncateBefore(NewRef(3, 0)))
	require.Equal(t, []string{
		"open 000001", "mmap 000001", "close 000001", "remove 000001", "syncdir chunks_head",
		"open 000002", "mmap 000002", "close 000002", "remove 000002", "syncdir chunks_head",
		"unmap 000001", "unmap 000002", "sync " + fileName(last), "close " + fileName(last),
	}, fsys.takeLog())
	for i, ref := range refs {
		_, _, err := h.Read(ref, nil)
		if ref.File() < 3 {
			require.ErrorIs(t, err, ErrUnknownRef)
		} else {
			requireChunks(t, h, refs[i:i+1], all[i:i+1])
		}
	}
	require.NoError(t, h.TruncateBefore(NewRef(3, 0)), "nothing to do")
	require.Empty(t, filterLog(fsys.takeLog(), "remove"))
	next := write(t, h, fullChunks(30, 1))
	require.Equal(t, last+1, next[0].File())
	require.NoError(t, h.TruncateBefore(math.MaxUint64))
	require.Zero(t, h.Stats().Files, "the file being written goes, too, when nothing in it is wanted")
	next = write(t, h, fullChunks(31, 1))
	require.Equal(t, last+2, next[0].File())
	require.NoError(t, h.Close())

	_, got, rep := openLoaded(t, fileutil.OS, h.w.out.dir, HeadOptions{})
	require.False(t, rep.NeedsRepair(), "numbers may start anywhere")
	requireLoaded(t, got, next, fullChunks(31, 1))
}

func TestTruncateBefore_AFileWithSomethingDeadEndsAndGoesWithItsLastChunk(t *testing.T) {
	h, _, _ := openLoaded(t, fileutil.OS, headDir(t), HeadOptions{})
	refs := write(t, h, fullChunks(0, 10))
	require.NoError(t, h.TruncateBefore(refs[0]), "nothing is dead")
	next := write(t, h, fullChunks(10, 1))
	require.Equal(t, refs[0].File(), next[0].File())

	require.NoError(t, h.TruncateBefore(refs[4]))
	requireChunks(t, h, refs[4:], fullChunks(4, 6))
	later := write(t, h, fullChunks(11, 1))
	require.Equal(t, next[0].File()+1, later[0].File(), "what comes is kept apart from what is dead")
	require.Equal(t, 2, h.Stats().Files)

	require.NoError(t, h.TruncateBefore(later[0]))
	require.Equal(t, 1, h.Stats().Files)
	requireChunks(t, h, later, fullChunks(11, 1))
	require.NoError(t, h.TruncateBefore(h.End()))
	require.Zero(t, h.Stats().Files)
	require.NoError(t, h.Close())
}

func TestEndFile_WhatComesNextIsInAnotherOne(t *testing.T) {
	h, _, _ := openLoaded(t, fileutil.OS, headDir(t), HeadOptions{})
	require.NoError(t, h.EndFile(), "there is none")
	first := write(t, h, fullChunks(0, 1))
	require.NoError(t, h.EndFile())
	require.NoError(t, h.EndFile())
	second := write(t, h, fullChunks(1, 1))
	require.Equal(t, first[0].File()+1, second[0].File())
	requireChunks(t, h, append(first, second...), fullChunks(0, 2))
	require.NoError(t, h.Close())
	require.ErrorIs(t, h.EndFile(), ErrClosed)
}

func filterLog(log []string, op string) (out []string) {
	for _, l := range log {
		if strings.HasPrefix(l, op+" ") {
			out = append(out, l)
		}
	}
	return out
}

func TestTruncateBefore_AfterAFailure_GoesOn(t *testing.T) {
	fsys := newTestFS()
	h, _, _ := openLoaded(t, fsys, headDir(t), HeadOptions{FileBytes: 300})
	refs := write(t, h, fullChunks(0, 30))
	files := h.Stats().Files
	fsys.failOn("remove", 1, 1, syscall.EIO)
	require.ErrorIs(t, h.TruncateBefore(NewRef(4, 0)), syscall.EIO)
	require.Equal(t, files-1, h.Stats().Files)
	requireChunks(t, h, refs[len(refs)-1:], fullChunks(29, 1))
	require.NoError(t, h.TruncateBefore(NewRef(4, 0)))
	require.Equal(t, files-3, h.Stats().Files)
	require.NoError(t, h.Close())
}

// Batches of about the same size share a buffer, also near the largest that is kept: it must not
// grow beyond that and be made anew for each of them.
func TestWrite_KeepsItsBuffer(t *testing.T) {
	h, _, _ := openLoaded(t, fileutil.OS, headDir(t), HeadOptions{})
	batch := fullChunks(1, keptBufferBytes/1100)
	for i := range batch {
		batch[i].Data = make([]byte, 1000)
	}
	write(t, h, batch[:len(batch)-5])
	buf := &h.w.out.buf[:1][0]
	for n := len(batch) - 5; n <= len(batch); n++ {
		write(t, h, batch[:n])
		require.Same(t, buf, &h.w.out.buf[:1][0])
	}
	require.NoError(t, h.Close())
}

// Behind the last number there is no file: the one behind it would be the first again.
func TestWrite_BehindTheLastFile_IsRefused(t *testing.T) {
	dir := headDir(t)
	h, _, _ := openLoaded(t, fileutil.OS, dir, HeadOptions{})
	write(t, h, fullChunks(0, 3))
	require.NoError(t, h.Close())
	last := fileName(LastHeadFile)
	require.NoError(t, os.Rename(filepath.Join(dir, fileName(1)), filepath.Join(dir, last)))

	h, _, _ = openLoaded(t, fileutil.OS, dir, HeadOptions{})
	for range 2 {
		_, err := h.Write(fullChunks(3, 1))
		require.ErrorContains(t, err, "no file can follow "+last)
	}
	requireChunks(t, h, []Ref{NewRef(LastHeadFile, headHeaderSize)}, fullChunks(0, 1))
	require.NoError(t, h.Close())
	require.NoError(t, os.Remove(filepath.Join(dir, last)))
	h, _, _ = openLoaded(t, fileutil.OS, dir, HeadOptions{})
	write(t, h, fullChunks(3, 1))
	require.NoError(t, h.Close())
}

// The sync of a full file, for which chunks wait in memory, has little left to do.
func TestWrite_EachFileIsWrittenBehind(t *testing.T) {
	fsys := &faultfs.Advised{FS: tsdbtest.NewMemFS()}
	h, _, _ := openLoaded(t, fsys, "d", HeadOptions{FileBytes: 4 << 20})
	data := make([]byte, 1<<19)
	for i := range int64(14) { // seven to a file
		write(t, h, []Full{{Series: 1, MinT: i, MaxT: i, Encoding: chunkenc.EncXOR, Data: data}})
	}
	require.NoError(t, h.Close())
	require.Len(t, fsys.Files, 2)
	for _, f := range fsys.Files {
		require.GreaterOrEqual(t, f.BegunTo(fileutil.BehindBytes), int64(5<<19))
	}
}

// openFiles counts the files that a file system has open for writing.
type openFiles struct {
	fileutil.FS
	open int
}

type openFile struct {
	fileutil.File
	fs *openFiles
}

func (f openFile) Close() error {
	f.fs.open--
	return f.File.Close()
}

func (o *openFiles) Create(name string) (fileutil.File, error) { return o.counted(o.FS.Create(name)) }

func (o *openFiles) OpenWrite(name string) (fileutil.File, error) {
	return o.counted(o.FS.OpenWrite(name))
}

func (o *openFiles) counted(f fileutil.File, err error) (fileutil.File, error) {
	if err != nil {
		return nil, err
	}
	o.open++
	return openFile{f, o}, nil
}

// A head to which nothing comes for a while has no file open, what it wrote is on stable storage,
// and the next chunks go on in the same file.
func TestRest_ClosesTheFileUntilTheNextWrite(t *testing.T) {
	mem := tsdbtest.NewMemFS()
	fsys := &openFiles{FS: mem}
	h, err := OpenHead(fsys, "chunks_head", HeadOptions{})
	require.NoError(t, err)
	all := fullChunks(1, 30)
	refs := write(t, h, all[:10])
	require.NoError(t, h.Rest())
	require.Equal(t, 1, fsys.open, "it was written a moment ago")
	require.NoError(t, h.Rest())
	require.Zero(t, fsys.open)
	cut := mem.CrashClone(tsdbtest.CrashOptions{Choose: tsdbtest.LoseAll})
	requireChunks(t, h, refs, all[:10])
	refs = append(refs, write(t, h, all[10:20])...)
	require.Equal(t, 1, fsys.open)
	require.NoError(t, h.Sync())
	for range 3 {
		require.NoError(t, h.Rest())
	}
	require.Zero(t, fsys.open)
	requireChunks(t, h, refs, all[:20])
	require.Equal(t, 1, h.Stats().Files)

	require.NoError(t, h.EndFile(), "one that rests ends as any")
	refs = append(refs, write(t, h, all[20:])...)
	require.Equal(t, 2, h.Stats().Files)
	for range 2 {
		require.NoError(t, h.Rest())
	}
	requireChunks(t, h, refs, all)
	require.NoError(t, h.Close())
	require.Zero(t, fsys.open)
	require.ErrorIs(t, h.Rest(), ErrClosed)

	again, found, _ := loadTrusting(t, cut, "chunks_head", nil)
	require.Len(t, found, 10, "a power failure leaves what was there at the rest")
	require.NoError(t, again.Close())
}

// While the writer rests somebody may change the file: what is behind its end goes, and one that is
// too short is left alone.
func TestRest_FileThatSomebodyChangedMeanwhile(t *testing.T) {
	for name, change := range map[string]int64{"longer": 100, "shorter": -3} {
		t.Run(name, func(t *testing.T) {
			mem := tsdbtest.NewMemFS()
			h, err := OpenHead(mem, "chunks_head", HeadOptions{})
			require.NoError(t, err)
			all := fullChunks(1, 20)
			refs := write(t, h, all[:10])
			for range 2 {
				require.NoError(t, h.Rest())
			}
			f, err := mem.OpenWrite("chunks_head/000001")
			require.NoError(t, err)
			size, err := f.Size()
			require.NoError(t, err)
			if change < 0 {
				require.NoError(t, f.Truncate(size+change))
			} else {
				_, err = f.Write(make([]byte, change))
				require.NoError(t, err)
			}
			require.NoError(t, f.Close())
			refs = append(refs, write(t, h, all[10:])...)
			requireChunks(t, h, refs[:9], all[:9])
			requireChunks(t, h, refs[10:], all[10:])
			require.Equal(t, change < 0, h.Stats().Files == 2)
			require.NoError(t, h.Close())
		})
	}
}
