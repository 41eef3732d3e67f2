package wal

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/tsdbtest"
)

// Whenever the power fails, what is left are the newest segments, without a hole.
func TestRemoveBefore_APowerCutLeavesNoHole(t *testing.T) {
	disk, dir := tsdbtest.NewMemFS(), filepath.Join(filepath.Dir(testDir), OutOfOrderDir)
	require.NoError(t, disk.MkdirAll(dir))
	for i := range 6 {
		f, err := disk.Create(filepath.Join(dir, fmt.Sprintf("%08d", i)))
		require.NoError(t, err)
		require.NoError(t, f.Sync())
		require.NoError(t, f.Close())
	}
	disk = disk.CrashClone(tsdbtest.CrashOptions{Choose: tsdbtest.KeepAll})
	states := 0
	check := func(tsdbtest.Op) error {
		for left := range disk.CrashStates(64) {
			list, err := List(left, dir)
			require.NoError(t, err)
			require.NotEmpty(t, list.Segments)
			first := list.Segments[0].Number
			require.LessOrEqual(t, first, 4)
			for i, s := range list.Segments {
				require.Equal(t, first+i, s.Number, "%v", list.Segments)
			}
			require.Len(t, list.Segments, 6-first)
			states++
		}
		return nil
	}
	disk.SetHook(check)
	require.NoError(t, RemoveBefore(disk, dir, 4))
	disk.SetHook(nil)
	require.NoError(t, check(tsdbtest.Op{}))
	require.Greater(t, states, 8)
	list, err := List(disk, dir)
	require.NoError(t, err)
	require.Len(t, list.Segments, 2)
}
