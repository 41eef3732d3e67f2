package compat

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/golang/snappy"
	"github.com/stretchr/testify/require"

	theirlabels "github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
)

// server is a Prometheus on loopback that scrapes nothing.
type server struct {
	t         testing.TB
	cmd       *exec.Cmd
	url       string
	ready     chan string   // gets the URL when it serves, and is closed when it ended
	ended     chan struct{} // closed when it closed its output
	log       bytes.Buffer  // all of its output
	complains []string      // lines of the level WARN and above
	excuses
}

// serverPatience is how long a server may take to start, and to end.
const serverPatience = 5 * time.Minute

// startServer starts a server on a directory, which it may change, and returns when it
// answers. Nothing is ever too old for it.
func startServer(t testing.TB, dir string, flags ...string) *server {
	t.Helper()
	return startServerWith(t, "global: {scrape_interval: 1h}\n", dir, flags...)
}

// startServerWith is startServer with a configuration.
func startServerWith(t testing.TB, text, dir string, flags ...string) *server {
	t.Helper()
	return startProgram(t, prometheusProgram.build(t), text, dir, flags...)
}

// startProgram is startServerWith with a program, which may be of another version.
func startProgram(t testing.TB, path, text, dir string, flags ...string) *server {
	t.Helper()
	config := filepath.Join(t.TempDir(), "prometheus.yml")
	require.NoError(t, os.WriteFile(config, []byte(text), 0o666))
	s := &server{t: t, ready: make(chan string, 1), ended: make(chan struct{})}
	stores := []string{"--storage.tsdb.path=" + dir, "--storage.tsdb.retention.time=100y", "--storage.tsdb.wal-compression"}
	if slices.Contains(flags, "--agent") {
		stores = []string{"--storage.agent.path=" + dir}
	}
	s.cmd = exec.Command(path, slices.Concat([]string{"--config.file=" + config, "--web.listen-address=127.0.0.1:0"}, stores, flags)...)
	out, err := s.cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, s.cmd.Start())
	t.Cleanup(s.stop)
	go s.read(out)
	select {
	case s.url = <-s.ready:
		require.NotEmpty(t, s.url, "prometheus ended: %s", &s.log)
	case <-time.After(serverPatience):
		require.FailNow(t, "prometheus does not get ready")
	}
	return s
}

// Versions before 3 write levels in small letters.
var (
	listeningOn = regexp.MustCompile(`msg="Listening on" .*\baddress=(\S+)`)
	warning     = regexp.MustCompile(`\blevel=(WARN|ERROR|warn|error) `)
	signalled   = regexp.MustCompile(`Received an OS signal|Received SIGTERM`) // which was ours
)

// read follows the output until its end.
func (s *server) read(out io.Reader) {
	defer close(s.ended)
	var at string
	ready := false // it says so before or after it says where it listens
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		s.log.WriteString(line + "\n")
		if m := listeningOn.FindStringSubmatch(line); m != nil {
			at = "http://" + m[1]
		}
		ready = ready || strings.Contains(line, `msg="Server is ready to receive web requests."`)
		if ready && at != "" {
			select {
			case s.ready <- at:
			default: // told already, and nobody asks twice
			}
		}
		if warning.MatchString(line) && !signalled.MatchString(line) {
			s.complains = append(s.complains, line)
		}
	}
	close(s.ready)
}

// stop ends the server as a service manager would, and requires that it never
// complained.
func (s *server) stop() {
	if s.cmd == nil {
		return
	}
	cmd := s.cmd
	s.cmd = nil
	patience := time.AfterFunc(serverPatience, func() { _ = cmd.Process.Kill() })
	defer patience.Stop()
	_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself: Wait says so
	<-s.ended
	require.NoError(s.t, cmd.Wait(), "prometheus: %s", &s.log)
	for _, line := range s.complains {
		require.True(s.t, s.covers(line), "prometheus complains: %s", line)
	}
}

