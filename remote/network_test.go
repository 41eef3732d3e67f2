package remote

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
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
)

// watched is a handler that tells when it has returned, and how.
type watched struct {
	http.Handler
	done chan any // what it panicked with
}

func (h watched) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer func() {
		p := recover()
		h.done <- p
		if p != nil {
			panic(p)
		}
	}()
	h.Handler.ServeHTTP(w, r)
}

// eventually fails the test when something does not happen within a time that is long for
// anything.
func eventually[T any](t *testing.T, c <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(2 * time.Minute):
		require.Fail(t, what)
	}
	return v
}

// dial sends a request and reads nothing of the answer. The connection takes little
// without being read.
func dial(t *testing.T, server *httptest.Server, request []byte) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(4<<10))
	body := snappy.Encode(nil, request)
	_, err = fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	require.NoError(t, err)
	return conn
}

// large is samples enough for an answer that no socket buffers.
const large = 150_000

// openLarge opens a database with so many samples of one series.
func openLarge(t *testing.T, n int) *tsdb.DB {
	ts, vs := make([]int64, n), make([]float64, n)
	for i := range ts {
		ts[i], vs[i] = fixtureStart+int64(i)*1000, math.Sqrt(float64(i))
	}
	return openOne(t, ts, vs)
}

func TestClientThatStopsReading_LosesItsSnapshot(t *testing.T) {
	db := openLarge(t, large)
	for _, opts := range []ReadOptions{
		{WriteTimeout: 50 * time.Millisecond},
		{WriteTimeout: time.Hour, AnswerTimeout: 200 * time.Millisecond},
		{WriteTimeout: -1, AnswerTimeout: 200 * time.Millisecond},
	} {
		for _, typ := range []responseType{typeSamples, typeChunks} {
			h := watched{ReadHandler(db, &opts), make(chan any, 1)}
			server := httptest.NewUnstartedServer(h)
			server.Listener = smallBuffers{server.Listener}
			server.Start()
			conn := dial(t, server, allOf(typ, "one"))
			ended := eventually(t, h.done, "the handler hangs")
			if ended != nil || opts.AnswerTimeout == 0 { // on a slow machine it is over before the first byte
				require.Equal(t, http.ErrAbortHandler, ended)
			}
			require.Zero(t, db.Stats().QueriersOpen)
			require.NoError(t, conn.Close())
			server.Close()
		}
	}
}

// The server's own timeout is over before the handler begins.
func TestRefusals_HaveTheirOwnTimeToBeRead(t *testing.T) {
	db := openVectorDB(t)
	g := &gate{Queryable: db, asked: make(chan struct{}), open: make(chan struct{})}
	server := httptest.NewUnstartedServer(ReadHandler(g, &ReadOptions{MaxInFlight: 1}))
	server.Config.WriteTimeout = 1
	server.Start()
	defer server.Close()
	status := func(method string, body io.Reader) int {
		r, err := http.NewRequestWithContext(context.Background(), method, server.URL, body)
		require.NoError(t, err)
		resp, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		return resp.StatusCode
	}
	require.Equal(t, http.StatusMethodNotAllowed, status(http.MethodPut, nil))
	require.Equal(t, http.StatusBadRequest, status(http.MethodPost, strings.NewReader("no block")))
	held := make(chan int)
	go func() { held <- post(server.Config.Handler, appendReadRequest(nil, up(typeSamples))).Code }()
	<-g.asked
	require.Equal(t, http.StatusTooManyRequests, status(http.MethodPost, bodyOf(appendReadRequest(nil, up(typeSamples)))))
	close(g.open)
	require.Equal(t, http.StatusOK, <-held)
}

func TestAnswerTimeout_RefusesAnAnswerThatDoesNotBegin(t *testing.T) {
	db := openVectorDB(t)
	for _, typ := range []responseType{typeSamples, typeChunks} {
		w := post(ReadHandler(db, &ReadOptions{AnswerTimeout: 1}), appendReadRequest(nil, up(typ)))
		require.Equal(t, http.StatusServiceUnavailable, w.Code)
		require.Equal(t, errLate.Error()+"\n", w.Body.String())
		require.Zero(t, db.Stats().QueriersOpen)
		w = post(ReadHandler(db, &ReadOptions{AnswerTimeout: time.Hour}), appendReadRequest(nil, up(typ)))
		require.Equal(t, http.StatusOK, w.Code)
	}
}

