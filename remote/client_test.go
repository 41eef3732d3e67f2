package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/golang/snappy"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

type sample struct {
	t int64
	v uint64 // bits
}

// series is one series as tests compare them.
type series struct {
	labels  string
	samples []sample
}

// drain reads what is left of an iterator.
func drain(t testing.TB, it chunkenc.Iterator) (all []sample) {
	t.Helper()
	for it.Next() != chunkenc.ValNone {
		at, v := it.At()
		require.Equal(t, at, it.AtT())
		all = append(all, sample{at, math.Float64bits(v)})
	}
	return all
}

// collect reads a set to its end.
func collect(t testing.TB, set *SeriesSet) []series {
	t.Helper()
	var all []series
	var it chunkenc.Iterator
	for s, err := range set.All() {
		require.NoError(t, err)
		it = s.Iterator(it)
		all = append(all, series{s.Labels().String(), drain(t, it)})
		require.NoError(t, it.Err())
	}
	require.NoError(t, set.Err())
	return all
}

// stored is what a database answers itself.
func stored(t testing.TB, db Queryable, mint, maxt int64, ms ...*labels.Matcher) []series {
	t.Helper()
	q, err := db.Querier(mint, maxt)
	require.NoError(t, err)
	defer func() { require.NoError(t, q.Close()) }()
	var all []series
	for s, err := range q.Select(context.Background(), nil, ms...).All() {
		require.NoError(t, err)
		it := s.Iterator(nil)
		all = append(all, series{s.Labels().String(), drain(t, it)})
		require.NoError(t, it.Err())
	}
	return all
}

// clientOf serves a handler and returns a client of it.
func clientOf(t testing.TB, h http.Handler, opts *ReadClientOptions) *ReadClient {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	c, err := NewReadClient(server.URL+"/api/v1/read", opts)
	require.NoError(t, err)
	return c
}

