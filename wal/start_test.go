package wal

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/pkg/errors"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/faultfs"
	"github.com/seed347100a3/tsdb/internal/sweep"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// begin begins a snapshot, which must work, and checks that the log can be read from there.
func begin(t testing.TB, fsys *tsdbtest.MemFS, l *Log) Start {
	t.Helper()
	s, err := l.BeginSnapshot()
	require.NoError(t, err)
	require.Empty(t, staleReason(t, fsys, s))
	return s
}

func staleReason(t testing.TB, fsys *tsdbtest.MemFS, s Start) string {
	t.Helper()
	reason, err := StaleReason(context.Background(), fsys, testDir, s)
	require.NoError(t, err)
	return reason
}

// frameCRC is the checksum of the last frame of a segment, found by reading all of it; 0 if
// there is none.
func frameCRC(t testing.TB, fsys *tsdbtest.MemFS, segment int) (crc uint32) {
	t.Helper()
	data, err := fsys.ReadFile(segmentPath(segment))
	require.NoError(t, err)
	for _, it := range readItems(t, data) {
		if len(it.rec) > 0 && isFrame(it.rec) {
			f, ok := parseFrame(it.rec)
			require.True(t, ok)
			crc = f.crc
		}
	}
	return crc
}

func TestBeginSnapshot_SaysWhereTheLogGoesOn(t *testing.T) {
	for _, policy := range []SyncPolicy{SyncCommit(), SyncInterval(1), SyncRotate(), SyncNever()} {
		t.Run(policy.String(), func(t *testing.T) {
			fsys := tsdbtest.NewMemFS()
			ref := uint64(5)
			l := openLog(t, fsys, Options{Sync: policy, NextRef: func() uint64 { return ref }}, Position{})
			require.Equal(t, Start{Segment: 1, NextSeq: 1, NextRef: 5}, begin(t, fsys, l), "nothing was committed")
			writeCommits(t, l, 1, 10)
			ref = 9
			s := begin(t, fsys, l)
			require.Equal(t, Start{Segment: 2, NextSeq: 11, NextRef: 9, LastFrame: frameCRC(t, fsys, 1)}, s)
			require.NotZero(t, s.LastFrame)
			require.Equal(t, Start{Segment: 3, NextSeq: 11, NextRef: 9}, begin(t, fsys, l), "the segment before has no commit")
			require.Empty(t, staleReason(t, fsys, s))
			writeCommits(t, l, 11, 20)
			require.Empty(t, staleReason(t, fsys, s))
			require.NoError(t, l.Close())
			require.Empty(t, staleReason(t, fsys, s), "the end of the log is marked")
			_, err := l.BeginSnapshot()
			require.ErrorIs(t, err, ErrClosed)
		})
	}
}

// It fails as Rotate does, and leaves a log that goes on, or one that is poisoned.
func TestBeginSnapshot_Faults(t *testing.T) {
	for _, fault := range faultfs.Standard() {
		for fault.Nth = 1; ; fault.Nth++ {
			disk := tsdbtest.NewMemFS()
			fsys := faultfs.New(disk)
			l := openLog(t, fsys, Options{Sync: SyncInterval(1)}, Position{})
			writeCommits(t, l, 1, 5)
			fsys.Inject(fault)
			s, err := l.BeginSnapshot()
			hit := len(fsys.Hits()) > 0
			fsys.Lift()
			if err == nil {
				require.Equal(t, Start{Segment: 1, NextSeq: 6, NextRef: 1, LastFrame: frameCRC(t, disk, 0)}, s)
			}
			if !errors.Is(l.Err(), ErrPoisoned) {
				s = begin(t, disk, l)
				require.EqualValues(t, 6, s.NextSeq)
				writeCommits(t, l, 6, 7)
			} else {
				require.ErrorIs(t, err, ErrPoisoned)
			}
			_ = l.Close() // says again that it is poisoned, if it is
			requireCommits(t, replay(t, disk, 1), upTo(replay(t, disk, 1).LastSeq)...)
			require.GreaterOrEqual(t, replay(t, disk, 1).LastSeq, uint64(5))
			if !hit {
				require.NoError(t, err)
				break
			}
		}
	}
}

