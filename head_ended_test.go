package tsdb_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/exemplar"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// Series that ended leave the head first when its budget is near.

// endedHost has a head with room for 16 series: eight that go on, and eight that ended half an hour
// ago.
type endedHost struct {
	*fixture
	look func()
	now  int64 // time of the newest sample
}

func newEndedHost(t *testing.T, with ...func(o *tsdb.Options)) *endedHost {
	h := &endedHost{fixture: newFixture(t, func(o *tsdb.Options) {
		manual(o)
		o.WAL.Sync, o.Head.MaxSeries = tsdb.SyncCommit(), 16
		for _, set := range with {
			set(o)
		}
	})}
	h.now = testNow.UnixMilli() - 40*minute
	for range 5 {
		h.scrape("live", 8)
		h.scrape("ended", 8)
		h.now += minute
	}
	for range 30 {
		h.scrape("live", 8)
		h.now += minute
	}
	h.look = tsdb.Flusher(h.db)
	return h
}

func endedLabels(name string, i int) labels.Labels {
	return labels.FromStrings("__name__", name, "i", fmt.Sprint(i))
}

// scrape commits a sample of each of some series.
func (h *endedHost) scrape(name string, n int) {
	h.t.Helper()
	for i := range n {
		require.NoError(h.t, appendOne(h.db, endedLabels(name, i), h.now))
	}
}

func (h *endedHost) all() map[string][]point {
	h.t.Helper()
	return dump(h.t, h.db, math.MinInt64, math.MaxInt64)
}

// crashed opens what a loss of power leaves.
func (h *endedHost) crashed() *tsdb.DB {
	h.t.Helper()
	o := *h.opts
	o.FS = h.fs.CrashClone(tsdbtest.CrashOptions{Choose: tsdbtest.LoseAll})
	db, err := tsdb.Open(fixtureDir, &o)
	require.NoError(h.t, err)
	h.t.Cleanup(func() { require.NoError(h.t, db.Close()) })
	return db
}

func TestMaxSeries_NearTheLimit_SeriesThatEndedLeaveFirst(t *testing.T) {
	h := newEndedHost(t)
	want, from := h.all(), h.db.Stats().AcceptsInOrderFrom
	require.Equal(t, 16, h.db.Stats().Series)
	h.look()
	st := h.db.Stats()
	require.Equal(t, 8, st.Series)
	require.EqualValues(t, 8, st.SeriesRemoved)
	require.Equal(t, from, st.AcceptsInOrderFrom, "the head begins where it did")
	blocks := h.db.Blocks()
	require.NotEmpty(t, blocks)
	for _, b := range blocks {
		require.True(t, b.HasHint(fromStaleSeries))
		require.EqualValues(t, 8, b.Stats.NumSeries)
	}
	require.Equal(t, want, h.all())
	// Others take samples as before: new ones, and those that lag behind.
	require.NoError(t, appendOne(h.db, endedLabels("lags", 0), h.now-35*minute))
	require.NoError(t, appendOne(h.db, endedLabels("live", 0), h.now-minute/2))
	want = h.all()

	db := h.crashed()
	report := db.OpenReport()
	require.True(t, report.Clean(), "%+v", report)
	require.Equal(t, 9, db.Stats().Series, "a head that fitted fits again")
	require.Equal(t, want, dump(t, db, math.MinInt64, math.MaxInt64))
	for i := range 7 {
		require.NoError(t, appendOne(db, endedLabels("new", i), h.now))
	}
	require.ErrorIs(t, appendOne(db, endedLabels("new", 7), h.now), tsdb.ErrLimit)
}

