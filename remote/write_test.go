package remote

import (
	"context"
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/exemplar"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/labels"
)

// some is a histogram of so many observations in each of two buckets.
func some(n int64) *histogram.Histogram {
	return &histogram.Histogram{
		Schema: 1, Count: uint64(3 * n), Sum: float64(n), ZeroThreshold: 0.001, ZeroCount: uint64(n),
		PositiveSpans: []histogram.Span{{Offset: 0, Length: 2}}, PositiveBuckets: []int64{n, 0},
	}
}

func someFloats(n float64) *histogram.FloatHistogram {
	return &histogram.FloatHistogram{
		Schema: 1, Count: 3 * n, Sum: n, ZeroThreshold: 0.001, ZeroCount: n,
		PositiveSpans: []histogram.Span{{Offset: 0, Length: 2}}, PositiveBuckets: []float64{n, n},
	}
}

// eachVersion runs a test for both versions, each with a database of its own.
func eachVersion(t *testing.T, opts tsdb.Options, test func(t *testing.T, db *tsdb.DB, h http.Handler, version int)) {
	t.Helper()
	for i, v := range writeEncoders {
		t.Run(v.name, func(t *testing.T) {
			db, clock := openForWrites(t, opts)
			test(t, db, NewWriteHandler(db, &WriteOptions{Clock: clock}), i)
		})
	}
}

func TestWrite_StoresEveryKind(t *testing.T) {
	eachVersion(t, tsdb.Options{}, func(t *testing.T, db *tsdb.DB, h http.Handler, i int) {
		v := writeEncoders[i]
		now := int64(writeNewest)
		floats := one("floats", at(now, 1), at(now+1, math.Inf(1)), at(now+2, 0), at(now+3, tsdb.StaleMarker()))
		floats.exemplars = []sentExemplar{{[]string{"trace_id", "a"}, now, 1}, {[]string{"trace_id", "b"}, now + 1, 2}}
		mixed := one("mixed", at(now, 1))
		mixed.histograms = []tsdb.Sample{{T: now + 1, H: some(2)}, {T: now + 2, FH: someFloats(1.5)}}
		fine := one("fine")
		finer := some(2)
		finer.Schema = 9
		fine.histograms = []tsdb.Sample{{T: now, H: finer}}
		starts := one("starts", tsdb.Sample{T: now, V: 7, ST: now - 5000})
		starts.histograms = []tsdb.Sample{{T: now + 1, H: some(3), ST: now - 4000}}
		w := send(h, v.contentType, v.encode(floats, mixed, fine, starts))
		requireWritten(t, w, v.version, http.StatusNoContent, "/6/4/2")

		got := storedSamples(t, db, "floats")[`{__name__="floats"}`]
		require.Len(t, got, 4)
		for k, want := range floats.samples {
			require.Equal(t, want.T, got[k].T)
			require.Equal(t, math.Float64bits(want.V), math.Float64bits(got[k].V))
		}
		got = storedSamples(t, db, "mixed")[`{__name__="mixed"}`]
		require.Len(t, got, 3)
		require.Equal(t, some(2).Digest(), got[1].H.Digest())
		require.Equal(t, someFloats(1.5).Digest(), got[2].FH.Digest())
		got = storedSamples(t, db, "fine")[`{__name__="fine"}`]
		require.EqualValues(t, histogram.MaxSchema, got[0].H.Schema)
		require.EqualValues(t, 6, got[0].H.Count)
		got = storedSamples(t, db, "starts")[`{__name__="starts"}`]
		want := []int64{now - 5000, now - 4000}
		if v.version == writeV1 {
			want = []int64{0, 0} // its messages have no place for them; the field of histograms is left out
		}
		require.Equal(t, want, []int64{got[0].ST, got[1].ST})

		q, err := db.Querier(math.MinInt64, math.MaxInt64)
		require.NoError(t, err)
		defer func() { require.NoError(t, q.Close()) }()
		exemplars, err := q.Exemplars(context.Background(), labels.Equal(labels.MetricName, "floats"))
		require.NoError(t, err)
		require.Len(t, exemplars, 1)
		require.Equal(t, []exemplar.Exemplar{
			{Labels: labels.FromStrings("trace_id", "a"), Value: 1, T: now, HasT: true},
			{Labels: labels.FromStrings("trace_id", "b"), Value: 2, T: now + 1, HasT: true},
		}, exemplars[0].Exemplars)
	})
}

