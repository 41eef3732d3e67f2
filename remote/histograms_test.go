package remote

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/golang/snappy"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/histtest"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// anySample is a sample of any kind. Of a histogram of integers it has both forms.
type anySample struct {
	t, st int64
	kind  chunkenc.ValueType
	v     float64
	h     histogram.Histogram
	fh    histogram.FloatHistogram
}

// sampleAt is the sample that an iterator stands on.
func sampleAt(it chunkenc.Iterator, kind chunkenc.ValueType) anySample {
	s := anySample{t: it.AtT(), st: it.AtST(), kind: kind}
	_, s.v = it.At()
	it.AtHistogram(&s.h)
	it.AtFloatHistogram(&s.fh)
	return s
}

// readAny reads what is left of an iterator.
func readAny(it chunkenc.Iterator) (all []anySample) {
	for kind := it.Next(); kind != chunkenc.ValNone; kind = it.Next() {
		all = append(all, sampleAt(it, kind))
	}
	return all
}

// requireSame compares two samples. Of a hint only that counts which a reader must know, and that
// nothing is said that is not so.
func requireSame(t require.TestingT, want, got anySample, msg string) {
	require.Equal(t, want.t, got.t, msg)
	require.Equal(t, want.kind, got.kind, "%s, at %d", msg, want.t)
	require.Equal(t, math.Float64bits(want.v), math.Float64bits(got.v), "%s, at %d", msg, want.t)
	require.True(t, want.h.EqualByIndex(&got.h), "%s, at %d:\nwant %+v\ngot  %+v", msg, want.t, want.h, got.h)
	require.True(t, want.fh.EqualByIndex(&got.fh), "%s, at %d:\nwant %+v\ngot  %+v", msg, want.t, want.fh, got.fh)
	if got.fh.Hint != histogram.HintUnknown || want.fh.Hint != histogram.HintNotReset {
		require.Equal(t, want.fh.Hint, got.fh.Hint, "%s, at %d", msg, want.t)
	}
}

func requireSameAll(t require.TestingT, want, got []anySample, msg string) {
	for i := range min(len(want), len(got)) {
		requireSame(t, want[i], got[i], msg)
	}
	require.Len(t, got, len(want), msg)
}

// anySeries is a series as tests compare it.
type anySeries struct {
	labels  string
	samples []anySample
}

// storedAny is what a database answers itself.
func storedAny(t require.TestingT, db Queryable, mint, maxt int64) (all []anySeries) {
	q, err := db.Querier(mint, maxt)
	require.NoError(t, err)
	for s, err := range q.Select(context.Background(), nil).All() {
		require.NoError(t, err)
		it := s.Iterator(nil)
		all = append(all, anySeries{s.Labels().String(), readAny(it)})
		require.NoError(t, it.Err())
	}
	require.NoError(t, q.Close())
	return all
}

// collectAny reads a set to its end.
func collectAny(t require.TestingT, set *SeriesSet) (all []anySeries) {
	var it chunkenc.Iterator
	for s, err := range set.All() {
		require.NoError(t, err)
		it = s.Iterator(it)
		all = append(all, anySeries{s.Labels().String(), readAny(it)})
		require.NoError(t, it.Err())
	}
	return all
}

func requireSameSeries(t require.TestingT, want, got []anySeries, msg string) {
	require.Len(t, got, len(want), msg)
	for i := range want {
		require.Equal(t, want[i].labels, got[i].labels, msg)
		requireSameAll(t, want[i].samples, got[i].samples, msg+want[i].labels)
	}
}

// anyWriter makes samples of a series, of a kind or of all of them.
type anyWriter struct {
	pick  histtest.Pick
	kinds []chunkenc.ValueType
	kind  chunkenc.ValueType
	last  *histogram.Histogram
}

func (w *anyWriter) next(t int64) tsdb.Sample {
	s := tsdb.Sample{T: t}
	if w.pick(3) == 0 {
		s.ST = t - 1
	}
	if w.kind == chunkenc.ValNone || w.pick(5) == 0 {
		w.kind = w.kinds[w.pick(int64(len(w.kinds)))]
	}
	if w.kind == chunkenc.ValFloat {
		s.V = float64(w.pick(1000)) / 8
		return s
	}
	if w.last == nil {
		w.last = histtest.Draw(w.pick)
	}
	w.last = histtest.Follow(w.pick, w.last)
	if w.kind == chunkenc.ValHistogram {
		s.H = w.last
	} else {
		s.FH = histtest.Floats(w.last)
	}
	return s
}