// The last frame is found wherever it stands: on any place of a page, in two pages, behind
// a commit of any size.
func TestBeginSnapshot_FindsTheLastFrameAnywhere(t *testing.T) {
	sizes := []int{3 * PageSize, 5*PageSize - 11, 300 << 10, 5 << 20}
	straddling := 0
	for n := PageSize - 260; n < PageSize-100; n++ {
		sizes = append(sizes, n, n+3*PageSize)
	}
	for _, n := range sizes {
		fsys := tsdbtest.NewMemFS()
		l := openLog(t, fsys, Options{Compression: &None, Sync: SyncInterval(1), SegmentSize: 8 * PageSize}, Position{})
		write(t, l, noise(1, 100))
		write(t, l, noise(uint32(n), n))
		s, err := l.BeginSnapshot()
		require.NoError(t, err)
		before := s.Segment - 1
		require.Equal(t, frameCRC(t, fsys, before), s.LastFrame, "commit of %d bytes", n)
		require.NotZero(t, s.LastFrame)
		require.Empty(t, staleReason(t, fsys, s))
		data, err := fsys.ReadFile(segmentPath(before))
		require.NoError(t, err)
		items := readItems(t, data)
		if last := items[len(items)-1]; last.off/PageSize != (last.end-1)/PageSize {
			straddling++
		}
		require.NoError(t, l.Close())
	}
	require.Greater(t, straddling, 6, "frames in two pages")
}

// Many commits, each with a frame: the last one of them is meant.
func TestBeginSnapshot_TellsLogsApartThatDifferInTheLastCommit(t *testing.T) {
	frames := map[uint32]bool{}
	var starts []Start
	var disks []*tsdbtest.MemFS
	for i := range 3 {
		fsys := tsdbtest.NewMemFS()
		l := openLog(t, fsys, Options{Sync: SyncInterval(1)}, Position{})
		writeCommits(t, l, 1, 200)
		write(t, l, fmt.Appendf(nil, "\x02number %d", i))
		s := begin(t, fsys, l)
		frames[s.LastFrame] = true
		starts, disks = append(starts, s), append(disks, fsys)
		require.NoError(t, l.Close())
	}
	require.Len(t, frames, 3)
	for i, s := range starts {
		for k, disk := range disks {
			want := "the log before it ends with another commit"
			if i == k {
				want = ""
			}
			require.Equal(t, want, staleReason(t, disk, s))
		}
	}
}

