package collector

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/remote"
)

// startTelegraf runs a Telegraf that sends to us by remote write what it gets at /in, in a format;
// see serve. It would send again what we answer 400, too, if it were not told otherwise.
func startTelegraf(t *testing.T, db *tsdb.DB, busy int64, format string) *program {
	t.Helper()
	p := &program{t: t}
	p.start("telegraf", fmt.Sprintf(`
[agent]
  omit_hostname = true
  flush_interval = "50ms"
  skip_processors_after_aggregators = true
[[inputs.http_listener_v2]]
  service_address = "tcp://127.0.0.1:0"
  paths = ["/in"]
  data_format = %q
[[outputs.http]]
  url = %q
  data_format = "prometheusremotewrite"
  non_retryable_statuscodes = [400]
  [outputs.http.headers]
    Content-Type = "application/x-protobuf"
    Content-Encoding = "snappy"
    X-Prometheus-Remote-Write-Version = "0.1.0"
`, format, p.serve(receiveWrite, db, busy)))
	return p
}

// gather gives a Telegraf values of some seconds after origin, of which the number of an interrupt
// is one.
func (p *program) gather(after int64, interrupts int) {
	p.t.Helper()
	at := (origin + after*1000) * 1e6
	line := fmt.Sprintf("cpu,host=a\\ ü,cpu=0 idle=%g,interrupts=%di,online=true %d\n", float64(interrupts)/4, interrupts, at)
	resp, err := http.Post(p.url+"/in", "text/plain", strings.NewReader(line))
	require.NoError(p.t, err)
	require.NoError(p.t, resp.Body.Close())
	require.Equal(p.t, http.StatusNoContent, resp.StatusCode)
}

// What Telegraf gathers is there, also what we could not take at once. What is late it drops.
func TestTelegraf_SendsWhatItGathers(t *testing.T) {
	db := openDB(t)
	p := startTelegraf(t, db, 2, "influx")
	p.gather(0, 6)
	requireSamples(t, db, 3)
	require.Len(t, p.complaints(), 2)
	require.Len(t, p.lines("503.*the database is closed"), 2)
	p.gather(15, 7)
	requireSamples(t, db, 6)
	p.gather(5, 1)
	require.Eventually(t, func() bool { return len(p.complaints()) == 3 }, patience, 10*time.Millisecond)
	require.Len(t, p.lines("400.*out of order sample"), 1)
	p.gather(30, 8)
	p.stop() // it sends what it has
	require.Len(t, p.complaints(), 3)
	require.Equal(t, []string{
		`{__name__="cpu_idle", cpu="0", host="a ü"} 0s 1.5`,
		`{__name__="cpu_idle", cpu="0", host="a ü"} 15s 1.75`,
		`{__name__="cpu_idle", cpu="0", host="a ü"} 30s 2`,
		`{__name__="cpu_interrupts", cpu="0", host="a ü"} 0s 6`,
		`{__name__="cpu_interrupts", cpu="0", host="a ü"} 15s 7`,
		`{__name__="cpu_interrupts", cpu="0", host="a ü"} 30s 8`,
		`{__name__="cpu_online", cpu="0", host="a ü"} 0s 1`,
		`{__name__="cpu_online", cpu="0", host="a ü"} 15s 1`,
		`{__name__="cpu_online", cpu="0", host="a ü"} 30s 1`,
	}, dump(t, db).samples)
}

// requireSamples waits until a database has a number of samples.
func requireSamples(t *testing.T, db *tsdb.DB, n int) {
	t.Helper()
	require.Eventually(t, func() bool { return len(dump(t, db).samples) == n }, patience, 10*time.Millisecond)
}

// What our Writer sends Telegraf has, and sends on. It knows 1.0 only, and takes 2.0 without a word
// for an empty request.
func TestWriter_FillsTelegraf(t *testing.T) {
	ours, theirs := openDB(t), openDB(t)
	p := startTelegraf(t, theirs, 0, "prometheusremotewrite")
	w, err := remote.NewWriter(ours, &remote.WriterOptions{URL: p.url + "/in", Deadline: 10 * time.Millisecond})
	require.NoError(t, err)
	for i := range 20 {
		app := ours.Appender()
		for n := range 10 {
			ls := labels.FromStrings(labels.MetricName, "sent_total", "n", fmt.Sprint(n), "text", `a "b" ü`)
			_, err := app.Append(0, ls, origin+int64(i)*1000, float64(i*n)+0.25)
			require.NoError(t, err)
		}
		_, err := app.Commit(t.Context())
		require.NoError(t, err)
		requireSamples(t, theirs, 10*(i+1)) // of several samples that it holds it sends the newest
	}
	require.NoError(t, w.Flush(t.Context()))
	stats := w.Stats()
	require.Equal(t, "1.0", stats.Protocol)
	require.Equal(t, uint64(200), stats.Samples)
	require.NoError(t, w.Close())
	p.stop()
	require.Empty(t, p.complaints())
	want := dump(t, ours).samples
	for i := range want {
		want[i] = strings.Replace(want[i], `"sent_total"`, `"prometheus_remote_write_sent_total"`, 1)
	}
	require.Equal(t, want, dump(t, theirs).samples)
}
