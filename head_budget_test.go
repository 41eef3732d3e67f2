package tsdb_test

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// appendOne commits a sample of a series.
func appendOne(db *tsdb.DB, ls labels.Labels, at int64) error {
	app := db.Appender()
	if _, err := app.Append(0, ls, at, 1); err != nil {
		return err
	}
	_, err := app.Commit(context.Background())
	return err
}

func TestMaxSeries_NewOnesAreRefused_KnownOnesGoOn(t *testing.T) {
	f := newFixture(t, func(o *tsdb.Options) { o.Head.MaxSeries = 3 })
	app := f.db.Appender()
	for i := range 3 {
		_, err := app.Append(0, labels.FromStrings("i", fmt.Sprint(i)), 1, 1)
		require.NoError(t, err)
	}
	_, err := app.Append(0, labels.FromStrings("i", "3"), 1, 1)
	require.ErrorIs(t, err, tsdb.ErrLimit)
	require.ErrorContains(t, err, `create series {i="3"}: the head has 3 series, Head.MaxSeries is 3`)
	require.NoError(t, app.Rollback())
	require.Zero(t, f.db.Stats().Series, "what was rolled back takes no place")

	for i := range 3 {
		require.NoError(t, appendOne(f.db, labels.FromStrings("i", fmt.Sprint(i)), 1))
	}
	for at := range int64(10) {
		require.ErrorIs(t, appendOne(f.db, labels.FromStrings("i", "3"), 2+at), tsdb.ErrLimit)
		require.NoError(t, appendOne(f.db, labels.FromStrings("i", "0"), 2+at))
	}
	require.EqualValues(t, 11, f.db.Stats().SeriesRefused)
	require.Equal(t, 3, f.db.Stats().Series)
}

// A head at its limit comes back whole behind a kill or a loss of power, and at the limit, whatever
// the limit is by then.
func TestMaxSeries_AHeadAtItsLimitIsRecovered(t *testing.T) {
	for _, snapshots := range []int64{-1, 1} {
		for _, limit := range []int{100, 10} {
			f := newFixture(t, func(o *tsdb.Options) {
				o.Head.MaxSeries, o.Head.SnapshotThreshold, o.WAL.Sync = 100, snapshots, tsdb.SyncCommit()
			})
			for i := range 100 {
				require.NoError(t, appendOne(f.db, labels.FromStrings("i", fmt.Sprint(i)), 1))
			}
			if snapshots > 0 {
				require.NoError(t, tsdb.TakeHeadSnapshot(f.db))
			}
			require.ErrorIs(t, appendOne(f.db, labels.FromStrings("i", "new"), 2), tsdb.ErrLimit)
			o := *f.opts
			o.FS, o.Head.MaxSeries = f.fs.CrashClone(tsdbtest.CrashOptions{Choose: tsdbtest.LoseAll}), limit
			db, err := tsdb.Open(fixtureDir, &o)
			require.NoError(t, err)
			report := db.OpenReport()
			require.True(t, report.Clean())
			require.Equal(t, 100, db.Stats().Series)
			require.ErrorIs(t, appendOne(db, labels.FromStrings("i", "new"), 2), tsdb.ErrLimit)
			for i := range 100 {
				require.NoError(t, appendOne(db, labels.FromStrings("i", fmt.Sprint(i)), 2))
			}
			require.NoError(t, db.Close())
		}
	}
}

// churn scrapes series that stay, and one that is another one after each minute. The flusher runs
// beside this: where it is behind, only those are scraped that stay.
func (h *host) churn(d time.Duration, most int) {
	h.Helper()
	begun := time.Now()
	for range d / hostInterval {
		require.NoError(h, h.scrape())
		for h.db.Stats().Series > most {
			require.NoError(h, h.scrape())
			require.Less(h, time.Since(begun), patience)
			runtime.Gosched()
		}
		now := h.clock.Now().UnixMilli()
		require.NoError(h, appendOne(h.db, labels.FromStrings("__name__", "pod", "n", fmt.Sprint(now/minute)), now))
	}
}

