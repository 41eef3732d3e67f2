package blockmerge

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/index"
)

// A chunk that is too old stays where one that stays reaches into it, also by way of others:
// without it an older value of the same time would count.
func TestDropOld_KeepsWhatAChunkThatStaysReaches(t *testing.T) {
	at := func(from, to int64, old bool) inputChunk {
		return inputChunk{ChunkMeta: index.ChunkMeta{MinT: from, MaxT: to}, old: old}
	}
	listed := []inputChunk{
		at(0, 9, true),   // nothing reaches it
		at(10, 20, true), // reached by the next, which stays only for the last
		at(15, 30, true),
		at(30, 40, false),
	}
	var counts Counts
	kept := dropOld(listed, &counts)
	require.Equal(t, uint64(1), counts.Dropped)
	require.Len(t, kept, 3)
	for i, from := range []int64{10, 15, 30} {
		require.Equal(t, from, kept[i].MinT)
		require.False(t, kept[i].old)
	}
}
