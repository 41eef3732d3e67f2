package backup_test

import (
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/backup"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// While a database is written to, flushed, merged and deleted from, each backup has all that was
// committed before it began, commits as a whole, and nothing that was never there.
func TestTake_OfADatabaseInUse(t *testing.T) {
	fs, clock := tsdbtest.NewMemFS(), tsdbtest.NewClock(time.UnixMilli(1_700_000_000_000))
	opts := &tsdb.Options{FS: fs, Clock: clock, WAL: tsdb.WALOptions{SegmentSize: 1 << 15}, Head: tsdb.HeadOptions{OutOfOrderWindow: time.Hour},
		Blocks: tsdb.BlockOptions{Range: 5 * time.Minute, MaxRange: 45 * time.Minute, Retention: 3 * time.Hour}}
	db, err := tsdb.Open("data", opts)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	const series = 10
	begin := clock.Now().UnixMilli()
	var acked, tried atomic.Int64      // minutes
	minutes := make(chan struct{}, 30) // that may pass
	pass := func() {
		for len(minutes) < cap(minutes) {
			minutes <- struct{}{}
		}
	}
	stop, ended := make(chan struct{}), make(chan error)
	go func() {
		for n := int64(1); ; n++ {
			select {
			case <-stop:
				ended <- nil
				return
			case <-minutes:
			}
			clock.Advance(time.Minute)
			app := db.Appender()
			for i := range series {
				_, err = app.Append(0, labels.FromStrings("__name__", "m", "i", fmt.Sprint(i)), begin+n*60_000, float64(n))
				for _, at := range []int64{n, n - 2} { // the second one is late
					if n%3 == 0 && err == nil {
						_, err = app.Append(0, labels.FromStrings("__name__", "l", "i", fmt.Sprint(i)), begin+at*60_000, float64(at))
					}
				}
			}
			tried.Store(n)
			if err == nil {
				_, err = app.Commit(ctx)
			}
			if n%40 == 0 && err == nil {
				err = db.Delete(ctx, math.MinInt64, begin+(n-100)*60_000, labels.Equal("i", "0"))
			}
			if err != nil {
				ended <- err
				return
			}
			acked.Store(n)
		}
	}()
	store := backup.NewDirStore("backups", fs)
	pass()
	require.Eventually(t, func() bool { return acked.Load() > 10 }, time.Minute, time.Millisecond)
	for k := range 40 {
		pass()
		before := acked.Load()
		b, err := backup.Take(ctx, "data", store, &backup.Options{FS: fs, Clock: tsdbtest.NewClock(time.UnixMilli(int64(k)))})
		require.NoError(t, err)
		after := tried.Load()
		dir := fmt.Sprint("restored", k)
		_, err = backup.Restore(ctx, store, b.Name, dir, &backup.Options{FS: fs, Clock: clock})
		require.NoError(t, err)
		o := *opts
		o.Blocks.Manual = true
		r, err := tsdb.OpenReadOnly(dir, &o)
		require.NoError(t, err)
		report := r.OpenReport()
		require.True(t, report.Clean(), "%+v", report)
		got := dump(t, r)
		require.NoError(t, r.Close())
		oldest := after - 2*60 // what retention and deletes may have taken is older
		for i := 1; i < series; i++ {
			points := got[labels.FromStrings("__name__", "m", "i", fmt.Sprint(i)).String()]
			require.Equal(t, got[labels.FromStrings("__name__", "m", "i", "1").String()], points, "commits are there as a whole")
			there := map[string]bool{}
			late := got[labels.FromStrings("__name__", "l", "i", fmt.Sprint(i)).String()]
			for _, p := range points {
				there[p] = true
			}
			for _, p := range late {
				there["late "+p] = true
			}
			for n := max(oldest, 1); n <= before; n++ {
				require.True(t, there[fmt.Sprint(begin+n*60_000, " ", n)], "backup %d: minute %d of %d is missing", k, n, before)
				if n%3 == 0 {
					require.True(t, there[fmt.Sprint("late ", begin+n*60_000, " ", n)], "backup %d: minute %d of %d is missing", k, n, before)
					require.True(t, there[fmt.Sprint("late ", begin+(n-2)*60_000, " ", n-2)], "backup %d: late minute %d of %d is missing", k, n-2, before)
				}
			}
			var newest int64
			_, err := fmt.Sscan(points[len(points)-1], &newest)
			require.NoError(t, err)
			require.LessOrEqual(t, newest, begin+after*60_000)
		}
	}
	close(stop)
	require.NoError(t, <-ended)
	require.Greater(t, db.Stats().Flushes, uint64(3))
	require.Greater(t, db.Stats().Merges, uint64(0))
}
