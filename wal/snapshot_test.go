package wal

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pkg/errors"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/faultfs"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/sweep"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

const snapshotDir = "data/snapshot"

var snapshotStart = Start{Segment: 4, NextSeq: 50, NextRef: 9}

// snapshotRecords are n records, some of which compress, and some longer than a page.
func snapshotRecords(n int) (recs [][]byte) {
	for i := range n {
		for _, rec := range testBody(i) {
			if len(rec) > 0 {
				recs = append(recs, rec)
			}
		}
	}
	return recs
}

// writeSnapshotFiles writes a snapshot into files of some bytes.
func writeSnapshotFiles(t testing.TB, fsys fileutil.FS, comp Compression, fileBytes int64, recs [][]byte) SnapshotSum {
	t.Helper()
	require.NoError(t, fsys.MkdirAll(snapshotDir))
	w, err := NewSnapshotWriter(SnapshotOptions{FS: fsys, Dir: snapshotDir, Compression: codecOf(comp), Start: snapshotStart})
	require.NoError(t, err)
	if fileBytes > 0 {
		w.w.segmentSize = fileBytes
	}
	for _, rec := range recs {
		require.NoError(t, w.Append(rec))
	}
	sum, err := w.Finish()
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.EqualValues(t, len(recs), sum.Records)
	return sum
}

// readSnapshot returns the records that ReadSnapshot gives.
func readSnapshot(fsys fileutil.FS, start Start, sum SnapshotSum) (got []string, err error) {
	err = ReadSnapshot(context.Background(), ReplayOptions{FS: fsys, Dir: snapshotDir, Decoders: 2,
		Decode: func(b *Batch) { b.Scratch = len(b.Records) },
		Apply: func(b *Batch) error {
			if b.Scratch != len(b.Records) {
				return errors.New("batch was not decoded")
			}
			for _, r := range b.Records {
				got = append(got, string(r.Data))
			}
			return nil
		}}, start, sum)
	return got, err
}

func requireSnapshotDamage(t testing.TB, fsys fileutil.FS, start Start, sum SnapshotSum, about string) {
	t.Helper()
	_, err := readSnapshot(fsys, start, sum)
	var damage *encbuf.CorruptError
	require.ErrorAs(t, err, &damage, about)
	require.True(t, strings.HasPrefix(damage.File, snapshotDir), "%s: %v", about, damage)
	require.NotEmpty(t, damage.Reason)
}

func TestReadSnapshot_GivesWhatWasAppended(t *testing.T) {
	for _, comp := range []Compression{CompressionNone, CompressionSnappy, CompressionZstd} {
		for _, fileBytes := range []int64{0, 2 * PageSize} {
			for _, n := range []int{0, 1, 100} {
				fsys := tsdbtest.NewMemFS()
				recs := snapshotRecords(n)
				sum := writeSnapshotFiles(t, fsys, comp, fileBytes, recs)
				got, err := readSnapshot(fsys, snapshotStart, sum)
				require.NoError(t, err)
				requireTexts(t, texts(recs), got, fmt.Sprint(comp, fileBytes, n))
				require.Empty(t, fsys.OpenHandles())
				var size int64
				list, err := fsys.ReadDir(snapshotDir)
				require.NoError(t, err)
				for _, e := range list {
					info, err := fsys.Stat(filepath.Join(snapshotDir, e.Name()))
					require.NoError(t, err)
					size += info.Size()
				}
				require.Equal(t, size, sum.Bytes)
				if fileBytes == 0 || comp == CompressionNone {
					require.Equal(t, fileBytes > 0 && n == 100, len(list) > 1, "%d files", len(list))
				}
			}
		}
	}
}

// A record that would pass for one of the log's own is read back as it is, too.
func TestSnapshotWriter_RecordsOfAnyFirstByte(t *testing.T) {
	var recs [][]byte
	for b := range 256 {
		recs = append(recs, []byte{byte(b)}, []byte{byte(b), 1, 2, 3})
	}
	fsys := tsdbtest.NewMemFS()
	sum := writeSnapshotFiles(t, fsys, CompressionNone, 0, recs)
	got, err := readSnapshot(fsys, snapshotStart, sum)
	require.NoError(t, err)
	require.Equal(t, texts(recs), got)

	w, err := NewSnapshotWriter(SnapshotOptions{FS: fsys, Dir: "data", Start: snapshotStart, Compression: &None})
	require.NoError(t, err)
	require.ErrorIs(t, w.Append(make([]byte, MaxRecordSize+1)), ErrRecordTooLarge)
	require.NoError(t, w.Append(nil), "an empty one says nothing")
	sum, err = w.Finish()
	require.NoError(t, err)
	require.Zero(t, sum.Records)
	require.NoError(t, w.Close())
}

