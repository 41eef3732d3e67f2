package remote

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/golang/snappy"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
)

// postBody sends a body as it is.
func postBody(h http.Handler, body io.Reader) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", body))
	return w
}

// up asks for the metric of the vectors' data, in its whole range.
func up(typ responseType) *readRequest {
	return &readRequest{
		queries:  []query{{start: vectorStart, end: vectorStart + 9*fixtureStep, matchers: []matcher{{name: "__name__", value: "up"}}}},
		accepted: []responseType{typ},
	}
}

func TestSamples_LimitIsOfOneQueryAndExact(t *testing.T) {
	db := openVectorDB(t)
	req := up(typeSamples) // 10 samples of 2 series
	req.queries = append(req.queries, req.queries[0])
	body := appendReadRequest(nil, req)
	for limit, status := range map[int]int{19: http.StatusBadRequest, 20: http.StatusOK, -1: http.StatusOK} {
		w := post(ReadHandler(db, &ReadOptions{SampleLimit: limit}), body)
		require.Equal(t, status, w.Code)
		if status != http.StatusOK {
			require.Equal(t, "exceeded sample limit\n", w.Body.String())
		}
	}
	req.accepted[0] = typeChunks
	w := post(ReadHandler(db, &ReadOptions{SampleLimit: 1}), appendReadRequest(nil, req))
	require.Equal(t, http.StatusOK, w.Code, "streamed chunks have no such limit")
}

func TestBody_LimitsAreExactBeforeAndAfterDecompression(t *testing.T) {
	db := openVectorDB(t)
	request := appendReadRequest(nil, up(typeSamples))
	request = append(request, bytes.Repeat([]byte{0x7a, 0}, 2000)...) // field 15, unknown and empty
	packed := snappy.Encode(nil, request)
	require.Less(t, len(packed), len(request))
	for limit, status := range map[int]int{
		len(packed) - 1:  http.StatusBadRequest,
		len(request) - 1: http.StatusBadRequest,
		len(request):     http.StatusOK,
	} {
		w := postBody(ReadHandler(db, &ReadOptions{RequestBytes: limit}), bytes.NewReader(packed))
		require.Equal(t, status, w.Code, w.Body)
	}
}

// hostile is requests that must be refused, before they are compressed.
func hostile() map[string][]byte {
	message := func(field protowire.Number, content []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, field, protowire.BytesType), content)
	}
	withMatcher := func(m matcher) []byte {
		return appendReadRequest(nil, &readRequest{queries: []query{{matchers: []matcher{m}}}})
	}
	return map[string][]byte{
		"negative length of a query":     append([]byte{0x0a}, binary.AppendUvarint(nil, math.MaxUint64)...),
		"length beyond the end":          {0x0a, 100, 0x08, 1},
		"overlong length":                append([]byte{0x0a}, bytes.Repeat([]byte{0xff}, 11)...),
		"tag of field 0":                 {0x02, 1, 0},
		"wire type 6":                    {0x0e},
		"wire type 7":                    {0x0f},
		"group without end":              {0x1b},
		"end of no group":                {0x1c},
		"nested groups":                  bytes.Repeat([]byte{0x1b}, 100_000),
		"query that is a number":         {0x08, 1},
		"accepted types as a double":     append([]byte{0x11}, make([]byte, 8)...),
		"time as a string":               message(1, []byte{0x0a, 1, 'x'}),
		"matcher that is a number":       message(1, []byte{0x18, 1}),
		"matcher type as a string":       message(1, message(3, []byte{0x0a, 1, 'x'})),
		"hints that are a number":        message(1, []byte{0x20, 1}),
		"unknown matcher type":           withMatcher(matcher{typ: 4, name: "a"}),
		"negative matcher type":          withMatcher(matcher{typ: -1, name: "a"}),
		"matcher without a name":         withMatcher(matcher{value: "a"}),
		"regexp that is none":            withMatcher(matcher{typ: 2, name: "a", value: "("}),
		"regexp of 1 MiB":                withMatcher(matcher{typ: 2, name: "a", value: strings.Repeat("a", 1<<20)}),
		"regexp of 4 KiB and a byte":     withMatcher(matcher{typ: 3, name: "a", value: strings.Repeat("a", labels.MaxRegexpBytes) + "."}),
		"regexp that explodes":           withMatcher(matcher{typ: 2, name: "a", value: "((a{100}){100}){10}"}),
		"value of 1 MiB":                 withMatcher(matcher{name: "a", value: strings.Repeat("a", 1<<20)}),
		"too many queries":               bytes.Repeat([]byte{0x0a, 0}, maxQueries+1),
		"too many matchers":              message(1, bytes.Repeat([]byte{0x1a, 0}, maxMatchers+1)),
		"too many labels to group by":    message(1, message(4, bytes.Repeat([]byte{0x2a, 0}, maxGrouping+1))),
		"too many types, packed":         message(2, bytes.Repeat([]byte{1}, maxTypes+1)),
		"too many types, one by one":     bytes.Repeat([]byte{0x10, 1}, maxTypes+1),
		"packed type that is cut off":    message(2, []byte{0x80}),
		"no type that is known":          message(2, []byte{7, 8}),
		"negative type":                  append([]byte{0x10}, binary.AppendUvarint(nil, math.MaxUint64)...),
		"matchers of 64 KiB and a byte":  withMatcher(matcher{name: "ab", value: strings.Repeat("a", maxMatcherBytes-1)}),
		"too many regular expressions":   appendReadRequest(nil, regexpsOf(1, maxRegexps+1)),
		"too many of several queries":    appendReadRequest(nil, regexpsOf(maxRegexps/2+1, 2)),
		"second query has a bad matcher": append(message(1, nil), message(1, message(3, nil))...),
	}
}

