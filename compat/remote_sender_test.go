package compat

import (
	"context"
	"io"
	"log"
	"math"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/remote"
)

// What our Writer sends a real server has, in order and whole, also when the server is killed while
// it takes it. By 1.0 it refuses a request that it took before as a whole; by 2.0 it says how much
// of it.
func TestWriter_SendsToAServer(t *testing.T) {
	for name, protocol := range map[string]remote.WriterProtocol{"1.0": remote.ProtocolV1, "2.0": remote.ProtocolV2, "any": remote.ProtocolAny} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			flags := []string{"--web.enable-remote-write-receiver", "--web.remote-write-receiver.accepted-protobuf-messages=prometheus.WriteRequest", "--web.remote-write-receiver.accepted-protobuf-messages=io.prometheus.write.v2.Request"}
			theirs := startServer(t, dir, flags...)
			var at atomic.Pointer[string]
			at.Store(&theirs.url)
			relay := httptest.NewServer(&httputil.ReverseProxy{ErrorLog: log.New(io.Discard, "", 0), Rewrite: func(r *httputil.ProxyRequest) {
				to, err := url.Parse(*at.Load())
				if err == nil {
					r.SetURL(to)
				}
			}})
			defer relay.Close()

			db, err := tsdb.Open(t.TempDir(), nil)
			require.NoError(t, err)
			defer func() { require.NoError(t, db.Close()) }()
			w, err := remote.NewWriter(db, &remote.WriterOptions{
				URL: relay.URL + "/api/v1/write", Protocol: protocol, Deadline: 20 * time.Millisecond, MaxSamples: 200, MinBackoff: time.Millisecond, MaxBackoff: 100 * time.Millisecond,
			})
			require.NoError(t, err)
			now := time.Now().Add(-time.Hour).UnixMilli()
			step := func(n int) { sendMixed(t, db, now+int64(n)*1000, n) }
			for n := range 600 {
				step(n)
				if n%200 == 199 {
					kill(t, theirs)
					theirs = startServer(t, dir, flags...)
					at.Store(&theirs.url)
				}
			}
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			require.NoError(t, w.Flush(ctx))
			t.Logf("%+v", w.Stats())
			require.NoError(t, w.Close())

			kill(t, theirs)

			mine, err := db.Querier(math.MinInt64, math.MaxInt64)
			require.NoError(t, err)
			want := dumpOursAny(t, mine)
			reader, err := tsdb.OpenReadOnly(dir, nil)
			require.NoError(t, err)
			defer func() { require.NoError(t, reader.Close()) }()
			q, err := reader.Querier(math.MinInt64, math.MaxInt64)
			require.NoError(t, err)
			require.Len(t, want, 20)
			require.Equal(t, want, dumpOursAny(t, q))
		})
	}
}

// kill kills a server. It may have complained of requests that came again.
func kill(t *testing.T, s *server) {
	t.Helper()
	require.NoError(t, s.cmd.Process.Kill())
	<-s.ended
	require.Error(t, s.cmd.Wait())
	s.cmd = nil
}

// sendMixed commits a sample of each of some series, of all kinds. One ends now and then.
func sendMixed(t *testing.T, db *tsdb.DB, at int64, n int) {
	t.Helper()
	app := db.Appender()
	count := uint64(n + 3)
	for i := range 20 {
		s := tsdb.Sample{T: at, V: float64(n * i)}
		switch {
		case i == 17 && n%50 == 49:
			s.V = tsdb.StaleMarker()
		case i == 18:
			s.H = &histogram.Histogram{Schema: 1, Count: count, Sum: 4, PositiveSpans: []histogram.Span{{Offset: 1, Length: 2}}, PositiveBuckets: []int64{1, int64(count) - 2}}
		case i == 19:
			s.FH = &histogram.FloatHistogram{Schema: 1, Count: float64(count), Sum: 4, PositiveSpans: []histogram.Span{{Offset: 1, Length: 2}}, PositiveBuckets: []float64{1, float64(count) - 1}}
		}
		_, err := app.AppendSample(0, labels.FromStrings(labels.MetricName, "mixed", "i", strconv.Itoa(i)), s)
		require.NoError(t, err)
	}
	_, err := app.Commit(context.Background())
	require.NoError(t, err)
}
