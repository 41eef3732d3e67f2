package vmctl

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/compat/internal/peer"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/remote"
)

// What an agent scrapes it sends to our receiver.
func TestVmagent_SendsToOurReceiver(t *testing.T) {
	program := peer.Path(t, "vmagent", "victoria-metrics")
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, "# TYPE seen counter\nseen 7\n") // an agent that breaks off comes again
	}))
	defer target.Close()
	db, err := tsdb.Open(t.TempDir(), nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	receiver := httptest.NewServer(remote.NewWriteHandler(db, nil))
	defer receiver.Close()
	config := filepath.Join(t.TempDir(), "scrape.yml")
	text := "scrape_configs: [{job_name: j, scrape_interval: 1s, static_configs: [{targets: ['" + strings.TrimPrefix(target.URL, "http://") + "']}]}]\n"
	require.NoError(t, os.WriteFile(config, []byte(text), 0o600))
	startProgram(t, program, "-promscrape.config="+config, "-remoteWrite.url="+receiver.URL+"/api/v1/write", "-remoteWrite.tmpDataPath="+t.TempDir(), "-remoteWrite.flushInterval=200ms")
	require.Eventually(t, func() bool {
		q, err := db.Querier(0, 1<<62)
		require.NoError(t, err)
		defer q.Close()
		n := 0
		for s, err := range q.Select(context.Background(), nil, labels.Equal(labels.MetricName, "seen"), labels.Equal("job", "j")).All() {
			require.NoError(t, err)
			for _, v := range s.Samples() {
				require.Equal(t, 7.0, v)
				n++
			}
		}
		return n >= 3
	}, patience, 50*time.Millisecond)
}

// A server of VictoriaMetrics, which knows 1.0 only and does not say so, has what our Writer sends.
func TestWriter_FillsAServer(t *testing.T) {
	server := startServer(t, peer.Path(t, "victoria-metrics", "victoria-metrics"))
	db, err := tsdb.Open(t.TempDir(), nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	w, err := remote.NewWriter(db, &remote.WriterOptions{URL: server + "/api/v1/write", Deadline: 20 * time.Millisecond, MaxSamples: 100})
	require.NoError(t, err)
	want := data{}
	start := time.Now().Add(-time.Hour).UnixMilli()
	for n := range 50 {
		app := db.Appender()
		for i := range 20 {
			ls := labels.FromStrings(labels.MetricName, "sent", "i", fmt.Sprint(i))
			one := sample{start + int64(n)*1000, float64(n * i)}
			_, err := app.Append(0, ls, one.t, one.v)
			require.NoError(t, err)
			want[keyOf(ls.Map())] = append(want[keyOf(ls.Map())], one)
		}
		_, err := app.Commit(t.Context())
		require.NoError(t, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, w.Flush(ctx))
	require.Equal(t, "1.0", w.Stats().Protocol)
	require.NoError(t, w.Close())
	fetch(t, server+"/internal/force_flush")
	got := exported(t, fetch(t, server+"/api/v1/export?"+url.Values{"match[]": {"sent"}}.Encode()))
	require.Equal(t, slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got)))
	require.Equal(t, want, got)
}
