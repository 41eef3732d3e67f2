package tsdb_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/itertest"
	"github.com/seed347100a3/tsdb/labels"
)

// samplesAt are samples whose values are their times.
func samplesAt(times ...int64) (list []itertest.Sample) {
	for _, at := range times {
		list = append(list, itertest.Sample{T: at, V: float64(at)})
	}
	return list
}

// one is a series of one label that a place has; chunks are of two samples.
func one(times ...int64) tsdb.FakeSource {
	s := tsdb.FakeSeries{Labels: labels.FromStrings("a", "b"), T: times}
	for _, at := range times {
		s.V = append(s.V, float64(at))
	}
	return tsdb.FakeSource{s}
}

// One place, places one behind the other, places that overlap; each of them cut by the range or not.
func TestSeriesIterator_AllSequencesOfThreeMoves_EqualTheSlice(t *testing.T) {
	all := samplesAt(10, 13, 16, 19, 22)
	for name, c := range map[string]struct {
		mint, maxt int64
		places     []tsdb.FakeSource
		want       []itertest.Sample
	}{
		"one place":                {math.MinInt64, math.MaxInt64, []tsdb.FakeSource{one(10, 13, 16, 19, 22)}, all},
		"one place, cut":           {11, 21, []tsdb.FakeSource{one(10, 13, 16, 19, 22)}, all[1:4]},
		"one sample of a chunk":    {19, 19, []tsdb.FakeSource{one(10, 13, 16, 19, 22)}, all[3:4]},
		"one behind the other":     {math.MinInt64, math.MaxInt64, []tsdb.FakeSource{one(10, 13), one(16), one(19, 22)}, all},
		"one behind another, cut":  {13, 19, []tsdb.FakeSource{one(10, 13, 16), one(19, 22)}, all[1:4]},
		"overlapping":              {math.MinInt64, math.MaxInt64, []tsdb.FakeSource{one(10, 16, 22), one(13, 19)}, all},
		"overlapping, with twins":  {math.MinInt64, math.MaxInt64, []tsdb.FakeSource{one(10, 13, 16), one(13, 16, 19), one(10, 22)}, all},
		"overlapping, cut":         {12, 20, []tsdb.FakeSource{one(10, 16, 22), one(13, 16, 19)}, all[1:4]},
		"overlapping, and in line": {math.MinInt64, 20, []tsdb.FakeSource{one(10, 13, 16), one(16, 19), one(22)}, all[:4]},
	} {
		q := tsdb.QuerierOver(c.mint, c.maxt, c.places...)
		set := q.Select(context.Background(), nil)
		require.True(t, set.Next())
		var it chunkenc.Iterator
		require.NoError(t, itertest.CheckAll(c.want, 3, func() chunkenc.Iterator {
			it = set.At().Iterator(it)
			return it
		}), name)
		require.False(t, set.Next())
	}
}

// drawMoves draws a sequence of moves that is made for these samples.
func drawMoves(rt *rapid.T, want []itertest.Sample) []itertest.Move {
	return rapid.SliceOfN(rapid.SampledFrom(itertest.Moves(want)), 1, 12).Draw(rt, "moves")
}

// Head and blocks, with deletes, gaps, overlaps and cut ranges: whatever is called, each series
// is its slice, and each of its chunks the slice of that time.
func TestIterator_AnyMovesOverHeadAndBlocks_EqualTheSlice(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := drawWorld(t, rt)
		var it, inChunk chunkenc.Iterator
		var chunks *tsdb.ChunkIterator
		for range 4 {
			mint, maxt := drawRange(rt)
			want := w.samples(mint, maxt)
			q, err := w.db.Querier(mint, maxt)
			require.NoError(rt, err)
			hints := &tsdb.SelectHints{Transient: rapid.Bool().Draw(rt, "transient")}
			for s, err := range q.Select(context.Background(), hints).All() {
				require.NoError(rt, err)
				series := want[s.Labels().String()]
				for range 4 {
					it = s.Iterator(it)
					require.NoError(rt, itertest.Check(series, it, drawMoves(rt, series)))
				}
			}
			for s, err := range q.SelectChunks(context.Background(), hints).All() {
				require.NoError(rt, err)
				series := want[s.Labels().String()]
				for chunks = s.Chunks(chunks); chunks.Next(); {
					c := chunks.At()
					n := c.Chunk.NumSamples()
					require.GreaterOrEqual(rt, len(series), n)
					require.Equal(rt, []int64{series[0].T, series[n-1].T}, []int64{c.MinT, c.MaxT})
					inChunk = c.Chunk.Iterator(inChunk)
					require.NoError(rt, itertest.Check(series[:n], inChunk, drawMoves(rt, series[:n])))
					series = series[n:]
				}
				require.NoError(rt, chunks.Err())
				require.Empty(rt, series)
				require.False(rt, chunks.Next(), "stays at its end")
			}
			require.NoError(rt, q.Close())
		}
	})
}

