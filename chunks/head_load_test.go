package chunks

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/sweep"
)

// small is a directory of three files that the damage tests start from.
type small struct {
	names []string
	files [][]byte
	refs  []Ref
	all   []Full
}

func newSmall(tb testing.TB) small {
	h, _, _ := openLoaded(tb, fileutil.OS, headDir(tb), HeadOptions{FileBytes: 240})
	s := small{all: fullChunks(2, 7)}
	s.refs = write(tb, h, s.all)
	require.NoError(tb, h.Close())
	for _, name := range []string{"000001", "000002", "000003"} {
		b, err := os.ReadFile(filepath.Join(h.w.out.dir, name))
		require.NoError(tb, err)
		s.names, s.files = append(s.names, name), append(s.files, b)
	}
	require.NoFileExists(tb, filepath.Join(h.w.out.dir, "000004"))
	return s
}

// put writes the files into a fresh data directory; change may replace or (nil) leave
// out the content of one of them.
func (s small) put(tb testing.TB, dir string, file int, content []byte) {
	require.NoError(tb, os.RemoveAll(filepath.Join(filepath.Dir(dir), "quarantine")))
	require.NoError(tb, os.RemoveAll(dir))
	require.NoError(tb, os.MkdirAll(dir, 0o777))
	for i, b := range s.files {
		if i == file {
			b = content
		}
		if b != nil {
			require.NoError(tb, os.WriteFile(filepath.Join(dir, s.names[i]), b, 0o666))
		}
	}
}

// expected returns the indexes of the chunks that must be found when a file's content is
// replaced, and whether that can be seen as damage. It cannot when whole records are missing at
// a file's end: that is how a file ends that was cut early.
func (s small) expected(file int, content []byte) (want []int, damage bool) {
	good := headHeaderSize // end of the good records of content
	if content == nil {
		damage = file > 0 && file < len(s.files)-1
	} else if damage = len(content) < good || !bytes.Equal(content[:5], s.files[file][:5]); !damage {
		for i, ref := range s.refs {
			end := int(ref.Offset()) + int(s.all[i].recordSize())
			if int(ref.File()) == file+1 && len(content) >= end && bytes.Equal(content[good:end], s.files[file][good:end]) {
				good = end
			}
		}
		damage = !encbuf.AllZero(content[good:])
	}
	for i, ref := range s.refs {
		before, same := int(ref.File()) < file+1, int(ref.File()) == file+1
		kept := same && content != nil && int(ref.Offset()) < good && len(content) >= good
		if before || kept || !same && !damage {
			want = append(want, i)
		}
	}
	return want, damage
}

// checkDamaged loads a directory with one file replaced (nil: missing), requires that the right
// chunks are found and that damage is reported, then, if repair is set, repairs, and requires
// that all is well and all original bytes are still there.
func (s small) checkDamaged(tb testing.TB, dir string, file int, content []byte, repair bool) {
	tb.Helper()
	want, damage := s.expected(file, content)
	var refs []Ref
	var chunks []Full
	for _, i := range want {
		refs, chunks = append(refs, s.refs[i]), append(chunks, s.all[i])
	}
	s.put(tb, dir, file, content)
	fsys := newTestFS()
	fsys.noSync = true
	h, got, rep := openLoaded(tb, fsys, dir, HeadOptions{FileBytes: 240})
	requireLoaded(tb, got, refs, chunks)
	require.Equal(tb, damage, rep.NeedsRepair())
	if damage {
		require.NotZero(tb, rep.DroppedBytes+int64(len(rep.Unwritten)))
		_, err := h.Write(fullChunks(90, 1))
		require.ErrorIs(tb, err, ErrNeedsRepair)
		require.ErrorIs(tb, h.TruncateBefore(NewRef(9, 0)), ErrNeedsRepair)
	}
	if rep.Damage != nil {
		require.ErrorIs(tb, rep.Damage, encbuf.ErrCorrupt)
		require.Contains(tb, rep.Damage.File, dir)
	}
	requireChunks(tb, h, refs, chunks)
	if !repair {
		require.NoError(tb, h.Close())
		return
	}
	s.checkRepair(tb, h, rep, dir, file, content, refs, chunks)
}

