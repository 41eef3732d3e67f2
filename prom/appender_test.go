package prom_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/exemplar"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	reference "github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/tsdbutil"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	ourhistogram "github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/prom"
)

// refusedHistograms are what no storage takes, and what it says.
var refusedHistograms = map[string]struct {
	h      *histogram.Histogram
	fh     *histogram.FloatHistogram
	theirs error
	ours   error
}{
	"a schema that does not exist": {
		h: &histogram.Histogram{Schema: 9}, theirs: histogram.ErrHistogramsInvalidSchema, ours: ourhistogram.ErrInvalidSchema,
	},
	"a span that goes back": {
		h: &histogram.Histogram{
			Count: 2, PositiveSpans: []histogram.Span{{Length: 1}, {Offset: -1, Length: 1}}, PositiveBuckets: []int64{1, 0},
		},
		theirs: histogram.ErrHistogramSpanNegativeOffset, ours: ourhistogram.ErrSpanNegativeOffset,
	},
	"spans without buckets": {
		h:      &histogram.Histogram{PositiveSpans: []histogram.Span{{Length: 1}}},
		theirs: histogram.ErrHistogramSpansBucketsMismatch, ours: ourhistogram.ErrSpansBucketsMismatch,
	},
	"a count below zero": {
		h:      &histogram.Histogram{PositiveSpans: []histogram.Span{{Length: 1}}, PositiveBuckets: []int64{-1}},
		theirs: histogram.ErrHistogramNegativeBucketCount, ours: ourhistogram.ErrNegativeBucketCount,
	},
	"another count than that of its buckets": {
		h: &histogram.Histogram{Count: 1}, theirs: histogram.ErrHistogramCountMismatch, ours: ourhistogram.ErrCountMismatch,
	},
	"a smaller count than that of its buckets": {
		h:      &histogram.Histogram{Sum: math.NaN(), ZeroCount: 1},
		theirs: histogram.ErrHistogramCountNotBigEnough, ours: ourhistogram.ErrCountNotBigEnough,
	},
	"observations below zero": {
		fh: &histogram.FloatHistogram{Count: -1}, theirs: histogram.ErrHistogramNegativeCount, ours: ourhistogram.ErrNegativeCount,
	},
	"too few bounds": {
		h: &histogram.Histogram{
			Schema: histogram.CustomBucketsSchema, Count: 3, CustomValues: []float64{1},
			PositiveSpans: []histogram.Span{{Length: 3}}, PositiveBuckets: []int64{1, 0, 0},
		},
		theirs: histogram.ErrHistogramCustomBucketsMismatch, ours: ourhistogram.ErrCustomBucketsMismatch,
	},
	"bounds that do not rise": {
		h:      &histogram.Histogram{Schema: histogram.CustomBucketsSchema, CustomValues: []float64{1, 1}},
		theirs: histogram.ErrHistogramCustomBucketsInvalid, ours: ourhistogram.ErrCustomBucketsInvalid,
	},
	"a bound without end": {
		h:      &histogram.Histogram{Schema: histogram.CustomBucketsSchema, CustomValues: []float64{math.Inf(1)}},
		theirs: histogram.ErrHistogramCustomBucketsInfinite, ours: ourhistogram.ErrCustomBucketsInfinite,
	},
	"a bound that is no number": {
		fh:     &histogram.FloatHistogram{Schema: histogram.CustomBucketsSchema, CustomValues: []float64{math.NaN()}},
		theirs: histogram.ErrHistogramCustomBucketsNaN, ours: ourhistogram.ErrCustomBucketsNaN,
	},
}

