package remote

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/golang/snappy"
	"github.com/pkg/errors"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/labels"
)

// recorded is an answer of the handler, with its body.
func recorded(t testing.TB, mode Mode) *httptest.ResponseRecorder {
	t.Helper()
	db := openVectorDB(t)
	req := readRequest{accepted: mode.accepted(), queries: []query{{start: vectorStart, end: vectorStart + 600_000, matchers: []matcher{{0, "__name__", "up"}}}}}
	w := post(ReadHandler(db, &ReadOptions{FrameBytes: 60}), appendReadRequest(nil, &req))
	require.Equal(t, http.StatusOK, w.Code)
	return w
}

// answers is a server that gives a body.
func answers(like *httptest.ResponseRecorder, body []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for name, values := range like.Header() {
			w.Header()[name] = values
		}
		w.Header().Del("Content-Length")
		_, _ = w.Write(body)
	}
}

// readAll reads a set to its end and returns its error.
func readAll(set *SeriesSet) (samples int, err error) {
	for s, err := range set.All() {
		if err != nil {
			return samples, err
		}
		it := s.Iterator(nil)
		for it.Next() != chunkenc.ValNone {
			samples++
		}
		if it.Err() != nil && set.Err() == nil {
			return samples, it.Err()
		}
	}
	return samples, set.Err()
}

func TestSelect_AServerThatBreaksOffIsAnError(t *testing.T) {
	for name, mode := range map[string]Mode{"streamed": ModeStreamed, "samples": ModeSamples} {
		t.Run(name, func(t *testing.T) {
			whole := recorded(t, mode)
			body := whole.Body.Bytes()
			n := 0
			h := func(w http.ResponseWriter, r *http.Request) {
				answers(whole, body[:n])(w, r)
				_ = http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler) // the connection ends, the body does not
			}
			c := clientOf(t, http.HandlerFunc(h), nil)
			for n = 0; n <= len(body); n++ {
				_, err := readAll(c.Select(context.Background(), math.MinInt64, math.MaxInt64, nil, everyMatcher()))
				require.ErrorIs(t, err, ErrAnswer, n)
			}
			c = clientOf(t, answers(whole, body), nil)
			samples, err := readAll(c.Select(context.Background(), math.MinInt64, math.MaxInt64, nil, everyMatcher()))
			require.NoError(t, err)
			require.Equal(t, 82, samples)
		})
	}
}

func TestSelect_AServerThatBreaksOffIsAnErrorOverHTTP2(t *testing.T) {
	for name, mode := range map[string]Mode{"streamed": ModeStreamed, "samples": ModeSamples} {
		whole := recorded(t, mode)
		body := whole.Body.Bytes()
		n, breaks := 0, true
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			answers(whole, body[:n])(w, r)
			if breaks {
				_ = http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			}
		}))
		server.EnableHTTP2 = true
		server.StartTLS()
		defer server.Close()
		c, err := NewReadClient(server.URL, &ReadClientOptions{HTTP: server.Client()})
		require.NoError(t, err)
		for n = 0; n <= len(body); n += 1 + len(body)/100 {
			_, err := readAll(c.Select(context.Background(), math.MinInt64, math.MaxInt64, nil, everyMatcher()))
			require.Error(t, err, "%s %d", name, n)
		}
		n, breaks = len(body), false
		set := c.Select(context.Background(), math.MinInt64, math.MaxInt64, nil, everyMatcher())
		require.Equal(t, 2, set.body.res.ProtoMajor)
		samples, err := readAll(set)
		require.NoError(t, err)
		require.Equal(t, 82, samples)
	}
}

// A server or a proxy may also cut an answer and end it properly. Only between two frames
// nothing tells.
func TestSelect_AnAnswerThatEndsTooEarlyIsAnError(t *testing.T) {
	for name, mode := range map[string]Mode{"streamed": ModeStreamed, "samples": ModeSamples} {
		t.Run(name, func(t *testing.T) {
			whole := recorded(t, mode)
			body := whole.Body.Bytes()
			borders := map[int]bool{}
			for rest := body; mode == ModeStreamed && len(rest) > 0; {
				borders[len(body)-len(rest)] = true
				_, rest = cutFrame(t, rest)
			}
			n := 0
			c := clientOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answers(whole, body[:n])(w, r) }), nil)
			for n = range body {
				if borders[n] {
					continue
				}
				_, err := readAll(c.Select(context.Background(), math.MinInt64, math.MaxInt64, nil, everyMatcher()))
				require.ErrorIs(t, err, ErrAnswer, n)
			}
		})
	}
}