// regexpsOf is a request with so many queries, with so many regular expressions each that
// take long to compile.
func regexpsOf(queries, each int) *readRequest {
	q := query{start: vectorStart, end: vectorStart + 1}
	for i := range each {
		q.matchers = append(q.matchers, matcher{typ: 2 + int32(i%2), name: "a", value: `(?i:\pL\PL){1000}`})
	}
	return &readRequest{queries: slices.Repeat([]query{q}, queries)}
}

func TestRegularExpressions_AreCompiledOnceAndNotForAClientThatIsGone(t *testing.T) {
	h := ReadHandler(openVectorDB(t), nil)
	body := bodyOf(appendReadRequest(nil, regexpsOf(1, 8)))
	one := allocatedBy(func() {
		_, err := compileMatchers(context.Background(), regexpsOf(1, 1).queries[0].matchers)
		require.NoError(t, err)
	})
	require.Greater(t, one, uint64(1<<20))
	var w *httptest.ResponseRecorder
	require.Less(t, allocatedBy(func() { w = postBody(h, body) }), 12*one)
	require.Equal(t, http.StatusOK, w.Code, w.Body)

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	allocated := allocatedBy(func() {
		_, err := compileMatchers(ctx, regexpsOf(1, maxRegexps).queries[0].matchers)
		require.ErrorIs(t, err, context.Canceled)
	})
	require.Less(t, allocated, one)
}

func TestHostileRequests_AreRefusedWithAReason(t *testing.T) {
	h := ReadHandler(openVectorDB(t), nil)
	for name, request := range hostile() {
		t.Run(name, func(t *testing.T) {
			w := post(h, request)
			require.Equal(t, http.StatusBadRequest, w.Code, w.Body)
			require.NotEmpty(t, strings.TrimSpace(w.Body.String()))
			require.Empty(t, w.Header().Get("Content-Encoding"))
		})
	}
}

func TestTypes_ThatAreNotKnownAreNamed(t *testing.T) {
	w := post(ReadHandler(openVectorDB(t), nil), hostile()["no type that is known"])
	require.Equal(t, "[response type 7 response type 8]: none of the accepted response types is known\n", w.Body.String())
}

func TestRequests_AtTheirLimitsAreAnswered(t *testing.T) {
	h := ReadHandler(openVectorDB(t), nil)
	many := up(typeSamples)
	for range maxQueries - 1 {
		many.queries = append(many.queries, many.queries[0])
	}
	crowded := up(typeSamples)
	for range maxMatchers - 1 {
		crowded.queries[0].matchers = append(crowded.queries[0].matchers, matcher{name: "__name__", value: "up"})
	}
	long := up(typeSamples)
	long.queries[0].matchers = append(long.queries[0].matchers, matcher{typ: 1, name: "x", value: strings.Repeat("a", maxMatcherBytes-len("__name__upx"))})
	expressive := up(typeSamples)
	for range maxRegexps {
		expressive.queries[0].matchers = append(expressive.queries[0].matchers, matcher{typ: 2, name: "__name__", value: "u."})
	}
	for _, req := range []*readRequest{many, crowded, long, expressive} {
		w := post(h, appendReadRequest(nil, req))
		require.Equal(t, http.StatusOK, w.Code, w.Body)
	}
}