func (s small) checkRepair(tb testing.TB, h *HeadFiles, rep LoadReport, dir string, file int, content []byte, refs []Ref, chunks []Full) {
	tb.Helper()
	quarantine := filepath.Join(filepath.Dir(dir), "quarantine", "1")
	copies, err := h.Repair(quarantine)
	require.NoError(tb, err)
	require.True(tb, rep.Damage == nil || len(copies) > 0)
	for i, original := range s.files {
		if i == file {
			original = content
		}
		inPlace, _ := os.ReadFile(filepath.Join(dir, s.names[i]))
		saved, _ := os.ReadFile(filepath.Join(quarantine, s.names[i]))
		require.True(tb, bytes.Equal(original, inPlace) || bytes.Equal(original, saved), "file %d", i)
	}
	requireChunks(tb, h, refs, chunks)
	refs, chunks = append(refs, write(tb, h, fullChunks(90, 1))...), append(chunks, fullChunk(90))
	require.NoError(tb, h.Close())
	h, got, rep := openLoaded(tb, fileutil.OS, dir, HeadOptions{})
	require.False(tb, rep.NeedsRepair(), "after repair: %+v", rep)
	requireLoaded(tb, got, refs, chunks)
	require.NoError(tb, h.Close())
	entries, err := os.ReadDir(filepath.Dir(dir))
	require.NoError(tb, err)
	for _, e := range entries {
		require.Contains(tb, []string{"chunks_head", "quarantine"}, e.Name())
	}
}

func TestLoad_CutAtEveryByte_KeepsThePrefixAndRepairs(t *testing.T) {
	s := newSmall(t)
	dir := headDir(t)
	for file := range s.files {
		for n := range s.files[file] {
			s.checkDamaged(t, dir, file, s.files[file][:n], n%8 == 0)
		}
	}
}

func TestLoad_EveryFlippedBit_IsDetectedOrHarmless(t *testing.T) {
	s := newSmall(t)
	dir := headDir(t)
	places := sweep.Of(t, 1, 11)
	for file := range s.files {
		s.put(t, dir, -1, nil)
		for _, bit := range places.Below(len(s.files[file]) * 8) {
			bad := bytes.Clone(s.files[file])
			bad[bit/8] ^= 1 << (bit % 8)
			require.NoError(t, os.WriteFile(filepath.Join(dir, s.names[file]), bad, 0o666))
			h, got, rep := openLoaded(t, fileutil.OS, dir, HeadOptions{})
			if len(got) < len(s.all) {
				require.NotNil(t, rep.Damage, "file %d bit %d", file, bit)
			}
			requireLoaded(t, got, s.refs[:len(got)], s.all[:len(got)])
			require.NoError(t, h.Close())
		}
	}
}

func TestLoad_ZeroedPieces_AreDamage(t *testing.T) {
	s := newSmall(t)
	dir := headDir(t)
	for file := range s.files {
		for at := 0; at < len(s.files[file]); at += 7 {
			for _, size := range []int{8, 40, 64, 512} {
				bad := bytes.Clone(s.files[file])
				clear(bad[at:min(at+size, len(bad))])
				s.checkDamaged(t, dir, file, bad, at%3 == 0)
			}
		}
	}
}

func TestLoad_MissingFile_DropsWhatFollows(t *testing.T) {
	s := newSmall(t)
	dir := headDir(t)
	for file := range s.files {
		s.put(t, dir, file, nil)
		h, got, rep := openLoaded(t, fileutil.OS, dir, HeadOptions{})
		switch file {
		case 0: // numbers may start anywhere
			require.Nil(t, rep.Damage)
			require.Equal(t, uint32(2), got[0].Ref.File())
		case 1:
			require.ErrorContains(t, rep.Damage, "000003")
			require.ErrorContains(t, rep.Damage, "missing")
			require.Len(t, rep.DroppedFiles, 1)
			s.checkDamaged(t, dir, file, nil, true)
		case 2:
			require.Nil(t, rep.Damage)
		}
		require.NoError(t, h.Close())
	}
}

