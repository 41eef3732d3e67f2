package tsdb_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
)

// told are the blocks that OnBlock was told of.
type told struct {
	mu     sync.Mutex
	blocks []tsdb.BlockMeta
}

func (o *told) hook(m tsdb.BlockMeta) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.blocks = append(o.blocks, m)
}

func (o *told) all() []tsdb.BlockMeta {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.blocks)
}

func TestOnBlock_TellsOfFlushesMergesAndWhatIsBrought(t *testing.T) {
	var o told
	blocks := tsdb.BlockOptions{Range: 30 * time.Minute, MaxRange: 90 * time.Minute, Manual: true, OnBlock: o.hook}
	h := newHost(t, 3, blocks)
	h.run(4 * time.Hour)
	require.Empty(t, o.all())
	require.NoError(t, h.db.Flush(context.Background()))
	flushed := h.db.Blocks()
	require.Eventually(t, func() bool { return len(o.all()) == len(flushed) }, patience, time.Millisecond)
	require.Equal(t, flushed, o.all(), "in order, and as DB.Blocks has them")
	require.NoError(t, h.db.Compact(context.Background()))

	w, err := tsdb.NewBlockWriter("data", &tsdb.BlockWriterOptions{FS: h.fs, Clock: h.clock})
	require.NoError(t, err)
	require.NoError(t, w.Append(h.series[0], testNow.Add(-10*time.Hour).UnixMilli(), 1))
	_, err = w.Flush(context.Background())
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.NoError(t, h.db.Compact(context.Background()))
	now := h.db.Blocks()
	require.NoError(t, h.db.Close(), "which waits for the hook")
	all := o.all()
	for _, m := range now {
		require.True(t, slices.ContainsFunc(all, func(a tsdb.BlockMeta) bool { return a.ULID == m.ULID }), "%s", m.ULID)
	}
	levels := map[int]int{}
	for _, m := range all {
		levels[m.Compaction.Level]++
	}
	require.Equal(t, len(flushed)+1, levels[1])
	require.NotZero(t, levels[2], "merges")

	h.open()
	require.NoError(t, h.db.Close())
	require.Len(t, o.all(), len(all), "what Open finds is not new")
}

// The hook may use the database: no lock is held, not even that of who flushes.
func TestOnBlock_MayUseTheDatabase(t *testing.T) {
	var h *host
	done := make(chan error, 1)
	var once sync.Once
	blocks := halfHours(false)
	blocks.OnBlock = func(tsdb.BlockMeta) {
		once.Do(func() { done <- useAll(h.db) })
	}
	h = newHost(t, 3, blocks)
	h.run(2 * time.Hour)
	require.NoError(t, h.db.Flush(context.Background()))
	require.NoError(t, <-done)
}

// useAll calls what takes locks.
func useAll(db *tsdb.DB) error {
	ctx := context.Background()
	app := db.Appender()
	err := error(nil)
	for range 1000 {
		_, err = app.Append(0, labels.FromStrings("a", "b"), db.Stats().MaxT+1, 1)
		if !errors.Is(err, tsdb.ErrOutOfBounds) { // else a flush has passed it meanwhile
			break
		}
	}
	if err == nil {
		_, err = app.Commit(ctx)
	}
	for _, do := range []func() error{
		func() error { return db.Flush(ctx) },
		func() error { return db.Delete(ctx, 0, 1) },
		func() error { return db.CleanTombstones(ctx) },
		func() error { _, err := db.DropBlocks(ctx, math.MinInt64); return err },
		func() error { return db.SetRetention(db.Retention()) },
		func() error { _ = db.Blocks(); return db.Sync() },
	} {
		if err == nil {
			err = do()
		}
	}
	return err
}

// A slow hook holds up the next calls of it, and nobody else but Close.
func TestOnBlock_ASlowOne_DelaysNobodyButClose(t *testing.T) {
	goOn := make(chan struct{})
	var o told
	blocks := halfHours(true)
	blocks.OnBlock = func(m tsdb.BlockMeta) { <-goOn; o.hook(m) }
	h := newHost(t, 3, blocks)
	h.runAndCompact(6)
	require.NoError(t, h.db.Flush(context.Background()))
	want := h.db.Blocks()
	require.Empty(t, o.all())
	closed := make(chan error)
	go func() { closed <- h.db.Close() }()
	require.Eventually(t, func() bool {
		_, err := h.db.Querier(0, 1)
		return err != nil
	}, patience, time.Millisecond)
	require.ErrorIs(t, h.db.Flush(context.Background()), tsdb.ErrClosed, "nor does it wait for Close")
	close(goOn)
	require.NoError(t, <-closed)
	require.Equal(t, want, o.all())
}