func TestMaxSeries_SeriesThatEnded_StayForReadersThatDoNotKnowTheirBlocks(t *testing.T) {
	h := newEndedHost(t)
	q, err := h.db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	want, err := readAll(q)
	require.NoError(t, err)
	h.look()
	require.NotEmpty(t, h.db.Blocks())
	require.Equal(t, 16, h.db.Stats().Series)
	require.NoError(t, appendOne(h.db, endedLabels("ended", 3), h.now)) // it had not ended after all
	got, err := readAll(q)
	require.NoError(t, err)
	require.Equal(t, want, got)

	// One that knows the blocks, and the series.
	q2, err := h.db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	set := q2.Select(ctx, nil, labels.Equal("__name__", "ended"))
	require.True(t, set.Next())
	require.NoError(t, q.Close())
	h.look()
	require.Equal(t, 9, h.db.Stats().Series)
	for n := 1; ; n++ {
		require.Equal(t, "ended", set.At().Labels().Get("__name__"))
		ps, err := pointsOf(set.At().Iterator(nil))
		require.NoError(t, err)
		i := set.At().Labels().Get("i")
		if require.Equal(t, fmt.Sprint(n-1), i); i == "3" {
			require.Len(t, ps, 6)
		} else {
			require.Len(t, ps, 5)
		}
		if !set.Next() {
			require.Equal(t, 8, n)
			break
		}
	}
	require.NoError(t, set.Err())
	want = h.all()
	require.NoError(t, q2.Close())
	h.look()
	require.Equal(t, want, h.all())
	require.Equal(t, want, dump(t, h.crashed(), math.MinInt64, math.MaxInt64))
}

func TestMaxSeries_WhatIsDeletedOfSeriesThatEnded_StaysDeleted(t *testing.T) {
	h := newEndedHost(t)
	h.look()
	require.Equal(t, 8, h.db.Stats().Series)
	require.NoError(t, h.db.Delete(ctx, math.MinInt64, math.MaxInt64, labels.Equal("__name__", "ended")))
	require.Len(t, h.all(), 8)
	require.Len(t, dump(t, h.crashed(), math.MinInt64, math.MaxInt64), 8)
	require.NoError(t, h.db.Compact(ctx))
	require.Len(t, dump(t, h.crashed(), math.MinInt64, math.MaxInt64), 8)
}

// A series that comes back is a new one, and what it had before is read with it.
func TestMaxSeries_ASeriesThatEnded_ComesBack(t *testing.T) {
	h := newEndedHost(t)
	h.look()
	h.scrape("ended", 8)
	require.Equal(t, 16, h.db.Stats().Series)
	want := h.all()
	require.Len(t, want, 16)
	require.Len(t, want[endedLabels("ended", 0).String()], 6)
	require.Equal(t, want, dump(t, h.crashed(), math.MinInt64, math.MaxInt64))
	require.NoError(t, h.db.Flush(ctx))
	require.NoError(t, h.db.Compact(ctx))
	require.Equal(t, want, h.all())
	require.Equal(t, want, dump(t, h.crashed(), math.MinInt64, math.MaxInt64))
}

// Late samples of series that ended go with them, and are no reason to stay.
func TestMaxSeries_SeriesThatEnded_WithLateSamples(t *testing.T) {
	for _, n := range []int{1, 8} {
		h := newEndedHost(t, func(o *tsdb.Options) { o.Head.OutOfOrderWindow = time.Hour })
		for i := range n {
			require.NoError(t, appendOne(h.db, endedLabels("ended", i), h.now-37*minute-1))
		}
		want := h.all()
		h.look()
		require.Equal(t, 8, h.db.Stats().Series)
		require.Equal(t, want, h.all())
		require.Equal(t, want, dump(t, h.crashed(), math.MinInt64, math.MaxInt64))
	}
}

// A snapshot of the head does not have them.
func TestMaxSeries_SeriesThatEnded_AreInNoSnapshotOfTheHead(t *testing.T) {
	h := newEndedHost(t)
	want := h.all()
	h.look()
	require.NoError(t, tsdb.TakeHeadSnapshot(h.db))
	db := h.crashed()
	require.NotEmpty(t, db.OpenReport().Snapshot)
	require.Equal(t, 8, db.Stats().Series)
	require.Equal(t, want, dump(t, db, math.MinInt64, math.MaxInt64))
}

