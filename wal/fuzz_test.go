package wal

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// maxFuzzInput in bytes keeps one run short; three pages show every rule of framing.
const maxFuzzInput = 4 * PageSize

// fixChecksums makes the fragments of a mutated segment match their checksums again, so
// that mutations reach what lies behind them. mask chooses which ones stay wrong.
func fixChecksums(seg []byte, mask byte) []byte {
	seg = bytes.Clone(seg)
	for off, n := 0, 0; off+fragmentHeaderSize <= len(seg); n++ {
		left := pageLeft(int64(off))
		h := parseFragmentHeader(seg[off:])
		end := off + fragmentHeaderSize + h.size
		if seg[off] == 0 || left < fragmentHeaderSize || h.size > left-fragmentHeaderSize || end > len(seg) {
			off += left
			continue
		}
		if mask>>(n%8)&1 == 0 {
			binary.BigEndian.PutUint32(seg[off+3:], encbuf.Checksum(seg[off+fragmentHeaderSize:end]))
		}
		off = end
	}
	return seg
}

func seedSegments(f *testing.F) (segs [][]byte) {
	for _, v := range segmentVectors(f) {
		for _, seg := range v.Segments {
			segs = append(segs, vectorFile(f, seg.Data, seg.Size))
		}
	}
	_, _, damaged := corruptionVectors(f)
	segs = append(segs, damaged...)
	for _, comp := range []Compression{CompressionNone, CompressionSnappy, CompressionZstd} {
		seg, _ := smallLog(f, comp, 5, 2)
		segs = append(segs, seg)
	}
	return append(segs, ours(0, 1, 0).commits(1, 3, 1).commit(4, 1, true).commits(5, 6, 4).buf)
}

// FuzzReader: any bytes as a segment. No panic, no endless loop, memory in proportion,
// damage with a place inside the file; and what is read reads the same when it is
// written again.
func FuzzReader(f *testing.F) {
	for i, seg := range seedSegments(f) {
		f.Add(seg[:min(len(seg), maxFuzzInput)], byte(i))
	}
	f.Fuzz(func(t *testing.T, seg []byte, mask byte) {
		if len(seg) > maxFuzzInput {
			return
		}
		seg = fixChecksums(seg, mask)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r := NewReader(bytes.NewReader(seg), int64(len(seg)), "fuzz", 0)
		var stored [][]byte
		var kinds []Compression
		end := int64(0)
		for {
			for r.Next() {
				require.GreaterOrEqual(t, r.Offset(), end)
				require.Greater(t, r.End(), r.Offset())
				end = r.End()
				stored, kinds = append(stored, bytes.Clone(r.stored)), append(kinds, r.Compression())
			}
			var corrupt *encbuf.CorruptError
			if !errors.As(r.Err(), &corrupt) {
				require.NoError(t, r.Err())
				break
			}
			require.GreaterOrEqual(t, corrupt.Offset, int64(0))
			require.LessOrEqual(t, corrupt.Offset, int64(len(seg)))
			require.Greater(t, r.End(), r.Offset())
			require.True(t, r.Skip())
		}
		require.NoError(t, r.Close())
		runtime.ReadMemStats(&after)
		require.LessOrEqual(t, after.TotalAlloc-before.TotalAlloc, uint64(64*len(seg)+2*zstdSlack+(8<<20)))

		var again []byte
		for i := range stored {
			again = appendRecord(again, int64(len(again)), kinds[i], stored[i])
		}
		var s scanner
		s.reset(bytes.NewReader(again), int64(len(again)))
		for i := range stored {
			got, it := s.next(nil)
			require.Equal(t, itemRecord, it.kind)
			require.True(t, bytes.Equal(stored[i], got))
			require.Equal(t, kinds[i], it.comp)
		}
		_, it := s.next(nil)
		require.Equal(t, itemEnd, it.kind)
	})
}

// FuzzReplayDir: any three segments. Replay never fails for what it reads except for
// a newer version; Repair leaves a directory without damage that gives the same; and
// new commits come after the old ones.
func FuzzReplayDir(f *testing.F) {
	segs := seedSegments(f)
	for i := range segs {
		f.Add(segs[i], segs[(i+1)%len(segs)], ours(2, 4, 2).commits(4, 6, 3).buf, byte(i))
	}
	f.Fuzz(func(t *testing.T, a, b, c []byte, mask byte) {
		if len(a)+len(b)+len(c) > maxFuzzInput {
			return
		}
		fsys := diskWith(t, fixChecksums(a, mask), fixChecksums(b, mask>>1), fixChecksums(c, mask>>2))
		if _, err := Replay(context.Background(), ReplayOptions{FS: fsys, Dir: testDir}); err != nil {
			require.ErrorIs(t, err, ErrVersion)
			return
		}
		got := replay(t, fsys, 2)
		require.Equal(t, got.Records, len(got.single)+recordsOf(got))
		if got.LastSeq > maxSeq/2 {
			return
		}
		settle(t, fsys, got)
		require.Empty(t, fsys.OpenHandles())
		checkDisk(t, fsys)
	})
}

func recordsOf(r *replayed) (n int) {
	for _, recs := range r.commits {
		n += len(recs)
	}
	return n
}

// checkDisk checks that a repair left no debris.
func checkDisk(t testing.TB, fsys *tsdbtest.MemFS) {
	t.Helper()
	for _, name := range fsys.Files() {
		require.NotContains(t, name, tmpPrefix)
	}
}

// FuzzReadReach: notes of any content give one that was noted, or none.
func FuzzReadReach(f *testing.F) {
	f.Add(appendReach(appendReach(nil, Reach{Segment: 1, FirstSeq: 2, Synced: 3, Mark: -4}), Reach{Segment: 5}))
	f.Fuzz(func(t *testing.T, data []byte) {
		fsys := tsdbtest.NewMemFS()
		putFile(t, fsys, testReach, data)
		r, found, err := ReadReach(fsys, testReach)
		require.NoError(t, err)
		if found {
			require.True(t, bytes.Contains(data, appendReach(nil, r)))
		}
	})
}
