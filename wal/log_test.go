package wal

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/tsdbtest"
)

func TestLog_ReplayGivesBackWhatWasCommitted(t *testing.T) {
	for _, comp := range []Compression{CompressionNone, CompressionSnappy, CompressionZstd} {
		t.Run(comp.String(), func(t *testing.T) {
			fsys := tsdbtest.NewMemFS()
			l := openLog(t, fsys, Options{SegmentSize: 2 * PageSize, Compression: comp, NextRef: func() uint64 { return 77 }}, Position{})
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