func TestKeep_HoldsBlocksFromRetentionByTimeAndBytes(t *testing.T) {
	var kept int64 // the end of the block that is kept; set between calls of Compact
	var asked []tsdb.BlockMeta
	blocks := halfHours(true)
	blocks.Retention = 2 * time.Hour
	blocks.Keep = func(m tsdb.BlockMeta) bool { asked = append(asked, m); return m.MaxTime == kept }
	h := newHost(t, 50, blocks)
	h.run(40 * time.Minute)
	require.NoError(t, h.db.Flush(context.Background()))
	kept = h.endsOf()[0]
	h.runAndCompact(8)
	require.Equal(t, kept, h.endsOf()[0])
	require.Greater(t, h.history(), 4*time.Hour)
	second := h.db.Blocks()[1]
	require.Greater(t, second.MinTime, kept, "what is behind it goes as before")
	require.GreaterOrEqual(t, second.MaxTime, h.clock.Now().Add(-150*time.Minute).UnixMilli())
	require.NotEmpty(t, asked)

	before := h.db.Blocks()
	for range 2 { // the first one finds something dead in the log
		head := h.used("wal") + h.used("wal/*") + h.used("chunks_head")
		require.NoError(t, h.db.SetRetention(tsdb.RetentionLimits{Bytes: h.db.Stats().BlockBytes + head - 1}))
		asked = nil
		require.NoError(t, h.db.Compact(context.Background()))
	}
	require.Equal(t, before, h.db.Blocks(), "nothing goes in its place")
	for _, m := range asked {
		require.Equal(t, kept, m.MaxTime, "only the oldest is beyond the limit")
	}
	require.NotEmpty(t, asked)

	kept = 0
	require.NoError(t, h.db.Compact(context.Background()))
	require.Equal(t, before[1:], h.db.Blocks(), "asked anew, it goes")
}

// What is asked for by name goes, and so do the inputs of a merge.
func TestKeep_IsNotAskedByMergesDropBlocksAndDelete(t *testing.T) {
	blocks := tsdb.BlockOptions{Range: 30 * time.Minute, MaxRange: 90 * time.Minute, Manual: true,
		Keep: func(m tsdb.BlockMeta) bool { t.Errorf("asked for %s", m.ULID); return true }}
	h := newHost(t, 3, blocks)
	h.runAndCompact(10)
	require.NotZero(t, h.db.Stats().Merges)
	first := h.db.Blocks()[0]
	require.NoError(t, h.db.Delete(context.Background(), first.MinTime, first.MaxTime-1))
	require.NoError(t, h.db.CleanTombstones(context.Background()))
	n, err := h.db.DropBlocks(context.Background(), math.MaxInt64)
	require.NoError(t, err)
	require.NotZero(t, n)
}

func TestKeep_MayUseTheDatabase_AndAPanicReachesTheCaller(t *testing.T) {
	var h *host
	var failed error
	act := func() { failed = useAll(h.db) }
	blocks := halfHours(true)
	blocks.Keep = func(tsdb.BlockMeta) bool { act(); return false }
	h = newHost(t, 3, blocks)
	h.runAndCompact(6)
	require.NoError(t, h.db.SetRetention(tsdb.RetentionLimits{Duration: time.Hour}))
	act = func() { panic("of the program") }
	require.PanicsWithValue(t, "of the program", func() { _ = h.db.Compact(context.Background()) })
	before := h.history()
	act = func() { failed = useAll(h.db) }
	require.NoError(t, h.db.Compact(context.Background()), "nothing is left locked or busy")
	require.NoError(t, failed)
	require.Less(t, h.history(), before)
	require.NoError(t, h.db.Close())
}

// A program may keep its settings as JSON: hooks are not among them.
func TestOptions_WithHooks_CanBeMarshalled(t *testing.T) {
	o := tsdb.Options{Blocks: tsdb.BlockOptions{Range: time.Hour, OnBlock: func(tsdb.BlockMeta) {}, Keep: func(tsdb.BlockMeta) bool { return true }, MayMerge: func(tsdb.BlockMeta) bool { return true }},
		Limits: tsdb.Limits{LabelsPerSeries: 7, NewSeries: noTenantB}}
	for _, part := range []any{o.Blocks, o.Limits} {
		text, err := json.Marshal(part)
		require.NoError(t, err)
		require.NotContains(t, string(text), "OnBlock")
		require.NotContains(t, string(text), "NewSeries")
	}
}
