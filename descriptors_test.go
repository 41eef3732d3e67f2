//go:build linux

package tsdb_test

import (
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
)

// fewDescriptors is a process that has no descriptor left but a few.
type fewDescriptors struct {
	*testing.T
	taken []*os.File
}

// take leaves so many.
func (d *fewDescriptors) take(left int) {
	d.Helper()
	for {
		f, err := os.Open("/dev/null")
		if err != nil {
			require.ErrorIs(d, err, syscall.EMFILE)
			break
		}
		d.taken = append(d.taken, f)
	}
	d.give(left)
}

func (d *fewDescriptors) give(n int) {
	for ; n > 0 && len(d.taken) > 0; n-- {
		require.NoError(d, d.taken[len(d.taken)-1].Close())
		d.taken = d.taken[:len(d.taken)-1]
	}
}

// crowdedDB is a database in such a process, and what was committed to it.
type crowdedDB struct {
	*testing.T
	db   *tsdb.DB
	next int64
	want map[string][]point
}

// commit commits values that do not compress, so that segments and chunks are soon full.
func (c *crowdedDB) commit() error {
	c.next++
	app := c.db.Appender()
	staged := map[string]point{}
	for i := range 100 {
		ls := labels.FromStrings("i", strconv.Itoa(i), "pad", strings.Repeat("x", 100))
		v := math.Sqrt(float64(c.next*1000 + int64(i)))
		_, err := app.Append(0, ls, c.next*1000, v)
		require.NoError(c, err)
		staged[ls.String()] = point{c.next * 1000, math.Float64bits(v)}
	}
	_, err := app.Commit(ctx)
	if err == nil {
		for series, p := range staged {
			c.want[series] = append(c.want[series], p)
		}
	}
	return err
}

// try does one of everything that opens files, and takes no other error than that it could not.
func (c *crowdedDB) try() (failed int) {
	copied := filepath.Join(c.TempDir(), "copy")
	for _, do := range []func() error{
		func() error {
			for range 40 { // more than a segment
				if err := c.commit(); err != nil {
					require.ErrorIs(c, err, tsdb.ErrNotCommitted)
					return err
				}
			}
			return nil
		},
		func() error { return tsdb.WriteHeadChunks(c.db) },
		func() error { return tsdb.TakeHeadSnapshot(c.db) },
		func() error { return c.db.Flush(ctx) },
		func() error { return c.db.Compact(ctx) },
		func() error { return c.db.Snapshot(ctx, copied) },
		func() error { return c.db.Sync() },
	} {
		if err := do(); err != nil {
			require.ErrorIs(c, err, syscall.EMFILE)
			require.NotErrorIs(c, err, tsdb.ErrPoisoned, "nothing was tried, so nothing is in doubt")
			failed++
		}
		require.NotErrorIs(c, c.db.Health(), tsdb.ErrPoisoned)
	}
	return failed
}

// A process that has used up its descriptors fails what needs one, and goes on when there are
// some again: a directory that cannot be opened is no sync that failed.
func TestDescriptors_WithoutAnyWorkFailsAndGoesOnLater(t *testing.T) {
	if os.Getenv(insideEnv) == "" {
		runInside(t, nil)
		return
	}
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 200, Max: 200}))
	opts := &tsdb.Options{}
	opts.Blocks.Manual = true
	opts.Head.SamplesPerChunk = 16
	opts.WAL.SegmentSize = 32 << 10
	opts.WAL.Sync = tsdb.SyncCommit()
	dir := filepath.Join(t.TempDir(), "data")
	db, err := tsdb.Open(dir, opts)
	require.NoError(t, err)
	c := &crowdedDB{T: t, db: db, want: map[string][]point{}}
	for range 20 {
		require.NoError(t, c.commit())
	}
	d := &fewDescriptors{T: t}
	failed := 0
	for left := range 6 {
		d.take(left)
		failed += c.try()
		d.give(math.MaxInt)
		require.NoError(t, c.commit())
		require.NoError(t, db.Health(), "with %d left", left)
		require.Zero(t, c.try(), "all of it can be done now")
		require.Equal(t, c.want, dump(t, db, math.MinInt64, math.MaxInt64))
	}
	require.GreaterOrEqual(t, failed, 7, "with none left everything fails but Sync")
	require.NoError(t, db.Close())
	db, err = tsdb.Open(dir, opts)
	require.NoError(t, err)
	report := db.OpenReport()
	require.True(t, report.Clean(), "%+v", report)
	require.Equal(t, c.want, dump(t, db, math.MinInt64, math.MaxInt64))
	require.NoError(t, db.Close())
}