// Every bit and every length of every file. Only bits that mean nothing may go unseen, and
// then all records are there.
func TestReadSnapshot_EveryFlippedBitAndCutIsDamage(t *testing.T) {
	fsys := tsdbtest.NewMemFS()
	recs := snapshotRecords(9)[:12]
	sum := writeSnapshotFiles(t, fsys, CompressionSnappy, PageSize, append(recs, lcg(1, PageSize), []byte("\x02last")))
	entries, err := fsys.ReadDir(snapshotDir)
	require.NoError(t, err)
	require.Greater(t, len(entries), 1)
	want, err := readSnapshot(fsys, snapshotStart, sum)
	require.NoError(t, err)
	places := sweep.Of(t, 101, 503)
	unseen := 0
	for _, e := range entries {
		name := filepath.Join(snapshotDir, e.Name())
		data, err := fsys.ReadFile(name)
		require.NoError(t, err)
		for _, bit := range places.Below(8 * len(data)) {
			flipped := bytes.Clone(data)
			flipped[bit/8] ^= 1 << (bit % 8)
			broken := fsys.KillClone()
			putFile(t, broken, name, flipped)
			got, err := readSnapshot(broken, snapshotStart, sum)
			if err == nil { // of a fragment's first byte
				unseen++
				requireTexts(t, want, got, "unseen")
				continue
			}
			requireSnapshotDamage(t, broken, snapshotStart, sum, fmt.Sprintf("bit %d of %s", bit, name))
		}
		for _, n := range places.Below(len(data)) {
			broken := fsys.KillClone()
			putFile(t, broken, name, data[:n])
			requireSnapshotDamage(t, broken, snapshotStart, sum, fmt.Sprintf("%s cut to %d", name, n))
			zeros := append(bytes.Clone(data[:n]), make([]byte, len(data)-n)...)
			putFile(t, broken, name, zeros)
			requireSnapshotDamage(t, broken, snapshotStart, sum, fmt.Sprintf("%s zero from %d", name, n))
		}
		broken := fsys.KillClone()
		require.NoError(t, broken.Remove(name))
		requireSnapshotDamage(t, broken, snapshotStart, sum, name+" gone")
		putFile(t, broken, name, append(bytes.Clone(data), 0))
		requireSnapshotDamage(t, broken, snapshotStart, sum, name+" longer")
	}
	require.LessOrEqual(t, unseen, 4*(len(recs)+10))
}

func TestReadSnapshot_OfAnotherOneIsDamage(t *testing.T) {
	fsys := tsdbtest.NewMemFS()
	sum := writeSnapshotFiles(t, fsys, CompressionNone, 0, snapshotRecords(3))
	name := filepath.Join(snapshotDir, segmentName(0))
	data, err := fsys.ReadFile(name)
	require.NoError(t, err)
	for about, tc := range map[string]struct {
		start func(*Start)
		sum   func(*SnapshotSum)
	}{
		"another segment":  {start: func(s *Start) { s.Segment++ }},
		"another sequence": {start: func(s *Start) { s.NextSeq-- }},
		"a record more":    {sum: func(s *SnapshotSum) { s.Records++ }},
		"other records":    {sum: func(s *SnapshotSum) { s.Checksum ^= 1 }},
		"other length":     {sum: func(s *SnapshotSum) { s.Bytes-- }},
	} {
		start, other := snapshotStart, sum
		if tc.start != nil {
			tc.start(&start)
		}
		if tc.sum != nil {
			tc.sum(&other)
		}
		requireSnapshotDamage(t, fsys, start, other, about)
	}
	items := readItems(t, data)
	whole := func(items ...placed) (seg []byte) {
		for _, it := range items {
			seg = appendRecord(seg, int64(len(seg)), CompressionNone, it.rec)
		}
		return seg
	}
	last := len(items) - 1
	for about, seg := range map[string][]byte{
		"no header":              whole(items[1:]...),
		"no trailer":             whole(items[:last]...),
		"a record is missing":    whole(append(items[:2:2], items[3:]...)...),
		"records changed places": whole(append([]placed{items[0], items[2], items[1]}, items[3:]...)...),
		"a header of the log":    append(ours(4, 50, 0).buf, whole(items[1:]...)...),
		"nothing":                {},
	} {
		broken := fsys.KillClone()
		putFile(t, broken, name, seg)
		other := sum
		other.Bytes = int64(len(seg))
		requireSnapshotDamage(t, broken, snapshotStart, other, about)
	}
	more := fsys.KillClone()
	putFile(t, more, filepath.Join(snapshotDir, segmentName(2)), nil)
	requireSnapshotDamage(t, more, snapshotStart, sum, "a hole between the files")
}