// Such an answer says by nothing but its end that it is complete, and a connection that
// breaks looks the same.
func TestSelect_AStreamWithoutAnEndMarkIsAnError(t *testing.T) {
	whole := recorded(t, ModeStreamed)
	h := func(w http.ResponseWriter, _ *http.Request) {
		conn, buf, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		defer func() { _ = conn.Close() }()
		_, _ = fmt.Fprintf(buf, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: %s\r\n\r\n%s", chunksContentType, whole.Body)
		_ = buf.Flush()
	}
	c := clientOf(t, http.HandlerFunc(h), nil)
	_, err := readAll(c.Select(context.Background(), math.MinInt64, math.MaxInt64, nil, everyMatcher()))
	require.ErrorIs(t, err, ErrAnswer)
	require.ErrorContains(t, err, "complete")
}

func TestSelect_AChangedByteOfAFrameIsAnError(t *testing.T) {
	whole := recorded(t, ModeStreamed)
	var body []byte
	c := clientOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answers(whole, body)(w, r) }), nil)
	for i := range whole.Body.Bytes() {
		body = bytes.Clone(whole.Body.Bytes())
		body[i] ^= 0x10
		_, err := readAll(c.Select(context.Background(), math.MinInt64, math.MaxInt64, nil, everyMatcher()))
		require.True(t, isAny(err, ErrAnswer, tsdb.ErrLimit), "%d: %v", i, err)
	}
}

// message builds a field of bytes, for answers that no server gives.
func field(num byte, parts ...[]byte) []byte {
	return appendMessage(nil, num, func(b []byte) []byte { return append(b, bytes.Join(parts, nil)...) })
}

