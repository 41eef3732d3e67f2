package main

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/prometheus/prompb"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/prom"
	"github.com/seed347100a3/tsdb/remote"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// receivers make a request of so many series to each of the two receivers. Their label i counts
// down: the last one has 0.
var receivers = map[string]func(t *testing.T, name string, series int) *http.Request{
	"remote write": writeOf,
	"OTLP":         otlpOf,
}

func writeOf(t *testing.T, name string, series int) *http.Request {
	t.Helper()
	var req prompb.WriteRequest
	for i := range series {
		req.Timeseries = append(req.Timeseries, prompb.TimeSeries{
			Labels:  []prompb.Label{{Name: "__name__", Value: name}, {Name: "i", Value: fmt.Sprint(series - 1 - i)}},
			Samples: []prompb.Sample{{Timestamp: time.Now().UnixMilli(), Value: 1}},
		})
	}
	message, err := req.Marshal()
	require.NoError(t, err)
	r := httptest.NewRequest(http.MethodPost, "/api/v1/write", bytes.NewReader(snappy.Encode(nil, message)))
	r.Header.Set("Content-Type", "application/x-protobuf")
	r.Header.Set("Content-Encoding", "snappy")
	return r
}

func otlpOf(_ *testing.T, name string, series int) *http.Request {
	points := make([]string, series)
	for i := range points {
		points[i] = fmt.Sprintf(`{"timeUnixNano":"%d","asInt":"1","attributes":[{"key":"i","value":{"intValue":"%d"}}]}`, time.Now().UnixNano(), series-1-i)
	}
	body := fmt.Sprintf(`{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":%q,"gauge":{"dataPoints":[%s]}}]}]}]}`, name, strings.Join(points, ","))
	r := httptest.NewRequest(http.MethodPost, "/api/v1/otlp/v1/metrics", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	return r
}

func answerOf(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// receiving is what answers with these flags, over a database that stores the last series
// "held" when it may go on, and so lets a request keep all that it took. Nobody waits long for a
// turn.
type receiving struct {
	http.Handler
	held chan struct{} // has one for each request that is held
	goOn func()
}

func receive(t *testing.T, flags ...string) *receiving {
	t.Helper()
	c, err := parse(append(flags, "--web.enable-remote-write-receiver", "--web.enable-otlp-receiver"), io.Discard, io.Discard)
	require.NoError(t, err)
	opts, err := c.handlerOptions(slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	opts.Write.ReadTimeout, opts.OTLP.Write.ReadTimeout = 10*time.Millisecond, 10*time.Millisecond
	mayGoOn := make(chan struct{})
	s := &receiving{held: make(chan struct{}, 8), goOn: sync.OnceFunc(func() { close(mayGoOn) })}
	limits := tsdb.Limits{NewSeries: func(ls labels.Labels) error {
		if ls.Get(labels.MetricName) == "held" && ls.Get("i") == "0" {
			s.held <- struct{}{}
			<-mayGoOn
		}
		return nil
	}}
	db, err := tsdb.Open("data", &tsdb.Options{FS: tsdbtest.NewMemFS(), Limits: limits})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	t.Cleanup(s.goOn)
	s.Handler = prom.NewHandler(db, opts)
	return s
}

// hold sends a request that does not end before it may go on. Its status comes then.
func (s *receiving) hold(r *http.Request) <-chan int {
	status := make(chan int, 1)
	go func() { status <- answerOf(s, r).Code }()
	<-s.held
	return status
}

func requireBusy(t *testing.T, w *httptest.ResponseRecorder) {
	t.Helper()
	require.Equal(t, http.StatusServiceUnavailable, w.Code, "%s", w.Body)
	require.NotEmpty(t, w.Header().Get("Retry-After"))
}

func requireStored(t *testing.T, status int) {
	t.Helper()
	require.Contains(t, []int{http.StatusOK, http.StatusNoContent}, status)
}

// One request too many comes again. The other receiver has places of its own.
func TestServe_ReceiveInFlight_BoundsEachReceiver(t *testing.T) {
	for protocol, request := range receivers {
		t.Run(protocol, func(t *testing.T) {
			s := receive(t, "--web.receive-in-flight=1")
			first := s.hold(request(t, "held", 1))
			requireBusy(t, answerOf(s, request(t, "quick", 1)))
			for other, request := range receivers {
				if other != protocol {
					requireStored(t, answerOf(s, request(t, "quick", 1)).Code)
				}
			}
			s.goOn()
			requireStored(t, <-first)
			requireStored(t, answerOf(s, request(t, "quick", 1)).Code)
		})
	}
}

// What fits by itself, but not beside another request, comes again. The other receiver has memory
// of its own.
func TestServe_ReceiveMemory_BoundsEachReceiver(t *testing.T) {
	const series = 16_000 // fit once, and not twice
	for protocol, request := range receivers {
		t.Run(protocol, func(t *testing.T) {
			s := receive(t, "--web.receive-memory=16MB")
			first := s.hold(request(t, "held", series))
			requireBusy(t, answerOf(s, request(t, "large", series)))
			for other, request := range receivers {
				if other != protocol {
					requireStored(t, answerOf(s, request(t, "large", series)).Code)
				}
			}
			s.goOn()
			requireStored(t, <-first)
			requireStored(t, answerOf(s, request(t, "large", series)).Code)
		})
	}
}

// What never fits is refused, and with the least memory a batch of the usual size does fit.
func TestServe_ReceiveMemory_RefusesWhatNeverFits(t *testing.T) {
	s := start(t, "--storage.tsdb.path", filepath.Join(t.TempDir(), "data"), "--web.enable-remote-write-receiver", "--web.enable-otlp-receiver", "--web.receive-memory=16MB")
	post := func(r *http.Request) (status int, text string) {
		sent, err := http.NewRequest(r.Method, s.url+r.URL.Path, r.Body)
		require.NoError(t, err)
		sent.Header = r.Header
		resp, err := http.DefaultClient.Do(sent)
		require.NoError(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, string(body)
	}
	for protocol, request := range receivers {
		status, _ := post(request(t, strings.Repeat("m", 1000), 2000))
		requireStored(t, status)
		status, text := post(request(t, "m", 40_000))
		require.Equal(t, http.StatusRequestEntityTooLarge, status, "%s: %s", protocol, text)
		require.Contains(t, text, "send less at a time")
	}
	require.Zero(t, s.stop(), "%s", s.log)
}

// Without flags the limits are those of the library, and clients that ask are told all of them.
func TestServe_ReceiveFlags_AreThoseOfTheLibrary(t *testing.T) {
	c, err := parse(nil, io.Discard, io.Discard)
	require.NoError(t, err)
	want := remote.WriteOptions{MaxMemoryBytes: 512 << 20, MaxInFlight: 20}
	require.Equal(t, want, c.otlpOptions().Write)
	want.NoStartTimestamps = true
	require.Equal(t, want, c.writeOptions())
	require.Equal(t, "512MiB", c.given["web.receive-memory"])
	require.Equal(t, "20", c.given["web.receive-in-flight"])
}
