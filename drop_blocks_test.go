package tsdb_test

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/blocklist"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// endsOf are the ends of the blocks, ascending.
func (h *host) endsOf() (ends []int64) {
	for _, b := range h.db.Blocks() {
		ends = append(ends, b.MaxTime)
	}
	return ends
}

func TestDropBlocks_TakesWhatEndsAtOrBefore(t *testing.T) {
	h := newHost(t, 3, halfHours(true))
	h.runAndCompact(8)
	ends := h.endsOf()
	require.Greater(t, len(ends), 4)
	for _, c := range []struct {
		before int64
		want   int
	}{
		{math.MinInt64, 0}, {ends[0] - 1, 0}, {ends[0], 1}, {ends[0], 0}, {ends[2] - 1, 1}, {ends[2] + 1, 1},
	} {
		n, err := h.db.DropBlocks(context.Background(), c.before)
		require.NoError(t, err)
		require.Equal(t, c.want, n, "before %d", c.before)
	}
	require.Equal(t, ends[3:], h.endsOf())
	require.EqualValues(t, 3, h.db.Stats().BlocksRemoved)

	n, err := h.db.DropBlocks(context.Background(), math.MaxInt64)
	require.NoError(t, err)
	require.Equal(t, len(ends)-4, n)
	require.Equal(t, ends[len(ends)-1:], h.endsOf(), "the head begins where this one ends")
	h.run(time.Hour)
	want := dump(t, h.db, math.MinInt64, math.MaxInt64)
	h.reopen()
	require.Equal(t, want, dump(t, h.db, math.MinInt64, math.MaxInt64), "nothing comes back")
	require.Empty(t, h.db.MissingBlocks(), "nor is anything missed")
	require.NoError(t, h.db.Close())
	_, err = h.db.DropBlocks(context.Background(), math.MaxInt64)
	require.ErrorIs(t, err, tsdb.ErrClosed)
}

func TestDropBlocks_QueriersThatAreOpenGoOn(t *testing.T) {
	h := newHost(t, 3, halfHours(true))
	h.runAndCompact(8)
	q, err := h.db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	want := dump(t, h.db, math.MinInt64, math.MaxInt64)
	n, err := h.db.DropBlocks(context.Background(), math.MaxInt64)
	require.NoError(t, err)
	require.Greater(t, n, 3)
	require.Equal(t, want, dumpQuerier(t, q))
	require.NoError(t, q.Close())
	require.Less(t, len(dump(t, h.db, math.MinInt64, math.MaxInt64)[h.series[0].String()]), len(want[h.series[0].String()]))
}

// Room is made where there is none, without a byte that is written.
func TestDropBlocks_OnAFullDisk_OnlyUnlinks(t *testing.T) {
	h := newHost(t, 300, halfHours(true))
	h.runAndCompact(8)
	h.fs.SetCapacity(h.fs.Used())
	require.ErrorIs(t, h.scrape(), tsdb.ErrDiskFull)
	before := len(h.db.Blocks())
	n, err := h.db.DropBlocks(context.Background(), h.endsOf()[before/2])
	require.NoError(t, err)
	require.Equal(t, before/2+1, n)
	h.clock.Advance(2 * time.Second) // the log looks for room each second
	require.Eventually(t, func() bool { return h.db.Health() == nil }, patience, time.Millisecond)
	h.run(10 * time.Minute)
	h.reopen()
	require.Empty(t, h.db.MissingBlocks())
}

// The list of blocks is all that is written, and where that has no room it goes.
func TestDropBlocks_WritesNothingButTheList(t *testing.T) {
	h := newHost(t, 3, halfHours(true))
	h.runAndCompact(6)
	var written []string
	h.fs.SetHook(func(op tsdbtest.Op) error {
		if op.Kind == tsdbtest.OpWrite && !strings.HasSuffix(op.Name, blocklist.FileName) {
			written = append(written, op.Name)
		}
		return nil
	})
	n, err := h.db.DropBlocks(context.Background(), math.MaxInt64)
	h.fs.SetHook(nil)
	require.NoError(t, err)
	require.NotZero(t, n)
	require.Empty(t, written)
}

// A merge that has read a block would bring its samples back.
func TestDropBlocks_WaitsForMerges(t *testing.T) {
	h := newHost(t, 3, tsdb.BlockOptions{Range: 30 * time.Minute, MaxRange: 90 * time.Minute, Manual: true})
	h.run(5 * time.Hour)
	require.NoError(t, h.db.Flush(context.Background()))
	began, goOn := make(chan struct{}), make(chan struct{})
	held := false
	h.fs.SetHook(func(op tsdbtest.Op) error {
		if !held && op.Kind == tsdbtest.OpCreate && strings.Contains(op.Name, "/tmp-") {
			held = true
			close(began)
			<-goOn
		}
		return nil
	})
	merged := make(chan error)
	go func() { merged <- h.db.Compact(context.Background()) }()
	<-began
	short, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := h.db.DropBlocks(short, math.MaxInt64)
	require.ErrorIs(t, err, context.Canceled)
	dropped := make(chan int)
	go func() {
		n, err := h.db.DropBlocks(context.Background(), math.MaxInt64)
		if err != nil {
			t.Errorf("drop blocks: %v", err)
		}
		dropped <- n
	}()
	close(goOn)
	require.NoError(t, <-merged)
	<-dropped
	h.fs.SetHook(nil)
	require.LessOrEqual(t, len(h.db.Blocks()), 2, "what the merges made goes as well")
	for _, b := range h.db.Blocks() {
		require.Greater(t, b.MaxTime, h.clock.Now().Add(-3*time.Hour).UnixMilli())
	}
}
