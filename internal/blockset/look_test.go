package blockset_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/blockset"
	"github.com/seed347100a3/tsdb/internal/blocktest"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// looks lets a Set look so many times, and returns how often it listed the directory.
func looks(t *testing.T, s *blockset.Set, cfg blockset.Config, n int) (listed int) {
	t.Helper()
	fs := cfg.FS.(*tsdbtest.MemFS)
	fs.SetHook(func(op tsdbtest.Op) error {
		if op.Kind == tsdbtest.OpReadDir && op.Name == dataDir {
			listed++
		}
		return nil
	})
	defer fs.SetHook(nil)
	for range n {
		require.NoError(t, s.Reload(false))
	}
	return listed
}

func makeBlock(t *testing.T, cfg blockset.Config, n int) {
	t.Helper()
	mint := int64(n) * 100
	blocktest.Make(t, cfg.FS, dataDir, blocktest.Meta(n+1, mint, mint+100), blocktest.Only(t, `{a="b"}`, blocktest.Ramp(mint, 10, 10)))
}

// The files of a MemFS are of the year 2000.
func TestReload_ListsADirectoryThatHasChanged(t *testing.T) {
	cfg := config(t, 2)
	clock := tsdbtest.NewClock(time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC))
	cfg.Clock = clock
	s, _ := load(t, cfg)
	require.Equal(t, 1, looks(t, s, cfg, 10), "the first time")
	require.Equal(t, 1, looks(t, s, cfg, 10), "and now and then")

	makeBlock(t, cfg, 2)
	require.Equal(t, 2, looks(t, s, cfg, 5), "and once more, as it was new")
	require.Equal(t, ids(1, 2, 3), names(s.Current()))

	makeBlock(t, cfg, 3)
	require.NoError(t, s.Reload(true))
	require.Equal(t, ids(1, 2, 3, 4), names(s.Current()))
	require.NoError(t, s.Reload(true))
	require.Zero(t, looks(t, s, cfg, 5))

	// What is damaged is looked at again, as somebody may be copying it.
	require.NoError(t, cfg.FS.(*tsdbtest.MemFS).MkdirAll(dataDir+"/"+blocktest.ID(9).String()))
	for range 3 {
		require.Error(t, s.Reload(false))
	}
}

// A change just now may have another one behind it at the same time.
func TestReload_ListsADirectoryThatHasJustChanged(t *testing.T) {
	cfg := config(t, 2)
	clock := tsdbtest.NewClock(time.Date(2000, 1, 1, 0, 0, 1, 0, time.UTC))
	cfg.Clock = clock
	s, _ := load(t, cfg)
	require.Equal(t, 5, looks(t, s, cfg, 5))
	clock.Advance(time.Minute)
	require.Equal(t, 1, looks(t, s, cfg, 5))
	clock.Set(time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC)) // a clock that is behind says nothing
	makeBlock(t, cfg, 2)
	require.Equal(t, 5, looks(t, s, cfg, 5))
}