// openReference is an empty storage of the reference.
func openReference(t testing.TB) *reference.DB {
	opts := reference.DefaultOptions()
	opts.RetentionDuration = 0
	db, err := reference.Open(t.TempDir(), nil, nil, opts, nil)
	require.NoError(t, err)
	db.DisableCompactions()
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// What is wrong with a histogram is said in both vocabularies, and the reference says the same.
func TestAppenders_RefuseHistogramsWithTheSentinelsOfPackageHistogram(t *testing.T) {
	s, other := openStorage(t), openReference(t)
	ls := labels.FromStrings("__name__", "m")
	for name, c := range refusedHistograms {
		app := s.Appender(context.Background())
		_, err := app.AppendHistogram(0, ls, dayStart, c.h, c.fh)
		require.ErrorIs(t, err, c.theirs, name)
		require.ErrorIs(t, err, c.ours, name)
		require.ErrorAs(t, err, &histogram.Error{}, name)
		require.NoError(t, app.Rollback())

		v2 := s.AppenderV2(context.Background())
		_, err = v2.Append(0, ls, 0, dayStart, 0, c.h, c.fh, storage.AppendV2Options{})
		require.ErrorIs(t, err, c.theirs, name)
		require.NoError(t, v2.Rollback())

		app = other.Appender(context.Background())
		_, err = app.AppendHistogram(0, ls, dayStart, c.h, c.fh)
		require.ErrorIs(t, err, c.theirs, "the reference: %s", name)
		require.NoError(t, app.Rollback())
	}
	far := &histogram.Histogram{
		PositiveSpans: []histogram.Span{{Offset: math.MaxInt32, Length: 2}}, PositiveBuckets: []int64{0, 0},
	}
	app := s.Appender(context.Background())
	_, err := app.AppendHistogram(0, ls, dayStart, far, nil)
	require.ErrorIs(t, err, prom.ErrInvalidSample)
	require.ErrorIs(t, err, ourhistogram.ErrSpanOverflow)
	_, err = app.AppendHistogram(0, ls, dayStart, nil, nil)
	require.ErrorIs(t, err, prom.ErrInvalidSample)
	_, err = app.AppendHistogram(0, ls, dayStart, &histogram.Histogram{}, &histogram.FloatHistogram{})
	require.ErrorIs(t, err, prom.ErrInvalidSample)
	require.NoError(t, app.Rollback())
}

// Late histograms are refused as late floats are, and an append changes nothing of what it is
// given.
func TestAppenders_TakeHistogramsByRefAndByLabels(t *testing.T) {
	s := openStorage(t)
	ls := labels.FromStrings("__name__", "m")
	app := s.Appender(context.Background())
	h := tsdbutil.GenerateTestCustomBucketsHistogram(1)
	h.ZeroThreshold = 1 // custom buckets have none
	was := *h
	ref, err := app.AppendHistogram(0, ls, 1000, h, nil)
	require.NoError(t, err)
	require.Equal(t, was, *h)
	fh := tsdbutil.GenerateTestFloatHistogram(1)
	again, err := app.AppendHistogram(ref, labels.EmptyLabels(), 1010, nil, fh)
	require.NoError(t, err)
	require.Equal(t, ref, again)
	unknown, err := app.AppendHistogram(ref+1000, ls, 1020, nil, fh)
	require.NoError(t, err)
	require.Equal(t, ref, unknown)
	_, err = app.AppendHistogram(ref, ls, 1020, h, nil)
	require.ErrorIs(t, err, storage.ErrDuplicateSampleForTimestamp)
	_, err = app.AppendHistogram(ref, ls, 1000, h, nil)
	require.ErrorIs(t, err, storage.ErrOutOfOrderSample)
	require.NoError(t, app.Commit())

	it := namedSeries(t, s, "m").Iterator(nil)
	h.ZeroThreshold = 0
	for _, want := range []mixed{{t: 1000, h: h}, {t: 1010, fh: fh}, {t: 1020, fh: fh}} {
		want.requireSame(t, at(it, it.Next(), &mixed{}))
	}
	require.Equal(t, chunkenc.ValNone, it.Next())
}

// Histograms that count nothing are put where a series began, as the reference puts them.
func TestAppender_ZeroHistogramsAtAStart(t *testing.T) {
	s, other := openStorage(t), openReference(t)
	for i, sample := range []mixed{takenAs["ints"](7), takenAs["counts"](7), takenAs["custom"](7)} {
		var read [2][]mixed
		for side, to := range []storage.Storage{s, other} {
			ls := labels.FromStrings("__name__", fmt.Sprint("m", i))
			app := to.Appender(context.Background())
			_, err := app.AppendHistogramSTZeroSample(0, ls, 1000, 1000, sample.h, sample.fh)
			require.ErrorIs(t, err, storage.ErrSTNewerThanSample)
			ref, err := app.AppendHistogramSTZeroSample(0, ls, 1000, 900, sample.h, sample.fh)
			require.NoError(t, err)
			_, err = app.AppendHistogram(ref, ls, 1000, sample.h, sample.fh)
			require.NoError(t, err)
			require.NoError(t, app.Commit())
			app = to.Appender(context.Background())
			_, err = app.AppendHistogramSTZeroSample(ref, ls, 1100, 900, sample.h, sample.fh)
			require.ErrorIs(t, err, storage.ErrOutOfOrderST)
			require.NoError(t, app.Rollback())
			it := namedSeries(t, to, fmt.Sprint("m", i)).Iterator(nil)
			for kind := it.Next(); kind != chunkenc.ValNone; kind = it.Next() {
				read[side] = append(read[side], at(it, kind, &mixed{}))
			}
		}
		require.Len(t, read[0], 2)
		require.Len(t, read[1], 2)
		for j := range read[0] {
			read[1][j].requireSame(t, read[0][j])
		}
	}
}

// Histograms that are turned off are refused as by a reference that was told so.
func TestAppenders_RefuseHistogramsThatAreTurnedOff(t *testing.T) {
	db, err := tsdb.Open(t.TempDir(), &tsdb.Options{Limits: tsdb.Limits{NoHistograms: true}})
	require.NoError(t, err)
	s := prom.NewStorage(db)
	defer func() { require.NoError(t, s.Close()) }()
	app, v2 := s.Appender(t.Context()), s.AppenderV2(t.Context())
	ls := labels.FromStrings("__name__", "m")
	_, err = app.AppendHistogram(0, ls, dayStart, takenAs["ints"](1).h, nil)
	require.ErrorIs(t, err, storage.ErrNativeHistogramsDisabled)
	require.ErrorIs(t, err, tsdb.ErrHistogramsOff)
	_, err = v2.Append(0, ls, 0, dayStart, 0, nil, takenAs["counts"](1).fh, storage.AppendV2Options{})
	require.ErrorIs(t, err, storage.ErrNativeHistogramsDisabled)
	require.NoError(t, app.Rollback())
	require.NoError(t, v2.Rollback())
}

// Nobody is told that exemplars are off, as by a storage of Prometheus.
func TestAppenders_ExemplarsMayBeOff(t *testing.T) {
	s := openStorage(t)
	s.DB().SetMaxExemplars(-1)
	ls := labels.FromStrings("__name__", "m")
	e := exemplar.Exemplar{Labels: labels.FromStrings("trace_id", "a"), Value: 1, Ts: 1000, HasTs: true}
	v2 := s.AppenderV2(context.Background())
	ref, err := v2.Append(0, ls, 0, 1000, 1, nil, nil, storage.AppendV2Options{Exemplars: []exemplar.Exemplar{e}})
	require.NoError(t, err)
	require.NoError(t, v2.Commit())
	v1 := s.Appender(context.Background())
	for _, with := range []storage.SeriesRef{ref, 0} {
		got, err := v1.AppendExemplar(with, ls, e)
		require.NoError(t, err)
		require.Equal(t, with, got)
	}
	require.NoError(t, v1.Commit())
	require.Zero(t, s.DB().Stats().Exemplars)
}

func TestAppenders_KeepExemplars(t *testing.T) {
	s := openStorage(t)
	ls := labels.FromStrings("__name__", "m")
	long := exemplar.Exemplar{Labels: labels.FromStrings("trace_id", strings.Repeat("x", 121)), Ts: 1}
	good := exemplar.Exemplar{Labels: labels.FromStrings("trace_id", "a"), Value: 1, Ts: 1000, HasTs: true}
	late := exemplar.Exemplar{Labels: labels.FromStrings("trace_id", "b"), Value: 2, Ts: 500, HasTs: true}

	v2 := s.AppenderV2(context.Background())
	ref, err := v2.Append(0, ls, 0, 1000, 1, nil, nil, storage.AppendV2Options{Exemplars: []exemplar.Exemplar{good, long, good, late}})
	var partial *storage.AppendPartialError
	require.ErrorAs(t, err, &partial)
	require.NotZero(t, ref)
	require.Len(t, partial.ExemplarErrors, 1, "a repeat is no error")
	require.ErrorIs(t, partial.ExemplarErrors[0], storage.ErrExemplarLabelLength)
	_, err = v2.Append(ref, ls, 0, math.MaxInt64/2, 1, nil, nil, storage.AppendV2Options{Exemplars: []exemplar.Exemplar{late}})
	require.ErrorIs(t, err, storage.ErrOutOfBounds, "with a sample that is refused its exemplars go")
	var bounds *tsdb.BoundsError
	require.ErrorAs(t, err, &bounds)
	require.Equal(t, []int64{math.MaxInt64 / 2, s.DB().Stats().AcceptsFrom}, []int64{bounds.T, bounds.From})
	require.NoError(t, v2.Commit())

	v1 := s.Appender(context.Background())
	_, err = v1.AppendExemplar(99999, labels.FromStrings("__name__", "n"), good)
	require.NoError(t, err)
	_, err = v1.AppendExemplar(ref, labels.EmptyLabels(), long)
	require.ErrorIs(t, err, storage.ErrExemplarLabelLength)
	_, err = v1.AppendExemplar(0, labels.EmptyLabels(), good)
	require.ErrorIs(t, err, prom.ErrInvalidSample)
	require.NoError(t, v1.Commit())

	q, err := s.ExemplarQuerier(context.Background())
	require.NoError(t, err)
	name := func(n string) []*labels.Matcher {
		return []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, "__name__", n)}
	}
	m := exemplar.QueryResult{SeriesLabels: ls, Exemplars: []exemplar.Exemplar{late, good}}
	n := exemplar.QueryResult{SeriesLabels: labels.FromStrings("__name__", "n"), Exemplars: []exemplar.Exemplar{good}}
	for _, c := range []struct {
		mint, maxt int64
		lists      [][]*labels.Matcher
		want       []exemplar.QueryResult
	}{
		{0, 1000, nil, nil},
		{0, 1000, [][]*labels.Matcher{name("m")}, []exemplar.QueryResult{m}},
		{0, 1000, [][]*labels.Matcher{{}}, []exemplar.QueryResult{m, n}},
		{0, 1000, [][]*labels.Matcher{name("n"), name("m"), name("n"), name("x")}, []exemplar.QueryResult{m, n}},
		{501, 1000, [][]*labels.Matcher{name("n")}, []exemplar.QueryResult{n}},
		{1001, 2000, [][]*labels.Matcher{{}}, nil},
		{1000, 0, [][]*labels.Matcher{{}}, nil},
	} {
		got, err := q.Select(c.mint, c.maxt, c.lists...)
		require.NoError(t, err)
		require.Equal(t, c.want, got)
	}
	require.NoError(t, s.Close())
	_, err = q.Select(0, 1, name("m"))
	require.ErrorIs(t, err, tsdb.ErrClosed)
}
