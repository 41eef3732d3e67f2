package tsdb_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// When the head is flushed in the middle of a block range, no block of late samples lies on both
// sides of where it begins then, nor reaches over the end of what is flushed next: an engine that
// merges such a block with an ordinary one would take the head's samples for ones that blocks have.
func TestLateBlocks_EndWhereTheHeadBegins(t *testing.T) {
	opts := &tsdb.Options{FS: tsdbtest.NewMemFS(), Clock: tsdbtest.NewClock(time.UnixMilli(0))}
	opts.Limits.MaxFuture = -1
	opts.Blocks.Range, opts.Blocks.Manual = time.Minute, true
	opts.Head.OutOfOrderWindow = time.Hour
	db, err := tsdb.Open("data", opts)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	write := func(times ...int64) {
		t.Helper()
		app := db.Appender()
		for _, at := range times {
			_, err := app.Append(0, labels.FromStrings("a", "b"), at, 1)
			require.NoError(t, err)
		}
		_, err := app.Commit(context.Background())
		require.NoError(t, err)
	}
	bounds := func() (late, ordinary [][2]int64) {
		for _, m := range db.Blocks() {
			if m.HasHint("from-out-of-order") {
				late = append(late, [2]int64{m.MinTime, m.MaxTime})
			} else {
				ordinary = append(ordinary, [2]int64{m.MinTime, m.MaxTime})
			}
		}
		return late, ordinary
	}
	write(50_000, 90_000, 85_000, 10_000)
	require.NoError(t, db.Flush(t.Context())) // up to 90,000, in the second minute
	late, ordinary := bounds()
	require.Equal(t, [][2]int64{{0, 60_000}, {60_000, 90_001}}, late)
	require.Equal(t, [][2]int64{{50_000, 60_000}, {90_000, 90_001}}, ordinary)
	write(100_000, 95_000, 40_000)
	require.NoError(t, db.Flush(t.Context()))
	require.NoError(t, db.Compact(t.Context()))
	late, ordinary = bounds()
	require.Empty(t, late)
	require.Equal(t, [][2]int64{{0, 60_000}, {60_000, 100_001}}, ordinary)
	// What is flushed before the head's newest is behind the head's begin.
	write(110_000, 290_000, 250_000, 200_000)
	require.NoError(t, db.Compact(t.Context())) // up to 240,000
	late, _ = bounds()
	require.Equal(t, [][2]int64{{180_000, 240_000}, {240_000, 250_001}}, late)
	write(280_000, 295_000)
	require.NoError(t, db.Flush(t.Context())) // up to 295,001
	require.NoError(t, db.Compact(t.Context()))
	late, ordinary = bounds()
	require.Equal(t, [][2]int64{{180_000, 240_000}}, late, "it overlaps nothing")
	require.Equal(t, [2]int64{240_000, 295_001}, ordinary[len(ordinary)-1])
}