// What is not damage is another error, and leaves nothing open.
func TestReadSnapshot_OtherErrors(t *testing.T) {
	disk := tsdbtest.NewMemFS()
	sum := writeSnapshotFiles(t, disk, CompressionNone, PageSize, snapshotRecords(20))
	stop := errors.New("stop")
	err := ReadSnapshot(context.Background(), ReplayOptions{FS: disk, Dir: snapshotDir, Apply: func(*Batch) error { return stop }}, snapshotStart, sum)
	require.ErrorIs(t, err, stop)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	err = ReadSnapshot(ctx, ReplayOptions{FS: disk, Dir: snapshotDir, Apply: func(*Batch) error { return nil }}, snapshotStart, sum)
	require.ErrorIs(t, err, context.Canceled)
	kinds := []tsdbtest.OpKind{tsdbtest.OpReadDir, tsdbtest.OpStat, tsdbtest.OpOpen, tsdbtest.OpReadAt, tsdbtest.OpSize, tsdbtest.OpClose}
	for nth := int64(1); ; nth++ {
		fsys := faultfs.New(disk)
		fsys.Inject(faultfs.Fault{Kinds: kinds, Nth: nth})
		_, err := readSnapshot(fsys, snapshotStart, sum)
		require.Empty(t, disk.OpenHandles())
		if len(fsys.Hits()) == 0 {
			require.NoError(t, err)
			require.Greater(t, nth, int64(5))
			return
		}
		require.Error(t, err)
		require.NotErrorIs(t, err, encbuf.ErrCorrupt, "%s", fsys.TraceString())
	}
}

// A failed write or sync is an error of Append or Finish, and all is let go of.
func TestSnapshotWriter_Faults(t *testing.T) {
	recs := snapshotRecords(40)
	for _, fault := range faultfs.Standard() {
		for fault.Nth = 1; ; fault.Nth++ {
			disk := tsdbtest.NewMemFS()
			require.NoError(t, disk.MkdirAll(snapshotDir))
			fsys := faultfs.New(disk)
			fsys.Inject(fault)
			_, err := tryWriteSnapshot(fsys, recs)
			require.Empty(t, disk.OpenHandles())
			if len(fsys.Hits()) == 0 {
				require.NoError(t, err)
				break
			}
			require.Error(t, err, "%s", fsys.TraceString())
			if strings.Contains(fault.Name, "ENOSPC") {
				require.ErrorIs(t, err, ErrDiskFull)
			}
			if strings.HasPrefix(fault.Name, "sync") || strings.HasPrefix(fault.Name, "close") {
				require.ErrorIs(t, err, ErrPoisoned)
			}
		}
	}
}

func tryWriteSnapshot(fsys fileutil.FS, recs [][]byte) (sum SnapshotSum, err error) {
	w, err := NewSnapshotWriter(SnapshotOptions{FS: fsys, Dir: snapshotDir, Compression: &None, Start: snapshotStart})
	if err != nil {
		return sum, err
	}
	w.w.segmentSize = 2 * PageSize
	for _, rec := range recs {
		if err := w.Append(rec); err != nil {
			return sum, fileutil.JoinErrors(err, w.Close())
		}
	}
	sum, err = w.Finish()
	return sum, fileutil.JoinErrors(err, w.Close())
}
