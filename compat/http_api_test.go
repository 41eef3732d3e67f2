package compat

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/api"
	apiv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/prom"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// httpWorld is a database of ours that is served, and its directory.
type httpWorld struct {
	db  *tsdb.DB
	dir string
	url string
}

const (
	httpStart = int64(1_700_000_000_000)
	httpStep  = 15_000
	httpSteps = 3 * 60 * 4 // three hours
)

// serveHTTPWorld makes counters and gauges of some hosts, a part of them in blocks, and serves
// them.
func serveHTTPWorld(t *testing.T) *httpWorld {
	w := &httpWorld{dir: t.TempDir()}
	// The clock stands still, so that nothing writes while the directory is copied.
	db, err := tsdb.Open(w.dir, &tsdb.Options{Clock: tsdbtest.NewClock(time.Now()), Blocks: tsdb.BlockOptions{Manual: true}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	w.db = db
	r := rand.New(rand.NewPCG(27, 1))
	values := map[string]float64{}
	for s := range httpSteps {
		app := db.Appender()
		for host := range 5 {
			for _, metric := range []string{"requests_total", "temperature", "errors_total"} {
				for _, code := range []string{"200", "404", "500"} {
					ls := labels.FromStrings("__name__", metric, "host", fmt.Sprint("h", host), "code", code)
					v := values[ls.String()] + float64(r.IntN(30))
					if metric == "temperature" {
						v = r.NormFloat64()
					} else if r.IntN(300) == 0 {
						v = 0
					}
					values[ls.String()] = v
					if r.IntN(50) == 0 {
						continue
					}
					_, err := app.Append(0, ls, httpStart+int64(s)*httpStep, v)
					require.NoError(t, err)
				}
			}
		}
		_, err := app.Commit(context.Background())
		require.NoError(t, err)
		if s == httpSteps/2 {
			require.NoError(t, db.Flush(context.Background()))
		}
	}
	server := httptest.NewServer(prom.NewHandler(db, &prom.HandlerOptions{Admin: true}))
	t.Cleanup(server.Close)
	w.url = server.URL
	return w
}

// httpQuery draws an expression.
func httpQuery(r *rand.Rand) string {
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	selector := pick("requests_total", "temperature", "errors_total", `{host="h1"}`, `{__name__=~"req.*|temp.*"}`) + pick("", "", `{code=~"2..|4.."}`, `{host!="h0"}`)
	if strings.Contains(selector, "}{") {
		selector = `{__name__="errors_total", host=~"h[0-2]"}`
	}
	vector := pick("rate", "increase", "avg_over_time", "max_over_time", "changes", "last_over_time") + "(" + selector + "[" + pick("1m", "5m", "20m") + "])"
	return pick(vector, selector, "sum by (host) ("+vector+")", "topk(2, "+vector+")", "sum("+selector+") / count("+selector+")", "sort_desc(sum by (code) ("+vector+"))",
		"requests_total - on (host, code) errors_total", "max_over_time(sum("+selector+")[10m:1m])", "absent("+selector+")", "abs(temperature) > 1")
}

// answerOf asks an API, and returns status and data, vectors in an order of their own.
func answerOf(t *testing.T, base, path string, form url.Values) (int, string) {
	resp, err := http.Get(base + path + "?" + form.Encode())
	require.NoError(t, err)
	defer resp.Body.Close()
	var answer struct {
		Data struct {
			ResultType string
			Result     json.RawMessage
		}
		ErrorType string
		Error     string
		Warnings  []string
		Infos     []string
	}
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&answer))
	var list []json.RawMessage
	lines := []string{answer.Data.ResultType, answer.ErrorType, answer.Error, fmt.Sprint(answer.Warnings), fmt.Sprint(answer.Infos)}
	if answer.Data.ResultType == "vector" || answer.Data.ResultType == "matrix" {
		require.NoError(t, json.Unmarshal(answer.Data.Result, &list))
		elements := []string{}
		for _, e := range list {
			elements = append(elements, string(e))
		}
		slices.Sort(elements)
		lines = append(lines, elements...)
	} else {
		lines = append(lines, string(answer.Data.Result))
	}
	return resp.StatusCode, strings.Join(lines, "\n")
}

// A Prometheus server that opens a copy of the directory gives the same answers, byte for byte.
func TestHTTPAPI_AServerOnACopyAnswersTheSame(t *testing.T) {
	w := serveHTTPWorld(t)
	require.NoError(t, w.db.Sync())
	other := startServer(t, copyDir(t, w.dir))
	r := rand.New(rand.NewPCG(27, 2))
	for range 200 {
		form := url.Values{"query": {httpQuery(r)}}
		path := "/api/v1/query"
		at := httpStart/1000 + r.Int64N(httpSteps*httpStep/1000)
		if r.IntN(2) == 0 {
			path = "/api/v1/query_range"
			form.Set("start", fmt.Sprint(at))
			form.Set("end", fmt.Sprint(at+3600))
			form.Set("step", fmt.Sprint(15+r.IntN(300)))
		} else {
			form.Set("time", fmt.Sprint(at))
		}
		wantCode, want := answerOf(t, other.url, path, form)
		gotCode, got := answerOf(t, w.url, path, form)
		require.Equal(t, wantCode, gotCode, form)
		require.Equal(t, want, got, form)
	}
}