func TestSelect_MalformedMessagesAreErrors(t *testing.T) {
	series := func(ls ...labels.Label) []byte { return field(1, appendLabels(nil, ls)) }
	good := labels.Label{Name: "a", Value: "b"}
	sample := field(2, []byte{fixed64Tag(1), 1, 2, 3, 4, 5, 6, 7, 8}, appendInt(nil, 2, 100))
	older := field(2, appendInt(nil, 2, 99))
	many := bytes.Repeat(appendLabels(nil, []labels.Label{{Name: "n", Value: strings.Repeat("v", 1000)}}), 1100)
	empty := bytes.Repeat([]byte{bytesTag(1), 0}, maxSeriesLabelBytes/2+1)
	cases := map[string]struct {
		frames  []byte // streamed
		message []byte // samples
		want    error
	}{
		"no result":            {message: []byte{}, want: ErrAnswer},
		"two results":          {message: append(field(1), field(1)...), want: ErrAnswer},
		"labels twice":         {message: field(1, series(good, good)), frames: series(good, good), want: ErrAnswer},
		"no labels":            {message: field(1, field(1, sample)), frames: series(), want: ErrAnswer},
		"not UTF-8":            {message: field(1, series(labels.Label{Name: "a", Value: "\xff"})), frames: series(labels.Label{Name: "a", Value: "\xff"}), want: ErrAnswer},
		"time goes back":       {message: field(1, field(1, appendLabels(nil, []labels.Label{good}), sample, older)), want: ErrAnswer},
		"labels last":          {message: field(1, field(1, appendLabels(nil, []labels.Label{good}), sample, appendLabels(nil, []labels.Label{{Name: "c", Value: "d"}}))), want: ErrAnswer},
		"an odd histogram":     {message: field(1, field(1, appendLabels(nil, []labels.Label{good}), sample, field(4, appendInt(nil, 4, 106)))), want: ErrAnswer},
		"a large histogram":    {message: field(1, field(1, appendLabels(nil, []labels.Label{good}), field(4, field(7, make([]byte, maxHistogramField))))), want: tsdb.ErrLimit},
		"histograms go back":   {message: field(1, field(1, appendLabels(nil, []labels.Label{good}), field(4, appendInt(nil, 15, 5)), field(4, appendInt(nil, 15, 4)))), want: ErrAnswer},
		"a chunk of no layout": {frames: field(1, appendLabels(nil, []labels.Label{good}), field(2, appendInt(nil, 3, 2), field(4, []byte{0, 1, 0}))), want: ErrAnswer},
		"an unknown chunk":     {frames: field(1, appendLabels(nil, []labels.Label{good}), field(2, appendInt(nil, 3, 9), field(4, []byte{0, 1, 0}))), want: tsdb.ErrUnsupported},
		"a chunk of no bytes":  {frames: field(1, appendLabels(nil, []labels.Label{good}), field(2, appendInt(nil, 3, 1))), want: ErrAnswer},
		"a chunk of few bytes": {frames: field(1, appendLabels(nil, []labels.Label{good}), field(2, appendInt(nil, 3, 1), field(4, []byte{0, 9, 1}))), want: ErrAnswer},
		"another query":        {frames: append(series(good), appendInt(nil, 2, 1)...), want: ErrAnswer},
		"a group":              {message: field(1, []byte{0x0b, 0x0c}), frames: []byte{0x0b}, want: ErrAnswer},
		"wrong wire type":      {frames: appendInt(nil, 1, 1), want: ErrAnswer},
		"a field too long":     {message: []byte{0x0a, 5, 0x0a, 4, 1}, frames: []byte{0x0a, 9, 1}, want: ErrAnswer},
		"many labels":          {message: field(1, field(1, many)), frames: field(1, many), want: tsdb.ErrLimit},
		"empty labels":         {message: field(1, field(1, empty)), frames: field(1, empty), want: tsdb.ErrLimit},
		"a large sample":       {message: field(1, field(1, appendLabels(nil, []labels.Label{good}), field(2, field(7, make([]byte, 2000))))), want: ErrAnswer},
	}
	for name, c := range cases {
		check := func(like http.Header, body []byte) {
			w := httptest.NewRecorder()
			for k, v := range like {
				w.Header()[k] = v
			}
			_, err := readAll(clientOf(t, answers(w, body), nil).Select(context.Background(), 0, math.MaxInt64, nil, everyMatcher()))
			require.ErrorIs(t, err, c.want, name)
		}
		if c.message != nil {
			check(http.Header{"Content-Type": {samplesContentType}, "Content-Encoding": {"snappy"}}, snappy.Encode(nil, c.message))
		}
		if c.frames != nil {
			check(http.Header{"Content-Type": {chunksContentType}}, framed(c.frames))
		}
	}
}

func TestSelect_FieldsOfALaterVersionAreSkipped(t *testing.T) {
	later := append(appendInt(field(100>>3, []byte("new")), 14, 5), fixed64Tag(13), 1, 2, 3, 4, 5, 6, 7, 8)
	name := appendLabels(nil, []labels.Label{{Name: "a", Value: "b"}})
	plain := field(2, []byte{fixed64Tag(1), 0, 0, 0, 0, 0, 0, 0xf0, 0x3f}, appendInt(nil, 2, 5))
	odd := field(2, later, appendInt(nil, 2, 6))
	message := append(bytes.Clone(later), field(1, later, field(1, name, later, plain, later, odd, later), later)...)
	message = append(message, later...)
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", samplesContentType)
	c := clientOf(t, answers(w, snappy.Encode(nil, message)), nil)
	want := []series{{`{a="b"}`, []sample{{5, math.Float64bits(1)}, {6, 0}}}}
	require.Equal(t, want, collect(t, c.Select(context.Background(), 0, 100, nil, everyMatcher())))

	var enc chunkenc.Encoder
	require.NoError(t, enc.Append(5, 1, 0))
	require.NoError(t, enc.Append(6, 0, 0))
	chunk := field(2, later, appendInt(nil, 1, 5), appendInt(nil, 2, 6), appendInt(nil, 3, 1), field(4, enc.AppendTo(nil)), later)
	frame := append(append(bytes.Clone(later), field(1, later, name, later, chunk, later)...), later...)
	w = httptest.NewRecorder()
	w.Header().Set("Content-Type", chunksContentType)
	c = clientOf(t, answers(w, append(framed(later), framed(frame)...)), nil)
	require.Equal(t, want, collect(t, c.Select(context.Background(), 0, 100, nil, everyMatcher())))
}

