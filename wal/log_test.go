package wal

import (
	"io/fs"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/faultfs"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

func TestLog_ReplayGivesBackWhatWasCommitted(t *testing.T) {
	for _, comp := range []Compression{CompressionNone, CompressionSnappy, CompressionZstd} {
		t.Run(comp.String(), func(t *testing.T) {
			fsys := tsdbtest.NewMemFS()
			l := openLog(t, fsys, Options{SegmentSize: 2 * PageSize, Compression: codecOf(comp), NextRef: func() uint64 { return 77 }}, Position{})
			writeCommits(t, l, 1, 200)
			require.EqualValues(t, 200, l.LastSeq())
			require.EqualValues(t, 200, l.Synced())
			require.NoError(t, l.Close())
			require.Empty(t, fsys.OpenHandles())

			for _, decoders := range []int{1, 3} {
				got := replay(t, fsys, decoders)
				requireCommits(t, got, upTo(200)...)
				require.Empty(t, got.single)
				require.Empty(t, got.Damages)
				require.False(t, got.TornTail)
				require.EqualValues(t, 200, got.LastSeq)
				require.Equal(t, 200, got.Commits)
				require.EqualValues(t, 77, got.NextRef)
				require.GreaterOrEqual(t, got.Watermark, uint64(199))
				require.Equal(t, l.Segment()+1, got.Segments)
				require.Zero(t, got.Foreign)
				require.Equal(t, cleanSegments(t, fsys), got.Records)
				require.Equal(t, Position{Segment: l.Segment() + 1, NextSeq: 201, Synced: 200}, repair(t, fsys, got))
			}
			require.Empty(t, fsys.OpenHandles())
		})
	}
}

func TestClose_EndsTheLogWithItsWatermark(t *testing.T) {
	disk := tsdbtest.NewMemFS()
	l := openLog(t, disk, Options{Sync: SyncNever()}, Position{})
	writeCommits(t, l, 1, 3)
	require.NoError(t, l.Close())
	got := replay(t, disk, 1)
	require.EqualValues(t, 3, got.Watermark)
	require.EqualValues(t, 3, got.LastSeq, "the mark takes no number")

	l = openLog(t, disk, Options{}, repair(t, disk, got))
	require.NoError(t, l.Close())
	size, err := disk.ReadFile(segmentPath(1))
	require.NoError(t, err)
	require.Len(t, readItems(t, size), 1, "nothing was committed, so the header has said it all")
}

// The bytes of the mark are not on the disk although they can be read. Nothing may count
// on them.
func TestClose_AMarkThatIsLostIsNotMissed(t *testing.T) {
	disk := tsdbtest.NewMemFS()
	faulty := faultfs.New(disk)
	l := openLog(t, faulty, Options{}, Position{})
	writeCommits(t, l, 1, 3)
	faulty.Inject(faultfs.Fault{Kinds: []tsdbtest.OpKind{tsdbtest.OpSync}})
	require.ErrorIs(t, l.Close(), ErrPoisoned)

	l = openLog(t, disk, Options{}, repair(t, disk, replay(t, disk, 1)))
	writeCommits(t, l, 4, 5)
	lost := disk.CrashClone(tsdbtest.CrashOptions{Choose: tsdbtest.LoseAll})
	got := replay(t, lost, 1)
	requireCommits(t, got, upTo(5)...)
	require.Empty(t, got.Damages)

	garbage := disk.CrashClone(tsdbtest.CrashOptions{Choose: func(tsdbtest.Pending) tsdbtest.Outcome { return tsdbtest.Garbage }})
	got = replay(t, garbage, 1)
	requireCommits(t, got, upTo(5)...)
	require.Len(t, got.Damages, 1)
	require.True(t, got.Damages[0].Harmless)
	require.Zero(t, got.DroppedCommits)
	require.NoError(t, l.Close())
}

func TestClose_AFullDiskCostsTheMarkOnly(t *testing.T) {
	disk := tsdbtest.NewMemFS()
	l := openLog(t, disk, Options{}, Position{})
	writeCommits(t, l, 1, 3)
	disk.SetCapacity(disk.Used() + 5)
	require.NoError(t, l.Close())
	got := replay(t, disk, 1)
	requireCommits(t, got, upTo(3)...)
	require.False(t, got.TornTail)
}

// A full disk may not even let go of a file. The next Open takes it over, unless it has
// more than Open leaves.
func TestOpen_TakesOverWhatItCouldNotRemove(t *testing.T) {
	disk := tsdbtest.NewMemFS()
	faulty := faultfs.New(disk)
	faulty.Inject(faultfs.Fault{Kinds: []tsdbtest.OpKind{tsdbtest.OpWrite, tsdbtest.OpRemove}, Sticky: true, Err: syscall.ENOSPC, Half: true})
	opts := Options{FS: faulty, Dir: testDir}
	for range 2 {
		_, err := Open(opts, Position{Segment: 3, NextSeq: 7})
		require.ErrorIs(t, err, ErrDiskFull)
		require.Empty(t, disk.OpenHandles())
	}
	faulty.Lift()
	l, err := Open(opts, Position{Segment: 3, NextSeq: 7})
	require.NoError(t, err)
	writeCommits(t, l, 7, 9)
	require.NoError(t, l.Close())
	_, err = Open(opts, Position{Segment: 3, NextSeq: 7})
	require.ErrorIs(t, err, fs.ErrExist)
	require.Empty(t, disk.OpenHandles())
	data, err := disk.ReadFile(segmentPath(3))
	require.NoError(t, err)
	require.Len(t, commitSpans(t, data), 3, "nothing was touched")
}