func TestLoad_UnwrittenLastFile_IsNoDamage(t *testing.T) {
	s := newSmall(t)
	dir := headDir(t)
	for _, content := range [][]byte{{}, {0}, {1, 0x30}, make([]byte, 7), make([]byte, 8), make([]byte, 131072)} {
		s.put(t, dir, 2, content)
		h, got, rep := openLoaded(t, fileutil.OS, dir, HeadOptions{})
		require.Nil(t, rep.Damage)
		require.True(t, rep.NeedsRepair())
		require.Equal(t, filepath.Join(dir, "000003"), rep.Unwritten)
		require.Empty(t, rep.DroppedFiles)
		copies, err := h.Repair(filepath.Join(filepath.Dir(dir), "quarantine"))
		require.NoError(t, err)
		require.Equal(t, len(content) > 0, len(copies) == 1)
		require.NoFileExists(t, rep.Unwritten)
		refs := write(t, h, fullChunks(50, 1))
		require.Equal(t, uint32(3), refs[0].File())
		require.NoError(t, h.Close())
		requireLoaded(t, got, s.refs[:len(got)], s.all[:len(got)])
		require.Equal(t, uint32(2), got[len(got)-1].Ref.File())
	}
}

func TestLoad_PreallocatedTail_IsTheEnd(t *testing.T) {
	s := newSmall(t)
	dir := headDir(t)
	for _, zeros := range []int{1, 10, 33, 34, 35, 1000, 131072} {
		for file := range s.files {
			s.put(t, dir, file, append(bytes.Clone(s.files[file]), make([]byte, zeros)...))
			h, got, rep := openLoaded(t, fileutil.OS, dir, HeadOptions{})
			require.False(t, rep.NeedsRepair())
			requireLoaded(t, got, s.refs, s.all)
			require.NoError(t, h.Close())
			bad := append(bytes.Clone(s.files[file]), make([]byte, zeros)...)
			bad[len(bad)-1] = 1
			s.checkDamaged(t, dir, file, bad, true)
		}
	}
}

func TestLoad_UnknownEncodings_AreCountedAndSkipped(t *testing.T) {
	h, _, _ := openLoaded(t, fileutil.OS, headDir(t), HeadOptions{})
	batch := fullChunks(1, 3)
	batch[1].Encoding = 0x70
	refs := write(t, h, batch)
	require.NoError(t, h.Close())
	_, got, rep := openLoaded(t, fileutil.OS, h.w.out.dir, HeadOptions{})
	require.Equal(t, 1, rep.Unknown)
	require.Equal(t, 2, rep.Chunks)
	requireLoaded(t, got, []Ref{refs[0], refs[2]}, []Full{batch[0], batch[2]})
}

func TestLoad_ManyChunks_ComeInBatches(t *testing.T) {
	h, _, _ := openLoaded(t, fileutil.OS, headDir(t), HeadOptions{})
	all := fullChunks(0, 3*loadBatch+5)
	refs := write(t, h, all)
	require.NoError(t, h.Close())
	_, got, rep := openLoaded(t, fileutil.OS, h.w.out.dir, HeadOptions{})
	require.Equal(t, len(all), rep.Chunks)
	requireLoaded(t, got, refs, all)
}

func TestLoad_ErrorOfTheFunction_IsReturned(t *testing.T) {
	dir, _ := writeVectors(t)
	h, err := OpenHead(fileutil.OS, dir, HeadOptions{})
	require.NoError(t, err)
	_, err = h.Load(func(HeadChunk) error { return os.ErrDeadlineExceeded })
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	_, err = h.Write(fullChunks(1, 1))
	require.ErrorIs(t, err, ErrNotLoaded)
	require.NoError(t, h.Close())
}

func TestOpenHead_ForeignEntries(t *testing.T) {
	s := newSmall(t)
	dir := headDir(t)
	s.put(t, dir, -1, nil)
	for _, name := range []string{"x.tmp", "000001.idx", "+5", "-1", "1e3", "tmp-1"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o666))
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "quarantine"), 0o777))
	h, got, rep := openLoaded(t, fileutil.OS, dir, HeadOptions{})
	require.False(t, rep.NeedsRepair())
	requireLoaded(t, got, s.refs, s.all)
	require.NoError(t, h.Close())

	for _, name := range []string{"99999999999", "4294967295", "1", "0000002"} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte("x"), 0o666))
		_, err := OpenHead(fileutil.OS, dir, HeadOptions{})
		require.ErrorIs(t, err, encbuf.ErrCorrupt, name)
		require.ErrorContains(t, err, dir)
		require.NoError(t, os.Remove(path))
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "000004"), 0o777))
	_, err := OpenHead(fileutil.OS, dir, HeadOptions{})
	require.ErrorContains(t, err, "000004")
	require.ErrorIs(t, err, encbuf.ErrCorrupt)
}

