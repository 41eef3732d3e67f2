package main

import (
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

// One server scrapes and sends, another one has it.
func TestServe_SendsWhatItScrapes(t *testing.T) {
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "# TYPE requests counter\n# HELP requests What came.\nrequests 7\n")
	}))
	defer target.Close()
	dir := t.TempDir()
	central := start(t, "--storage.tsdb.path", filepath.Join(dir, "central"), "--web.enable-remote-write-receiver")
	name := filepath.Join(dir, "prometheus.yml")
	text := fmt.Sprintf(`
global: {scrape_interval: 1s, external_labels: {region: eu}}
scrape_configs:
  - job_name: j
    static_configs: [{targets: [%q]}]
remote_write:
  - url: %s/api/v1/write
    name: central
    queue_config: {batch_send_deadline: 50ms, max_samples_per_send: 500}
`, target.Listener.Addr(), central.url)
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	edge := start(t, "--storage.tsdb.path", filepath.Join(dir, "edge"), "--config.file", name)

	var series struct{ Data []map[string]string }
	require.Eventually(t, func() bool {
		central.get(t, "/api/v1/series?match[]="+url.QueryEscape(`requests{region="eu",job="j"}`), &series)
		return len(series.Data) == 1
	}, 20*time.Second, 50*time.Millisecond)
	var metadata struct {
		Data map[string][]map[string]string
	}
	central.get(t, "/api/v1/metadata?metric=requests", &metadata)
	require.Equal(t, "What came.", metadata.Data["requests"][0]["help"])

	var targets struct {
		Data struct {
			ActiveTargets []struct{ Health, ScrapePool, ScrapeURL string }
		}
	}
	edge.get(t, "/api/v1/targets?state=active", &targets)
	require.Len(t, targets.Data.ActiveTargets, 1)
	require.Equal(t, "up", targets.Data.ActiveTargets[0].Health)
	edge.get(t, "/api/v1/targets?scrapePool=other", &targets)
	require.Empty(t, targets.Data.ActiveTargets)
	var pools struct {
		Data struct{ ScrapePools []string }
	}
	edge.get(t, "/api/v1/scrape_pools", &pools)
	require.Equal(t, []string{"j"}, pools.Data.ScrapePools)

	resp, err := http.Get(edge.url + "/metrics")
	require.NoError(t, err)
	page, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Contains(t, string(page), `prometheus_remote_storage_samples_failed_total{remote_name="central"} 0`)
	require.Contains(t, string(page), `prometheus_remote_storage_shards{remote_name="central"} 1`)
	require.Zero(t, edge.stop(), "%s", edge.log)
	require.Zero(t, central.stop(), "%s", central.log)
}

// Late samples are not sent: that is said where there may be some.
func TestServe_SaysThatLateSamplesAreNotSent(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "prometheus.yml")
	for window, said := range map[string]bool{"0s": false, "30m": true} {
		text := "storage: {tsdb: {out_of_order_time_window: " + window + "}}\nremote_write: [{url: 'http://127.0.0.1:1/'}]"
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
		s := start(t, "--storage.tsdb.path", filepath.Join(dir, "data"), "--config.file", name)
		require.Zero(t, s.stop(), "%s", s.log)
		require.Equal(t, said, strings.Contains(s.log.String(), "late samples are stored here, and not sent by remote_write"))
	}
}