// oddDB has series with everything that a float sample can be.
func oddDB(t testing.TB) *tsdb.DB {
	t.Helper()
	db, err := tsdb.Open(t.TempDir(), &tsdb.Options{Clock: tsdbtest.NewClock(time.UnixMilli(1 << 40)), Blocks: tsdb.BlockOptions{Manual: true}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	odd := []float64{1.5, math.Copysign(0, -1), 0, math.Inf(1), math.Inf(-1), math.Float64frombits(0x7ff0000000000002), math.NaN(), math.MaxFloat64, 5e-324}
	app := db.Appender()
	for i := range 5000 {
		for s := range 3 {
			_, err := app.Append(0, labels.FromStrings("__name__", "long", "s", strconv.Itoa(s)), int64(i*1000-7000), odd[(i*7+s)%len(odd)])
			require.NoError(t, err)
		}
	}
	for i := range 300 {
		_, err := app.Append(0, labels.FromStrings("__name__", "short", "i", fmt.Sprintf("%03d", i), "größe", "ü"), int64(i%3), float64(i))
		require.NoError(t, err)
	}
	_, err = app.Commit(context.Background())
	require.NoError(t, err)
	return db
}

func everyMatcher() *labels.Matcher {
	m, _ := labels.Regexp("__name__", ".*")
	return m
}

var modes = map[string]Mode{"streamed": ModeStreamed, "samples": ModeSamples, "any": ModeAny}

func TestSelect_GivesWhatTheDatabaseHas(t *testing.T) {
	db := oddDB(t)
	for name, mode := range modes {
		for _, frame := range []int{1, 1000, 0} {
			t.Run(fmt.Sprint(name, frame), func(t *testing.T) {
				c := clientOf(t, ReadHandler(db, &ReadOptions{FrameBytes: frame}), &ReadClientOptions{Mode: mode})
				for _, r := range [][2]int64{{math.MinInt64, math.MaxInt64}, {-7000, 4991999}, {0, 2}, {-3500, 123456}, {9e9, 9e10}} {
					for _, ms := range [][]*labels.Matcher{
						{everyMatcher()},
						{labels.Equal("__name__", "long"), labels.NotEqual("s", "1")},
						{labels.Equal("größe", "ü")},
						{labels.Equal("__name__", "none")},
					} {
						want := stored(t, db, r[0], r[1], ms...)
						require.Equal(t, want, collect(t, c.Select(context.Background(), r[0], r[1], nil, ms...)), "%v %v", r, ms)
					}
				}
			})
		}
	}
}

func TestSelect_ReadsTheAnswersOfTheVectors(t *testing.T) {
	for _, v := range readVectors(t) {
		req, err := decodeReadRequest(unhex(t, v.Request))
		require.NoError(t, err)
		if v.Status != http.StatusOK || len(req.queries) != 1 {
			continue // the client sends one query a request
		}
		t.Run(v.Name, func(t *testing.T) {
			h := func(w http.ResponseWriter, _ *http.Request) {
				for name, value := range v.Headers {
					w.Header().Set(name, value)
				}
				if v.Body != nil {
					_, _ = w.Write(unhex(t, *v.Body))
				} else {
					_, _ = w.Write(snappy.Encode(nil, unhex(t, v.Response)))
				}
			}
			c := clientOf(t, http.HandlerFunc(h), nil)
			set := c.Select(context.Background(), req.queries[0].start, req.queries[0].end, nil, everyMatcher())
			var got []series
			for s, err := range set.All() {
				require.NoError(t, err)
				it := s.Iterator(nil)
				got = append(got, series{s.Labels().String(), drain(t, it)})
				require.NoError(t, it.Err())
			}
			require.Equal(t, v.series(t, &req), got)
		})
	}
}

// series is what a vector says that its answer has, histograms left out.
func (v *vector) series(t testing.TB, req *readRequest) (want []series) {
	t.Helper()
	for _, s := range v.Results {
		for _, one := range s {
			w := series{labels: pairs(one.Labels)}
			for _, p := range one.Samples {
				at, err := p[0].(json.Number).Int64()
				require.NoError(t, err)
				bits, err := strconv.ParseUint(p[1].(string), 16, 64)
				require.NoError(t, err)
				w.samples = append(w.samples, sample{at, bits})
			}
			want = append(want, w)
		}
	}
	for _, f := range v.Frames {
		for _, s := range f.Series {
			if name := pairs(s.Labels); len(want) == 0 || want[len(want)-1].labels != name {
				want = append(want, series{labels: name})
			}
			w := &want[len(want)-1]
			for _, c := range s.Chunks {
				if chunkenc.Encoding(c.Type) != chunkenc.EncXOR {
					continue
				}
				chunk, err := chunkenc.FromData(chunkenc.EncXOR, unhex(t, c.Data))
				require.NoError(t, err)
				for _, p := range drain(t, chunk.Iterator(nil)) {
					if p.t >= req.queries[0].start && p.t <= req.queries[0].end {
						w.samples = append(w.samples, p)
					}
				}
			}
		}
	}
	return want
}

func pairs(ls [][2]string) string {
	var b labels.Builder
	for _, l := range ls {
		b.Set(l[0], l[1])
	}
	return b.Labels().String()
}

func TestSelect_ExternalLabelsAreAskedForAndTakenOff(t *testing.T) {
	db := openVectorDB(t)
	h := ReadHandler(db, &ReadOptions{ExternalLabels: labels.FromStrings("region", "eu", "replica", "r0")})
	up := labels.Equal("__name__", "up")
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			names := func(external labels.Labels, ms ...*labels.Matcher) (list []string) {
				c := clientOf(t, h, &ReadClientOptions{Mode: mode, ExternalLabels: external})
				for _, s := range collect(t, c.Select(context.Background(), 0, math.MaxInt64, nil, append(ms, up)...)) {
					require.Len(t, s.samples, 300)
					list = append(list, s.labels)
				}
				return list
			}
			require.Equal(t, []string{
				`{__name__="up", job="a", region="eu", replica="r0"}`, `{__name__="up", job="b", region="local", replica="r0"}`,
			}, names(labels.Labels{}))
			require.Equal(t, []string{`{__name__="up", job="a"}`}, names(labels.FromStrings("region", "eu", "replica", "r0")))
			require.Equal(t, []string{`{__name__="up", job="a", region="eu"}`},
				names(labels.FromStrings("region", "elsewhere", "replica", "r0"), labels.Equal("region", "eu")), "the caller's matcher counts")
			require.Empty(t, names(labels.FromStrings("region", "us")))
		})
	}
}

