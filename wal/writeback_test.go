package wal

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// advisedFS notes what files are asked to begin writing.
type advisedFS struct {
	fileutil.FS
	files []*advisedFile
}

type advisedFile struct {
	fileutil.File
	begun [][2]int64 // off, n
}

func (a *advisedFS) Create(name string) (fileutil.File, error) {
	f, err := a.FS.Create(name)
	if err != nil {
		return nil, err
	}
	a.files = append(a.files, &advisedFile{File: f})
	return a.files[len(a.files)-1], nil
}

func (f *advisedFile) StartWriteback(off, n int64) { f.begun = append(f.begun, [2]int64{off, n}) }

func TestStartWriteback_CoversASegmentFromItsStartInOrder(t *testing.T) {
	for _, tc := range []struct {
		policy SyncPolicy
		begins bool
	}{
		{SyncRotate(), true}, {SyncInterval(time.Hour), true}, {SyncNever(), false}, {SyncCommit(), false},
	} {
		t.Run(tc.policy.String(), func(t *testing.T) {
			fsys := &advisedFS{FS: tsdbtest.NewMemFS()}
			l := openLog(t, fsys, Options{SegmentSize: 4 * writebackBytes, Sync: tc.policy}, Position{})
			for range 20 {
				write(t, l, noise(1, 1<<20))
			}
			require.NoError(t, l.Close())
			require.Len(t, fsys.files, 2)
			for _, f := range fsys.files {
				require.Equal(t, tc.begins, len(f.begun) > 0)
				next := int64(0)
				for _, r := range f.begun {
					require.Equal(t, next, r[0])
					require.GreaterOrEqual(t, r[1], int64(writebackBytes))
					next += r[1]
					require.Zero(t, next%4096, "whole pages")
				}
				require.LessOrEqual(t, next, int64(4*writebackBytes), "of the segment")
			}
		})
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