// xorOf encodes samples with the value of their time.
func xorOf(t testing.TB, times ...int64) []byte {
	t.Helper()
	var enc chunkenc.Encoder
	for _, at := range times {
		require.NoError(t, enc.Append(at, float64(at), 0))
	}
	return enc.AppendTo(nil)
}

// chunkField is a Chunk message of them.
func chunkField(t testing.TB, times ...int64) []byte {
	t.Helper()
	return field(2, appendInt(nil, 1, times[0]), appendInt(nil, 2, times[len(times)-1]), appendInt(nil, 3, 1), field(4, xorOf(t, times...)))
}

func TestSelect_ChunksThatOverlapAreMerged(t *testing.T) {
	name := appendLabels(nil, []labels.Label{{Name: "a", Value: "b"}})
	other := appendLabels(nil, []labels.Label{{Name: "a", Value: "c"}})
	body := framed(append(
		field(1, name, chunkField(t, 1, 4, 9, 20), chunkField(t, 2, 3, 5), chunkField(t, 5, 6, 9)),
		field(1, name, chunkField(t, 6, 7), chunkField(t, 21, 22))...))
	body = append(body, framed(field(1, name, chunkField(t, 22, 23, 30)))...)
	body = append(body, framed(field(1, name))...)
	body = append(body, framed(field(1, other, chunkField(t, 1)))...)
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", chunksContentType)
	c := clientOf(t, answers(w, body), nil)
	want := func(times ...int64) (all []sample) {
		for _, at := range times {
			all = append(all, sample{at, math.Float64bits(float64(at))})
		}
		return all
	}
	require.Equal(t, []series{
		{`{a="b"}`, want(1, 2, 3, 4, 5, 6, 7, 9, 20, 21, 22, 23, 30)},
		{`{a="c"}`, want(1)},
	}, collect(t, c.Select(context.Background(), 0, 100, nil, everyMatcher())))
	require.Equal(t, []series{
		{`{a="b"}`, want(3, 4, 5, 6, 7, 9, 20, 21)},
		{`{a="c"}`, nil},
	}, collect(t, c.Select(context.Background(), 3, 21, nil, everyMatcher())))

	for read := range 6 {
		set := c.Select(context.Background(), 0, 100, nil, everyMatcher())
		require.True(t, set.Next())
		b := chunkenc.NewBatch(1)
		it := set.At().Iterator(nil)
		for i := range read {
			require.Equal(t, chunkenc.ValFloat, it.NextBatch(b))
			require.EqualValues(t, i+1, b.T[0])
		}
		require.True(t, set.Next(), "over the rest of a series that has several frames")
		require.Equal(t, series{`{a="c"}`, want(1)}, series{set.At().Labels().String(), drain(t, set.At().Iterator(it))})
		require.False(t, set.Next())
		require.NoError(t, set.Err())
	}
}

func TestSelect_ChunksThatOverlapTooMuchAreRefused(t *testing.T) {
	name := appendLabels(nil, []labels.Label{{Name: "a", Value: "b"}})
	parts := [][]byte{name}
	for i := range int64(maxOpenChunks) {
		parts = append(parts, chunkField(t, i, 1000+i))
	}
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", chunksContentType)
	body := framed(field(1, parts...))
	_, err := readAll(clientOf(t, answers(w, body), nil).Select(context.Background(), 0, 2000, nil, everyMatcher()))
	require.NoError(t, err)
	body = framed(field(1, append(parts, chunkField(t, 300, 1300))...))
	_, err = readAll(clientOf(t, answers(w, body), nil).Select(context.Background(), 0, 2000, nil, everyMatcher()))
	require.ErrorIs(t, err, tsdb.ErrLimit)
	body = nil
	for i := range parts[1:] {
		body = append(body, framed(field(1, name, parts[i+1]))...)
	}
	_, err = readAll(clientOf(t, answers(w, body), &ReadClientOptions{MaxFrameBytes: 200}).Select(context.Background(), 0, 2000, nil, everyMatcher()))
	require.ErrorIs(t, err, tsdb.ErrLimit)
}

