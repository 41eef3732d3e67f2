package blockmerge_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/blockmerge"
)

// counted is a histogram of two buckets that has counted n in each.
func counted(n int64) *histogram.Histogram {
	return &histogram.Histogram{
		Count: uint64(2 * n), Sum: float64(n),
		PositiveSpans: []histogram.Span{{Offset: 1, Length: 2}}, PositiveBuckets: []int64{n, 0},
	}
}

// histograms is a chunk of n histograms from t on, the first of which has counted from.
func histograms(t testing.TB, at int64, n int, from int64) blockdir.Chunk {
	t.Helper()
	var e chunkenc.Encoder
	for i := range int64(n) {
		require.NoError(t, e.AppendHistogram(at+i, counted(from+i), 0))
	}
	return blockdir.Chunk{MinT: at, MaxT: at + int64(n) - 1, Num: n, Encoding: e.Encoding(), Data: e.AppendTo(nil)}
}

// started is a chunk of n floats with start timestamps from t on.
func started(t testing.TB, at int64, n int) blockdir.Chunk {
	t.Helper()
	var e chunkenc.Encoder
	for i := range int64(n) {
		require.NoError(t, e.Append(at+i, float64(i), at-5))
	}
	return blockdir.Chunk{MinT: at, MaxT: at + int64(n) - 1, Num: n, Encoding: e.Encoding(), Data: e.AppendTo(nil)}
}

// values returns what histograms of a chunk have counted, and their hints.
func values(t testing.TB, c blockdir.Chunk) (counts []uint64, hints []histogram.ResetHint) {
	t.Helper()
	chunk, err := chunkenc.FromData(c.Encoding, c.Data)
	require.NoError(t, err)
	it := chunk.Iterator(nil)
	for it.Next() == chunkenc.ValHistogram {
		var h histogram.Histogram
		it.AtHistogram(&h)
		counts, hints = append(counts, h.Count), append(hints, h.Hint)
	}
	require.NoError(t, it.Err())
	return counts, hints
}

func TestMerge_SmallNeighboursOfHistograms_BecomeOneChunk(t *testing.T) {
	m := newMergeTest(t)
	m.block(0, 100, only(t, `{a="1"}`, histograms(t, 0, 3, 10)), only(t, `{a="2"}`, histograms(t, 0, 2, 1)))
	m.block(100, 200, only(t, `{a="1"}`, histograms(t, 100, 3, 20)), only(t, `{a="2"}`, ramp(100, 2, 1)))
	m.block(200, 300, only(t, `{a="1"}`, histograms(t, 200, 2, 5), histograms(t, 210, 1, 9)), only(t, `{a="2"}`, histograms(t, 200, 2, 3)))
	d, r := m.merge()
	require.Equal(t, blockmerge.Counts{Joined: 4, Passed: 3}, r.Counts)
	got := blockChunks(t, d)
	require.Equal(t, []int{6, 3}, sampleCounts(got[`{a="1"}`]), "a reset begins a chunk")
	require.Equal(t, []int{2, 2, 2}, sampleCounts(got[`{a="2"}`]), "floats lie between")

	counts, hints := values(t, got[`{a="1"}`][0])
	require.Equal(t, []uint64{20, 22, 24, 40, 42, 44}, counts)
	require.Equal(t, histogram.HintNotReset, hints[3])
	counts, _ = values(t, got[`{a="1"}`][1])
	require.Equal(t, []uint64{10, 12, 18}, counts)
	const header, reset = 2, 0x80 // docs/format/chunks.md
	require.Equal(t, byte(reset), got[`{a="1"}`][1].Data[header])
	require.Equal(t, int64(200), got[`{a="1"}`][1].MinT)
	require.Equal(t, int64(210), got[`{a="1"}`][1].MaxT)
}

// Histograms that fill a chunk by their bytes are no small ones, however few they are.
func TestMerge_ChunksOfLargeHistograms_AreCopied(t *testing.T) {
	large := func(at int64) blockdir.Chunk {
		h := &histogram.Histogram{PositiveSpans: []histogram.Span{{Length: 1500}}}
		for i := range 1500 {
			n := int64(i % 7)
			h.PositiveBuckets = append(h.PositiveBuckets, n-(int64(i)-1+7)%7*min(int64(i), 1))
			h.Count += uint64(n)
		}
		var e chunkenc.Encoder
		require.NoError(t, e.AppendHistogram(at, h, 0))
		return blockdir.Chunk{MinT: at, MaxT: at, Num: 1, Encoding: e.Encoding(), Data: e.AppendTo(nil)}
	}
	m := newMergeTest(t)
	m.block(0, 100, only(t, `{a="1"}`, large(0)))
	m.block(100, 200, only(t, `{a="1"}`, large(100)))
	require.Greater(t, len(large(0).Data), chunkenc.TargetBytes/2)
	d, r := m.merge()
	require.Equal(t, blockmerge.Counts{Passed: 2}, r.Counts)
	require.Equal(t, []blockdir.Chunk{large(0), large(100)}, blockChunks(t, d)[`{a="1"}`])
}

func TestMerge_SmallNeighboursWithStartTimestamps_BecomeOneChunk(t *testing.T) {
	m := newMergeTest(t)
	m.block(0, 100, only(t, `{a="1"}`, started(t, 0, 3)))
	m.block(100, 200, only(t, `{a="1"}`, ramp(100, 3, 1), started(t, 110, 3)))
	d, r := m.merge()
	require.Equal(t, blockmerge.Counts{Joined: 3}, r.Counts)
	got := blockChunks(t, d)[`{a="1"}`]
	require.Equal(t, []int{9}, sampleCounts(got))
	chunk, err := chunkenc.FromData(got[0].Encoding, got[0].Data)
	require.NoError(t, err)
	var starts []int64
	for it := chunk.Iterator(nil); it.Next() != chunkenc.ValNone; {
		starts = append(starts, it.AtST())
	}
	require.Equal(t, []int64{-5, -5, -5, 0, 0, 0, 105, 105, 105}, starts)
}
