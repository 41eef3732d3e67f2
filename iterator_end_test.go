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
)

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