func TestOpenHead_NumbersOfAnyWidth(t *testing.T) {
	s := newSmall(t)
	s.names = []string{"9", "0010", "011"}
	dir := headDir(t)
	s.put(t, dir, -1, nil)
	h, got, rep := openLoaded(t, fileutil.OS, dir, HeadOptions{})
	require.False(t, rep.NeedsRepair())
	require.Len(t, got, len(s.all))
	require.Equal(t, uint32(9), got[0].Ref.File())
	require.Equal(t, uint32(12), write(t, h, fullChunks(1, 1))[0].File())
	require.NoError(t, h.Close())
}

func TestLoad_FileThatCannotBeMapped_IsAnError(t *testing.T) {
	s := newSmall(t)
	dir := headDir(t)
	s.put(t, dir, -1, nil)
	for _, op := range []string{"open", "mmap", "close"} {
		for n := range s.files {
			fsys := newTestFS()
			fsys.failOn(op, n, 1, syscall.ENOMEM)
			h, err := OpenHead(fsys, dir, HeadOptions{})
			require.NoError(t, err)
			_, err = h.Load(func(HeadChunk) error { return nil })
			require.ErrorIs(t, err, syscall.ENOMEM)
			require.NoError(t, h.Close())
			require.Len(t, filterLog(fsys.log, "unmap"), len(filterLog(fsys.log, "mmap"))-map[string]int{"mmap": 1}[op])
		}
	}
}

func TestLoad_FileCutMeanwhile_IsDamageAndNotASignal(t *testing.T) {
	h, _, _ := openLoaded(t, fileutil.OS, headDir(t), HeadOptions{})
	all := fullChunks(0, 400)
	refs := write(t, h, all)
	require.NoError(t, h.Close())
	path := filepath.Join(h.w.out.dir, "000001")
	for _, size := range []int64{0, 4096, 8192} {
		h, err := OpenHead(fileutil.OS, h.w.out.dir, HeadOptions{})
		require.NoError(t, err)
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, os.Truncate(path, size))
		var got []HeadChunk
		rep, err := h.Load(func(c HeadChunk) error { got = append(got, c); return nil })
		require.NoError(t, err)
		require.ErrorContains(t, rep.Damage, path)
		requireLoaded(t, got, refs[:len(got)], all[:len(got)])
		require.Equal(t, size > 0, len(got) > 0)
		require.NoError(t, h.Close())
		require.NoError(t, os.WriteFile(path, b, 0o666))
	}
}

// A damaged directory must end up repaired whichever operation of the repair fails, by
// calling Repair again and, after a crash at that operation, by opening again.
func TestRepair_FailingAtEveryOperation_CanBeDoneAgain(t *testing.T) {
	s := newSmall(t)
	bad := bytes.Clone(s.files[1])
	bad[len(bad)-30] ^= 1
	const good = 4 // chunks before the damage
	for n := 0; ; n++ {
		for _, crash := range []bool{false, true} {
			dir := headDir(t)
			s.put(t, dir, 1, bad)
			fsys := newTestFS()
			h, got, rep := openLoaded(t, fsys, dir, HeadOptions{FileBytes: 240})
			require.NotNil(t, rep.Damage)
			require.Len(t, got, good)
			quarantine := filepath.Join(filepath.Dir(dir), "quarantine", "1")
			left := n
			fsys.hook = func(string, string) error {
				if left--; left == -1 || crash && left < 0 {
					return syscall.EIO
				}
				return nil
			}
			_, err := h.Repair(quarantine)
			if left >= 0 {
				require.NoError(t, err)
				require.Greater(t, n, 8, "the repair has more operations")
				return
			}
			fsys.hook = nil
			if crash {
				h, got, rep = openLoaded(t, fileutil.OS, dir, HeadOptions{FileBytes: 240})
				require.Len(t, got, good)
				if err != nil && rep.NeedsRepair() {
					require.Equal(t, good, rep.Chunks)
				}
				quarantine = filepath.Join(filepath.Dir(dir), "quarantine", "2")
			}
			if _, err = h.Repair(quarantine); err == nil {
				requireChunks(t, h, s.refs[:good], s.all)
			}
			require.NoError(t, firstOf(h.w.out.failed == nil, err), "operation %d", n)
			_ = h.Close()
			h, got, rep = openLoaded(t, fileutil.OS, dir, HeadOptions{})
			require.False(t, rep.NeedsRepair(), "operation %d crash %v: %+v", n, crash, rep)
			requireLoaded(t, got, s.refs[:good], s.all[:good])
			require.NoError(t, h.Close())
			requireSaved(t, filepath.Dir(dir), bad, s.files[2])
		}
	}
}

