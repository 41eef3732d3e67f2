package chunks

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/faultfs"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// scanAll returns the refs of all chunks, and the bytes of their records.
func scanAll(fsys fileutil.FS, segments int) (refs []BlockRef, size int64, err error) {
	s := NewSegmentScanner(fsys, segmentDir, segments, false)
	for s.Next() {
		refs = append(refs, s.Ref())
		size += s.RecordSize()
	}
	return refs, size, fileutil.JoinErrors(s.Err(), s.Close())
}

func TestSegmentScanner_FindsEveryChunk(t *testing.T) {
	for _, sizes := range [][]int{
		{0, 1, 127, 128, 300, 2, 16384, 5, 800},
		{3 << 20, 5, 1<<20 - 30, 10, 1 << 20, 9 << 20, 1}, // larger than the buffer, and across its end
		{},
	} {
		m := tsdbtest.NewMemFS()
		all, err := writeSegments(m, SegmentOptions{SegmentBytes: 4 << 20}, sizes...)
		require.NoError(t, err)
		s := openTestSegments(t, m)
		refs, size, err := scanAll(m, s.Len())
		require.NoError(t, err)
		require.Len(t, refs, len(all))
		for i, p := range all {
			require.Equal(t, p.ref, refs[i])
		}
		require.Equal(t, s.Size()-int64(s.Len())*SegmentHeaderBytes, size)
		require.NoError(t, s.Close())
		require.Empty(t, m.OpenHandles())
	}
}

func TestSegmentScanner_EveryFlippedBitAndEveryCutIsSeen(t *testing.T) {
	_, all, good := oneSegment(t, 10, 0, 130, 20)
	try := func(b []byte) error {
		m := tsdbtest.NewMemFS()
		require.NoError(t, m.WriteFile(segmentDir+"/000001", b))
		refs, _, err := scanAll(m, 1)
		require.Empty(t, m.OpenHandles())
		if err != nil {
			requireDamage(t, err, int64(len(b)))
		} else if len(refs) < len(all) {
			return encbuf.ErrCorrupt // cut between two chunks: their number tells
		}
		return err
	}
	for bit := range len(good) * 8 {
		b := bytes.Clone(good)
		b[bit/8] ^= 1 << (bit % 8)
		if spare := bit/8 >= 5 && bit/8 < 8; spare {
			require.NoError(t, try(b))
		} else {
			require.ErrorIs(t, try(b), encbuf.ErrCorrupt, "bit %d", bit)
		}
	}
	for cut := range good {
		require.ErrorIs(t, try(good[:cut]), encbuf.ErrCorrupt, "cut at %d", cut)
	}
}

func TestSegmentScanner_EveryFailureIsReported(t *testing.T) {
	for _, fault := range faultfs.Standard() {
		for fault.Nth = 1; ; fault.Nth++ {
			m := tsdbtest.NewMemFS()
			_, err := writeSegments(m, SegmentOptions{SegmentBytes: 100}, 80, 80, 80)
			require.NoError(t, err)
			f := faultfs.New(m)
			f.Inject(fault)
			_, _, err = scanAll(f, 3)
			if len(f.Hits()) == 0 {
				require.NoError(t, err)
				break
			}
			require.Error(t, err, "%s\n%s", fault.Name, f.TraceString())
			require.Empty(t, m.OpenHandles())
		}
	}
}