func TestWrite_StoresTheRestOfARequest(t *testing.T) {
	eachVersion(t, tsdb.Options{}, func(t *testing.T, db *tsdb.DB, h http.Handler, i int) {
		v := writeEncoders[i]
		now := int64(writeNewest)
		requireWritten(t, send(h, v.contentType, v.encode(one("late", at(now, 1)))), v.version, http.StatusNoContent, "/1/0/0")
		bad := some(2)
		bad.Count = 100
		histograms := one("histograms")
		histograms.histograms = []tsdb.Sample{{T: now, H: some(1)}, {T: now + 1, H: bad}, {T: now + 2, H: some(3)}}
		w := send(h, v.contentType, v.encode(
			one("good", at(now, 1), at(now+1, 2)),
			sentSeries{pairs: []string{labels.MetricName, "twice", "a", "1", "b", "2", "a", "3"}, samples: []tsdb.Sample{at(now, 1)}},
			sentSeries{pairs: []string{labels.MetricName, "bytes", "a\xff", "1"}, samples: []tsdb.Sample{at(now, 1)}},
			sentSeries{pairs: []string{labels.MetricName, "nameless", "", "1"}, samples: []tsdb.Sample{at(now, 1)}},
			sentSeries{pairs: []string{"job", "anonymous"}, samples: []tsdb.Sample{at(now, 1), at(now+1, 1)}},
			one("late", at(now-1, 1), at(now, 2), at(now+1, 3)),
			one("future", at(now+1, 1), at(now+2*365*24*3600_000, 1), at(now+2, 2)),
			one("ancient", at(writeStart-20*3600_000, 1)),
			histograms,
			sentSeries{pairs: []string{"z", "1", "empty", "", "a", "2", labels.MetricName, "unsorted"}, samples: []tsdb.Sample{at(now, 1)}},
			one("end", at(now, 1)),
		))
		requireWritten(t, w, v.version, http.StatusBadRequest, "/7/2/0")
		lines := strings.Split(strings.TrimSpace(w.Body.String()), "\n")
		require.Len(t, lines, 9)
		for _, want := range []string{
			`more than once.*for series {__name__="twice", a="1", a="3", b="2"}`,
			`not UTF-8.*for series {__name__="bytes", "a`,
			`empty label name.*for series {""="1", __name__="nameless"}`,
			`no metric name for series {job="anonymous"}`,
			`out of order.*{__name__="late"}`,
			`duplicate.*{__name__="late"}`,
			`future.*{__name__="future"}`,
			`out of bounds.*{__name__="ancient"}`,
			`count of a histogram.*{__name__="histograms"}`,
		} {
			require.Regexp(t, want, w.Body.String())
		}
		for series, want := range map[string][]float64{
			"good": {1, 2}, "twice": nil, "bytes": nil, "nameless": nil, "late": {1, 3}, "future": {1, 2}, "ancient": nil, "end": {1},
		} {
			require.Equal(t, want, floatsOf(storedSamples(t, db, series)[`{__name__="`+series+`"}`]), series)
		}
		require.Equal(t, []string{`{__name__="unsorted", a="2", z="1"}`}, sortedKeys(storedSamples(t, db, "unsorted")))
		got := storedSamples(t, db, "histograms")[`{__name__="histograms"}`]
		require.Len(t, got, 2)
	})
}

// What a client is told has a bound, whatever it sends.
func TestWrite_TellsOfAFew(t *testing.T) {
	eachVersion(t, tsdb.Options{}, func(t *testing.T, db *tsdb.DB, h http.Handler, i int) {
		v := writeEncoders[i]
		var all []sentSeries
		for range 1000 {
			pairs := []string{"a", strings.Repeat("\xff", 1000)}
			for range 40 {
				pairs = append(pairs, strings.Repeat("n", 300), strings.Repeat("v", 300))
			}
			all = append(all, sentSeries{pairs: pairs, samples: []tsdb.Sample{at(writeNewest, 1)}})
		}
		w := send(h, v.contentType, v.encode(all...))
		requireWritten(t, w, v.version, http.StatusBadRequest, "/0/0/0")
		require.Less(t, w.Body.Len(), maxRefusals*(maxReasonText+2*maxSeriesText))
		require.Contains(t, w.Body.String(), "and 980 more")
	})
}