func TestStaleReason_EachOne(t *testing.T) {
	const (
		gone    = "its log segment is gone"
		another = "its log segment begins with another commit"
		foreign = "somebody else has written to the log"
		other   = "the log before it ends with another commit"
	)
	for name, tc := range map[string]struct {
		change func(t *testing.T, fsys *tsdbtest.MemFS)
		want   string
	}{
		"nothing happened": {func(*testing.T, *tsdbtest.MemFS) {}, ""},
		"its segment, and those behind, are gone": {func(t *testing.T, fsys *tsdbtest.MemFS) {
			require.NoError(t, fsys.Remove(segmentPath(2)))
			require.NoError(t, fsys.Remove(segmentPath(1)))
		}, gone},
		"a checkpoint has taken its place": {func(t *testing.T, fsys *tsdbtest.MemFS) {
			putFile(t, fsys, filepath.Join(testDir, "checkpoint.00000001", "00000000"), checkpointFile(1, nil, "\x01c"))
		}, gone},
		"a checkpoint has taken what is before it": {func(t *testing.T, fsys *tsdbtest.MemFS) {
			putFile(t, fsys, filepath.Join(testDir, "checkpoint.00000000", "00000000"), checkpointFile(0, nil, "\x01c"))
			require.NoError(t, fsys.Remove(segmentPath(0)))
		}, ""},
		"another sequence number": {func(t *testing.T, fsys *tsdbtest.MemFS) {
			putFile(t, fsys, segmentPath(1), ours(1, 7, 5).commits(7, 8, 5).buf)
		}, another},
		"the header is of another segment": {func(t *testing.T, fsys *tsdbtest.MemFS) {
			putFile(t, fsys, segmentPath(1), ours(3, 6, 5).commits(6, 8, 5).buf)
		}, another},
		"its segment is empty": {func(t *testing.T, fsys *tsdbtest.MemFS) { putFile(t, fsys, segmentPath(1), nil) }, another},
		"its segment is all zeros": {func(t *testing.T, fsys *tsdbtest.MemFS) {
			putFile(t, fsys, segmentPath(1), make([]byte, PageSize))
		}, another},
		"the header is damaged": {func(t *testing.T, fsys *tsdbtest.MemFS) {
			data, err := fsys.ReadFile(segmentPath(1))
			require.NoError(t, err)
			data = bytes.Clone(data)
			data[fragmentHeaderSize+3] ^= 1
			putFile(t, fsys, segmentPath(1), data)
		}, another},
		"its segment is of somebody else": {func(t *testing.T, fsys *tsdbtest.MemFS) {
			putFile(t, fsys, segmentPath(1), foreignSegment(CompressionSnappy, recs("\x02f")...))
		}, another},
		"somebody else wrote behind it": {func(t *testing.T, fsys *tsdbtest.MemFS) {
			putFile(t, fsys, segmentPath(3), foreignSegment(CompressionSnappy, recs("\x02f")...))
		}, foreign},
		"somebody else wrote behind it, and we behind that": {func(t *testing.T, fsys *tsdbtest.MemFS) {
			putFile(t, fsys, segmentPath(3), foreignSegment(CompressionNone, recs("\x02f")...))
			putFile(t, fsys, segmentPath(4), ours(4, 9, 8).commits(9, 9, 8).buf)
		}, foreign},
		"somebody else opened it and wrote nothing": {func(t *testing.T, fsys *tsdbtest.MemFS) {
			putFile(t, fsys, segmentPath(3), nil)
			putFile(t, fsys, segmentPath(4), make([]byte, PageSize))
		}, ""},
		"what is before it has another end": {func(t *testing.T, fsys *tsdbtest.MemFS) {
			putFile(t, fsys, segmentPath(0), ours(0, 1, 0).commits(1, 4, 0).commit(5, 0, true).buf)
		}, other},
		"what is before it is of somebody else": {func(t *testing.T, fsys *tsdbtest.MemFS) {
			putFile(t, fsys, segmentPath(0), foreignSegment(CompressionSnappy, recs("\x02f")...))
		}, other},
		"what is before it is empty": {func(t *testing.T, fsys *tsdbtest.MemFS) { putFile(t, fsys, segmentPath(0), nil) }, other},
		"the log behind it is torn": {func(t *testing.T, fsys *tsdbtest.MemFS) {
			putFile(t, fsys, segmentPath(2), ours(2, 8, 5).commits(8, 8, 5).raw([]byte("\x02half")).buf)
		}, ""},
		"the segment behind it lost its header": {func(t *testing.T, fsys *tsdbtest.MemFS) {
			putFile(t, fsys, segmentPath(2), new(segmentBuilder).commits(8, 8, 5).buf)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			fsys := diskWith(t, ours(0, 1, 0).commits(1, 5, 0).buf, ours(1, 6, 5).commits(6, 7, 5).buf, ours(2, 8, 5).buf)
			s := Start{Segment: 1, NextSeq: 6, NextRef: 1, LastFrame: frameCRC(t, fsys, 0)}
			require.Empty(t, staleReason(t, fsys, s))
			tc.change(t, fsys)
			require.Equal(t, tc.want, staleReason(t, fsys, s))
			require.Empty(t, fsys.OpenHandles())
		})
	}
}