// smallBuffers accepts connections that buffer little of what they send.
type smallBuffers struct{ net.Listener }

func (l smallBuffers) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		err = c.(*net.TCPConn).SetWriteBuffer(16 << 10)
	}
	return c, err
}

func TestClientThatGoes_LosesItsSnapshot(t *testing.T) {
	db := openLarge(t, large)
	for _, typ := range []responseType{typeSamples, typeChunks} {
		h := watched{ReadHandler(db, nil), make(chan any, 1)}
		server := httptest.NewUnstartedServer(h)
		server.Listener = smallBuffers{server.Listener}
		server.Start()
		conn := dial(t, server, allOf(typ, "one"))
		_, err := io.ReadFull(conn, make([]byte, 1000)) // it has begun
		require.NoError(t, err)
		require.NoError(t, conn.Close())
		require.Equal(t, http.ErrAbortHandler, eventually(t, h.done, "the handler hangs"))
		require.Zero(t, db.Stats().QueriersOpen)
		server.Close()
	}
}

func TestClientThatReadsSlowly_GetsAll(t *testing.T) {
	db := openLarge(t, large)
	h := ReadHandler(db, &ReadOptions{WriteTimeout: 2 * time.Minute})
	server := httptest.NewUnstartedServer(h)
	server.Config.WriteTimeout = time.Millisecond // of the program; an answer takes longer
	server.Start()
	defer server.Close()
	resp, err := http.Post(server.URL, "", bodyOf(allOf(typeChunks, "one")))
	require.NoError(t, err)
	defer resp.Body.Close()
	var body bytes.Buffer
	for err == nil {
		_, err = io.CopyN(&body, resp.Body, 100_000)
	}
	require.ErrorIs(t, err, io.EOF)
	require.Len(t, samplesOfFrames(t, body.Bytes(), 0)[0].ts, large)
}

func TestClientThatSendsNoBody_IsToldSoInTime(t *testing.T) {
	h := ReadHandler(openVectorDB(t), &ReadOptions{ReadTimeout: 50 * time.Millisecond, MaxInFlight: 1})
	server := httptest.NewServer(h)
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nabc")
	require.NoError(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusRequestTimeout, resp.StatusCode)
	ok, err := http.Post(server.URL, "", bodyOf(appendReadRequest(nil, up(typeSamples)))) // the slot is free
	require.NoError(t, err)
	require.NoError(t, ok.Body.Close())
	require.Equal(t, http.StatusOK, ok.StatusCode)
}

func TestKeptConnection_IsUsedForManyRequests(t *testing.T) {
	h := ReadHandler(openVectorDB(t), &ReadOptions{ReadTimeout: 2 * time.Minute})
	server := httptest.NewServer(h)
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	answers := bufio.NewReader(conn)
	for range 5 {
		r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, server.URL, bodyOf(appendReadRequest(nil, up(typeChunks))))
		require.NoError(t, err)
		require.NoError(t, r.Write(conn))
		resp, err := http.ReadResponse(answers, r)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Len(t, samplesOfFrames(t, body, 0), 2)
		require.False(t, resp.Close)
	}
}

func TestHTTP2_IsServedAndDropsClientsThatStopReading(t *testing.T) {
	const samples = 10 * large // more than the client's window of 4 MiB
	db := openLarge(t, samples)
	h := watched{done: make(chan any, 1)}
	patient, quick := ReadHandler(db, nil), ReadHandler(db, &ReadOptions{WriteTimeout: 200 * time.Millisecond})
	h.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/quick" {
			quick.ServeHTTP(w, r)
			return
		}
		patient.ServeHTTP(w, r)
	})
	server := httptest.NewUnstartedServer(h)
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	client := server.Client()
	client.Transport.(*http.Transport).TLSClientConfig.MinVersion = tls.VersionTLS12
	resp, err := client.Post(server.URL, "", bodyOf(allOf(typeChunks, "one")))
	require.NoError(t, err)
	require.Equal(t, 2, resp.ProtoMajor)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Len(t, samplesOfFrames(t, body, 0)[0].ts, samples)
	require.Nil(t, eventually(t, h.done, "the handler hangs"))

	for _, typ := range []responseType{typeSamples, typeChunks} {
		resp, err = client.Post(server.URL+"/quick", "", bodyOf(allOf(typ, "one")))
		require.Equal(t, http.ErrAbortHandler, eventually(t, h.done, "the handler hangs"))
		require.Zero(t, db.Stats().QueriersOpen)
		if err == nil { // on a slow machine it is over before the first byte
			require.NoError(t, resp.Body.Close())
		}
	}
}