// A request that comes again, because its answer was lost, is answered as the first time: right
// after it, behind a flush, and when the database was opened again.
func TestWrite_RepeatsAreIdempotent(t *testing.T) {
	for _, v := range writeEncoders {
		t.Run(v.name, func(t *testing.T) {
			dir := t.TempDir()
			open := func() (*tsdb.DB, http.Handler) {
				db, err := tsdb.Open(dir, &tsdb.Options{Blocks: tsdb.BlockOptions{Manual: true}})
				require.NoError(t, err)
				return db, NewWriteHandler(db, nil)
			}
			db, h := open()
			now := int64(writeNewest)
			series := one("repeated", at(now, 1), at(now+1, 2), at(now+2, 3))
			series.histograms = []tsdb.Sample{{T: now + 3, H: some(1)}, {T: now + 4, H: some(2)}, {T: now + 5, FH: someFloats(2)}, {T: now + 6, FH: someFloats(3)}}
			series.exemplars = []sentExemplar{{[]string{"trace_id", "a"}, now, 1}}
			other := one("other", at(now, 1))
			message := v.encode(series, other)
			want := map[string][]tsdb.Sample{}
			for try := range 5 {
				requireWritten(t, send(h, v.contentType, message), v.version, http.StatusNoContent, "/4/4/1")
				got := storedSamples(t, db, "repeated")
				if try == 0 {
					want = got
					require.Len(t, want[`{__name__="repeated"}`], 7)
				}
				require.Equal(t, len(want[`{__name__="repeated"}`]), len(got[`{__name__="repeated"}`]))
				switch try {
				case 1:
					require.NoError(t, db.Flush(context.Background()))
				case 2:
					require.NoError(t, db.Close())
					db, h = open()
				case 3:
					newer := one("repeated", at(now+100, 9))
					requireWritten(t, send(h, v.contentType, v.encode(newer)), v.version, http.StatusNoContent, "/1/0/0")
					want = storedSamples(t, db, "repeated")
				}
			}
			// One that is not the same is none.
			series.samples[1].V = 7
			w := send(h, v.contentType, v.encode(series, other))
			requireWritten(t, w, v.version, http.StatusBadRequest, "/3/4/1")
			require.Contains(t, w.Body.String(), `{__name__="repeated"}`)
			require.NoError(t, db.Close())
		})
	}
}

func TestWrite_OfWhatIsTurnedOffIsA4xx(t *testing.T) {
	series := one("kinds", at(writeNewest, 1))
	series.histograms = []tsdb.Sample{{T: writeNewest + 1, H: some(1)}}
	series.exemplars = []sentExemplar{{[]string{"trace_id", "a"}, writeNewest, 1}}
	for name, test := range map[string]struct {
		db      tsdb.Options
		opts    WriteOptions
		status  int
		written string
		text    string
	}{
		"histograms of the database": {tsdb.Options{Limits: tsdb.Limits{NoHistograms: true}}, WriteOptions{}, 400, "/1/0/1", "turned off"},
		"histograms of the handler":  {tsdb.Options{}, WriteOptions{NoHistograms: true}, 400, "/1/0/1", "turned off"},
		"exemplars of the database":  {tsdb.Options{Head: tsdb.HeadOptions{MaxExemplars: -1}}, WriteOptions{}, 204, "/1/1/0", ""},
		"exemplars of the handler":   {tsdb.Options{}, WriteOptions{NoExemplars: true}, 204, "/1/1/0", ""},
		"both versions":              {tsdb.Options{}, WriteOptions{NoV1: true, NoV2: true}, 415, "", "turned off"},
		"nothing":                    {tsdb.Options{}, WriteOptions{}, 204, "/1/1/1", ""},
	} {
		for _, v := range writeEncoders {
			t.Run(name+" "+v.name, func(t *testing.T) {
				db, clock := openForWrites(t, test.db)
				test.opts.Clock = clock
				w := send(NewWriteHandler(db, &test.opts), v.contentType, v.encode(series))
				requireWritten(t, w, v.version, test.status, test.written)
				require.Contains(t, w.Body.String(), test.text)
			})
		}
	}
}

// Nothing that comes later is refused for a sample of the far future, of the same series or others.
func TestWrite_FutureSamplesDoNoHarm(t *testing.T) {
	eachVersion(t, tsdb.Options{Limits: tsdb.Limits{MaxFuture: -1}}, func(t *testing.T, db *tsdb.DB, h http.Handler, i int) {
		v := writeEncoders[i]
		now := int64(writeNewest)
		ahead := now + 365*24*3600_000 // of the clock
		series := one("future", at(now, 1), at(math.MaxInt64-1, 1), at(ahead+11*60_000, 1))
		series.exemplars = []sentExemplar{{[]string{"trace_id", "a"}, math.MaxInt64 - 1, 1}}
		requireWritten(t, send(h, v.contentType, v.encode(series)), v.version, http.StatusBadRequest, "/1/0/0")
		requireWritten(t, send(h, v.contentType, v.encode(one("future", at(now+1, 2)), one("another", at(now, 1)))), v.version, http.StatusNoContent, "/2/0/0")
		requireWritten(t, send(h, v.contentType, v.encode(one("future", at(ahead+9*60_000, 2)))), v.version, http.StatusNoContent, "/1/0/0")
	})
}

