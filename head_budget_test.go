package tsdb_test

import (
	"context"
	"fmt"
	"math"
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

// churn scrapes series that stay, and one that is another one after each minute, with a look of the
// flusher behind each scrape. It returns how many samples were refused.
func (h *host) churn(d time.Duration) (refused int) {
	h.Helper()
	look := tsdb.Flusher(h.db)
	for range d / hostInterval {
		require.NoError(h, h.scrape())
		now := h.clock.Now().UnixMilli()
		if err := appendOne(h.db, labels.FromStrings("__name__", "pod", "n", fmt.Sprint(now/minute)), now); err != nil {
			require.ErrorIs(h, err, tsdb.ErrLimit)
			refused++
		}
		look()
	}
	return refused
}

// Series that ended make way before a block range is over, and again in each.
func TestMaxSeries_NearTheLimit_TheHeadIsFlushedEarly(t *testing.T) {
	h := newHost(t, 50, tsdb.BlockOptions{Manual: true})
	h.opts.Head.MaxSeries = 100
	h.reopen()
	require.NoError(t, h.scrape())
	refs := append([]tsdb.SeriesRef(nil), h.refs...)
	require.Zero(t, h.churn(6*time.Hour))
	st := h.db.Stats()
	require.EqualValues(t, 50+6*60, st.SeriesCreated-1)
	require.GreaterOrEqual(t, st.Flushes, uint64(6), "a range of two hours would be flushed twice")
	// Of 38 series those of the last 15 minutes stay.
	require.LessOrEqual(t, st.Flushes, uint64(6*60/(38-15)+3+3), "once for each 23 series, and at the end of each range, where a block ends")
	require.Equal(t, refs, h.refs, "those that go on keep their refs")
	require.Len(t, dump(t, h.db, math.MinInt64, math.MaxInt64), int(st.SeriesCreated), "nothing is lost")
}

// What is of no use is not done over and over: all series go on, and the head is near its limit.
func TestMaxSeries_OfSeriesThatGoOn_IsNoReasonToFlush(t *testing.T) {
	h := newHost(t, 100, tsdb.BlockOptions{Manual: true})
	h.opts.Head.MaxSeries = 100
	h.reopen()
	look := tsdb.Flusher(h.db)
	for range 2 * time.Hour / hostInterval {
		require.NoError(t, h.scrape())
		require.ErrorIs(t, appendOne(h.db, labels.FromStrings("a", "b"), h.clock.Now().UnixMilli()), tsdb.ErrLimit)
		look()
	}
	require.Zero(t, h.db.Stats().Flushes)
	for range 2 * time.Hour / hostInterval {
		require.NoError(t, h.scrape())
		look()
	}
	require.EqualValues(t, 1, h.db.Stats().Flushes, "only when the block range is over")
	require.Equal(t, 100, h.db.Stats().Series)
}

// Samples make a head large, and the head becomes a block early, but not again for what stays.
func TestMaxBytes_NearTheLimit_TheHeadIsFlushedEarlyAndNotOverAndOver(t *testing.T) {
	h := newHost(t, 400, tsdb.BlockOptions{Manual: true})
	require.NoError(t, h.scrape())
	empty := h.db.Stats().HeadSizeBytes
	h.opts.Head.MaxBytes = empty + empty/8
	h.reopen()
	look := tsdb.Flusher(h.db)
	flushes := []uint64{}
	for range 8 {
		for range time.Hour / hostInterval {
			require.NoError(t, h.scrape())
			look()
		}
		flushes = append(flushes, h.db.Stats().Flushes)
	}
	require.NotZero(t, flushes[1], "early")
	require.LessOrEqual(t, flushes[7], uint64(8*4), "at most eight in a block range")
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
