package chunks

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/pkg/errors"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/faultfs"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// oneSegment returns a file system with one segment file, its chunks and its bytes.
func oneSegment(tb testing.TB, sizes ...int) (*tsdbtest.MemFS, []placed, []byte) {
	tb.Helper()
	m := tsdbtest.NewMemFS()
	all, err := writeSegments(m, SegmentOptions{}, sizes...)
	require.NoError(tb, err)
	b, err := m.ReadFile(segmentDir + "/000001")
	require.NoError(tb, err)
	return m, all, b
}

// lookAt opens a segment file with content b and reads the chunks of all, which must be
// right or damaged. It returns the damage, and panics for nobody.
func lookAt(tb testing.TB, b []byte, all []placed) (damage []error) {
	tb.Helper()
	m := tsdbtest.NewMemFS()
	require.NoError(tb, m.WriteFile(segmentDir+"/000001", b))
	s, err := OpenSegments(m, segmentDir)
	if err != nil {
		requireDamage(tb, err, int64(len(b)))
		return []error{err}
	}
	for _, p := range all {
		enc, data, err := s.Read(p.ref, nil)
		if err != nil {
			requireDamage(tb, err, max(int64(len(b)), int64(p.ref.Offset())))
			require.Empty(tb, data)
			damage = append(damage, err)
			continue
		}
		require.Equal(tb, p.enc, enc)
		require.True(tb, bytes.Equal(p.data, data))
	}
	requireRuns(tb, s, all)
	var walked []*encbuf.CorruptError
	found := walkAll(tb, s, &walked)
	for _, p := range found {
		i := slices.IndexFunc(all, func(q placed) bool { return p.ref == q.ref })
		require.True(tb, i >= 0 && bytes.Equal(p.data, all[i].data) && p.enc == all[i].enc)
	}
	if len(damage) > 0 && len(b) > int(all[len(all)-1].ref.Offset()) {
		require.NotEmpty(tb, walked)
	}
	require.NoError(tb, s.Close())
	require.Empty(tb, m.OpenHandles())
	return damage
}

func requireDamage(tb testing.TB, err error, size int64) {
	tb.Helper()
	var at *encbuf.CorruptError
	require.ErrorAs(tb, err, &at)
	require.Equal(tb, filepath.FromSlash(segmentDir+"/000001"), at.File)
	require.LessOrEqual(tb, at.Offset, size)
}

func TestSegments_EveryFlippedBitIsSeen(t *testing.T) {
	_, all, good := oneSegment(t, 10, 0, 130, 20)
	for bit := range len(good) * 8 {
		b := bytes.Clone(good)
		b[bit/8] ^= 1 << (bit % 8)
		damage := lookAt(t, b, all)
		if spare := bit/8 >= 5 && bit/8 < 8; spare {
			require.Empty(t, damage, "nothing looks at the spare bytes of the header")
		} else {
			require.Len(t, damage, 1, "bit %d", bit)
		}
	}
}

func TestSegments_EveryCutIsSeen(t *testing.T) {
	_, all, good := oneSegment(t, 10, 0, 130, 20)
	for cut := range good {
		require.NotEmpty(t, lookAt(t, good[:cut], all), cut)
	}
	require.Empty(t, lookAt(t, append(bytes.Clone(good), 1, 2, 3), all), "what is behind the last chunk is nobody's")
}

func TestWalk_StepsOverWhatItCanAndReportsEachHoleOnce(t *testing.T) {
	_, all, good := oneSegment(t, 50, 60, 70, 80)
	at := func(i, off int) int { return int(all[i].ref.Offset()) + off }
	for _, c := range []struct {
		name   string
		change func(b []byte)
		left   []int
	}{
		{"data", func(b []byte) { b[at(1, 9)]++ }, []int{0, 2, 3}},
		{"two in a row", func(b []byte) { b[at(1, 9)]++; b[at(2, 9)]++ }, []int{0, 3}},
		{"length beyond the file", func(b []byte) { b[at(1, 0)] = 0xff }, []int{0}},
		{"header", func(b []byte) { b[0]++ }, []int{0, 1, 2, 3}},
	} {
		b := bytes.Clone(good)
		c.change(b)
		m := tsdbtest.NewMemFS()
		require.NoError(t, m.WriteFile(segmentDir+"/000001", b))
		s, err := SalvageSegments(m, segmentDir)
		require.NoError(t, err)
		var damage []*encbuf.CorruptError
		found := walkAll(t, s, &damage)
		require.Len(t, damage, 1, c.name)
		var want []placed
		for _, i := range c.left {
			want = append(want, all[i])
		}
		require.Equal(t, want, found, c.name)
		require.NoError(t, s.Close())
	}
}