func TestSelect_LimitEndsTheAnswer(t *testing.T) {
	c := clientOf(t, ReadHandler(oddDB(t), nil), nil)
	set := c.Select(context.Background(), 0, 10, &tsdb.SelectHints{Limit: 2}, everyMatcher())
	require.Len(t, collect(t, set), 2)
	require.Len(t, set.Warnings(), 1)
	require.ErrorIs(t, set.Warnings()[0], tsdb.ErrTruncated)

	set = c.Select(context.Background(), 0, 10, &tsdb.SelectHints{Limit: 3}, labels.Equal("__name__", "long"))
	require.Len(t, collect(t, set), 3)
	require.Empty(t, set.Warnings(), "there are no more")
}

func TestSelect_WarnsOfWhatTheServerMisses(t *testing.T) {
	for name, mode := range modes {
		whole := recorded(t, mode)
		h := func(w http.ResponseWriter, r *http.Request) {
			answers(whole, whole.Body.Bytes())(w, r)
			_ = http.NewResponseController(w).Flush()
			w.Header().Set(http.TrailerPrefix+warningTrailer, "a block")
		}
		set := clientOf(t, http.HandlerFunc(h), &ReadClientOptions{Mode: mode}).Select(context.Background(), 0, math.MaxInt64, nil, everyMatcher())
		require.Len(t, collect(t, set), 2, name)
		require.Equal(t, tsdb.Warnings{tsdb.ErrMissing}, set.Warnings(), name)
	}
}

func TestSelect_AsksAsTheProtocolWants(t *testing.T) {
	var got *http.Request
	var req readRequest
	h := func(w http.ResponseWriter, r *http.Request) {
		got = r
		var err error
		rh := readHandler{opts: (*ReadOptions)(nil).withDefaults()}
		p, err := rh.receive(w, r)
		require.NoError(t, err)
		req = *p
		w.Header().Set("Content-Type", chunksContentType)
	}
	header := http.Header{"X-Scope": {"a", "b"}, "User-Agent": {"me"}}
	c := clientOf(t, http.HandlerFunc(h), &ReadClientOptions{Header: header, ExternalLabels: labels.FromStrings("dc", "x")})
	re, err := labels.NotRegexp("job", "a.*")
	require.NoError(t, err)
	require.Empty(t, collect(t, c.Select(context.Background(), -5, 7, nil, labels.Equal("__name__", "up"), re)))
	require.Equal(t, http.MethodPost, got.Method)
	require.Equal(t, "/api/v1/read", got.URL.Path)
	for name, value := range map[string]string{
		"Content-Encoding": "snappy", "Accept-Encoding": "snappy", "Content-Type": "application/x-protobuf",
		"X-Prometheus-Remote-Read-Version": "0.1.0", "User-Agent": "me",
	} {
		require.Equal(t, value, got.Header.Get(name), name)
	}
	require.Equal(t, []string{"a", "b"}, got.Header["X-Scope"])
	require.Equal(t, http.Header{"X-Scope": {"a", "b"}, "User-Agent": {"me"}}, header)
	require.Equal(t, readRequest{
		accepted: []responseType{typeChunks, typeSamples},
		queries: []query{{start: -5, end: 7, matchers: []matcher{
			{0, "__name__", "up"}, {3, "job", "a.*"}, {0, "dc", "x"},
		}}},
	}, req)
}