// allocatedBy returns the bytes that are allocated meanwhile, by anybody.
func allocatedBy(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestHostileBlocks_AreRefusedBeforeAnythingIsAllocatedForThem(t *testing.T) {
	h := ReadHandler(openVectorDB(t), nil)
	for name, body := range map[string][]byte{
		"no bytes":                       nil,
		"4 GiB in five bytes":            binary.AppendUvarint(nil, math.MaxUint32),
		"more than 32 bits":              binary.AppendUvarint(nil, math.MaxUint32+1),
		"overlong length":                bytes.Repeat([]byte{0xff}, 11),
		"a byte over the limit":          binary.AppendUvarint(nil, defaultRequestBytes+1),
		"at the limit, but empty":        binary.AppendUvarint(nil, defaultRequestBytes),
		"copy from before the beginning": append(binary.AppendUvarint(nil, 4), 0x01, 0x10),
		"literal beyond the end":         append(binary.AppendUvarint(nil, 4), 0xf0, 0xff),
		"not compressed":                 appendReadRequest(nil, up(typeSamples)),
		"framed":                         []byte("\xff\x06\x00\x00sNaPpY"),
	} {
		t.Run(name, func(t *testing.T) {
			var w *httptest.ResponseRecorder
			allocated := allocatedBy(func() { w = postBody(h, bytes.NewReader(body)) })
			require.Equal(t, http.StatusBadRequest, w.Code, w.Body)
			require.Less(t, allocated, uint64(64<<10))
		})
	}
}

func TestTruncatedRequests_NeverPanic(t *testing.T) {
	h := ReadHandler(openVectorDB(t), nil)
	for _, v := range readVectors(t) {
		request := unhex(t, v.Request)
		for n := range request {
			code := post(h, request[:n]).Code
			require.Contains(t, []int{http.StatusOK, http.StatusBadRequest}, code)
		}
		packed := snappy.Encode(nil, request)
		for n := range packed {
			require.Equal(t, http.StatusBadRequest, postBody(h, bytes.NewReader(packed[:n])).Code)
		}
	}
}

func TestRequests_OfAnyTypeAndVersionAreTaken(t *testing.T) {
	h := ReadHandler(openVectorDB(t), nil)
	send := func(header http.Header) int {
		r := httptest.NewRequest(http.MethodPost, "/", bodyOf(appendReadRequest(nil, up(typeChunks))))
		r.Header = header
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	for _, typ := range []string{"application/x-protobuf", "application/x-stream-protobuf", chunksContentType, "text/html", "", "a/b/c;;"} {
		require.Equal(t, http.StatusOK, send(http.Header{"Content-Type": {typ}}))
	}
	for _, version := range []string{"0.1.0", "99.0", "", "?"} {
		require.Equal(t, http.StatusOK, send(http.Header{"X-Prometheus-Remote-Read-Version": {version}}))
	}
	for encoding, status := range map[string]int{
		"snappy": http.StatusOK, "Snappy": http.StatusOK, "": http.StatusOK, "identity": http.StatusOK,
		"gzip": http.StatusUnsupportedMediaType, "zstd": http.StatusUnsupportedMediaType,
		"snappy, gzip": http.StatusUnsupportedMediaType,
	} {
		require.Equal(t, status, send(http.Header{"Content-Encoding": {encoding}}), encoding)
	}
}

func TestOtherMethods_AreRefused(t *testing.T) {
	h := ReadHandler(openVectorDB(t), nil)
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPut, http.MethodDelete, http.MethodOptions} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, "/", nil))
		require.Equal(t, http.StatusMethodNotAllowed, w.Code)
		require.Equal(t, http.MethodPost, w.Header().Get("Allow"))
	}
}

// failing is a database that gives no snapshots.
type failing struct{ err error }

func (f failing) Querier(int64, int64) (*tsdb.Querier, error) { return nil, f.err }

func TestErrorsOfTheDatabase_SayNothingOfFiles(t *testing.T) {
	for _, test := range []struct {
		err    error
		status int
		text   string
	}{
		{errors.New("open /var/lib/secret/01ABC/index: no"), http.StatusInternalServerError, "internal error\n"},
		{&tsdb.CorruptError{File: "/var/lib/secret/index", Reason: "bad"}, http.StatusInternalServerError, "stored data is damaged\n"},
		{tsdb.ErrClosed, http.StatusServiceUnavailable, "the database is closed\n"},
	} {
		w := post(ReadHandler(failing{test.err}, nil), appendReadRequest(nil, up(typeSamples)))
		require.Equal(t, test.status, w.Code)
		require.Equal(t, test.text, w.Body.String())
	}
}

// gate is a database that hands out snapshots when it is told to.
type gate struct {
	Queryable
	asked, open chan struct{}
}

func (g *gate) Querier(mint, maxt int64) (*tsdb.Querier, error) {
	g.asked <- struct{}{}
	<-g.open
	return g.Queryable.Querier(mint, maxt)
}