// get asks the HTTP API and decodes the data of its answer.
func (s *server) get(path string, form url.Values, into any) {
	s.t.Helper()
	body := s.fetch("GET", path+"?"+form.Encode(), nil)
	var answer struct {
		Status   string
		Data     json.RawMessage
		Warnings []string
	}
	require.NoError(s.t, json.Unmarshal(body, &answer), "%s", body)
	require.Equal(s.t, "success", answer.Status, "%s", body)
	require.Empty(s.t, answer.Warnings)
	require.NoError(s.t, json.Unmarshal(answer.Data, into), "%s", body)
}

// fetch returns the body of an answer.
func (s *server) fetch(method, path string, body io.Reader) []byte {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), serverPatience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, body)
	require.NoError(s.t, err)
	res, err := http.DefaultClient.Do(req)
	require.NoError(s.t, err)
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	require.NoError(s.t, err)
	require.Equal(s.t, http.StatusOK, res.StatusCode, "%s %s: %s", method, path, text)
	return text
}

// wire is a point as remote read carries it: a zero has no sign there.
func (p point) wire() point {
	if math.Float64frombits(p.V) == 0 {
		p.V = 0
	}
	return p
}

// dump reads all samples through remote read, see point.wire.
func (s *server) dump() data {
	s.t.Helper()
	req := prompb.ReadRequest{Queries: []*prompb.Query{{
		StartTimestampMs: math.MinInt64, EndTimestampMs: math.MaxInt64,
		Matchers: []*prompb.LabelMatcher{{Type: prompb.LabelMatcher_RE, Name: everything.name, Value: everything.value}},
	}}}
	text, err := req.Marshal()
	require.NoError(s.t, err)
	text, err = snappy.Decode(nil, s.fetch("POST", "/api/v1/read", bytes.NewReader(snappy.Encode(nil, text))))
	require.NoError(s.t, err)
	var res prompb.ReadResponse
	require.NoError(s.t, res.Unmarshal(text))
	require.Len(s.t, res.Results, 1)
	all := data{}
	for _, series := range res.Results[0].Timeseries {
		builder := theirlabels.NewScratchBuilder(len(series.Labels))
		for _, l := range series.Labels {
			builder.Add(l.Name, l.Value)
		}
		require.Empty(s.t, series.Histograms)
		key := keyOfTheirs(builder.Labels())
		for _, p := range series.Samples {
			all[key] = append(all[key], point{p.Timestamp, math.Float64bits(p.Value)})
		}
	}
	return all
}

// instant evaluates a PromQL expression that gives a vector with one element.
func (s *server) instant(expr string, at int64) float64 {
	s.t.Helper()
	var answer struct {
		Result []struct{ Value [2]any }
	}
	s.get("/api/v1/query", url.Values{"query": {expr}, "time": {strconv.FormatFloat(float64(at)/1000, 'f', 3, 64)}}, &answer)
	require.Len(s.t, answer.Result, 1, expr)
	text, ok := answer.Result[0].Value[1].(string)
	require.True(s.t, ok)
	v, err := strconv.ParseFloat(text, 64)
	require.NoError(s.t, err)
	return v
}

// requireUndamaged requires that the server counted no damage.
func (s *server) requireUndamaged() {
	s.t.Helper()
	count := map[string]float64{}
	for line := range strings.Lines(string(s.fetch("GET", "/metrics", nil))) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		name, _, _ = strings.Cut(name, "{")
		if v, err := strconv.ParseFloat(value, 64); err == nil {
			count[name] += v
		}
	}
	for _, name := range failureMetrics {
		n, ok := count[name]
		require.True(s.t, ok || name == "prometheus_tsdb_wal_replay_unknown_refs_total", "the server has no metric %s", name)
		if name != rechunkedMetric || !s.rechunked {
			require.Zero(s.t, n, "%s: %s", name, &s.log)
		}
	}
}