// What cannot be read now may be there: that is an error, and no reason.
func TestStaleReason_Faults(t *testing.T) {
	kinds := []tsdbtest.OpKind{tsdbtest.OpReadDir, tsdbtest.OpOpen, tsdbtest.OpReadAt, tsdbtest.OpSize, tsdbtest.OpClose}
	for nth := int64(1); ; nth++ {
		disk := diskWith(t, ours(0, 1, 0).commits(1, 5, 0).buf, ours(1, 6, 5).commits(6, 7, 5).buf, ours(2, 8, 5).buf)
		s := Start{Segment: 1, NextSeq: 6, NextRef: 1, LastFrame: frameCRC(t, disk, 0)}
		fsys := faultfs.New(disk)
		fsys.Inject(faultfs.Fault{Kinds: kinds, Nth: nth})
		reason, err := StaleReason(context.Background(), fsys, testDir, s)
		require.Empty(t, reason)
		require.Empty(t, disk.OpenHandles())
		if len(fsys.Hits()) == 0 {
			require.NoError(t, err)
			require.Greater(t, nth, int64(10))
			return
		}
		require.ErrorIs(t, err, syscall.EIO, "%s", fsys.TraceString())
	}
}

// requireSameFrom checks that a log read from a place on gives what a full replay gives behind
// that place, that both repairs leave the same files there, and that both logs go on alike.
func requireSameFrom(t testing.TB, disk *tsdbtest.MemFS, s Start, about string) (got *replayed) {
	t.Helper()
	disks := [2]*tsdbtest.MemFS{disk.KillClone(), disk.KillClone()}
	full, got := replay(t, disks[0], 2), replayFrom(t, disks[1], 2, &s)
	for seq, texts := range full.commits {
		if seq < s.NextSeq {
			delete(full.commits, seq)
		} else {
			require.Equal(t, texts, got.commits[seq], "%s: commit %d", about, seq)
		}
	}
	require.Len(t, got.commits, len(full.commits), about)
	require.Empty(t, got.single)
	require.Equal(t, full.LastSeq, got.LastSeq, about)
	require.Equal(t, full.NextRef, got.NextRef, about)
	require.Equal(t, full.TornTail, got.TornTail, about)
	require.Equal(t, full.DroppedCommits, got.DroppedCommits, about)
	require.Equal(t, full.DroppedBytes, got.DroppedBytes, about)
	require.Equal(t, full.Damages, got.Damages, about)
	require.GreaterOrEqual(t, got.Watermark, s.NextSeq-1)
	at := [2]Position{repair(t, disks[0], full), repair(t, disks[1], got)}
	require.Equal(t, at[0], at[1], about)
	files := disks[0].Files()
	require.Equal(t, files, disks[1].Files(), about)
	for _, name := range files {
		want, err := disks[0].ReadFile(name)
		if err != nil {
			continue // a directory
		}
		have, err := disks[1].ReadFile(name)
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, have), "%s: %s differs", about, name)
	}
	for i, disk := range disks {
		l := openLog(t, disk, Options{Sync: SyncNever()}, at[i])
		require.Equal(t, at[i].NextSeq, write(t, l, []byte("\x02new")))
		require.NoError(t, l.Close())
		require.Empty(t, staleReason(t, disk, s))
		again, before := replayFrom(t, disk, 1, &s), got
		require.Equal(t, append(before.order[:len(before.order):len(before.order)], at[i].NextSeq), again.order, about)
		require.False(t, again.TornTail)
	}
	return got
}

