package chunks

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/pkg/errors"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/faultfs"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

const segmentDir = "block/chunks"

// someData returns n bytes that differ from those of another seed.
func someData(seed, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(seed*7 + i*13 + i>>8)
	}
	return b
}

type placed struct {
	ref  BlockRef
	enc  chunkenc.Encoding
	data []byte
}

// writeSegments writes chunks of the given sizes and returns where they are.
func writeSegments(fsys fileutil.FS, opts SegmentOptions, sizes ...int) ([]placed, error) {
	w, err := NewSegmentWriter(fsys, segmentDir, opts)
	if err != nil {
		return nil, err
	}
	var all []placed
	for i, n := range sizes {
		p := placed{enc: chunkenc.Encoding(1 + i%6), data: someData(i, n)}
		if p.ref, err = w.Write(p.enc, p.data); err != nil {
			return nil, fileutil.JoinErrors(err, w.Abort())
		}
		all = append(all, p)
	}
	return all, w.Close()
}

func openTestSegments(tb testing.TB, fsys fileutil.FS) *Segments {
	tb.Helper()
	s, err := OpenSegments(fsys, segmentDir)
	require.NoError(tb, err)
	return s
}

func requirePlaced(tb testing.TB, s *Segments, all []placed) {
	tb.Helper()
	var buf []byte
	for _, p := range all {
		enc, data, err := s.Read(p.ref, buf)
		require.NoError(tb, err)
		require.Equal(tb, p.enc, enc)
		require.True(tb, bytes.Equal(p.data, data), "%x", uint64(p.ref))
		buf = data
	}
}

func TestSegments_ReadWhatWasWritten(t *testing.T) {
	m := tsdbtest.NewMemFS()
	sizes := []int{0, 1, 127, 128, 300, 2, 16384, 5, 800}
	all, err := writeSegments(m, SegmentOptions{SegmentBytes: 1000}, sizes...)
	require.NoError(t, err)
	require.Equal(t, []string{"block/chunks/000001", "block/chunks/000002", "block/chunks/000003"}, m.Files())
	require.Equal(t, NewBlockRef(0, 8), all[0].ref)
	require.Equal(t, NewBlockRef(1, 8), all[6].ref, "a chunk over the limit has a file for itself")
	require.Equal(t, NewBlockRef(2, 8), all[7].ref)
	for i := 1; i < len(all); i++ {
		require.Greater(t, all[i].ref, all[i-1].ref)
	}
	s := openTestSegments(t, m)
	requirePlaced(t, s, all)
	require.EqualValues(t, m.Used(), s.Size())
	require.Equal(t, 3, s.Len())
	require.Equal(t, all, walkAll(t, s, nil))
	require.NoError(t, s.Close())
	require.Empty(t, m.OpenHandles())
}

// walkAll returns the chunks that Walk finds; damage goes to *damage.
func walkAll(tb testing.TB, s *Segments, damage *[]*encbuf.CorruptError) []placed {
	tb.Helper()
	var all []placed
	err := s.Walk(func(ref BlockRef, enc chunkenc.Encoding, data []byte) error {
		all = append(all, placed{ref, enc, append([]byte{}, data...)})
		return nil
	}, func(d *encbuf.CorruptError) error {
		if damage == nil {
			return d
		}
		*damage = append(*damage, d)
		return nil
	})
	require.NoError(tb, err)
	return all
}

func TestSegmentWriter_CutsFilesWhereTheReferenceDoes(t *testing.T) {
	// A record of 90 bytes has one byte of length, but five are counted.
	for limit, files := range map[int64]int{8 + 96 + 100: 1, 8 + 96 + 99: 2} {
		m := tsdbtest.NewMemFS()
		_, err := writeSegments(m, SegmentOptions{SegmentBytes: limit}, 90, 90)
		require.NoError(t, err)
		require.Len(t, m.Files(), files, limit)
	}
}

func TestSegmentWriter_RefusesWhatCannotBeStored(t *testing.T) {
	w, err := NewSegmentWriter(tsdbtest.NewMemFS(), segmentDir, SegmentOptions{})
	require.NoError(t, err)
	_, err = w.Write(chunkenc.EncNone, nil)
	require.ErrorIs(t, err, ErrInvalidChunk)
	_, err = w.Write(chunkenc.EncXOR, []byte{0, 0})
	require.ErrorIs(t, err, ErrInvalidChunk, "the first error stays")
	require.ErrorIs(t, w.Close(), ErrInvalidChunk)
	require.Zero(t, w.Segments())
}

func TestSegmentWriter_IsOverAfterCloseOrAbort(t *testing.T) {
	for _, end := range []func(*SegmentWriter) error{(*SegmentWriter).Close, (*SegmentWriter).Abort} {
		for chunks := range 2 {
			m := tsdbtest.NewMemFS()
			w, err := NewSegmentWriter(m, segmentDir, SegmentOptions{})
			require.NoError(t, err)
			for range chunks {
				_, err = w.Write(chunkenc.EncXOR, []byte{0, 0})
				require.NoError(t, err)
			}
			require.NoError(t, end(w))
			_, err = w.Write(chunkenc.EncXOR, []byte{0, 0})
			require.ErrorIs(t, err, ErrClosed)
			require.NoError(t, w.Abort())
			require.Empty(t, m.OpenHandles())
		}
	}
}