func TestWalk_ErrorsOfItsFunctionsEndIt(t *testing.T) {
	_, _, good := oneSegment(t, 50, 60)
	stop := errors.New("stop")
	for _, bad := range []bool{false, true} {
		b := bytes.Clone(good)
		if bad {
			b[12]++
		}
		m := tsdbtest.NewMemFS()
		require.NoError(t, m.WriteFile(segmentDir+"/000001", b))
		s := openTestSegments(t, m)
		calls := 0
		err := s.Walk(func(BlockRef, chunkenc.Encoding, []byte) error { calls++; return stop },
			func(*encbuf.CorruptError) error { calls++; return stop })
		require.ErrorIs(t, err, stop)
		require.Equal(t, 1, calls)
		require.NoError(t, s.Close())
	}
}

func TestOpenSegments_MissingEmptyAndForeignFiles(t *testing.T) {
	good := segmentHeader[:]
	for _, c := range []struct {
		name  string
		files map[string][]byte
		err   string // empty: it opens
		file  string
	}{
		{"directory", nil, "missing", ""},
		{"first file", map[string][]byte{"000002": good}, "missing", "000001"},
		{"file between", map[string][]byte{"000001": good, "000003": good}, "missing", "000002"},
		{"thousands", map[string][]byte{"999999": good}, "999998 chunk segments before it are missing", "999999"},
		{"empty file", map[string][]byte{"000001": {}}, "inside its header", "000001"},
		{"zeros", map[string][]byte{"000001": make([]byte, 100)}, "magic number", "000001"},
		{"other magic", map[string][]byte{"000001": headHeader[:]}, "magic number 0x0130bc91", "000001"},
		{"other version", map[string][]byte{"000001": {0x85, 0xbd, 0x40, 0xdd, 2, 0, 0, 0}}, "version 2", "000001"},
		{"number 0", map[string][]byte{"000000": good}, "out of range", "000000"},
		{"large number", map[string][]byte{"99999999999": good}, "out of range", "99999999999"},
		{"same number", map[string][]byte{"000001": good, "1": good}, "same number", "1"},
		{"directory as file", map[string][]byte{"000001/x": good}, "a directory", "000001"},
		{"names that are no numbers", map[string][]byte{"000001": good, "000001.idx": nil, "-1": nil, "+2": nil, "x": nil}, "", ""},
		{"only such names", map[string][]byte{"x": nil}, "", ""},
	} {
		m := tsdbtest.NewMemFS()
		for name, b := range c.files {
			require.NoError(t, m.WriteFile(segmentDir+"/"+name, b))
		}
		s, err := OpenSegments(m, segmentDir)
		if c.err == "" {
			require.NoError(t, err, c.name)
			require.NoError(t, s.Close())
			continue
		}
		var at *encbuf.CorruptError
		require.ErrorAs(t, err, &at, c.name)
		require.Contains(t, at.Reason, c.err, c.name)
		require.Equal(t, filepath.Join(segmentDir, c.file), at.File, c.name)
		require.Empty(t, m.OpenHandles(), c.name)
	}
}

func TestRead_RefsToNowhereAreDamage(t *testing.T) {
	m, all, b := oneSegment(t, 10, 20)
	s := openTestSegments(t, m)
	for _, ref := range []BlockRef{0, 7, NewBlockRef(0, uint32(len(b))), NewBlockRef(1, 8), NewBlockRef(1<<32-1, 1<<32-1), all[0].ref + 1} {
		_, data, err := s.Read(ref, []byte("abc"))
		require.ErrorIs(t, err, encbuf.ErrCorrupt, "%x", uint64(ref))
		require.Empty(t, data)
	}
	require.NoError(t, s.Close())
}

func TestSalvageSegments_ReadsWhatIsLeft(t *testing.T) {
	m := tsdbtest.NewMemFS()
	all, err := writeSegments(m, SegmentOptions{SegmentBytes: 100}, 80, 80, 80, 80)
	require.NoError(t, err)
	require.NoError(t, m.Remove(segmentDir+"/000002"))
	require.NoError(t, m.WriteFile(segmentDir+"/000003", []byte("short")))
	_, err = OpenSegments(m, segmentDir)
	require.ErrorContains(t, err, "000002")
	s, err := SalvageSegments(m, segmentDir)
	require.NoError(t, err)
	require.Len(t, s.Damage(), 2)
	requirePlaced(t, s, []placed{all[0], all[3]})
	for _, i := range []int{1, 2} {
		_, _, err = s.Read(all[i].ref, nil)
		require.ErrorIs(t, err, encbuf.ErrCorrupt)
	}
	var damage []*encbuf.CorruptError
	require.Equal(t, []placed{all[0], all[3]}, walkAll(t, s, &damage))
	require.Len(t, damage, 2)
	require.NoError(t, s.Close())
}

func TestSegments_FileCutUnderAReader_IsDamageAndNotASignal(t *testing.T) {
	m, all, _ := oneSegment(t, slices.Repeat([]int{1000}, 100)...)
	dir := t.TempDir()
	require.NoError(t, m.Export(dir))
	s, err := OpenSegments(fileutil.OS, filepath.Join(dir, segmentDir))
	require.NoError(t, err)
	require.NoError(t, os.Truncate(filepath.Join(dir, segmentDir, "000001"), 4096))
	requirePlaced(t, s, all[:3])
	_, _, err = s.Read(all[90].ref, nil)
	require.ErrorIs(t, err, encbuf.ErrCorrupt)
	require.ErrorContains(t, err, "000001")
	var run Run
	s.ReadRun(&run, all[0].ref, all[90].ref)
	_, _, ok := run.Chunk(all[90].ref)
	require.False(t, ok)
	require.NoError(t, s.Close())
}