func TestIterator_SeeksAndReadsInBatches(t *testing.T) {
	db := oddDB(t)
	want := stored(t, db, 0, math.MaxInt64, labels.Equal("s", "1"))[0].samples
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			c := clientOf(t, ReadHandler(db, &ReadOptions{FrameBytes: 300}), &ReadClientOptions{Mode: mode})
			set := c.Select(context.Background(), 0, math.MaxInt64, nil, labels.Equal("s", "1"))
			defer func() { require.NoError(t, set.Close()) }()
			require.True(t, set.Next())
			it := set.At().Iterator(nil)
			at := -1
			stands := func() {
				ts, v := it.At()
				require.Equal(t, want[at], sample{ts, math.Float64bits(v)})
			}
			b := chunkenc.NewBatch(10)
			for step := 0; at < 4500; step++ {
				switch step % 4 {
				case 0:
					require.Equal(t, chunkenc.ValFloat, it.Next())
					at++
				case 1:
					require.Equal(t, chunkenc.ValFloat, it.Seek(want[at].t-5000), "not backwards")
				case 2:
					at += 1 + step%37*11
					require.Equal(t, chunkenc.ValFloat, it.Seek(want[at-1].t+1))
				case 3:
					require.Equal(t, chunkenc.ValFloat, it.NextBatch(b))
					require.LessOrEqual(t, b.Len(), 10)
					for i := range b.T {
						require.Equal(t, want[at+1+i], sample{b.T[i], math.Float64bits(b.V[i])})
					}
					at += b.Len()
				}
				stands()
			}
			require.Equal(t, chunkenc.ValNone, it.Seek(math.MaxInt64))
			require.Equal(t, chunkenc.ValNone, it.NextBatch(b))
			require.Zero(t, b.Len())
			require.Equal(t, chunkenc.ValNone, it.Next())
			require.NoError(t, it.Err())
		})
	}
}

func TestSeries_IsReadOnceWhileTheSetStandsOnIt(t *testing.T) {
	c := clientOf(t, ReadHandler(oddDB(t), nil), nil)
	set := c.Select(context.Background(), 0, 10_000, nil, labels.Equal("__name__", "long"))
	require.True(t, set.Next())
	first := set.At()
	one := first.Iterator(nil)
	require.Equal(t, chunkenc.ValFloat, one.Next())
	two := first.Iterator(nil)
	require.Equal(t, chunkenc.ValNone, drainErr(one, ErrSeriesPassed, t))
	require.Equal(t, chunkenc.ValNone, two.Next(), "the first batch had all of it")
	require.NoError(t, two.Err())
	require.True(t, set.Next())
	require.Equal(t, chunkenc.ValNone, drainErr(first.Iterator(two), ErrSeriesPassed, t))
	require.Equal(t, `{__name__="long", s="0"}`, first.Labels().String())
	require.Equal(t, `{__name__="long", s="1"}`, set.At().Labels().String())
	require.Len(t, drain(t, set.At().Iterator(two)), 11)
	last := set.At().Iterator(nil)
	require.NoError(t, set.Close())
	require.ErrorIs(t, set.Err(), tsdb.ErrClosed)
	require.Equal(t, chunkenc.ValNone, drainErr(last, tsdb.ErrClosed, t))
	require.Equal(t, chunkenc.ValNone, drainErr(set.At().Iterator(last), tsdb.ErrClosed, t))
	require.False(t, set.Next())
	require.Equal(t, chunkenc.ValNone, drainErr(last, tsdb.ErrClosed, t), "it keeps its error")
}

// drainErr reads an iterator to its end, which must be an error.
func drainErr(it chunkenc.Iterator, want error, t testing.TB) chunkenc.ValueType {
	t.Helper()
	kind := chunkenc.ValFloat
	for kind != chunkenc.ValNone {
		kind = it.Next()
	}
	require.ErrorIs(t, it.Err(), want)
	return kind
}

func TestClient_ANilContextOrMatcherIsAnErrorBeforeAnythingIsSent(t *testing.T) {
	c, err := NewReadClient("http://127.0.0.1:1/", nil)
	require.NoError(t, err)
	q := c.Querier(0, 1)
	defer func() { require.NoError(t, q.Close()) }()
	var none context.Context
	for what, set := range map[string]*SeriesSet{
		"client, no context":  c.Select(none, 0, 1, nil),
		"client, no matcher":  c.Select(t.Context(), 0, 1, nil, labels.Equal("a", "b"), nil),
		"querier, no context": q.Select(none, nil),
		"querier, no matcher": q.Select(t.Context(), nil, nil),
	} {
		require.False(t, set.Next(), what)
		require.ErrorIs(t, set.Err(), tsdb.ErrInvalidArgument, what)
		require.NoError(t, set.Close(), what)
	}
}
