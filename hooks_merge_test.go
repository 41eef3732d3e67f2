package tsdb_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
)

// Blocks that may not be merged are left as they are, while others are merged, and are merged when
// they may.
func TestMayMerge_LeavesBlocksAsTheyAre(t *testing.T) {
	ctx, stay := context.Background(), map[ulid.ULID]bool{}
	var h *host
	blocks := tsdb.BlockOptions{Range: 30 * time.Minute, MaxRange: 90 * time.Minute, Manual: true}
	blocks.MayMerge = func(m tsdb.BlockMeta) bool {
		_, err := h.db.DropBlocks(ctx, math.MinInt64) // no lock is held
		require.NoError(t, err)
		return !stay[m.ULID]
	}
	h = newHost(t, 3, blocks)
	h.run(6 * time.Hour)
	require.NoError(t, h.db.Flush(ctx))
	before := h.db.Blocks()
	for i, m := range before {
		stay[m.ULID] = i < 6
	}
	require.NoError(t, h.db.Compact(ctx))
	left := map[ulid.ULID]int{}
	for _, m := range h.db.Blocks() {
		left[m.ULID] = m.Compaction.Level
	}
	for _, m := range before[:6] {
		require.Equal(t, 1, left[m.ULID])
	}
	require.Less(t, len(left), len(before), "others are merged")

	clear(stay)
	merged := len(left)
	require.NoError(t, h.db.Compact(ctx))
	require.Less(t, len(h.db.Blocks()), merged)
}

// The same of blocks that overlap.
func TestMayMerge_OfBlocksThatOverlap(t *testing.T) {
	ctx, may := context.Background(), false
	blocks := tsdb.BlockOptions{Range: 30 * time.Minute, MaxRange: 30 * time.Minute, Manual: true,
		MayMerge: func(tsdb.BlockMeta) bool { return may }}
	h := newHost(t, 3, blocks)
	require.NoError(t, h.db.SetOutOfOrderWindow(time.Hour))
	h.run(20 * time.Minute)
	app := h.db.Appender()
	_, err := app.Append(0, h.series[0], h.clock.Now().Add(-10*time.Minute).UnixMilli()+1, 1)
	require.NoError(t, err)
	_, err = app.Commit(ctx)
	require.NoError(t, err)
	require.NoError(t, h.db.Flush(ctx))
	n := len(h.db.Blocks())
	require.Greater(t, n, 1)
	require.NoError(t, h.db.Compact(ctx))
	require.Len(t, h.db.Blocks(), n)
	may = true
	require.NoError(t, h.db.Compact(ctx))
	require.Less(t, len(h.db.Blocks()), n)
}
