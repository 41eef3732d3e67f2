package wal

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/faultfs"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

func TestStartWriteback_CoversASegmentFromItsStartInOrder(t *testing.T) {
	for _, tc := range []struct {
		policy SyncPolicy
		begins bool
	}{
		{SyncRotate(), true}, {SyncInterval(time.Hour), true}, {SyncNever(), false}, {SyncCommit(), false},
	} {
		t.Run(tc.policy.String(), func(t *testing.T) {
			fsys := &faultfs.Advised{FS: tsdbtest.NewMemFS()}
			l := openLog(t, fsys, Options{SegmentSize: 4 * writebackBytes, Sync: tc.policy}, Position{})
			for range 20 {
				write(t, l, noise(1, 1<<20))
			}
			require.NoError(t, l.Close())
			require.Len(t, fsys.Files, 2)
			for _, f := range fsys.Files {
				require.Equal(t, tc.begins, len(f.Begun) > 0)
				end := f.BegunTo(writebackBytes)
				require.GreaterOrEqual(t, end, int64(0))
				require.LessOrEqual(t, end, int64(4*writebackBytes), "of the segment")
			}
		})
	}
}

// A log that is still dirty goes to the disk while it is read, and Repair's syncs find little left.
func TestReplay_BeginsToWriteWhatItReads(t *testing.T) {
	disk := tsdbtest.NewMemFS()
	l := openLog(t, disk, Options{SegmentSize: 4 * writebackBytes, Sync: SyncNever()}, Position{})
	for range 20 {
		write(t, l, noise(1, 1<<20))
	}
	require.NoError(t, l.Close())
	fsys := &faultfs.Advised{FS: disk}
	replay(t, fsys, 2)
	var begun []int64
	for _, f := range fsys.Files {
		if len(f.Begun) > 0 {
			begun = append(begun, f.BegunTo(writebackBytes))
		}
	}
	require.Len(t, begun, 2, "each segment, once")
	require.Greater(t, begun[0], int64(2*writebackBytes))
}

func TestCheckpointWriter_EachFileIsWrittenBehind(t *testing.T) {
	fsys := &faultfs.Advised{FS: tsdbtest.NewMemFS()}
	require.NoError(t, fsys.MkdirAll("d"))
	w, err := newCheckpointWriter(Options{FS: fsys, SegmentSize: 4 << 20}, "d", nil)
	require.NoError(t, err)
	for range 6 { // three to a file
		require.NoError(t, w.append(noise(1, 1<<20)))
	}
	require.NoError(t, w.endFile())
	require.Len(t, fsys.Files, 2)
	for _, f := range fsys.Files {
		require.Greater(t, f.BegunTo(fileutil.BehindBytes), int64(2<<20))
	}
}

// BenchmarkRotate writes segments of 128 MiB and reports how long the longest commit took:
// the one that waits for the sync of a full segment.
func BenchmarkRotate(b *testing.B) {
	l := benchLog(b, SyncRotate(), CompressionNone)
	var c Commit
	longest := time.Duration(0)
	for i := 0; l.Segment() < b.N; i++ {
		start := time.Now()
		benchCommit(b, l, &c, 1000, int64(i))
		longest = max(longest, time.Since(start))
	}
	b.ReportMetric(float64(longest.Microseconds())/1000, "ms-longest")
}