// breaking is a database that is closed while it is read.
type breaking struct {
	*tsdb.DB
	q *tsdb.Querier
}

func (b *breaking) Querier(mint, maxt int64) (q *tsdb.Querier, err error) {
	b.q, err = b.DB.Querier(mint, maxt)
	return b.q, err
}

func TestFailureInTheMiddle_IsNeverAShortAnswer(t *testing.T) {
	for _, typ := range []responseType{typeSamples, typeChunks} {
		b := &breaking{DB: openBlocks(t, 300, 500)}
		h := ReadHandler(b, nil)
		w := newSink()
		var body bytes.Buffer
		w.write = func() { _ = b.q.Close() }
		rec := &recording{sink: w, body: &body}
		r := httptest.NewRequest(http.MethodPost, "/", bodyOf(allOf(typ, "requests_total")))
		require.PanicsWithValue(t, http.ErrAbortHandler, func() { h.ServeHTTP(rec, r) })
		// Even if somebody swallows the panic, no client takes this for an answer.
		if typ == typeSamples {
			_, err := snappy.Decode(nil, body.Bytes())
			require.Error(t, err)
		} else {
			whole, ok := bytes.CutSuffix(body.Bytes(), brokenFrame)
			require.True(t, ok)
			require.Greater(t, len(whole), 1000)
			for len(whole) > 0 { // they begin no frame, nor do they end one
				_, whole = cutFrame(t, whole)
			}
			frames := newFrameReader(&body, frameCap)
			var err error
			for err == nil {
				_, err = frames.next()
			}
			require.ErrorIs(t, err, errMalformed)
		}
	}
}

type recording struct {
	*sink
	body *bytes.Buffer
}

func (r *recording) Write(b []byte) (int, error) {
	r.body.Write(b)
	return r.sink.Write(b)
}

func TestFailureInTheMiddle_CutsTheConnection(t *testing.T) {
	for _, typ := range []responseType{typeSamples, typeChunks} {
		b := &breaking{DB: openBlocks(t, 300, 500)}
		read := ReadHandler(b, nil)
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			read.ServeHTTP(closesWhenWritten{w, b}, r)
		}))
		server.Start()
		resp, err := http.Post(server.URL, "", bodyOf(allOf(typ, "requests_total")))
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, resp.Body)
		require.True(t, errors.Is(err, io.ErrUnexpectedEOF), "%v", err)
		require.NoError(t, resp.Body.Close())
		server.Close()
	}
}

type closesWhenWritten struct {
	http.ResponseWriter
	b *breaking
}

func (w closesWhenWritten) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w closesWhenWritten) Write(b []byte) (int, error) {
	_ = w.b.q.Close()
	return w.ResponseWriter.Write(b)
}

func TestBodyInChunks_IsRead(t *testing.T) {
	server := httptest.NewServer(ReadHandler(openVectorDB(t), nil))
	defer server.Close()
	body := bodyOf(appendReadRequest(nil, up(typeSamples)))
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, server.URL, struct{ io.Reader }{body})
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusOK, resp.StatusCode)
}

func TestBodyThatIsCutOff_IsTheClientsFault(t *testing.T) {
	h := ReadHandler(openVectorDB(t), nil)
	for _, err := range []error{io.ErrUnexpectedEOF, errors.New("malformed chunked encoding")} {
		w := postBody(h, io.MultiReader(strings.NewReader("ab"), broken{err}))
		require.Equal(t, http.StatusBadRequest, w.Code)
	}
}

type broken struct{ err error }

func (b broken) Read([]byte) (int, error) { return 0, b.err }