func TestSegmentWriter_Close_EverythingIsOnStableStorage(t *testing.T) {
	m := tsdbtest.NewMemFS()
	require.NoError(t, fileutil.MkdirSync(m, segmentDir))
	all, err := writeSegments(m, SegmentOptions{SegmentBytes: 500}, 100, 200, 300, 400)
	require.NoError(t, err)
	left := m.CrashClone(tsdbtest.CrashOptions{Choose: tsdbtest.LoseAll})
	s := openTestSegments(t, left)
	requirePlaced(t, s, all)
	require.NoError(t, s.Close())
}

func TestSegmentWriter_WritesAndSyncsInPieces(t *testing.T) {
	f := faultfs.New(tsdbtest.NewMemFS())
	written, calls := 0, 0
	opts := SegmentOptions{Written: func(n int) error {
		require.LessOrEqual(t, n, segmentPieceBytes)
		written += n
		calls++
		return nil
	}}
	_, err := writeSegments(f, opts, 3<<20, 3<<20, 3<<20, 1<<20-100, 1<<20-100, 50)
	require.NoError(t, err)
	require.EqualValues(t, calls, f.Ops(tsdbtest.OpWrite))
	info, err := f.Stat(filepath.Join(segmentDir, "000001"))
	require.NoError(t, err)
	require.EqualValues(t, info.Size(), written)
	require.EqualValues(t, 2, f.Ops(tsdbtest.OpSync), "one behind 8 MiB, one at the end")
}

func TestSegmentWriter_ErrorOfWritten_EndsTheWriting(t *testing.T) {
	stop := errors.New("stop")
	m := tsdbtest.NewMemFS()
	_, err := writeSegments(m, SegmentOptions{Written: func(int) error { return stop }}, 10)
	require.ErrorIs(t, err, stop)
	require.Empty(t, m.OpenHandles())
}

func TestSegmentWriter_EveryFailureIsReported(t *testing.T) {
	sizes := []int{100, 200, 900, 300}
	for _, fault := range faultfs.Standard() {
		for fault.Nth = 1; ; fault.Nth++ {
			m := tsdbtest.NewMemFS()
			f := faultfs.New(m)
			f.Inject(fault)
			_, err := writeSegments(f, SegmentOptions{SegmentBytes: 1000}, sizes...)
			if len(f.Hits()) == 0 {
				require.NoError(t, err)
				break
			}
			require.Error(t, err, "%s\n%s", fault.Name, f.TraceString())
			require.Empty(t, m.OpenHandles())
		}
	}
}

func TestSegmentWriter_FailedSyncInTheMiddleOfAFile_IsReported(t *testing.T) {
	for nth := range int64(2) {
		f := faultfs.New(tsdbtest.NewMemFS())
		f.Inject(faultfs.Fault{Kinds: []tsdbtest.OpKind{tsdbtest.OpSync}, Nth: nth + 1})
		_, err := writeSegments(f, SegmentOptions{}, 9<<20, 1)
		require.Error(t, err)
		require.Len(t, f.Hits(), 1)
		require.EqualValues(t, nth+1, f.Ops(tsdbtest.OpSync), "none is tried again")
	}
}

func TestAppendSegmentRecord_ExampleOfTheFormatPage(t *testing.T) {
	m := tsdbtest.NewMemFS()
	w, err := NewSegmentWriter(m, segmentDir, SegmentOptions{})
	require.NoError(t, err)
	for _, data := range []string{"0002fff3ee064008000000000000e80700", "0001ade4ee064010000000000000"} {
		b, err := hex.DecodeString(data)
		require.NoError(t, err)
		_, err = w.Write(chunkenc.EncXOR, b)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	b, err := m.ReadFile(filepath.Join(segmentDir, "000001"))
	require.NoError(t, err)
	require.Equal(t, segmentExample, hex.EncodeToString(b))
}

// segmentExample is the whole segment file of a block of the reference.
const segmentExample = "85bd40dd" + "01" + "000000" +
	"11" + "01" + "0002fff3ee064008000000000000e80700" + "a5519005" +
	"0e" + "01" + "0001ade4ee064010000000000000" + "e633cd0b"

func BenchmarkSegmentWriter(b *testing.B) {
	data := someData(1, 200)
	w, err := NewSegmentWriter(fileutil.OS, filepath.Join(b.TempDir(), "chunks"), SegmentOptions{SegmentBytes: 64 << 20})
	require.NoError(b, err)
	b.SetBytes(int64(len(data)))
	for range b.N {
		if _, err := w.Write(chunkenc.EncXOR, data); err != nil {
			b.Fatal(err)
		}
	}
	require.NoError(b, w.Close())
}

func BenchmarkSegments_Read(b *testing.B) {
	m := tsdbtest.NewMemFS()
	all, err := writeSegments(m, SegmentOptions{}, make([]int, 1000)...)
	require.NoError(b, err)
	dir := b.TempDir()
	require.NoError(b, m.Export(dir))
	s, err := OpenSegments(fileutil.OS, filepath.Join(dir, segmentDir))
	require.NoError(b, err)
	buf := make([]byte, 0, 256)
	b.ResetTimer()
	for i := range b.N {
		if _, buf, err = s.Read(all[i%len(all)].ref, buf); err != nil {
			b.Fatal(fmt.Sprint(err))
		}
	}
	require.NoError(b, s.Close())
}
