package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// wholeFile is a prometheus.yml as servers have it. It has a place for a target, a prober and a
// receiver.
const wholeFile = `
global:
  scrape_interval: 1s
  evaluation_interval: 30s
  external_labels: {site: berlin, replica: "0"}

rule_files:
  # - rules/*.yml

alerting:
  alertmanagers:
    - basic_auth: {username: u, password: hidden}
      static_configs: [{targets: ["alerts:9093"]}]

storage:
  tsdb:
    out_of_order_time_window: 10m
    retention: {time: 15d, size: 40GB}

scrape_configs:
  - job_name: shop
    scrape_protocols: [PrometheusText0.0.4]
    enable_http2: false
    static_configs:
      - targets: [%[1]q, "spare:9100"]
        labels: {__meta_team: carts}
    relabel_configs:
      - {source_labels: [__address__], regex: "spare:.*", action: drop}
      - {action: labelmap, regex: __meta_(team)}
    metric_relabel_configs:
      - {source_labels: [__name__], regex: "go_.*", action: drop}
      - {source_labels: [path], regex: "/item/\\d+", target_label: path, replacement: /item}

  - job_name: probes
    metrics_path: /probe
    params: {module: [http]}
    static_configs: [{targets: ["https://example.org"]}]
    relabel_configs:
      - {source_labels: [__address__], target_label: __param_target}
      - {source_labels: [__param_target], target_label: instance}
      - {target_label: __address__, replacement: %[1]q}

remote_write:
  - url: %[2]s/api/v1/write
    name: central
    write_relabel_configs:
      - {source_labels: [__name__, site], regex: "(orders_total|up);berlin", action: keep}
    queue_config:
      capacity: 10000
      min_shards: 1
      max_shards: 10
      max_samples_per_send: 2000
      batch_send_deadline: 50ms
      retry_on_http_429: true
      sample_age_limit: 1d
  - url: %[2]s/api/v1/write
    name: other
    queue_config: {capacity: 5000, batch_send_deadline: 50ms}
    write_relabel_configs: [{source_labels: [job], regex: probes, action: keep}]
`

// warnings are the keys of which a log in JSON says that they have no effect.
func warnings(t *testing.T, log string) (keys []string) {
	t.Helper()
	for line := range strings.Lines(log) {
		var said struct {
			Level, Msg, Key, Instead string
			Line                     int
		}
		require.NoError(t, json.Unmarshal([]byte(line), &said), line)
		if said.Msg == "a key of the configuration has no effect" {
			require.Equal(t, "WARN", said.Level)
			require.NotEmpty(t, said.Instead)
			require.Positive(t, said.Line)
			keys = append(keys, said.Key)
		}
	}
	return keys
}

// A file that was written for Prometheus starts, does what it says, and each key without effect is
// told once.
func TestServe_AWholePrometheusYML(t *testing.T) {
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/probe" {
			fmt.Fprintf(w, "probe_success{of=%q} 1\n", r.URL.Query().Get("target"))
			return
		}
		fmt.Fprint(w, "# TYPE orders_total counter\norders_total{path=\"/item/7\"} 7\ngo_goroutines 9\nstock 3\n")
	}))
	defer target.Close()
	dir := t.TempDir()
	central := start(t, "--storage.tsdb.path", filepath.Join(dir, "central"), "--web.enable-remote-write-receiver")
	name := filepath.Join(dir, "prometheus.yml")
	require.NoError(t, os.WriteFile(name, fmt.Appendf(nil, wholeFile, target.Listener.Addr().String(), central.url), 0o600))
	edge := start(t, "--storage.tsdb.path", filepath.Join(dir, "edge"), "--config.file", name, "--log.format=json")

	series := func(s *served, selector string) (list []map[string]string) {
		var answer struct{ Data []map[string]string }
		s.get(t, "/api/v1/series?match[]="+url.QueryEscape(selector), &answer)
		return answer.Data
	}
	instance := target.Listener.Addr().String()
	orders := map[string]string{"__name__": "orders_total", "instance": instance, "job": "shop", "path": "/item", "team": "carts"}
	probe := map[string]string{"__name__": "probe_success", "instance": "https://example.org", "job": "probes", "of": "https://example.org"}
	require.Eventually(t, func() bool { return len(series(edge, `{__name__=~"orders_total|probe_success"}`)) == 2 }, 20*time.Second, 50*time.Millisecond)
	require.Equal(t, []map[string]string{orders}, series(edge, "orders_total"))
	require.Equal(t, []map[string]string{probe}, series(edge, "probe_success"))
	require.Len(t, series(edge, "stock"), 1)
	require.Empty(t, series(edge, "go_goroutines"))

	require.Eventually(t, func() bool {
		return len(series(central, `{__name__=~"orders_total|probe_success",site="berlin"}`)) == 2
	}, 20*time.Second, 50*time.Millisecond)
	require.Len(t, series(central, `up{replica="0"}`), 2)
	require.Empty(t, series(central, "stock"), "no rule keeps it")

	var targets struct {
		Data struct {
			Active  []struct{ ScrapePool string }                  `json:"activeTargets"`
			Dropped []struct{ DiscoveredLabels map[string]string } `json:"droppedTargets"`
			Counts  map[string]int                                 `json:"droppedTargetCounts"`
		}
	}
	edge.get(t, "/api/v1/targets", &targets)
	require.Len(t, targets.Data.Active, 2)
	require.Equal(t, "spare:9100", targets.Data.Dropped[0].DiscoveredLabels["__address__"])
	require.Equal(t, map[string]int{"shop": 1}, targets.Data.Counts)
	resp, err := http.Get(edge.url + "/metrics")
	require.NoError(t, err)
	page, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Contains(t, string(page), "prometheus_tsdb_retention_limit_bytes 4.294967296e+10")
	require.Contains(t, string(page), "prometheus_tsdb_retention_limit_seconds 1.296e+06")

	require.Zero(t, edge.stop(), "%s", edge.log)
	require.Zero(t, central.stop(), "%s", central.log)
	require.Equal(t, []string{
		"global.evaluation_interval", "alerting", "scrape_configs.scrape_protocols", "remote_write.queue_config.capacity", "remote_write.queue_config.min_shards",
		"remote_write.queue_config.retry_on_http_429", "remote_write.queue_config.sample_age_limit",
	}, warnings(t, edge.log.String()))
	require.NotContains(t, edge.log.String(), "hidden")
}
