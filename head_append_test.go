package tsdb_test

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
)

var ctx = context.Background()

func TestAppend_BadLabelsAreRefusedAndSpoilNothing(t *testing.T) {
	f := newFixture(t, nil)
	app := f.db.Appender()
	good, err := app.Append(0, series(t, `{a="b"}`), 1, 1)
	require.NoError(t, err)
	many := labels.Builder{}
	for i := range 65 {
		many.Set(fmt.Sprintf("label_%d", i), "x")
	}
	for _, c := range []struct {
		name string
		ls   labels.Labels
		want error
	}{
		{"empty set", labels.Labels{}, tsdb.ErrNotFound},
		{"empty name", labels.FromStrings("", "x"), tsdb.ErrInvalidLabels},
		{"duplicate name", labels.New(labels.Label{Name: "a", Value: "1"}, labels.Label{Name: "a", Value: "2"}), tsdb.ErrInvalidLabels},
		{"name not UTF-8", labels.FromStrings("a\xff", "x"), tsdb.ErrInvalidLabels},
		{"value not UTF-8", labels.FromStrings("a", "\xff"), tsdb.ErrInvalidLabels},
		{"odd strings", labels.FromStrings("a", "b", "c"), tsdb.ErrInvalidLabels},
		{"too many labels", many.Labels(), tsdb.ErrLimit},
		{"name too long", labels.FromStrings(strings.Repeat("n", 257), "x"), tsdb.ErrLimit},
		{"value too long", labels.FromStrings("a", strings.Repeat("v", 4097)), tsdb.ErrLimit},
	} {
		_, err := app.Append(0, c.ls, 1, 1)
		require.ErrorIs(t, err, c.want, c.name)
	}
	res, err := app.Commit(ctx)
	require.NoError(t, err)
	require.Equal(t, tsdb.CommitResult{Samples: 1, Floats: 1}, res)
	require.EqualValues(t, 1, good)
	require.Equal(t, 1, f.db.Stats().Series)
	require.Equal(t, map[string][]point{`{a="b"}`: points(1, 1)}, f.all())
}

func TestAppend_LateSamplesAreRefusedByName(t *testing.T) {
	f := newFixture(t, nil)
	f.commit(sample{`{a="b"}`, 100, 1})
	app := f.db.Appender()
	ls := series(t, `{a="b"}`)
	_, err := app.Append(0, ls, 99, 1)
	require.ErrorIs(t, err, tsdb.ErrOutOfOrder)
	_, err = app.Append(0, ls, 100, 2)
	require.ErrorIs(t, err, tsdb.ErrDuplicateSample)
	_, err = app.Append(0, ls, 100, 1)
	require.NoError(t, err, "an exact repeat is accepted")
	_, err = app.Append(0, ls, testNow.Add(time.Hour).UnixMilli()+1, 1)
	require.ErrorIs(t, err, tsdb.ErrOutOfBounds)
	_, err = app.Append(0, ls, math.MinInt64, 1)
	require.ErrorIs(t, err, tsdb.ErrOutOfBounds)
	_, err = app.Append(99, labels.Labels{}, 101, 1)
	require.ErrorIs(t, err, tsdb.ErrNotFound)
	_, err = app.Append(99, ls, 101, 3)
	require.NoError(t, err, "a stale ref falls back to the labels")
	_, err = app.Append(0, ls, 101, 4)
	require.ErrorIs(t, err, tsdb.ErrDuplicateSample)
	res, err := app.Commit(ctx)
	require.NoError(t, err)
	require.Equal(t, 1, res.Samples)
	require.Equal(t, map[string][]point{`{a="b"}`: points(100, 1, 101, 3)}, f.all())
}

func TestCommit_ASampleThatBecameLateIsReported(t *testing.T) {
	f := newFixture(t, nil)
	slow, fast := f.db.Appender(), f.db.Appender()
	var refs []tsdb.SeriesRef
	for i, ts := range []int64{10, 20, 30} {
		ref, err := slow.Append(0, series(t, fmt.Sprintf(`{i="%d"}`, i)), ts, 1)
		require.NoError(t, err)
		refs = append(refs, ref)
	}
	_, err := fast.Append(0, series(t, `{i="1"}`), 20, 2)
	require.NoError(t, err)
	_, err = fast.Append(0, series(t, `{i="2"}`), 31, 2)
	require.NoError(t, err)
	_, err = fast.Commit(ctx)
	require.NoError(t, err)
	res, err := slow.Commit(ctx)
	require.NoError(t, err)
	require.Equal(t, tsdb.CommitResult{Samples: 1, Floats: 1, Rejected: []tsdb.Reject{
		{Index: 1, Ref: refs[1], Err: tsdb.ErrDuplicateSample}, {Index: 2, Ref: refs[2], Err: tsdb.ErrOutOfOrder},
	}}, res)
	want := map[string][]point{`{i="0"}`: points(10, 1), `{i="1"}`: points(20, 2), `{i="2"}`: points(31, 2)}
	require.Equal(t, want, f.all())
	f.reopen()
	require.Equal(t, want, f.all())
}