// A snapshot of the head does not bring back what it holds for a Querier, when no block says any
// more that it was deleted.
func TestHeadSnapshot_WithAReaderOfWhatIsDeleted_BringsNothingBack(t *testing.T) {
	f := newFixture(t, func(o *tsdb.Options) {
		manual(o)
		o.Blocks.Range, o.Head.OutOfOrderWindow, o.WAL.Sync = time.Minute, time.Minute, tsdb.SyncCommit()
		o.Head.SnapshotThreshold, o.Blocks.Manual = 1, false
	})
	base := testNow.UnixMilli()
	f.commit(sample{`{a="b"}`, base, 1}, sample{`{a="b"}`, base + 700, 2})
	f.commit(sample{`{a="b"}`, base + 400, 3})
	q, err := f.db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	require.NoError(t, f.db.Flush(ctx))
	require.NoError(t, f.db.Delete(ctx, math.MinInt64, math.MaxInt64))
	require.NoError(t, f.db.Compact(ctx))
	require.Empty(t, f.db.Blocks())
	tsdb.LookForSnapshot(f.db)
	o := *f.opts
	o.FS = f.fs.CrashClone(tsdbtest.CrashOptions{Choose: tsdbtest.LoseAll})
	db, err := tsdb.Open(fixtureDir, &o)
	require.NoError(t, err)
	require.Empty(t, dump(t, db, math.MinInt64, math.MaxInt64))
	require.NoError(t, db.Close())
	require.Zero(t, f.db.Stats().HeadSnapshots)
	require.NoError(t, q.Close())
	tsdb.Flusher(f.db)() // lets go of what it had
	for i := range int64(100) {
		f.commit(sample{`{a="b"}`, base + minute + i, 1})
	}
	tsdb.LookForSnapshot(f.db)
	require.Positive(t, f.db.Stats().HeadSnapshots)
}

// The labels of a series that has left stay for readers that may know it, whoever comes and goes.
func TestMaxSeries_SeriesThatEnded_KeepTheirLabelsForReaders(t *testing.T) {
	h := newEndedHost(t, func(o *tsdb.Options) { o.Head.MaxSeries = 17 })
	q, err := h.db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	h.look()
	q2, err := h.db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	set := q2.Select(ctx, nil, labels.Equal("__name__", "ended"))
	require.True(t, set.Next())
	require.NoError(t, q.Close())
	h.look()
	require.Equal(t, 8, h.db.Stats().Series)
	for i := range 1024 { // so many as are forgotten at once
		app := h.db.Appender()
		_, err := app.Append(0, endedLabels("ended", i%8), h.now, 1)
		require.NoError(t, err)
		require.NoError(t, app.Rollback())
	}
	for i := range 5 {
		require.NoError(t, appendOne(h.db, labels.FromStrings("__name__", fmt.Sprint("other", i), "z", fmt.Sprint(i)), h.now))
	}
	n := 1
	for ; set.Next(); n++ {
		require.Equal(t, endedLabels("ended", n), set.At().Labels())
	}
	require.NoError(t, set.Err())
	require.Equal(t, 8, n)
	require.NoError(t, q2.Close())
	h.look()
}

// Series with exemplars stay, as the log has these under their refs: the whole head is flushed.
func TestMaxSeries_SeriesThatEnded_WithExemplars(t *testing.T) {
	h := newEndedHost(t, func(o *tsdb.Options) { o.Head.MaxExemplars = 100 })
	for i := range 8 {
		app := h.db.Appender()
		_, err := app.AppendExemplar(0, endedLabels("ended", i), exemplar.Exemplar{Labels: labels.FromStrings("t", "1"), Value: 1, T: h.now, HasT: true})
		require.NoError(t, err)
		_, err = app.Commit(ctx)
		require.NoError(t, err)
	}
	want := h.all()
	for range 5 {
		h.look()
		h.scrape("live", 8)
		h.now += minute
	}
	require.Equal(t, 8, h.db.Stats().Series)
	for _, b := range h.db.Blocks() {
		require.False(t, b.HasHint(fromStaleSeries))
	}
	require.Len(t, h.all(), len(want))
	require.NoError(t, tsdb.Checkpoint(h.db))
	require.Equal(t, h.all(), dump(t, h.crashed(), math.MinInt64, math.MaxInt64))
}
