package blockset_test

import (
	"context"
	"log/slog"
	"math"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/blockset"
	"github.com/seed347100a3/tsdb/internal/blocktest"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/read"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

const dataDir = "data"

// config is that of a directory with some blocks of 100 ms, the first of which is number 1. Each
// has one series with a sample every 10 ms.
func config(t *testing.T, blocks int) blockset.Config {
	fsys := tsdbtest.NewMemFS()
	require.NoError(t, fileutil.MkdirSync(fsys, dataDir))
	for n := range blocks {
		mint := int64(n) * 100
		blocktest.Make(t, fsys, dataDir, blocktest.Meta(n+1, mint, mint+100), blocktest.Only(t, `{a="b"}`, blocktest.Ramp(mint, 10, 10)))
	}
	return blockset.Config{FS: fsys, Dir: dataDir, Clock: tsdbtest.NewClock(time.UnixMilli(10_000)),
		Logger: slog.New(slog.DiscardHandler), MaxFuture: time.Hour}
}

// load returns the blocks of a directory.
func load(t *testing.T, cfg blockset.Config) (*blockset.Set, blockset.Report) {
	s := blockset.New(cfg)
	report, err := s.Load()
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s, report
}

func names(v *blockset.View) (ids []ulid.ULID) {
	for _, m := range v.Metas() {
		ids = append(ids, m.ULID)
	}
	return ids
}

func ids(numbers ...int) (ids []ulid.ULID) {
	for _, n := range numbers {
		ids = append(ids, blocktest.ID(n))
	}
	return ids
}

// inDirectory returns the blocks that the file system has.
func inDirectory(t *testing.T, cfg blockset.Config) []ulid.ULID {
	found, err := blockdir.List(cfg.FS, cfg.Dir)
	require.NoError(t, err)
	return found
}

// A view stays as it is when another one takes its place, and a block that left can be read by who
// has it pinned.
func TestDrop_LeavesViewsAndPinsAsTheyAre(t *testing.T) {
	cfg := config(t, 3)
	s, report := load(t, cfg)
	require.Equal(t, blockset.Report{Blocks: 3}, report)
	before := s.Current()
	require.EqualValues(t, 300, before.Start)
	pinned := s.Pinned(ids(1, 2))
	require.Equal(t, ids(1, 2), []ulid.ULID{pinned[0].Meta.ULID, pinned[1].Meta.ULID})

	n, err := s.Drop(ids(2))
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Equal(t, ids(1, 2, 3), names(before))
	require.Equal(t, ids(1, 3), names(s.Current()))
	require.Nil(t, s.Pinned(ids(1, 2)), "one of them is gone")
	require.Len(t, blocktest.Points(t, pinned[1].Dir()), 1)
	for _, b := range pinned {
		b.Release()
	}
	require.Equal(t, ids(1, 3), inDirectory(t, cfg))
}

// While files of a block are copied they stay, whoever drops it.
func TestDrop_WaitsForCopies(t *testing.T) {
	cfg := config(t, 2)
	s, _ := load(t, cfg)
	b := s.Current().Blocks[0]
	b.PinForCopy()
	_, err := s.Drop(ids(1))
	require.NoError(t, err)
	require.Equal(t, ids(1, 2), inDirectory(t, cfg))
	require.NoError(t, s.Reload(true))
	require.Equal(t, ids(2), names(s.Current()), "it does not come back")
	b.ReleaseCopy()
	require.Equal(t, ids(2), inDirectory(t, cfg))
}

// What is deleted while a block is being written is deleted of it, too.
func TestPublish_DeletesWhatWasDeletedMeanwhile(t *testing.T) {
	ctx, cfg := context.Background(), config(t, 2)
	s, _ := load(t, cfg)
	bd := s.BeginBuild(nil)
	defer s.EndBuild(bd)
	w, err := blockdir.Create(cfg.FS, cfg.Dir, blocktest.ID(9), blockdir.WriterOptions{})
	require.NoError(t, err)
	for _, symbol := range []string{"", "a", "b"} {
		require.NoError(t, w.AddSymbol(symbol))
	}
	require.NoError(t, w.AddChunk(blocktest.Ramp(0, 20, 10)))
	require.NoError(t, w.AddSeries([]index.SymbolPair{{Name: 1, Value: 2}}))
	_, err = w.Finish(ctx, blocktest.Meta(9, 0, 200))
	require.NoError(t, err)

	s.Lock()
	next, damaged, err := s.DeleteLocked(ctx, blockset.Deletion{Mint: 50, Maxt: 149})
	require.NoError(t, err)
	require.NoError(t, damaged)
	s.ShowLocked(next, func() { require.Equal(t, ids(1, 2), names(next)) })
	s.Unlock()
	left, err := s.Publish(bd, w, ids(1, 2), s.Current().Start)
	require.NoError(t, err)
	require.NoError(t, left)

	require.Equal(t, ids(9), inDirectory(t, cfg))
	require.Equal(t, ids(9), names(s.Current()))
	deleted := s.Current().Blocks[0].Deleted
	require.Equal(t, 1, deleted.Len())
	require.True(t, deleted.Of(deleted.Refs()[0]).CoversRange(50, 149))
}

// A damaged block is set aside, and is missing from then on, also for the next one to look.
func TestLoad_SetsDamagedBlocksAside(t *testing.T) {
	cfg := config(t, 2)
	require.NoError(t, cfg.FS.Remove(blockdir.Path(dataDir, blocktest.ID(1))+"/index"))
	s, report := load(t, cfg)
	require.Equal(t, 1, report.SetAside)
	require.Equal(t, 1, report.Blocks)
	require.Len(t, report.Quarantined, 1)
	require.Len(t, report.Damages, 1)
	require.False(t, report.Damages[0].Harmless)
	require.Equal(t, ids(2), names(s.Current()))
	for _, w := range s.Current().Warnings(0, 50) {
		require.ErrorIs(t, w, read.ErrMissing)
	}
	require.Len(t, s.Current().Warnings(0, 50), 1)
	require.Empty(t, s.Current().Warnings(150, 199))

	cfg.ReadOnly = true
	again, report := load(t, cfg)
	require.Equal(t, 0, report.SetAside)
	require.Len(t, report.Damages, 1)
	require.Len(t, again.Current().Missing, 1)
}

// Who only reads moves nothing.
func TestLoad_ReadOnlyLeavesDamagedBlocksWhereTheyAre(t *testing.T) {
	cfg := config(t, 2)
	cfg.ReadOnly = true
	require.NoError(t, cfg.FS.Remove(blockdir.Path(dataDir, blocktest.ID(1))+"/index"))
	s, report := load(t, cfg)
	require.Zero(t, report.SetAside)
	require.Len(t, report.Damages, 1)
	require.Len(t, s.Current().Missing, 1)
	require.Equal(t, ids(1, 2), inDirectory(t, cfg))
}

// The list makes it known when somebody takes a block away.
func TestLoad_ReportsVanishedBlocks(t *testing.T) {
	cfg := config(t, 2)
	s, _ := load(t, cfg)
	s.SaveList()
	s.Close()
	require.NoError(t, fileutil.RemoveAll(cfg.FS, blockdir.Path(dataDir, blocktest.ID(1))))
	s, report := load(t, cfg)
	require.Equal(t, 1, report.Vanished)
	require.True(t, s.Current().Missing[0].Vanished)
	require.Len(t, s.Current().Warnings(math.MinInt64, math.MaxInt64), 1)
}

// The last block says where the head begins, and the others may go before.
func TestView_SplitsBlocksByWhereTheHeadBegins(t *testing.T) {
	s, _ := load(t, config(t, 3))
	v := s.Current()
	require.EqualValues(t, 300, v.StartWithout(nil))
	require.EqualValues(t, 200, v.StartWithout(ids(3)))
	require.EqualValues(t, 299, v.Newest())
	free, last := v.SplitByStart(ids(1, 2))
	require.Equal(t, ids(1, 2), free)
	require.Empty(t, last)
	free, last = v.SplitByStart(ids(1, 3))
	require.Equal(t, ids(1), free)
	require.Equal(t, ids(3), last)

	start, err := s.MarkBeside(ids(3))
	require.NoError(t, err)
	require.EqualValues(t, 200, start)
	require.EqualValues(t, 200, s.Current().Start)
	require.EqualValues(t, 300, v.Start, "a view does not change")
}
