package compat

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/remote"
)

// writeMessages are what their senders call the messages of both versions.
var writeMessages = []string{"prometheus.WriteRequest", "io.prometheus.write.v2.Request"}

// receiving is a server of ours that takes writes.
func receiving(t *testing.T) (*tsdb.DB, string) {
	t.Helper()
	db, err := tsdb.Open(t.TempDir(), nil)
	require.NoError(t, err)
	server := httptest.NewServer(remote.NewWriteHandler(db, nil))
	t.Cleanup(func() {
		server.Close()
		require.NoError(t, db.Close())
	})
	return db, server.URL + "/api/v1/write"
}

// stored counts the series of a metric, and its samples.
func stored(t *testing.T, db *tsdb.DB, ms ...*labels.Matcher) (series, samples int) {
	t.Helper()
	q, err := db.Querier(0, 1<<62)
	require.NoError(t, err)
	defer q.Close()
	for s, err := range q.Select(context.Background(), nil, ms...).All() {
		require.NoError(t, err)
		series++
		for range s.Samples() {
			samples++
		}
	}
	return series, samples
}

// What promtool pushes arrives. As 2.0 it sends a message of 1.0 with the content type of 2.0.
func TestRemoteWrite_TakesWhatPromtoolPushes(t *testing.T) {
	for _, message := range writeMessages {
		t.Run(message, func(t *testing.T) {
			db, url := receiving(t)
			text := "# HELP pushed_total What was pushed.\n# TYPE pushed_total counter\n"
			for i := range 100 {
				text += `pushed_total{shard="` + strconv.Itoa(i) + `"} ` + strconv.Itoa(i) + "\n"
			}
			cmd := exec.Command(promtoolProgram.build(t), "push", "metrics", "--protobuf_message="+message, url)
			cmd.Stdin = strings.NewReader(text)
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
			series, samples := stored(t, db, labels.Equal(labels.MetricName, "pushed_total"))
			require.Equal(t, [2]int{100, 100}, [2]int{series, samples})
		})
	}
}

var failures = regexp.MustCompile(`(?m)^prometheus_remote_storage_(samples|exemplars|histograms|metadata)_(failed|retried|dropped)_total\{[^}]*\} ([1-9]\S*)$`)

// A server, or an agent, that scrapes sends what it scrapes, and counts no failure.
func TestRemoteWrite_TakesWhatAServerSends(t *testing.T) {
	for _, message := range writeMessages {
		t.Run(message, func(t *testing.T) { takesWhatIsSent(t, message) })
	}
	t.Run("agent", func(t *testing.T) { takesWhatIsSent(t, writeMessages[1], "--agent") })
}

func takesWhatIsSent(t *testing.T, message string, flags ...string) {
	t.Parallel() // a server takes ten seconds before it begins to send
	db, url := receiving(t)
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/openmetrics-text; version=1.0.0; charset=utf-8")
		now := strconv.FormatInt(time.Now().UnixNano(), 10)
		_, _ = w.Write([]byte("# TYPE seen counter\n# HELP seen What was seen.\nseen_total 1 # {trace_id=\"" + now + "\"} 1\n# EOF\n"))
	}))
	defer target.Close()
	config := "global: {scrape_interval: 500ms, scrape_timeout: 400ms}\nscrape_configs: [{job_name: self, static_configs: [{targets: ['" + strings.TrimPrefix(target.URL, "http://") + "']}]}]\n" +
		"remote_write: [{url: " + url + ", protobuf_message: " + message + ", send_exemplars: true, send_native_histograms: true, queue_config: {batch_send_deadline: 200ms}, metadata_config: {send: " + strconv.FormatBool(message == writeMessages[0]) + ", send_interval: 1s}}]\n"
	s := startServerWith(t, config, t.TempDir(), append(flags, "--enable-feature=exemplar-storage")...)
	require.Eventually(t, func() bool {
		_, samples := stored(t, db, labels.Equal(labels.MetricName, "seen_total"))
		q, err := db.Querier(0, 1<<62)
		require.NoError(t, err)
		defer q.Close()
		exemplars, err := q.Exemplars(context.Background(), labels.Equal(labels.MetricName, "seen_total"))
		require.NoError(t, err)
		metadata, err := q.Metadata(context.Background(), labels.Equal(labels.MetricName, "seen_total"))
		require.NoError(t, err)
		// Of 2.0 the server sends metadata without anything in it.
		told := message == writeMessages[1] || len(metadata) == 1 && metadata[0].Metadata == tsdb.Metadata{Type: tsdb.MetricCounter, Help: "What was seen."}
		return samples >= 10 && len(exemplars) == 1 && len(exemplars[0].Exemplars) >= 5 && told
	}, serverPatience, 50*time.Millisecond)
	require.Empty(t, failures.FindAllString(string(bytes.TrimSpace(s.fetch("GET", "/metrics", nil))), -1))
}
