package prom_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/prom"
)

// What is refused is seen in /metrics, by kind and reason, and what is expected before it happens.
func TestReceiverCollector_ShowsWhatIsRefused(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	now := time.Now()
	h := prom.NewHandler(openStorage(t).DB(), &prom.HandlerOptions{Receive: true, ReceiveOTLP: true, Registry: registry})
	of := func(ls labels.Labels, times ...int64) prompb.TimeSeries {
		s := prompb.TimeSeries{Labels: prompb.FromLabels(ls, nil)}
		for _, t := range times {
			s.Samples = append(s.Samples, prompb.Sample{Timestamp: t, Value: float64(t)})
		}
		return s
	}
	at := now.UnixMilli()
	req := prompb.WriteRequest{Timeseries: []prompb.TimeSeries{of(labels.FromStrings("__name__", "m"), at, at-1), of(labels.FromStrings("job", "nameless"), at, at+1)}}
	message, err := req.Marshal()
	require.NoError(t, err)
	require.Equal(t, http.StatusBadRequest, postWrite(h, "application/x-protobuf", message).Code)
	r := httptest.NewRequest(http.MethodPost, "/api/v1/otlp/v1/metrics", strings.NewReader(`{"resourceMetrics":[{"scopeMetrics":[{"metrics":[
		{"name":"delta","sum":{"aggregationTemporality":1,"dataPoints":[{"timeUnixNano":"1700000000000000000","asInt":"7"}]}}]}]}]}`))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	require.Equal(t, http.StatusBadRequest, w.Code, w.Body)

	w = httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, line := range []string{
		`tsdb_receive_requests_total{code="400",protocol="remote_write"} 1`,
		`tsdb_receive_requests_total{code="400",protocol="otlp"} 1`,
		`tsdb_receive_requests_total{code="204",protocol="remote_write"} 0`,
		`tsdb_receive_items_written_total{kind="sample",protocol="remote_write"} 1`,
		`tsdb_receive_items_written_total{kind="point",protocol="otlp"} 0`,
		`tsdb_receive_items_refused_total{kind="sample",protocol="remote_write",reason="out_of_order"} 1`,
		`tsdb_receive_items_refused_total{kind="sample",protocol="remote_write",reason="invalid_labels"} 2`,
		`tsdb_receive_items_refused_total{kind="series",protocol="remote_write",reason="invalid_labels"} 1`,
		`tsdb_receive_items_refused_total{kind="histogram",protocol="remote_write",reason="invalid"} 0`,
		`tsdb_receive_items_refused_total{kind="point",protocol="otlp",reason="off"} 1`,
		`prometheus_api_remote_write_invalid_labels_samples_total 2`,
	} {
		require.Contains(t, w.Body.String(), "\n"+line+"\n")
	}
	problems, err := testutil.GatherAndLint(registry, "tsdb_receive_requests_total", "tsdb_receive_items_written_total", "tsdb_receive_items_refused_total", "prometheus_api_remote_write_invalid_labels_samples_total")
	require.NoError(t, err)
	require.Equal(t, []promlint.Problem(nil), problems)
}