func TestHTTPAPI_PromtoolAsks(t *testing.T) {
	w := serveHTTPWorld(t)
	tool := w.asks(t, promtoolProgram.build(t))
	tool("check", "healthy", "--url="+w.url)
	tool("check", "ready", "--url="+w.url)
}

// asks has a promtool ask everything that it can, and returns it.
func (w *httpWorld) asks(t *testing.T, path string) func(args ...string) string {
	dir := t.TempDir()
	tool := func(args ...string) string {
		cmd := exec.Command(path, args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "promtool %s: %s", strings.Join(args, " "), out)
		return string(out)
	}
	at := fmt.Sprint(httpStart/1000 + 3600)
	require.Contains(t, tool("query", "instant", "--time="+at, w.url, "count by (host) (requests_total)"), `{host="h4"} => 3 @[`+at+`]`)
	require.Contains(t, tool("query", "range", "--start="+at, "--end="+fmt.Sprint(httpStart/1000+3660), "--step=15s", w.url, "count(requests_total)"), "{} =>")
	require.Equal(t, 15, strings.Count(tool("query", "series", "--match=temperature", "--start="+fmt.Sprint(httpStart/1000), "--end="+at, w.url), "\n"))
	require.Equal(t, "200\n404\n500\n", tool("query", "labels", "--start="+fmt.Sprint(httpStart/1000), "--end="+at, w.url, "code"))
	tool("debug", "metrics", w.url)
	f, err := os.Open(filepath.Join(dir, "debug.tar.gz"))
	require.NoError(t, err)
	defer f.Close()
	archive, err := gzip.NewReader(f)
	require.NoError(t, err)
	text, err := io.ReadAll(archive)
	require.NoError(t, err)
	require.Contains(t, string(text), "prometheus_tsdb_head_series ")
	return tool
}

// The client that Go programs use, at every endpoint that it knows.
func TestHTTPAPI_TheGoClientAsks(t *testing.T) {
	w := serveHTTPWorld(t)
	client, err := api.NewClient(api.Config{Address: w.url})
	require.NoError(t, err)
	c := apiv1.NewAPI(client)
	ctx := context.Background()
	from, to := time.UnixMilli(httpStart), time.UnixMilli(httpStart+httpSteps*httpStep)
	mid := from.Add(time.Hour)

	v, warnings, err := c.Query(ctx, "sum(requests_total)", mid)
	require.NoError(t, err)
	require.Empty(t, warnings)
	require.Len(t, v, 1)
	v, _, err = c.QueryRange(ctx, "requests_total", apiv1.Range{Start: from, End: to, Step: time.Minute})
	require.NoError(t, err)
	require.Len(t, v, 15)
	names, _, err := c.LabelNames(ctx, nil, from, to)
	require.NoError(t, err)
	require.Equal(t, model.LabelNames{"__name__", "code", "host"}, names)
	values, _, err := c.LabelValues(ctx, "host", []string{`{code="500"}`}, from, to)
	require.NoError(t, err)
	require.Equal(t, model.LabelValues{"h0", "h1", "h2", "h3", "h4"}, values)
	series, _, err := c.Series(ctx, []string{"temperature"}, from, to)
	require.NoError(t, err)
	require.Len(t, series, 15)
	exemplars, err := c.QueryExemplars(ctx, "requests_total", from, to)
	require.NoError(t, err)
	require.Empty(t, exemplars)
	formatted, err := c.FormatQuery(ctx, "sum(a)by(b)")
	require.NoError(t, err)
	require.Equal(t, `"sum by (b) (a)"`, formatted, "as the client returns it")

	_, err = c.Alerts(ctx)
	require.NoError(t, err)
	_, err = c.AlertManagers(ctx)
	require.NoError(t, err)
	_, err = c.Rules(ctx, nil)
	require.NoError(t, err)
	_, err = c.Targets(ctx)
	require.NoError(t, err)
	_, err = c.TargetsMetadata(ctx, "", "", "")
	require.NoError(t, err)
	_, err = c.Metadata(ctx, "", "")
	require.NoError(t, err)
	_, err = c.Config(ctx)
	require.NoError(t, err)
	flags, err := c.Flags(ctx)
	require.NoError(t, err)
	require.Equal(t, "true", flags["web.enable-admin-api"])
	_, err = c.Buildinfo(ctx)
	require.NoError(t, err)
	_, err = c.Runtimeinfo(ctx)
	require.NoError(t, err)
	stats, err := c.TSDB(ctx)
	require.NoError(t, err)
	require.NotEmpty(t, stats.SeriesCountByMetricName)
	blocks, err := c.TSDBBlocks(ctx)
	require.NoError(t, err)
	require.Empty(t, blocks.Data.Blocks, "the client looks for an answer inside of its data")
	_, err = c.WalReplay(ctx)
	require.NoError(t, err)

	snapshot, err := c.Snapshot(ctx, false)
	require.NoError(t, err)
	require.NotEmpty(t, snapshot.Name)
	require.NoError(t, c.DeleteSeries(ctx, []string{`{host="h0"}`}, from, to))
	require.NoError(t, c.CleanTombstones(ctx))
	values, _, err = c.LabelValues(ctx, "host", nil, from, to)
	require.NoError(t, err)
	require.NotContains(t, values, model.LabelValue("h0"))

	_, _, err = c.Query(ctx, "sum(", mid)
	var failure *apiv1.Error
	require.ErrorAs(t, err, &failure)
	require.Equal(t, apiv1.ErrBadData, failure.Type)
}
