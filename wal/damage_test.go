package wal

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// smallLog returns one segment with commits 1 to n of a few records each, of which
// those up to synced are known to be on stable storage, and where each one is.
func smallLog(t testing.TB, comp Compression, n, synced int) (seg []byte, spans map[uint64]placed) {
	t.Helper()
	fsys := tsdbtest.NewMemFS()
	l := openLog(t, fsys, Options{Compression: codecOf(comp), Sync: SyncNever()}, Position{})
	for i := 1; i <= n; i++ {
		write(t, l, smallBody(uint64(i))...)
		if i == synced {
			require.NoError(t, l.Sync())
		}
	}
	seg, err := fsys.ReadFile(segmentPath(0))
	require.NoError(t, err)
	return seg, commitSpans(t, seg)
}

// smallBody is a commit of several kinds of records, or every third time of one record, which gets
// a short frame unless the watermark has moved.
func smallBody(seq uint64) [][]byte {
	samples := bytes.Repeat(fmt.Appendf(nil, "\x02%d", seq), 40)
	if seq%3 == 2 {
		return [][]byte{samples}
	}
	return [][]byte{fmt.Appendf(nil, "\x01series %d", seq), samples, noise(uint32(seq), int(20+seq))}
}

// diskWith returns a file system with the given segments.
func diskWith(t testing.TB, segments ...[]byte) *tsdbtest.MemFS {
	t.Helper()
	fsys := tsdbtest.NewMemFS()
	require.NoError(t, fsys.MkdirAll(testDir))
	for i, seg := range segments {
		putFile(t, fsys, segmentPath(i), seg)
	}
	return fsys
}

// requireSmall checks that exactly the small commits given are there.
func requireSmall(t testing.TB, got *replayed, seqs ...uint64) {
	t.Helper()
	require.Equal(t, seqs, got.order)
	for _, seq := range seqs {
		require.Equal(t, texts(smallBody(seq)), got.commits[seq], "commit %d", seq)
	}
	require.Empty(t, got.single)
}

// settle repairs and checks that the repaired log gives the same, with nothing left to
// repair, and takes new commits.
func settle(t testing.TB, fsys *tsdbtest.MemFS, got *replayed) *replayed {
	t.Helper()
	at := repair(t, fsys, got)
	cleanSegments(t, fsys)
	again := replay(t, fsys, 1)
	require.Equal(t, got.order, again.order)
	require.Equal(t, got.commits, again.commits)
	require.Equal(t, got.single, again.single)
	require.False(t, again.TornTail)
	if got.DroppedCommits == 0 {
		require.Equal(t, got.LastSeq, again.LastSeq)
	} else { // nothing may be left that shows the numbers of the lost ones
		require.LessOrEqual(t, again.LastSeq, got.LastSeq)
	}
	for i := range again.segments {
		require.False(t, again.segments[i].dirty, "segment %d", i)
	}
	require.Equal(t, at.Segment, repair(t, fsys, again).Segment)

	l := openLog(t, fsys, Options{Sync: SyncNever()}, at)
	require.Equal(t, at.NextSeq, write(t, l, []byte("\x02new")))
	require.NoError(t, l.Close())
	after := replay(t, fsys, 1)
	require.Equal(t, append(got.order, at.NextSeq), after.order)
	return after
}

func TestReplay_CommitsCutAtEveryByteAreThereWholeOrNotAtAll(t *testing.T) {
	for _, comp := range []Compression{CompressionNone, CompressionSnappy, CompressionZstd} {
		t.Run(comp.String(), func(t *testing.T) {
			seg, spans := smallLog(t, comp, 6, 0)
			for cut := 0; cut <= len(seg); cut++ {
				fsys := diskWith(t, seg[:cut])
				got := replay(t, fsys, 1)
				whole := uint64(0)
				for whole < 6 && spans[whole+1].end <= int64(cut) {
					whole++
				}
				if zeroExtended(seg, spans[whole+1].end, cut) {
					continue // the cut took zeros only, which readers add again
				}
				requireSmall(t, got, upTo(whole)...)
				clean := cut == 0 || int64(cut) == spans[whole].end || int64(cut) == spans[1].off
				require.Equal(t, !clean, got.TornTail, "cut at %d", cut)
				settle(t, fsys, got)
			}
		})
	}
}

func zeroExtended(seg []byte, end int64, cut int) bool {
	return end > int64(cut) && encbuf.AllZero(seg[cut:end])
}

func TestReplay_LongCommitsCutAnywhereAreThereWholeOrNotAtAll(t *testing.T) {
	fsys := tsdbtest.NewMemFS()
	l := openLog(t, fsys, Options{Sync: SyncNever()}, Position{})
	body := [][]byte{noise(1, 3*PageSize), noise(2, 40), noise(3, PageSize-100)}
	write(t, l, []byte("\x02before"))
	write(t, l, body...)
	seg, err := fsys.ReadFile(segmentPath(0))
	require.NoError(t, err)
	span := commitSpans(t, seg)[2]
	for cut := span.off; cut <= span.end; cut++ {
		if inPage := cut % PageSize; cut > span.off+64 && cut < span.end-64 && inPage > 64 && inPage < PageSize-64 && cut%509 != 0 {
			continue
		}
		if zeroExtended(seg, span.end, int(cut)) && cut < span.end {
			continue
		}
		for _, zeros := range []int{0, 500, 2 * PageSize} { // what a file system may leave behind the cut
			disk := diskWith(t, append(bytes.Clone(seg[:cut]), make([]byte, zeros)...))
			got := replay(t, disk, 1)
			want := upTo(1)
			if cut == span.end {
				want = upTo(2)
			}
			require.Equal(t, want, got.order, "cut at %d, %d zeros", cut, zeros)
			if cut%101 == 0 {
				settle(t, disk, got)
			}
		}
	}
}