func TestWrite_MetadataOf2_0IsOfItsSeries(t *testing.T) {
	db, clock := openForWrites(t, tsdb.Options{})
	h := NewWriteHandler(db, &WriteOptions{Clock: clock})
	v := writeEncoders[writeV2]
	metadata := func() map[string]tsdb.Metadata { return metadataOf(t, db) }
	series := one("m", at(writeNewest, 1))
	series.meta = tsdb.Metadata{Type: tsdb.MetricCounter, Unit: "seconds", Help: "Text."}
	other := one("n", at(writeNewest, 1))
	other.meta = tsdb.Metadata{Help: strings.Repeat("x", 5000)}
	for range 3 {
		requireWritten(t, send(h, v.contentType, v.encode(series, other)), v.version, http.StatusNoContent, "/2/0/0")
		require.Equal(t, map[string]tsdb.Metadata{"m": series.meta}, metadata())
	}
	series.samples[0].T++
	series.meta.Help = "Another."
	requireWritten(t, send(h, v.contentType, v.encode(series)), v.version, http.StatusNoContent, "/1/0/0")
	require.Equal(t, map[string]tsdb.Metadata{"m": series.meta}, metadata())
	off := one("off", at(writeNewest, 1))
	off.meta = series.meta
	h = NewWriteHandler(db, &WriteOptions{Clock: clock, NoMetadata: true})
	requireWritten(t, send(h, v.contentType, v.encode(off)), v.version, http.StatusNoContent, "/1/0/0")
	require.Len(t, metadata(), 1)
}

// metadataOf returns the metadata of series by their metric.
func metadataOf(t testing.TB, db *tsdb.DB) map[string]tsdb.Metadata {
	t.Helper()
	q, err := db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	defer func() { require.NoError(t, q.Close()) }()
	list, err := q.Metadata(context.Background(), labels.NotEqual(labels.MetricName, ""))
	require.NoError(t, err)
	all := map[string]tsdb.Metadata{}
	for _, m := range list {
		all[m.Labels.Get(labels.MetricName)] = m.Metadata
	}
	return all
}

// Metadata of 1.0 is of families, and comes without series.
func TestWrite_MetadataOf1_0IsGivenWithTheNextSample(t *testing.T) {
	db, clock := openForWrites(t, tsdb.Options{})
	h := NewWriteHandler(db, &WriteOptions{Clock: clock})
	now := int64(writeNewest)
	message := func(t int64) []byte {
		var all []sentSeries
		for _, name := range []string{"up", "requests_total", "latency_bucket", "latency_count", "latency_other", "plain_total"} {
			all = append(all, one(name, at(t, 1)))
		}
		return encodeV1(all...)
	}
	family := func(name string, m tsdb.Metadata) []byte {
		return appendPart(nil, 3, appendString(appendString(appendString(appendInt(nil, 1, int64(m.Type)), 2, name), 4, m.Help), 5, m.Unit))
	}
	up := tsdb.Metadata{Type: tsdb.MetricGauge, Help: "Up."}
	requests := tsdb.Metadata{Type: tsdb.MetricCounter, Unit: "requests"}
	latency := tsdb.Metadata{Type: tsdb.MetricHistogram, Help: "How long."}
	plain := tsdb.Metadata{Type: tsdb.MetricGauge}
	requireWritten(t, send(h, writeMediaType, message(now)), writeV1, http.StatusNoContent, "")
	for range 2 {
		sent := append(family("up", up), family("requests", requests)...)
		sent = append(append(sent, family("latency", latency)...), family("plain", plain)...)
		requireWritten(t, send(h, writeMediaType, sent), writeV1, http.StatusNoContent, "")
	}
	require.Empty(t, metadataOf(t, db))
	requireWritten(t, send(h, writeMediaType, message(now+1)), writeV1, http.StatusNoContent, "")
	want := map[string]tsdb.Metadata{"up": up, "requests_total": requests, "latency_bucket": latency, "latency_count": latency}
	require.Equal(t, want, metadataOf(t, db))
	up.Help = "Up, still."
	requireWritten(t, send(h, writeMediaType, family("up", up)), writeV1, http.StatusNoContent, "")
	requireWritten(t, send(h, writeMediaType, message(now+2)), writeV1, http.StatusNoContent, "")
	want["up"] = up
	require.Equal(t, want, metadataOf(t, db))
}

// A closed database, or one that cannot write, is no fault of the client: it comes again.
func TestWrite_FailureOfTheDatabaseIsA5xxWithNothingWritten(t *testing.T) {
	for _, v := range writeEncoders {
		db, err := tsdb.Open(t.TempDir(), nil)
		require.NoError(t, err)
		h := NewWriteHandler(db, nil)
		requireWritten(t, send(h, v.contentType, v.encode(one("a", at(writeNewest, 1)))), v.version, http.StatusNoContent, "/1/0/0")
		require.NoError(t, db.Close())
		w := send(h, v.contentType, v.encode(one("a", at(writeNewest+1, 1))))
		requireWritten(t, w, v.version, http.StatusServiceUnavailable, "/0/0/0")
		require.Equal(t, retryAfter, w.Header().Get("Retry-After"))
	}
}