func firstOf(use bool, err error) error {
	if use {
		return err
	}
	return nil
}

// requireSaved checks that the contents are somewhere in the quarantine.
func requireSaved(t *testing.T, dataDir string, contents ...[]byte) {
	t.Helper()
	found := map[string]bool{}
	err := filepath.WalkDir(filepath.Join(dataDir, "quarantine"), func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			b, readErr := os.ReadFile(path)
			found[string(b)] = true
			return readErr
		}
		return err
	})
	require.NoError(t, err)
	for i, c := range contents {
		require.True(t, found[string(c)], "content %d", i)
	}
}

func TestRepair_WithoutLinks_Copies(t *testing.T) {
	s := newSmall(t)
	dir := headDir(t)
	s.put(t, dir, 0, s.files[0][:len(s.files[0])-1])
	fsys := newTestFS()
	fsys.failOn("link", 0, 99, fileutil.ErrUnsupported)
	h, _, _ := openLoaded(t, fsys, dir, HeadOptions{})
	quarantine := filepath.Join(filepath.Dir(dir), "quarantine")
	require.NoError(t, os.MkdirAll(quarantine, 0o777))
	require.NoError(t, os.WriteFile(filepath.Join(quarantine, "000001"), []byte("older"), 0o666))
	copies, err := h.Repair(quarantine)
	require.NoError(t, err)
	require.Equal(t, []string{"000001.1", "000002", "000003"}, []string{filepath.Base(copies[0]), filepath.Base(copies[1]), filepath.Base(copies[2])})
	requireSaved(t, filepath.Dir(dir), []byte("older"), s.files[0][:len(s.files[0])-1], s.files[1], s.files[2])
	require.NoError(t, h.Close())
}

func FuzzHeadFile(f *testing.F) {
	_, files := loadVectors(f)
	for _, b := range files {
		f.Add(bytes.TrimRight(b, "\x00"), false)
	}
	s := newSmall(f)
	f.Add(s.files[0], true)
	f.Fuzz(func(t *testing.T, b []byte, fixCRC bool) {
		if fixCRC {
			b = withChecksums(b)
		}
		l := loader{fn: func(HeadChunk) error { return nil }, rep: &LoadReport{}, batch: make([]HeadChunk, 0, 8)}
		l.off = headHeaderSize
		if len(b) < headHeaderSize {
			return
		}
		for more := true; more; {
			l.batch = l.batch[:0]
			before := l.off
			var damage *encbuf.CorruptError
			if more, damage = l.scan(1, b); damage != nil {
				require.LessOrEqual(t, int64(l.off)+damage.Offset, int64(len(b)))
				require.False(t, more)
			}
			require.LessOrEqual(t, l.off, len(b))
			require.True(t, !more || l.off > before)
			for _, c := range l.batch {
				at := b[c.Ref.Offset():]
				enc, _, data, damage := copyRecord(at, nil)
				require.Nil(t, damage, "what loads can be read")
				require.Equal(t, c.Encoding, enc)
				chunk, err := chunkenc.FromData(enc, data)
				require.NoError(t, err)
				require.Equal(t, c.NumSamples, chunk.NumSamples())
			}
		}
	})
}

// withChecksums repairs the checksums of records, so that the fuzzer gets behind them.
func withChecksums(b []byte) []byte {
	b = bytes.Clone(b)
	for off := headHeaderSize; off < len(b); {
		r, damage := parseRecord(b[off:])
		if damage != nil {
			break
		}
		encbuf.AppendBE32(b[off:off+r.dataEnd:len(b)], encbuf.Checksum(b[off:off+r.dataEnd]))
		off += r.size()
	}
	return b
}