// Each chunk that is open for the first time is a large one, beside small ones in the
// buffers of the large ones before.
func TestSelect_BuffersOfLargeChunksAreNotKept(t *testing.T) {
	name := appendLabels(nil, []labels.Label{{Name: "a", Value: "b"}})
	large := field(2, appendInt(nil, 1, 1), appendInt(nil, 2, 2), appendInt(nil, 3, 1), field(4, xorOf(t, 1, 2), make([]byte, 8*maxFreeChunk)))
	var body []byte
	const rounds = 20
	for i := range int64(rounds) {
		parts := [][]byte{appendLabels(nil, []labels.Label{{Name: "a", Value: fmt.Sprint(100 + i)}})}
		for range i {
			parts = append(parts, chunkField(t, 1, 2))
		}
		body = append(body, framed(field(1, append(parts, large)...))...)
	}
	body = append(body, framed(field(1, name, chunkField(t, 1, 2)))...)
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", chunksContentType)
	set := clientOf(t, answers(w, body), nil).Select(context.Background(), 0, 2000, nil, everyMatcher())
	defer func() { require.NoError(t, set.Close()) }()
	for range rounds + 1 {
		require.True(t, set.Next(), set.Err())
		require.Equal(t, []sample{{1, math.Float64bits(1)}, {2, math.Float64bits(2)}}, drain(t, set.At().Iterator(nil)))
	}
	kept := 0
	source := set.source.(*chunkSource)
	for _, c := range source.open {
		require.False(t, c.used)
		kept += cap(c.data)
	}
	require.Len(t, source.open, rounds)
	require.LessOrEqual(t, kept, maxFreeChunk)
}

func TestSelect_FramesBeyondTheLimitAreRefused(t *testing.T) {
	c := clientOf(t, ReadHandler(oddDB(t), nil), &ReadClientOptions{MaxFrameBytes: 1000})
	_, err := readAll(c.Select(context.Background(), 0, math.MaxInt64, nil, everyMatcher()))
	require.ErrorIs(t, err, tsdb.ErrLimit)
}

func TestSelect_ErrorsOfTheServerAreTold(t *testing.T) {
	h := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7")
		http.Error(w, "too \x1b[31mmany\nsecond line", http.StatusTooManyRequests)
	}
	set := clientOf(t, http.HandlerFunc(h), nil).Select(context.Background(), 0, 1, nil, everyMatcher())
	require.False(t, set.Next())
	var status *StatusError
	require.ErrorAs(t, set.Err(), &status)
	require.Equal(t, StatusError{Code: 429, Text: "too ?[31mmany", RetryAfter: 7 * time.Second}, *status)
	require.EqualError(t, set.Err(), "the server answers 429 Too Many Requests: too ?[31mmany")
	require.EqualError(t, &StatusError{Code: 405, Text: "Method Not Allowed"}, "the server answers 405 Method Not Allowed")
	for value, want := range map[string][2]time.Duration{
		"":                              {},
		"soon":                          {},
		"-7":                            {},
		"0":                             {},
		"7":                             {7 * time.Second, 7 * time.Second},
		"Sun, 06 Nov 1994 08:49:37 GMT": {},
		time.Now().Add(time.Hour).UTC().Format(http.TimeFormat): {time.Minute, time.Hour},
	} {
		got := retryAfterOf(http.Header{"Retry-After": {value}})
		require.GreaterOrEqual(t, got, want[0], value)
		require.LessOrEqual(t, got, want[1], value)
	}

	for _, header := range []http.Header{
		{"Content-Type": {"text/html"}},
		{"Content-Type": {""}},
		{"Content-Type": {"application/x-streamed-protobuf; proto=other.Message"}},
		{"Content-Type": {chunksContentType}, "Content-Encoding": {"gzip"}},
		{"Content-Type": {samplesContentType}, "Content-Encoding": {"zstd"}},
	} {
		w := httptest.NewRecorder()
		for name, values := range header {
			w.Header()[name] = values
		}
		_, err := readAll(clientOf(t, answers(w, nil), nil).Select(context.Background(), 0, 1, nil, everyMatcher()))
		require.ErrorIs(t, err, tsdb.ErrUnsupported, header)
	}
}

// stalls answers with a part of a stream and then with nothing until the client is gone.
func stalls(t testing.TB, header bool) http.HandlerFunc {
	whole := recorded(t, ModeStreamed)
	first, _ := cutFrame(t, whole.Body.Bytes())
	return func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		var buf [1 << 10]byte
		_, _ = r.Body.Read(buf[:]) // what is left unread is not, so the server sees the end
		if header {
			answers(whole, framed(first))(w, r)
			_ = http.NewResponseController(w).Flush()
		}
		<-r.Context().Done()
	}
}