func TestOpenSegments_EveryFailureIsReportedAndLeavesNothingOpen(t *testing.T) {
	for _, fault := range faultfs.Standard() {
		for fault.Nth = 1; ; fault.Nth++ {
			m := tsdbtest.NewMemFS()
			all, err := writeSegments(m, SegmentOptions{SegmentBytes: 100}, 80, 80, 80)
			require.NoError(t, err)
			f := faultfs.New(m)
			f.Inject(fault)
			s, err := OpenSegments(f, segmentDir)
			if err == nil {
				_, _, err = s.Read(all[1].ref, nil)
				err = fileutil.JoinErrors(err, s.Close())
			}
			if len(f.Hits()) == 0 {
				require.NoError(t, err)
				break
			}
			require.Error(t, err, "%s\n%s", fault.Name, f.TraceString())
			require.Empty(t, m.OpenHandles())
		}
	}
}

func TestSegments_Read_AllocatesNothing(t *testing.T) {
	m, all, _ := oneSegment(t, 100, 200)
	dir := t.TempDir()
	require.NoError(t, m.Export(dir))
	s, err := OpenSegments(fileutil.OS, filepath.Join(dir, segmentDir))
	require.NoError(t, err)
	dst := make([]byte, 0, 200)
	require.Zero(t, testing.AllocsPerRun(50, func() {
		if _, _, err := s.Read(all[1].ref, dst); err != nil {
			t.Error(err)
		}
	}))
	require.NoError(t, s.Close())
}

func TestSegments_ManyReadAtOnce(t *testing.T) {
	m, all, _ := oneSegment(t, 100, 200, 300)
	s := openTestSegments(t, m)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 300 {
				_, data, err := s.Read(all[i%3].ref, nil)
				if err != nil || !bytes.Equal(data, all[i%3].data) {
					t.Error(fmt.Sprint(i, err))
				}
			}
		})
	}
	wg.Wait()
	require.NoError(t, s.Close())
}

// FuzzSegments reads arbitrary bytes as a segment file, as they are and with a header and the
// checksum of the first record made right.
func FuzzSegments(f *testing.F) {
	m := tsdbtest.NewMemFS()
	_, err := writeSegments(m, SegmentOptions{}, 10, 130, 0)
	require.NoError(f, err)
	seed, err := m.ReadFile(segmentDir + "/000001")
	require.NoError(f, err)
	f.Add(seed, uint32(8))
	f.Add(append(segmentHeader[:], 0xff, 0xff, 0xff, 0xff, 0x0f, 1), uint32(8))
	f.Add(append(segmentHeader[:], 0x80, 0x80, 0x80, 0x80, 0x80, 1), uint32(9))
	f.Fuzz(func(t *testing.T, b []byte, off uint32) {
		readHostile(t, b, off)
		if len(b) < segmentHeaderSize {
			return
		}
		b = bytes.Clone(b)
		copy(b, segmentHeader[:])
		if r, damage := parseSegmentRecord(b[segmentHeaderSize:]); damage == nil {
			rec := b[segmentHeaderSize:]
			binary.BigEndian.PutUint32(rec[r.dataEnd:], encbuf.Checksum(rec[r.encAt:r.dataEnd]))
		}
		readHostile(t, b, off)
	})
}

func readHostile(t *testing.T, b []byte, off uint32) {
	m := tsdbtest.NewMemFS()
	require.NoError(t, m.WriteFile(segmentDir+"/000001", b))
	_, size, err := scanAll(m, 1)
	require.LessOrEqual(t, size, int64(len(b)))
	if err != nil {
		requireDamage(t, err, int64(len(b)))
	}
	s, err := SalvageSegments(m, segmentDir)
	require.NoError(t, err)
	var damage []*encbuf.CorruptError
	for _, p := range walkAll(t, s, &damage) {
		enc, data, err := s.Read(p.ref, nil)
		if err != nil { // a file with a bad header is read by Walk only
			require.NotEmpty(t, s.Damage())
			continue
		}
		require.Equal(t, p.enc, enc)
		require.True(t, bytes.Equal(p.data, data))
	}
	for _, d := range damage {
		require.LessOrEqual(t, d.Offset, int64(len(b)))
	}
	var run Run
	s.ReadRun(&run, NewBlockRef(0, segmentHeaderSize), NewBlockRef(0, off))
	require.LessOrEqual(t, len(run.buf), len(b))
	run.Chunk(NewBlockRef(0, off))
	_, data, err := s.Read(NewBlockRef(0, off), nil)
	require.LessOrEqual(t, len(data), len(b))
	if err != nil {
		require.ErrorIs(t, err, encbuf.ErrCorrupt)
	}
	require.NoError(t, s.Close())
}