const (
	floats, ints, counts = chunkenc.ValFloat, chunkenc.ValHistogram, chunkenc.ValFloatHistogram
)

// kindsOfSeries are those of the series of anyDB.
var kindsOfSeries = [][]chunkenc.ValueType{
	{floats}, {ints}, {counts}, {floats, ints}, {floats, ints, counts}, {ints, counts},
}

// anyDB has a series of each of kindsOfSeries, with n samples each in blocks, in full chunks and in
// open ones.
func anyDB(t testing.TB, pick histtest.Pick, n int) *tsdb.DB {
	t.Helper()
	db, err := tsdb.Open(t.TempDir(), &tsdb.Options{
		Clock:  tsdbtest.NewClock(time.UnixMilli(1 << 41)),
		Blocks: tsdb.BlockOptions{Manual: true}, WAL: tsdb.WALOptions{Sync: tsdb.SyncNever()},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	app := db.Appender()
	commit := func() {
		_, err = app.Commit(context.Background())
		require.NoError(t, err)
		app = db.Appender()
	}
	var writers []*anyWriter
	for _, kinds := range kindsOfSeries {
		writers = append(writers, &anyWriter{pick: pick, kinds: kinds})
	}
	for i := range n {
		for s, w := range writers {
			ls := labels.FromStrings("__name__", "any", "s", fmt.Sprint(s))
			_, err := app.AppendSample(0, ls, w.next(fixtureStart+int64(i)*fixtureStep))
			require.NoError(t, err)
		}
		if i == n/2 {
			commit()
			require.NoError(t, db.Flush(context.Background()))
		}
	}
	commit()
	return db
}

// Both forms of the answer give what the database has, in all kinds, whatever part of it is asked
// for.
func TestHistograms_AreGivenInBothForms(t *testing.T) {
	for seed := range uint64(6) {
		r := rand.New(rand.NewPCG(seed, 1))
		n := 2 + r.Int64N(80)
		db := anyDB(t, r.Int64N, int(n))
		h := ReadHandler(db, &ReadOptions{FrameBytes: 500})
		clients := map[string]*ReadClient{}
		for name, mode := range modes {
			clients[name] = clientOf(t, h, &ReadClientOptions{Mode: mode})
		}
		requireBothForms(t, clients, db, math.MinInt64, math.MaxInt64)
		for range 20 {
			from := r.Int64N(n)
			to := from + r.Int64N(n-from)
			requireBothForms(t, clients, db, fixtureStart+from*fixtureStep, fixtureStart+to*fixtureStep)
		}
	}
}

func requireBothForms(t *testing.T, clients map[string]*ReadClient, db *tsdb.DB, mint, maxt int64) {
	t.Helper()
	want := storedAny(t, db, mint, maxt)
	for name, c := range clients {
		got := collectAny(t, c.Select(context.Background(), mint, maxt, nil, everyMatcher()))
		requireSameSeries(t, want, got, fmt.Sprint(name, mint, maxt))
		for i, s := range got {
			for k, one := range s.samples {
				st := want[i].samples[k].st
				if name == "samples" {
					st = 0 // it has no place for them
				}
				require.Equal(t, st, one.st)
			}
		}
	}
}

// Hints that say that a counter was not reset come through.
func TestHistograms_HintsAreGiven(t *testing.T) {
	db := anyDB(t, rand.New(rand.NewPCG(4, 4)).Int64N, 200)
	for name, mode := range modes {
		hints := map[histogram.ResetHint]int{}
		c := clientOf(t, ReadHandler(db, nil), &ReadClientOptions{Mode: mode})
		for _, s := range collectAny(t, c.Select(context.Background(), 0, math.MaxInt64, nil, labels.Equal("s", "1"))) {
			for _, one := range s.samples {
				hints[one.fh.Hint]++
				require.Equal(t, one.fh.Hint, one.h.Hint)
			}
		}
		require.Greater(t, hints[histogram.HintNotReset], 20, name)
		require.Greater(t, hints[histogram.HintGauge], 0, name)
		require.Greater(t, hints[histogram.HintUnknown], 0, name)
		require.Zero(t, hints[histogram.HintReset], name)
	}
}

// Series that have more than what is held are measured, written, and read once more.
func TestHistograms_SeriesLongerThanAnyBuffer(t *testing.T) {
	db, err := tsdb.Open(t.TempDir(), &tsdb.Options{
		Clock:  tsdbtest.NewClock(time.UnixMilli(1 << 41)),
		Blocks: tsdb.BlockOptions{Manual: true}, WAL: tsdb.WALOptions{Sync: tsdb.SyncNever()},
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	r := rand.New(rand.NewPCG(5, 5))
	made := anyWriter{pick: r.Int64N, kinds: []chunkenc.ValueType{ints, floats, counts, ints}}
	app := db.Appender()
	add := func(name string, s tsdb.Sample) {
		s.ST = 0
		if _, err := app.AppendSample(0, labels.FromStrings("__name__", name), s); err != nil {
			require.NoError(t, err)
		}
	}
	for i := range 3 * heldSamples {
		at := fixtureStart + int64(i)*fixtureStep
		if i < heldSamples+10 {
			add("floats_first", tsdb.Sample{T: at, V: float64(i)})
		} else if i%3 == 0 {
			add("floats_first", made.next(at))
		}
		if i%4 == 0 {
			add("mixed", made.next(at))
		}
	}
	_, err = app.Commit(context.Background())
	require.NoError(t, err)
	want := storedAny(t, db, math.MinInt64, math.MaxInt64)
	require.Len(t, want, 2)
	for name, mode := range modes {
		c := clientOf(t, ReadHandler(db, nil), &ReadClientOptions{Mode: mode})
		requireSameSeries(t, want, collectAny(t, c.Select(context.Background(), math.MinInt64, math.MaxInt64, nil, everyMatcher())), name)
	}
	body := post(ReadHandler(db, nil), appendReadRequest(nil, &readRequest{
		accepted: []responseType{typeSamples}, queries: []query{{start: math.MinInt64, end: math.MaxInt64}},
	})).Body.Bytes()
	content, err := snappy.Decode(nil, body)
	require.NoError(t, err)
	requireBlock(t, content, body)
	require.Less(t, len(body), len(content)*3/4, "histograms are compressed")
}

// The layout of an open chunk may change while an answer is written.
func TestHistograms_AnAnswerIsWholeWhileTheirLayoutChanges(t *testing.T) {
	db, err := tsdb.Open(t.TempDir(), &tsdb.Options{Clock: tsdbtest.NewClock(time.UnixMilli(1 << 41)), Blocks: tsdb.BlockOptions{Manual: true}})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	const series, samples = 400, 20
	r := rand.New(rand.NewPCG(6, 6))
	add := func(from, n, wide int) {
		app := db.Appender()
		for s := range series {
			for i := from; i < from+n; i++ {
				h := &histogram.Histogram{Sum: r.Float64(), PositiveSpans: []histogram.Span{{Length: uint32(wide)}}}
				last := int64(0)
				for k := range int64(wide) {
					count := int64(i)<<20 + k*r.Int64N(1000)
					h.PositiveBuckets, last = append(h.PositiveBuckets, count-last), count
					h.Count += uint64(count)
				}
				_, err := app.AppendSample(0, labels.FromStrings("__name__", "up", "n", fmt.Sprint(s)), tsdb.Sample{T: vectorStart + int64(i), H: h})
				require.NoError(t, err)
			}
		}
		_, err := app.Commit(context.Background())
		require.NoError(t, err)
	}
	add(1, samples, 12)
	want := storedAny(t, db, math.MinInt64, vectorStart+samples)
	pieces := 0
	w := &recordingSink{ResponseRecorder: httptest.NewRecorder(), written: func() {
		if pieces++; pieces == 1 {
			add(1+samples, 1, 30)
		}
	}}
	req := readRequest{accepted: []responseType{typeSamples}, queries: []query{{start: math.MinInt64, end: vectorStart + samples, matchers: []matcher{{name: "__name__", value: "up"}}}}}
	ReadHandler(db, nil).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", bodyOf(appendReadRequest(nil, &req))))
	require.Greater(t, pieces, 1, "the layout changed before the end")
	wide := storedAny(t, db, math.MinInt64, vectorStart+samples)
	require.Greater(t, len(wide[0].samples[0].h.PositiveBuckets), len(want[0].samples[0].h.PositiveBuckets))
	c := clientOf(t, answers(w.ResponseRecorder, w.Body.Bytes()), nil)
	requireSameSeries(t, want, collectAny(t, c.Select(context.Background(), math.MinInt64, math.MaxInt64, nil, everyMatcher())), "")
}

// recordingSink calls a function behind each write.
type recordingSink struct {
	*httptest.ResponseRecorder
	written func()
}

func (s *recordingSink) Write(b []byte) (int, error) {
	n, err := s.ResponseRecorder.Write(b)
	s.written()
	return n, err
}

// A histogram is one sample of those that a query may have.
func TestHistograms_SampleLimitCountsThem(t *testing.T) {
	db := anyDB(t, rand.New(rand.NewPCG(7, 7)).Int64N, 10)
	all := 10 * len(kindsOfSeries)
	request := allOf(typeSamples, "any")
	require.Equal(t, http.StatusOK, post(ReadHandler(db, &ReadOptions{SampleLimit: all}), request).Code)
	w := post(ReadHandler(db, &ReadOptions{SampleLimit: all - 1}), request)
	require.Equal(t, http.StatusBadRequest, w.Code)
	require.True(t, strings.Contains(w.Body.String(), errSampleLimit.Error()), w.Body)
}

// Series that external labels make one are answered as one, whatever their kinds.
func TestHistograms_OfNamesakesAreMerged(t *testing.T) {
	db, err := tsdb.Open(t.TempDir(), &tsdb.Options{Clock: tsdbtest.NewClock(time.UnixMilli(1 << 41)), Blocks: tsdb.BlockOptions{Manual: true}})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	r := rand.New(rand.NewPCG(8, 8))
	app := db.Appender()
	for _, region := range []string{"", "eu"} {
		w := anyWriter{pick: r.Int64N, kinds: kindsOfSeries[4]}
		at := int64(1)
		for range 1000 {
			s := w.next(at)
			_, err := app.AppendSample(0, labels.FromStrings("__name__", "any", "region", region), s)
			require.NoError(t, err)
			at += 1 + r.Int64N(3)
		}
	}
	_, err = app.Commit(context.Background())
	require.NoError(t, err)
	for _, cut := range [][2]int64{{math.MinInt64, math.MaxInt64}, {70, 1100}} {
		parts := storedAny(t, db, cut[0], cut[1])
		require.Len(t, parts, 2)
		want := mergedAny(parts[0].samples, parts[1].samples)
		for name, mode := range modes {
			h := ReadHandler(db, &ReadOptions{ExternalLabels: labels.FromStrings("region", "eu"), FrameBytes: 2000})
			got := collectAny(t, clientOf(t, h, &ReadClientOptions{Mode: mode}).Select(context.Background(), cut[0], cut[1], nil, everyMatcher()))
			require.Len(t, got, 1, name)
			requireHonest(t, want, got[0].samples, name)
		}
	}
}

// mergedAny merges samples by time; of two at one time the first ones count.
func mergedAny(a, b []anySample) (all []anySample) {
	for len(a)+len(b) > 0 {
		switch {
		case len(b) == 0 || len(a) > 0 && a[0].t < b[0].t:
			all, a = append(all, a[0]), a[1:]
		case len(a) == 0 || b[0].t < a[0].t:
			all, b = append(all, b[0]), b[1:]
		default:
			all, a, b = append(all, a[0]), a[1:], b[1:]
		}
	}
	return all
}

// requireHonest compares samples that were merged: a hint says that a counter was not reset only if
// it was not, against the sample before it.
func requireHonest(t *testing.T, want, got []anySample, msg string) {
	t.Helper()
	require.Len(t, got, len(want), msg)
	promises := 0
	for i := range got {
		one := got[i]
		if one.fh.Hint == histogram.HintNotReset {
			promises++
			require.Positive(t, i, msg)
			require.Greater(t, got[i-1].kind, floats, msg)
			require.False(t, resetBetween(&got[i-1].fh, &one.fh), "%s, at %d:\n%+v\n%+v", msg, one.t, got[i-1].fh, one.fh)
		}
		if one.fh.Hint != histogram.HintGauge {
			want[i].fh.Hint, one.fh.Hint = 0, 0
		}
		requireSame(t, want[i], one, msg)
	}
	require.Positive(t, promises, msg)
}

// resetBetween reports whether a counter was reset, of histograms of one layout.
func resetBetween(before, after *histogram.FloatHistogram) bool {
	sub := after.Copy()
	return before.Count > sub.Count || before.ZeroCount > sub.ZeroCount
}
