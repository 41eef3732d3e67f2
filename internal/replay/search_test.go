package replay_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/internal/record"
	"github.com/seed347100a3/tsdb/internal/replay"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
	"github.com/seed347100a3/tsdb/wal"
)

// What a replay leaves out of a log is not in a chunk that is made anew either.
func TestSearch_LeavesOutHistogramsThatMakeNoSense(t *testing.T) {
	custom := func(bounds ...float64) *histogram.Histogram {
		return &histogram.Histogram{
			Schema: histogram.CustomBuckets, Count: 1, PositiveSpans: []histogram.Span{{Length: 1}},
			PositiveBuckets: []int64{1}, CustomValues: bounds,
		}
	}
	fs := tsdbtest.NewMemFS()
	require.NoError(t, fs.MkdirAll("data"))
	log, err := wal.Open(wal.Options{FS: fs, Dir: walDir, NextRef: func() uint64 { return 2 }}, wal.Position{NextSeq: 1})
	require.NoError(t, err)
	var c wal.Commit
	c.End(record.AppendSeries(record.BeginSeries(c.Begin()), 1, labels.FromStrings("n", "1")))
	var enc record.HistogramEncoder
	rec := enc.Begin(c.Begin(), record.HistogramType(false, true, false))
	for i, h := range []*histogram.Histogram{custom(1, 2), custom(2, 1), custom(1, 2)} {
		rec = enc.Append(rec, 1, int64(i), 0, record.AppendHistogram(nil, h))
	}
	c.End(rec)
	require.NoError(t, log.Enqueue(&c))
	require.NoError(t, log.Write(&c))
	require.NoError(t, log.Close())

	to, _ := run(t, fs, 0)
	var lost memseries.Located
	for s := range to.Series.All() {
		lost = memseries.Located{Series: s, Mapped: memseries.Mapped{MinT: 0, MaxT: 2, Num: 2}}
	}
	made, whole, err := replay.Search(context.Background(), fs, walDir, to.Series, []memseries.Located{lost})
	require.NoError(t, err)
	require.True(t, whole)
	require.Len(t, made, 1)
	require.Equal(t, 2, made[0].Samples)
	chunk, err := chunkenc.FromData(made[0].Enc, made[0].Data)
	require.NoError(t, err)
	it := chunk.Iterator(nil)
	for _, at := range []int64{0, 2} {
		require.Equal(t, chunkenc.ValHistogram, it.Next())
		require.Equal(t, at, it.AtT())
	}
	require.Equal(t, chunkenc.ValNone, it.Next())
	require.NoError(t, it.Err())
}
