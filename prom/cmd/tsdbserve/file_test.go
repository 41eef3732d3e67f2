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
	for _, part := range []string{"out_of_order_time_window: 30m", "max_exemplars: 10", "translation_strategy: NoTranslation"} {
		require.Contains(t, config.Data.YAML, part)
	}
	require.Zero(t, s.stop(), "%s", s.log)
}

func TestConfigurationFile_ThatIsWrong(t *testing.T) {
	name := filepath.Join(t.TempDir(), "prometheus.yml")
	for text, want := range map[string]string{
		"storage: {tsdb: {out_of_order_time_window: soon}}":                                        "not a valid duration",
		"rule_files: [a.yml]":                                                                      "rule_files: no rules are evaluated here",
		"tracing: {}\nremote_read: []":                                                             "line 1: tracing is not known here; line 2: remote_read is not known here",
		"scrape_configs: [{job_name: a, kubernetes_sd_configs: []}]":                               "line 1: kubernetes_sd_configs is not known here",
		"scrape_configs: [{job_name: a}]":                                                          `job "a": no static_configs`,
		"scrape_configs: [{static_configs: [{targets: [a]}]}]":                                     "job 1: want a job_name of its own",
		"scrape_configs: [{job_name: a, scheme: ftp, static_configs: [{targets: [a]}]}]":           `scheme "ftp"`,
		"scrape_configs: [{job_name: a, scrape_timeout: 2m, static_configs: [{targets: [a]}]}]":    "longer than scrape_interval 1m",
		"scrape_configs: [{job_name: a, static_configs: [{targets: ['a/b']}]}]":                    `target "a/b": want host:port`,
		"scrape_configs: [{job_name: a, static_configs: [{targets: [a], labels: {__name__: b}}]}]": `label "__name__"`,
		"otlp:\n  translation_strategy: Other":                                                     `otlp.translation_strategy "Other": want NoTranslation, `,
		"storage: {exemplars: {max_exemplars: -1}}":                                                "max_exemplars -1: want 0 or more",
		"remote_write: [{url: here}]":                                                              `url "here": want http://host:port/path`,
		"remote_write: [{url: 'http://a'}, {url: 'http://a'}]":                                     "want a name of its own",
		"remote_write: [{url: 'http://a', name: a/b}]":                                             "a file is named by it",
		"remote_write: [{url: 'http://a', protobuf_message: x}]":                                   `protobuf_message "x": want`,
		"remote_write: [{url: 'http://a', write_relabel_configs: [{target_label: b}]}]":            `write_relabel_configs: rule 1 has action replace: here only keep, drop`,
		"remote_write: [{url: 'http://a', write_relabel_configs: [{action: keep, modulus: x}]}]":   "line 1: cannot unmarshal",
		"remote_write: [{url: 'http://a', sigv4: {}}]":                                             "sigv4 is not known here",
		"scrape_configs: [{job_name: a, relabel_configs: [{action: x}]}]":                          `unknown relabel action "x"`,
		"scrape_configs: [{job_name: a, static_configs: [{targets: [a]}], relabel_configs: [{}]}]": "relabel_configs: rule 1: ",
		"global: {metric_name_validation_scheme: legacy}":                                          `metric_name_validation_scheme "legacy": want utf8`,
		"global: {metric_name_escaping_scheme: dots}":                                              `metric_name_escaping_scheme "dots": want allow-utf-8`,
		"otlp: {label_name_underscore_sanitization: false}":                                        "want true",
		"otlp: {label_name_preserve_multiple_underscores: false}":                                  "want true",
		"storage: {tsdb: {retention: {percentage: 101}}}":                                          "percentage 101: want 0 to 100",
		"remote_write: [{url: 'http://a', queue_config: {max_shards: -1}}]":                        "queue_config: want 0 or more",
		"remote_write: [{url: 'http://a', basic_auth: {password_file: p, password: q}}]":           "at most one of",
		"global: {external_labels: {a: ''}}":                                                       `external_labels: "a"`,
		"storage: [":                                                                               "yaml",
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
	require.Empty(t, f.Scrape.Jobs)

	// Secrets are not told.
	text := "scrape_configs: [{job_name: a, basic_auth: {username: u, password: hidden}, static_configs: [{targets: [a]}]}]"
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	f, err = readFile(name)
	require.NoError(t, err)
	require.Contains(t, f.text, "job_name: a")
	require.NotContains(t, f.text, "hidden")
	text = "remote_write: [{url: 'http://user:hidden@a/b', headers: {Authorization: 'Bearer hidden'}}]"
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	f, err = readFile(name)
	require.NoError(t, err)
	require.Contains(t, f.text, "@a/b")
	require.NotContains(t, f.text, "hidden")
	require.Equal(t, "hidden", must(f.Receivers[0].URL.User.Password()))
	require.NoError(t, os.WriteFile(name, []byte("remote_write: [{url: 'ftp://user:hidden@a'}]"), 0o600))
	_, err = readFile(name)
	require.ErrorContains(t, err, "ftp://user:xxxxx@a")
}

func must[T any](v T, _ bool) T { return v }

// A server that scrapes another one has its metrics, and says when they end.
func TestServe_ScrapesStaticTargets(t *testing.T) {
	name := filepath.Join(t.TempDir(), "prometheus.yml")
	other := start(t, "--storage.tsdb.path", filepath.Join(t.TempDir(), "other"))
	text := "scrape_configs: [{job_name: other, scrape_interval: 50ms, static_configs: [{targets: ['" + strings.TrimPrefix(other.url, "http://") + "'], labels: {zone: test}}]}]"
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	s := start(t, "--storage.tsdb.path", filepath.Join(t.TempDir(), "data"), "--config.file", name)
	value := func(expr string) string {
		var answer struct {
			Data struct {
				Result []struct{ Value [2]any }
			}
		}
		s.get(t, "/api/v1/query?query="+url.QueryEscape(expr), &answer)
		if len(answer.Data.Result) != 1 {
			return ""
		}
		return answer.Data.Result[0].Value[1].(string)
	}
	require.Eventually(t, func() bool { return value(`up{job="other",zone="test"}`) == "1" }, time.Minute, 10*time.Millisecond)
	require.NotEmpty(t, value(`go_goroutines{job="other"}`))
	require.Zero(t, other.stop(), "%s", other.log)
	require.Eventually(t, func() bool { return value(`up{job="other"}`) == "0" }, time.Minute, 10*time.Millisecond)
	require.Empty(t, value(`go_goroutines{job="other"}`), "it has ended")
	require.Zero(t, s.stop(), "%s", s.log)
}