// What is at its end stays there when its Querier is closed; what is not gives ErrClosed.
func TestSets_AtTheirEnd_StayThereWhenTheQuerierIsClosed(t *testing.T) {
	q := tsdb.QuerierOver(0, 100, one(10, 13))
	set, chunkSet := q.Select(context.Background(), nil), q.SelectChunks(context.Background(), nil)
	require.True(t, set.Next())
	require.True(t, chunkSet.Next())
	ended, fresh := set.At().Iterator(nil), set.At().Iterator(nil)
	chunks := chunkSet.At().Chunks(nil)
	require.Equal(t, chunkenc.ValNone, ended.Seek(50))
	require.True(t, chunks.Next())
	require.False(t, chunks.Next())
	require.False(t, set.Next())
	require.False(t, chunkSet.Next())
	require.NoError(t, q.Close())
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
		require.ErrorIs(t, fresh.Err(), tsdb.ErrClosed)
		require.Equal(t, chunkenc.ValNone, fresh.Seek(math.MinInt64))
		require.ErrorIs(t, fresh.Err(), tsdb.ErrClosed)
	}
}

// A set that was cut at its limit says so once, however often Next is called.
func TestSets_AtTheirLimit_WarnOnce(t *testing.T) {
	many := tsdb.FakeSource{}
	for _, v := range []string{"1", "2", "3"} {
		many = append(many, tsdb.FakeSeries{Labels: labels.FromStrings("a", v), T: []int64{10}, V: []float64{1}})
	}
	q := tsdb.QuerierOver(0, 100, many)
	set, chunkSet := q.Select(context.Background(), &tsdb.SelectHints{Limit: 2}), q.SelectChunks(context.Background(), &tsdb.SelectHints{Limit: 2})
	for range 2 {
		require.True(t, set.Next())
		require.True(t, chunkSet.Next())
	}
	for range 3 {
		require.False(t, set.Next())
		require.False(t, chunkSet.Next())
		require.Equal(t, tsdb.Warnings{tsdb.ErrTruncated}, set.Warnings())
		require.Equal(t, tsdb.Warnings{tsdb.ErrTruncated}, chunkSet.Warnings())
	}
}

// A chunk whose bytes end too early: what is in front of that is given, and then the end has the
// error for good.
func TestSeriesIterator_BehindDamage_StaysAtItsEndWithTheError(t *testing.T) {
	m := newMergeTest(t)
	cut := ramp(0, 100, 1)
	cut.Data = cut.Data[:len(cut.Data)/2]
	m.block(0, 1000, only(t, `{a="b"}`, cut, ramp(200, 10, 1)))
	db, err := tsdb.Open("data", &tsdb.Options{FS: m.fs, Clock: m.clock, Blocks: tsdb.BlockOptions{Manual: true}})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	q, err := db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	defer func() { require.NoError(t, q.Close()) }()
	set := q.Select(context.Background(), nil)
	require.True(t, set.Next())
	var it chunkenc.Iterator
	for _, toEnd := range []func(){
		func() { it.Seek(99) }, // the last sample of the damaged chunk
		func() {
			for it.Next() != chunkenc.ValNone {
			}
		},
		func() {
			for b := chunkenc.NewBatch(7); it.NextBatch(b) != chunkenc.ValNone; {
			}
		},
	} {
		it = set.At().Iterator(it)
		toEnd()
		require.ErrorIs(t, it.Err(), tsdb.ErrCorrupt)
		for range 2 {
			require.Equal(t, chunkenc.ValNone, it.Seek(math.MinInt64))
			require.Equal(t, chunkenc.ValNone, it.Next())
			require.Equal(t, chunkenc.ValNone, it.NextBatch(&chunkenc.Batch{}))
			require.ErrorIs(t, it.Err(), tsdb.ErrCorrupt)
		}
	}
}
