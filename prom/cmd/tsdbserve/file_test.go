package main

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A part of prometheus.yml is enough to take late samples, and names as they are.
func TestServe_ReadsAConfigurationFile(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "prometheus.yml")
	text := "storage:\n  tsdb:\n    out_of_order_time_window: 30m\n  exemplars:\n    max_exemplars: 10\notlp:\n  translation_strategy: NoTranslation\n  promote_resource_attributes: [host.name]\n"
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	s := start(t, "--storage.tsdb.path", filepath.Join(dir, "data"), "--config.file", name, "--web.enable-otlp-receiver")
	now := time.Now()
	for _, before := range []time.Duration{time.Minute, 20 * time.Minute} { // the second one is late
		body := fmt.Sprintf(`{"resourceMetrics":[{"resource":{"attributes":[{"key":"host.name","value":{"stringValue":"h"}}]},"scopeMetrics":[{"metrics":[
			{"name":"a.b","unit":"s","gauge":{"dataPoints":[{"timeUnixNano":"%d","asInt":"7"}]}}]}]}]}`, now.Add(-before).UnixNano())
		resp, err := http.Post(s.url+"/api/v1/otlp/v1/metrics", "application/json", strings.NewReader(body))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusOK, resp.StatusCode)
	}
	var series struct{ Data []map[string]string }
	s.get(t, "/api/v1/series?match[]="+url.QueryEscape(`{"host.name"="h"}`), &series)
	require.Equal(t, []map[string]string{{"__name__": "a.b", "host.name": "h"}}, series.Data)
	var config struct{ Data struct{ YAML string } }
	s.get(t, "/api/v1/status/config", &config)
	require.Equal(t, text, config.Data.YAML)
	require.Zero(t, s.stop(), "%s", s.log)
}

func TestConfigurationFile_ThatIsWrong(t *testing.T) {
	name := filepath.Join(t.TempDir(), "prometheus.yml")
	for text, want := range map[string]string{
		"storage: {tsdb: {out_of_order_time_window: soon}}": "not a valid duration",
		"scrape_configs: []":                        "line 1: this server does not know scrape_configs",
		"otlp:\n  translation_strategy: Other":      `otlp.translation_strategy "Other": want NoTranslation, `,
		"storage: {exemplars: {max_exemplars: -1}}": "max_exemplars -1: want 0 or more",
		"storage: [": "yaml",
	} {
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
		_, err := readFile(name)
		require.ErrorContains(t, err, want, text)
		require.ErrorContains(t, err, name)
		require.NotContains(t, err.Error(), "main.")
	}
	_, err := readFile(name + "x")
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, os.WriteFile(name, nil, 0o600))
	f, err := readFile(name)
	require.NoError(t, err)
	require.Equal(t, &fileConfig{}, f)
}