func TestReplay_NoFlippedBitIsSilentOrCostsMoreThanItsCommit(t *testing.T) {
	const commits = 6
	for _, comp := range []Compression{CompressionNone, CompressionSnappy, CompressionZstd} {
		t.Run(comp.String(), func(t *testing.T) {
			seg, spans := smallLog(t, comp, commits, 0)
			// The next segment says that all of them were on stable storage.
			next := appendRecord(nil, 0, CompressionNone,
				appendHeader(nil, header{segment: 1, nextSeq: commits + 1, nextRef: 9, synced: commits}))
			for bit := range 8 * len(seg) {
				damaged := bytes.Clone(seg)
				damaged[bit/8] ^= 1 << (bit % 8)
				fsys := diskWith(t, damaged, next)
				got := replay(t, fsys, 1)
				if len(got.Damages) == 0 {
					requireSmall(t, got, upTo(commits)...)
					require.True(t, isSpareBit(t, seg, bit), "bit %d changes nothing and shows nowhere", bit)
					continue
				}
				hit := uint64(0)
				for seq, s := range spans {
					if int64(bit/8) >= s.off && int64(bit/8) < s.end {
						hit = seq
					}
				}
				require.Equal(t, upTo(commits, hit), got.order, "bit %d: %v", bit, got.Damages)
				requireSmall(t, got, upTo(commits, hit)...)
				require.False(t, got.TornTail)
				require.EqualValues(t, commits, got.LastSeq)
				if bit%13 == 0 {
					require.Empty(t, settle(t, fsys, got).Damages, "what is lost is not found missing again")
				}
			}
		})
	}
}

func TestReplay_FlippedBitsAroundPageEndsCostAtMostTheirCommit(t *testing.T) {
	const commits = 40
	fsys := tsdbtest.NewMemFS()
	l := openLog(t, fsys, Options{Sync: SyncNever()}, Position{})
	for i := 1; i <= commits; i++ { // several kinds of page ends: padding, empty first, records across one and two
		n := 700 + i
		if i%20 == 0 {
			n = 2*PageSize + 10*i
		}
		write(t, l, noise(uint32(i), n))
	}
	seg, err := fsys.ReadFile(segmentPath(0))
	require.NoError(t, err)
	spans := commitSpans(t, seg)
	next := ours(1, commits+1, commits).buf
	pages := 0
	for page := int64(PageSize); page < int64(len(seg)); page += PageSize {
		pages++
		for at := page - 10; at < page+12 && at < int64(len(seg)); at++ {
			for bit := range 8 {
				damaged := bytes.Clone(seg)
				damaged[at] ^= 1 << bit
				disk := diskWith(t, damaged, next)
				got := replay(t, disk, 1)
				if len(got.Damages) == 0 {
					require.Len(t, got.order, commits)
					require.GreaterOrEqual(t, bit, 3, "bit %d of byte %d shows nowhere", bit, at) // spare, or compression of a fragment that is not the last
					continue
				}
				require.False(t, got.TornTail)
				hit := uint64(0)
				for seq, s := range spans {
					if at >= s.off && at < s.end {
						hit = seq
					}
				}
				if len(got.order) != commits { // padding costs nothing
					require.Equal(t, upTo(commits, hit), got.order, "bit %d of byte %d: %v", bit, at, got.Damages)
				}
				if at%11 == 0 && bit == 0 {
					settle(t, disk, got)
				}
			}
		}
	}
	require.Greater(t, pages, 3)
}

// isSpareBit says that a bit is one of those in a fragment's type byte that mean
// nothing: reserved, or zstd beside snappy, which wins.
func isSpareBit(t testing.TB, seg []byte, bit int) bool {
	t.Helper()
	if bit%8 < 5 && !(1<<(bit%8) == zstdBit && seg[bit/8]&snappyBit != 0) {
		return false
	}
	for _, it := range readItems(t, seg) {
		if it.off == int64(bit/8) {
			return true
		}
	}
	return false
}

func TestReplay_FlippedBitAboveTheWatermarkEndsTheLog(t *testing.T) {
	const commits, synced = 9, 4
	seg, spans := smallLog(t, CompressionSnappy, commits, synced)
	for seq := uint64(1); seq <= commits; seq++ {
		t.Run(fmt.Sprint("commit ", seq), func(t *testing.T) {
			damaged := bytes.Clone(seg)
			damaged[spans[seq].off+fragmentHeaderSize] ^= 1
			fsys := diskWith(t, damaged)
			got := replay(t, fsys, 1)
			require.NotEmpty(t, got.Damages)
			if seq <= synced {
				requireSmall(t, got, upTo(commits, seq)...)
				require.False(t, got.TornTail)
				require.Equal(t, 1, got.DroppedCommits)
				require.Equal(t, seq, got.Damages[0].FirstSeq)
				require.Equal(t, seq, got.Damages[0].LastSeq)
				require.Equal(t, 1, got.Damages[0].Commits)
			} else {
				requireSmall(t, got, upTo(seq-1)...)
				require.True(t, got.TornTail)
				require.True(t, got.Damages[0].Tail)
				require.EqualValues(t, commits-seq+1, got.DroppedCommits)
				require.EqualValues(t, seq-1, got.LastSeq)
			}
			require.Empty(t, settle(t, fsys, got).Damages, "what is lost is not found missing again")
			quarantined, err := fsys.ReadFile(testQuarantine + "/wal-00000000")
			require.NoError(t, err)
			require.Equal(t, damaged, quarantined)
		})
	}
}
