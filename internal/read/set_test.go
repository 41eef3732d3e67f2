package read_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/read"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/wal"
)

// What is at its end stays there when its Querier is closed; what is not gives ErrClosed.
func TestSets_AtTheirEnd_StayThereWhenTheQuerierIsClosed(t *testing.T) {
	q := read.Over(0, 100, one(10, 13))
	set, chunkSet := selected(q, everything()), selectedChunks(q, everything())
	require.True(t, set.Next())
	require.True(t, chunkSet.Next())
	ended, fresh := set.At().Iterator(nil), set.At().Iterator(nil)
	chunks := chunkSet.At().Chunks(nil)
	require.Equal(t, chunkenc.ValNone, ended.Seek(50))
	require.True(t, chunks.Next())
	require.False(t, chunks.Next())
	require.False(t, set.Next())
	require.False(t, chunkSet.Next())
	require.True(t, q.Close())
	require.False(t, q.Close())
	for range 2 {
		require.Equal(t, chunkenc.ValNone, ended.Next())
		require.NoError(t, ended.Err())
		require.False(t, chunks.Next())
		require.NoError(t, chunks.Err())
		require.False(t, set.Next())
		require.NoError(t, set.Err())
		require.False(t, chunkSet.Next())
		require.NoError(t, chunkSet.Err())
		require.Equal(t, chunkenc.ValNone, fresh.NextBatch(chunkenc.NewBatch(3)))
		require.ErrorIs(t, fresh.Err(), wal.ErrClosed)
		require.Equal(t, chunkenc.ValNone, fresh.Seek(math.MinInt64))
		require.ErrorIs(t, fresh.Err(), wal.ErrClosed)
	}
}

// A set that was cut at its limit says so once, however often Next is called.
func TestSets_AtTheirLimit_WarnOnce(t *testing.T) {
	many := read.FakeSource{}
	for _, v := range []string{"1", "2", "3"} {
		many = append(many, read.FakeSeries{Labels: labels.FromStrings("a", v), T: []int64{10}, V: []float64{1}})
	}
	q := read.Over(0, 100, many)
	two := everything()
	two.Limit = 2
	set, chunkSet := selected(q, two), selectedChunks(q, two)
	for range 2 {
		require.True(t, set.Next())
		require.True(t, chunkSet.Next())
	}
	for range 3 {
		require.False(t, set.Next())
		require.False(t, chunkSet.Next())
		require.Equal(t, []error{read.ErrTruncated}, set.Warnings())
		require.Equal(t, []error{read.ErrTruncated}, chunkSet.Warnings())
	}
}

// A set that goes past a great many series without samples looks at its context.
func TestSelect_PastSeriesWithoutSamples_EndsWithItsContext(t *testing.T) {
	var many read.FakeSource
	for i := range 100 {
		many = append(many, read.FakeSeries{Labels: labels.FromStrings("a", fmt.Sprint(i)), T: []int64{0, 100}, V: []float64{1, 1}})
	}
	slices.SortFunc(many, func(a, b read.FakeSeries) int { return labels.Compare(a.Labels, b.Labels) })
	q := read.Over(40, 60, many)
	ended, cancel := context.WithCancel(context.Background())
	samples, encoded := everything(), everything()
	encoded.Chunks = true
	set, chunks := q.Select(ended, &samples, nil), q.Select(ended, &encoded, nil)
	cancel()
	_, ok := set.Next()
	require.False(t, ok)
	require.ErrorIs(t, set.Err(), context.Canceled)
	_, ok = chunks.Next()
	require.False(t, ok)
	require.ErrorIs(t, chunks.Err(), context.Canceled)
	require.False(t, selected(q, everything()).Next())
}
