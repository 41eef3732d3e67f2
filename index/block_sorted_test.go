package index_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/index"
)

func TestLanes_ChunksInOrderAreOneListAndOthersDoNotOverlapInTheirs(t *testing.T) {
	inOrder := []index.ChunkMeta{chunkAt(0, 9, 1), chunkAt(10, 19, 2)}
	require.Equal(t, [][]index.ChunkMeta{inOrder}, index.Lanes(inOrder))
	require.Equal(t, [][]index.ChunkMeta{nil}, index.Lanes(nil))

	given := []index.ChunkMeta{
		chunkAt(20, 29, 3), chunkAt(0, 9, 1), chunkAt(5, 24, 2), // out of order, and overlapping
		chunkAt(20, 29, 3), // listed twice
		chunkAt(20, 29, 4), // a copy
		chunkAt(25, 30, 5),
	}
	require.Equal(t, [][]index.ChunkMeta{
		{chunkAt(0, 9, 1), chunkAt(20, 29, 3)},
		{chunkAt(5, 24, 2), chunkAt(25, 30, 5)},
		{chunkAt(20, 29, 4)},
	}, index.Lanes(given))
	require.Equal(t, chunkAt(20, 29, 3), given[0], "what was given stays as it is")
}

// What Shape and Sorted say of an index that keeps the order: nothing is wrong, and nothing
// changes.
func TestShape_AnIndexInOrderHasNoDisorder(t *testing.T) {
	for _, v := range blockVectors(t) {
		r, err := index.OpenReader(newSparseFS(v.raw), "index")
		require.NoError(t, err)
		shape, err := r.Shape(context.Background())
		require.NoError(t, err)
		require.NoError(t, shape.Disorder)
		require.False(t, shape.Damaged)

		var ids []uint64
		err = r.Verify(context.Background(), func(id uint64, _ []index.SymbolPair, cs []index.ChunkMeta) error {
			ids = append(ids, id)
			for _, c := range cs {
				require.LessOrEqual(t, shape.MinT, c.MinT)
				require.GreaterOrEqual(t, shape.MaxT, c.MaxT)
			}
			return nil
		})
		require.NoError(t, err)
		require.NoError(t, r.VerifyDisorder(context.Background(), func(err error) { require.NoError(t, err) }, nil))

		// Given the other way round they come in the order of their labels.
		left := len(ids)
		s, err := r.Sorted(context.Background(), func() (uint64, bool) {
			left--
			return ids[max(left, 0)], left >= 0
		}, func(_ uint64, err error) error { return err })
		require.NoError(t, err)
		require.Equal(t, len(ids), s.Len())
		for _, id := range ids {
			require.True(t, s.Next())
			require.Equal(t, []uint64{id}, s.IDs())
			ls, err := r.SeriesLabels(id, nil)
			require.NoError(t, err)
			require.Equal(t, ls, append([]index.SymbolPair(nil), s.Labels()...))
		}
		require.False(t, s.Next())
		require.NoError(t, r.Close())
	}
}