func TestSelect_AServerThatStallsIsLeft(t *testing.T) {
	for _, header := range []bool{false, true} {
		c := clientOf(t, stalls(t, header), &ReadClientOptions{IdleTimeout: 30 * time.Millisecond})
		_, err := readAll(c.Select(context.Background(), 0, math.MaxInt64, nil, everyMatcher()))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "30ms")
		var timeout net.Error
		require.ErrorAs(t, err, &timeout)
		require.True(t, timeout.Timeout())
	}
}

// An error's text may come byte by byte, none of them late.
func TestSelect_AServerThatDripsAnErrorIsLeft(t *testing.T) {
	sent := make(chan int, 1)
	h := func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		_ = http.NewResponseController(w).Flush()
		tick := time.NewTicker(3 * time.Millisecond)
		defer tick.Stop()
		n := 0
		for ; n < 10*maxErrorText && r.Context().Err() == nil; n++ {
			<-tick.C
			_, _ = w.Write([]byte("x"))
			_ = http.NewResponseController(w).Flush()
		}
		sent <- n
	}
	var status *StatusError
	for _, idle := range []time.Duration{time.Second, 4 * time.Second, 16 * time.Second} {
		set := clientOf(t, http.HandlerFunc(h), &ReadClientOptions{IdleTimeout: idle}).Select(context.Background(), 0, 1, nil, everyMatcher())
		require.Less(t, <-sent, 10*maxErrorText)
		if !errors.Is(set.Err(), context.DeadlineExceeded) { // or the machine stood still before the first byte
			require.ErrorAs(t, set.Err(), &status)
			break
		}
	}
	require.NotNil(t, status)
	require.Equal(t, 500, status.Code)
	require.Less(t, len(status.Text), maxErrorText)
}

func TestSelect_EndsWithItsContextOrItsQuerier(t *testing.T) {
	c := clientOf(t, stalls(t, true), nil)
	for name, want := range map[string]error{"context": context.Canceled, "querier": tsdb.ErrClosed, "set": tsdb.ErrClosed} {
		q := c.Querier(0, math.MaxInt64)
		ctx, cancel := context.WithCancel(context.Background())
		set := q.Select(ctx, nil, everyMatcher())
		require.True(t, set.Next(), set.Err())
		switch name {
		case "context":
			cancel()
		case "querier":
			require.NoError(t, q.Close())
		case "set":
			require.NoError(t, set.Close())
		}
		require.False(t, set.Next())
		require.ErrorIs(t, set.Err(), want, name)
		require.NoError(t, q.Close())
		require.NoError(t, q.Close())
		require.ErrorIs(t, q.Select(ctx, nil, everyMatcher()).Err(), tsdb.ErrClosed)
		cancel()
	}
}

func TestQuerier_OfAServerThatRefusesCanBeClosed(t *testing.T) {
	c := clientOf(t, http.HandlerFunc(http.NotFound), nil)
	q := c.Querier(0, 1)
	set := q.Select(context.Background(), nil, everyMatcher())
	var status *StatusError
	require.ErrorAs(t, set.Err(), &status)
	require.NoError(t, q.Close())
	require.False(t, set.Next())
	require.ErrorAs(t, set.Err(), &status, "it has failed before")
}

func TestNewReadClient_RefusesWhatCannotWork(t *testing.T) {
	for _, url := range []string{"", "localhost:9090", "ftp://host/", "http://", "http://user:secret@host:port/", "://secret"} {
		_, err := NewReadClient(url, nil)
		require.Error(t, err, url)
		require.NotContains(t, err.Error(), "secret")
	}
	for _, opts := range []ReadClientOptions{{MaxFrameBytes: -1}, {MaxBufferBytes: -1}, {IdleTimeout: -1}, {Mode: 3}, {Mode: -1}} {
		_, err := NewReadClient("http://localhost/", &opts)
		require.Error(t, err)
	}
	c, err := NewReadClient("http://user:secret@127.0.0.1:1/", nil)
	require.NoError(t, err)
	_, err = readAll(c.Select(context.Background(), 0, 1, nil, everyMatcher()))
	require.Error(t, err)
	require.NotContains(t, err.Error(), "secret")
}