func TestCommit_OrderWithinOneAppenderIsChecked(t *testing.T) {
	f := newFixture(t, nil)
	app := f.db.Appender()
	a, b := series(t, `{s="a"}`), series(t, `{s="b"}`)
	ofA, err := app.Append(0, a, 9, 9)
	require.NoError(t, err)
	for _, s := range []struct {
		ls labels.Labels
		t  int64
	}{{a, 10}, {b, 10}, {a, 5}, {b, 20}} {
		_, err := app.Append(0, s.ls, s.t, float64(s.t))
		require.NoError(t, err)
	}
	res, err := app.Commit(ctx)
	require.NoError(t, err)
	require.Equal(t, []tsdb.Reject{{Index: 3, Ref: ofA, Err: tsdb.ErrOutOfOrder}}, res.Rejected)
	require.Equal(t, map[string][]point{`{s="a"}`: points(9, 9, 10, 10), `{s="b"}`: points(10, 10, 20, 20)}, f.all())
}

func TestAppendBatch_RejectsWhatItCannotStage(t *testing.T) {
	f := newFixture(t, nil)
	app := f.db.Appender()
	r1, err := app.Append(0, series(t, `{i="1"}`), 10, 1)
	require.NoError(t, err)
	r2, err := app.Append(0, series(t, `{i="2"}`), 50, 1)
	require.NoError(t, err)
	_, err = app.Commit(ctx)
	require.NoError(t, err)

	app = f.db.Appender()
	_, err = app.AppendBatch(20, []tsdb.SeriesRef{r1}, nil, nil)
	require.Error(t, err)
	rejected, err := app.AppendBatch(20, []tsdb.SeriesRef{r1, 77, r2}, []float64{2, 2, 2}, nil)
	require.NoError(t, err)
	require.Equal(t, []tsdb.Reject{
		{Index: 1, Ref: 77, Err: tsdb.ErrNotFound}, {Index: 2, Ref: r2, Err: tsdb.ErrOutOfOrder},
	}, rejected)
	res, err := app.Commit(ctx)
	require.NoError(t, err)
	require.Equal(t, 1, res.Samples)
}

func TestAppend_ExtremeTimesAndBitsSurvive(t *testing.T) {
	f := newFixture(t, func(o *tsdb.Options) { o.Limits.MaxFuture = -1 })
	stale, nan := math.Float64frombits(0x7ff0000000000002), math.Float64frombits(0x7ff8000000000001)
	payload, negZero := math.Float64frombits(0xfff8dead0000beef), math.Copysign(0, -1)
	f.commit(
		sample{`{a="b"}`, math.MinInt64 + 1, stale}, sample{`{a="b"}`, -1, nan}, sample{`{a="b"}`, 0, negZero},
		sample{`{a="b"}`, 1, payload}, sample{`{a="b"}`, math.MaxInt64 - 1, math.Inf(-1)},
	)
	want := map[string][]point{`{a="b"}`: {
		{math.MinInt64 + 1, 0x7ff0000000000002}, {-1, 0x7ff8000000000001}, {0, 1 << 63},
		{1, 0xfff8dead0000beef}, {math.MaxInt64 - 1, math.Float64bits(math.Inf(-1))},
	}}
	require.Equal(t, want, f.all())
	f.reopen()
	require.Equal(t, want, f.all())
	app := f.db.Appender()
	_, err := app.Append(0, series(t, `{a="b"}`), math.MaxInt64-1, math.Inf(-1))
	require.NoError(t, err, "a repeat of what recovery restored")
	for _, ts := range []int64{math.MinInt64, math.MaxInt64} {
		_, err = app.Append(0, series(t, `{a="c"}`), ts, 1)
		require.ErrorIs(t, err, tsdb.ErrOutOfBounds)
	}
	require.NoError(t, app.Rollback())
}