// Series that ended make way before a block range is over, and again in each.
func TestMaxSeries_NearTheLimit_TheHeadIsFlushedEarly(t *testing.T) {
	h := newHost(t, 50, tsdb.BlockOptions{})
	h.opts.Head.MaxSeries = 100
	h.reopen()
	require.NoError(t, h.scrape())
	refs := append([]tsdb.SeriesRef(nil), h.refs...)
	begin := h.clock.Now()
	h.churn(6*time.Hour, 95)
	st := h.db.Stats()
	require.Zero(t, st.SeriesRefused)
	require.Greater(t, st.SeriesCreated, uint64(300))
	require.GreaterOrEqual(t, st.Flushes, uint64(6), "a range of two hours would be flushed twice")
	require.LessOrEqual(t, st.Flushes, uint64(8*h.clock.Now().Sub(begin)/(2*time.Hour)+8), "at most eight in a block range, and one at its end")
	require.Equal(t, refs, h.refs, "those that go on keep their refs")
	require.Len(t, dump(t, h.db, math.MinInt64, math.MaxInt64), int(st.SeriesCreated), "nothing is lost")
}

// What is of no use is not done over and over: all series go on, and the head is near its limit.
func TestMaxSeries_OfSeriesThatGoOn_IsNoReasonToFlush(t *testing.T) {
	h := newHost(t, 100, tsdb.BlockOptions{})
	h.opts.Head.MaxSeries = 100
	h.reopen()
	for range 2 * 6 { // two hours
		h.run(10 * time.Minute)
		require.ErrorIs(t, appendOne(h.db, labels.FromStrings("a", "b"), h.clock.Now().UnixMilli()), tsdb.ErrLimit)
	}
	require.Zero(t, h.db.Stats().Flushes)
	h.run(2 * time.Hour)
	require.Eventually(t, func() bool {
		h.clock.Advance(time.Second)
		return h.db.Stats().Flushes == 1
	}, patience, time.Millisecond, "only when the block range is over")
	require.Equal(t, 100, h.db.Stats().Series)
}

func TestMaxBytes_NewSeriesAreRefused_KnownOnesGoOn_AlsoBehindAKill(t *testing.T) {
	const limit = 4 << 20
	f := newFixture(t, func(o *tsdb.Options) {
		o.Head.MaxBytes, o.WAL.Sync, o.Blocks.Manual = limit, tsdb.SyncCommit(), true
	})
	n := 0
	var err error
	for ; err == nil; n++ {
		app := f.db.Appender()
		for i := 0; i < 100 && err == nil; i++ {
			_, err = app.Append(0, labels.FromStrings("n", fmt.Sprint(n), "i", fmt.Sprint(i)), 1, 1)
		}
		_, commitErr := app.Commit(ctx)
		require.NoError(t, commitErr)
	}
	require.ErrorIs(t, err, tsdb.ErrLimit)
	require.Regexp(t, `create series .*: the head takes \d+ bytes, Head.MaxBytes is 4194304`, err)
	st := f.db.Stats()
	require.Less(t, st.HeadSizeBytes, int64(limit+limit/8))

	o := *f.opts
	o.FS = f.fs.CrashClone(tsdbtest.CrashOptions{Choose: tsdbtest.LoseAll})
	db, err := tsdb.Open(fixtureDir, &o)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	after := db.Stats()
	require.Equal(t, st.Series, after.Series)
	require.Less(t, after.HeadSizeBytes, int64(limit+limit/8), "what fit before a kill fits after")
	require.NoError(t, appendOne(db, labels.FromStrings("n", "0", "i", "0"), 2))
	for i := 0; err == nil; i++ {
		err = appendOne(db, labels.FromStrings("new", fmt.Sprint(i)), 2)
	}
	require.ErrorIs(t, err, tsdb.ErrLimit)
	require.Less(t, db.Stats().HeadSizeBytes, int64(limit+limit/8))

	require.NoError(t, db.Flush(ctx))
	require.NoError(t, appendOne(db, labels.FromStrings("new", "of the next block"), math.MaxInt32), "a flush made room")
}