// startLog is a log of some segments with a place to start from, behind its tenth commit. rotate:
// half of what is behind is in a segment of its own.
func startLog(t testing.TB, comp Compression, policy SyncPolicy, behind int, rotate bool) (*tsdbtest.MemFS, Start) {
	t.Helper()
	fsys := tsdbtest.NewMemFS()
	l := openLog(t, fsys, Options{Compression: codecOf(comp), Sync: policy, SegmentSize: 4 * PageSize, NextRef: func() uint64 { return 77 }}, Position{})
	writeCommits(t, l, 1, 10)
	s := begin(t, fsys, l)
	require.NoError(t, l.SyncTo(l.LastSeq()))
	writeCommits(t, l, 11, 10+behind/2)
	if rotate {
		_, err := l.Rotate()
		require.NoError(t, err)
	}
	writeCommits(t, l, 11+behind/2, 10+behind)
	return fsys.KillClone(), s
}

func TestReplay_FromAPlace_GivesWhatIsBehindIt(t *testing.T) {
	for _, comp := range []Compression{CompressionNone, CompressionSnappy, CompressionZstd} {
		for _, policy := range []SyncPolicy{SyncCommit(), SyncInterval(1), SyncRotate(), SyncNever()} {
			for _, behind := range []int{0, 1, 2, 40} {
				disk, s := startLog(t, comp, policy, behind, behind > 1)
				got := requireSameFrom(t, disk, s, fmt.Sprint(comp, policy, behind))
				require.Len(t, got.order, behind)
				require.EqualValues(t, 10+behind, got.LastSeq)
				require.EqualValues(t, 77, got.NextRef)
			}
		}
	}
}

// The end of the log is cut anywhere behind the place.
func TestReplay_FromAPlace_TornTailAnywhere(t *testing.T) {
	disk, s := startLog(t, CompressionSnappy, SyncInterval(1), 6, false)
	last := segmentPath(s.Segment)
	data, err := disk.ReadFile(last)
	require.NoError(t, err)
	torn := 0
	head := readItems(t, data)[0].end
	for _, n := range sweep.Of(t, 3, 37).Below(len(data)) {
		if n < int(head) {
			continue
		}
		clone := disk.KillClone()
		putFile(t, clone, last, data[:n])
		got := requireSameFrom(t, clone, s, fmt.Sprintf("cut to %d", n))
		if got.TornTail {
			torn++
		}
		clone = disk.KillClone()
		zeros := append(bytes.Clone(data[:n]), make([]byte, len(data)-n)...)
		putFile(t, clone, last, zeros)
		requireSameFrom(t, clone, s, fmt.Sprintf("zeros from %d", n))
	}
	require.Positive(t, torn)
}

// A flipped byte anywhere behind the place, above and below what is known to be on stable storage.
func TestReplay_FromAPlace_DamageAnywhere(t *testing.T) {
	lost, ended := 0, 0
	for _, policy := range []SyncPolicy{SyncInterval(1), SyncCommit()} {
		disk, s := startLog(t, CompressionSnappy, policy, 22, true)
		list, err := List(disk, testDir)
		require.NoError(t, err)
		places, seen := sweep.Of(t, 29, 83), 0
		for _, seg := range list.Segments {
			if seg.Number < s.Segment {
				continue
			}
			seen++
			data, err := disk.ReadFile(seg.Path)
			require.NoError(t, err)
			for _, i := range places.Below(len(data)) {
				clone := disk.KillClone()
				flipped := bytes.Clone(data)
				flipped[i] ^= 0x40
				putFile(t, clone, seg.Path, flipped)
				if staleReason(t, clone, s) != "" {
					require.Equal(t, s.Segment, seg.Number, "the header")
					require.Less(t, i, 64)
					continue
				}
				got := requireSameFrom(t, clone, s, fmt.Sprintf("%s: byte %d of %s", policy, i, seg.Path))
				lost += got.DroppedCommits
				if got.TornTail {
					ended++
				}
			}
		}
		require.Equal(t, 2, seen)
	}
	require.Positive(t, lost)
	require.Positive(t, ended)
}