func TestAppender_AfterItsEndOrThatOfTheDatabase(t *testing.T) {
	f := newFixture(t, nil)
	app := f.db.Appender()
	ref, err := app.Append(0, series(t, `{a="b"}`), 1, 1)
	require.NoError(t, err)
	open := f.db.Appender()
	_, err = open.Append(0, series(t, `{a="c"}`), 1, 1)
	require.NoError(t, err)
	_, err = app.Commit(ctx)
	require.NoError(t, err)

	_, err = app.Append(ref, labels.Labels{}, 2, 2)
	require.ErrorIs(t, err, tsdb.ErrClosed)
	_, err = app.AppendBatch(2, []tsdb.SeriesRef{ref}, []float64{1}, nil)
	require.ErrorIs(t, err, tsdb.ErrClosed)
	_, err = app.Commit(ctx)
	require.ErrorIs(t, err, tsdb.ErrClosed)
	require.NoError(t, app.Rollback())

	require.NoError(t, f.db.Close())
	require.NoError(t, f.db.Close(), "a second Close returns what the first one did")
	_, err = open.Commit(ctx)
	require.ErrorIs(t, err, tsdb.ErrClosed)
	_, err = f.db.Appender().Commit(ctx)
	require.ErrorIs(t, err, tsdb.ErrClosed)
	_, err = f.db.Querier(0, 1)
	require.ErrorIs(t, err, tsdb.ErrClosed)
	require.ErrorIs(t, f.db.Sync(), tsdb.ErrClosed)
	require.ErrorIs(t, f.db.Health(), tsdb.ErrClosed)
	f.open()
	require.Equal(t, map[string][]point{`{a="b"}`: points(1, 1)}, f.all())
}

func TestCommit_ACancelledContextCommitsNothing(t *testing.T) {
	f := newFixture(t, nil)
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	app := f.db.Appender()
	_, err := app.Append(0, series(t, `{a="b"}`), 1, 1)
	require.NoError(t, err)
	_, err = app.Commit(cancelled)
	require.ErrorIs(t, err, tsdb.ErrNotCommitted)
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, f.all())
	require.Zero(t, f.db.Stats().Series, "the series it created is gone")
}

func TestRollback_SeriesThatNobodyCommittedGoAway(t *testing.T) {
	f := newFixture(t, nil)
	a, b := f.db.Appender(), f.db.Appender()
	for _, app := range []*tsdb.Appender{a, b} {
		_, err := app.Append(0, series(t, `{a="b"}`), 1, 1)
		require.NoError(t, err)
	}
	require.Equal(t, 1, f.db.Stats().Series)
	require.NoError(t, a.Rollback())
	require.Equal(t, 1, f.db.Stats().Series, "the other Appender still needs it")
	names := func() []string {
		q, err := f.db.Querier(0, 10)
		require.NoError(t, err)
		defer q.Close()
		names, _, err := q.LabelNames(ctx, nil)
		require.NoError(t, err)
		return names
	}
	require.Empty(t, names(), "no sample of it is committed")
	_, err := b.Commit(ctx)
	require.NoError(t, err)
	require.Equal(t, []string{"a"}, names())
}

func TestAppender_AnAbandonedOneLeavesNoSeries(t *testing.T) {
	f := newFixture(t, nil)
	func() {
		app := f.db.Appender()
		_, err := app.Append(0, series(t, `{a="b"}`), 1, 1)
		require.NoError(t, err)
	}()
	require.Eventually(t, func() bool {
		runtime.GC()
		return f.db.Stats().Series == 0
	}, patience, time.Millisecond)
}

func TestAppend_SteadyStateAllocatesNothingPerSample(t *testing.T) {
	f := newFixture(t, func(o *tsdb.Options) { o.WAL.Sync = tsdb.SyncNever() })
	const series = 2000
	refs, vs := make([]tsdb.SeriesRef, series), make([]float64, series)
	app := f.db.Appender()
	for i := range refs {
		ref, err := app.Append(0, labels.FromStrings("i", fmt.Sprint(i)), 0, 0)
		require.NoError(t, err)
		refs[i] = ref
	}
	_, err := app.Commit(ctx)
	require.NoError(t, err)
	ts := int64(0)
	scrape := func() {
		ts += 1000
		app := f.db.Appender()
		rejected, err := app.AppendBatch(ts, refs, vs, nil)
		if err != nil || len(rejected) > 0 {
			t.Fatal(err, rejected)
		}
		if _, err := app.Commit(ctx); err != nil {
			t.Fatal(err)
		}
	}
	for range 5 {
		scrape()
	}
	// An Appender, and at times a larger buffer: a few for a scrape, none for a sample. What a
	// sample allocates is in each of the five; what a pool loses, as it does at random under the
	// race detector, is not.
	perScrape := math.Inf(1)
	for range 5 {
		perScrape = min(perScrape, testing.AllocsPerRun(20, scrape))
	}
	require.Less(t, perScrape/series, 0.01, "%v allocations for %d samples", perScrape, series)
}
