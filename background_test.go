package tsdb_test

import (
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// callersFS notes which files are made by work in the background.
type callersFS struct {
	tsdb.FS
	background, ordinary []string // last elements of their directories' names
}

func (c *callersFS) Create(name string) (fileutil.File, error) {
	dir := filepath.Base(filepath.Dir(name))
	stack := make([]uintptr, 64)
	frames := runtime.CallersFrames(stack[:runtime.Callers(0, stack)])
	for more := true; more; {
		var f runtime.Frame
		if f, more = frames.Next(); strings.Contains(f.Function, "internal/background.(*Runner).Run.") {
			c.background = append(c.background, dir)
			return c.FS.Create(name)
		}
	}
	c.ordinary = append(c.ordinary, dir)
	return c.FS.Create(name)
}

func TestFlushMergeAndCheckpoint_AreInTheBackground(t *testing.T) {
	c := &callersFS{}
	f := newFixture(t, func(o *tsdb.Options) {
		manual(o)
		c.FS = o.FS
		o.FS = c
	})
	base := testNow.UnixMilli()/(2*hour)*(2*hour) - 4*hour
	for i := range int64(2) {
		f.scrapes(1, base+i*2*hour, base+i*2*hour+hour)
		c.background, c.ordinary = nil, nil
		require.NoError(t, f.db.Flush(ctx))
		require.Contains(t, c.background, "chunks", "a block")
		require.Contains(t, c.background, "tmp-checkpoint")
		require.Subset(t, []string{"wal"}, c.ordinary)
	}
	require.NoError(t, f.db.Delete(ctx, base, base+minute))
	c.background, c.ordinary = nil, nil
	require.NoError(t, f.db.CleanTombstones(ctx))
	require.Contains(t, c.background, "chunks", "a block")
	require.Empty(t, c.ordinary)
}