func TestRequestsInFlight_OneTooManyIsToldToComeAgain(t *testing.T) {
	db := openVectorDB(t)
	g := &gate{Queryable: db, asked: make(chan struct{}), open: make(chan struct{})}
	h := ReadHandler(g, &ReadOptions{MaxInFlight: 2})
	request := appendReadRequest(nil, up(typeSamples))
	answers := make(chan *httptest.ResponseRecorder)
	for range 2 {
		go func() { answers <- post(h, request) }()
		<-g.asked
	}
	w := post(h, request)
	require.Equal(t, http.StatusTooManyRequests, w.Code)
	require.Equal(t, "1", w.Header().Get("Retry-After"))
	close(g.open)
	for range 2 {
		require.Equal(t, http.StatusOK, (<-answers).Code)
	}
	go func() { <-g.asked }()
	require.Equal(t, http.StatusOK, post(h, request).Code)
	require.Zero(t, db.Stats().QueriersOpen)
}

func TestEmptySelections_AreEmptyAnswers(t *testing.T) {
	h := ReadHandler(openVectorDB(t), nil)
	nothing := []query{
		{start: vectorStart, end: vectorStart + 1, matchers: []matcher{{name: "__name__", value: "nobody"}}},
		{start: vectorStart + 1, end: vectorStart + 2, matchers: []matcher{{name: "__name__", value: "up"}}}, // between samples
		{start: vectorStart + 2, end: vectorStart + 1},
		{start: math.MinInt64, end: math.MinInt64},
		{start: math.MaxInt64, end: math.MaxInt64},
		{start: math.MaxInt64, end: math.MinInt64},
	}
	w := post(h, appendReadRequest(nil, &readRequest{queries: nothing}))
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	got, err := snappy.Decode(nil, w.Body.Bytes())
	require.NoError(t, err)
	require.Equal(t, bytes.Repeat([]byte{0x0a, 0}, len(nothing)), got)

	w = post(h, appendReadRequest(nil, &readRequest{queries: nothing, accepted: []responseType{typeChunks}}))
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, chunksContentType, w.Header().Get("Content-Type"))
	require.Zero(t, w.Body.Len())

	w = post(h, nil) // no query at all
	require.Equal(t, http.StatusOK, w.Code)
	got, err = snappy.Decode(nil, w.Body.Bytes())
	require.NoError(t, err)
	require.Empty(t, got)
}

func TestCancelledRequest_LetsGoOfItsSnapshot(t *testing.T) {
	db := openBlocks(t, 200, 500)
	for _, typ := range []responseType{typeSamples, typeChunks} {
		ctx, cancel := context.WithCancel(context.Background())
		w := newSink()
		w.write = cancel // the client goes when it has the first piece
		r := httptest.NewRequest(http.MethodPost, "/", bodyOf(allOf(typ, "requests_total"))).WithContext(ctx)
		require.PanicsWithValue(t, http.ErrAbortHandler, func() { ReadHandler(db, nil).ServeHTTP(w, r) })
		require.Zero(t, db.Stats().QueriersOpen)
		require.LessOrEqual(t, w.bytes, int64(2*pacedPiece+len(brokenFrame)))

		w = newSink() // before anything is written it is an ordinary refusal
		r = httptest.NewRequest(http.MethodPost, "/", bodyOf(allOf(typ, "requests_total"))).WithContext(ctx)
		ReadHandler(db, nil).ServeHTTP(w, r)
		require.Equal(t, http.StatusServiceUnavailable, w.status)
		require.Zero(t, db.Stats().QueriersOpen)
	}
}

func TestSamples_AnswerThatNoBlockCanHoldIsRefused(t *testing.T) {
	db := openVectorDB(t)
	w := post(ReadHandler(db, nil), appendReadRequest(nil, up(typeSamples)))
	whole, err := snappy.Decode(nil, w.Body.Bytes())
	require.NoError(t, err)
	for longest, want := range map[uint64]error{uint64(len(whole)): nil, uint64(len(whole) - 1): errTooLarge, 10: errTooLarge} {
		q := up(typeSamples).queries[0]
		snapshot, err := db.Querier(q.bounds())
		require.NoError(t, err)
		rec := httptest.NewRecorder()
		a := sampleAnswer{out: newPacedWriter(rec, 0), limit: -1, longest: longest}
		ms, err := compileMatchers(context.Background(), q.matchers)
		require.NoError(t, err)
		require.Equal(t, want, a.write(context.Background(), []*openQuery{{Querier: snapshot, matchers: ms}}))
		require.NoError(t, snapshot.Close())
		if want != nil {
			require.Zero(t, rec.Body.Len())
		}
	}
}
