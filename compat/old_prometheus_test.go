package compat

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/compat/internal/peer"
	"github.com/seed347100a3/tsdb/prom"
)

// oldPrometheus is the server of Debian: version 2.42 in Debian 12, of February 2023.
func oldPrometheus(t testing.TB) string {
	t.Helper()
	path := peer.Path(t, "prometheus", "prometheus")
	out, err := exec.Command(path, "--version").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "prometheus, version 2.", "%s is not an older server", path)
	return path
}

const nothingToScrape = "global: {scrape_interval: 1h}\n"

// An older server opens a copy of a directory of ours, left by a crash or closed, finds all samples
// in blocks and log and nothing to complain of. It knows no zstd, which is not the default. What it
// leaves is read by ours again.
func TestOldPrometheus_OpensWhatOursWrote(t *testing.T) {
	program := oldPrometheus(t)
	for _, compression := range []tsdb.Compression{tsdb.CompressionSnappy, tsdb.CompressionNone} {
		t.Run(compression.String(), func(t *testing.T) {
			w := remoteWorld(t, func(t testing.TB, dir string) blockEngine {
				return openOurs(t, dir, ourBlockOptions, func(o *tsdb.Options) { o.WAL.Compression = compression })
			}, 9110)
			crashed := copyDir(t, w.dir)
			w.e.close()
			for name, dir := range map[string]string{"crashed": crashed, "closed": w.dir} {
				s := startProgram(t, program, nothingToScrape, dir)
				requireEqual(t, w.want.changed(point.wire), s.dump(), name)
				at := worldStart + 9*hour
				require.InDelta(t, w.want.withoutStale().samples(), s.instant(`sum(count_over_time({n=~".+"}[30h]))`, at), 0, name)
				s.requireUndamaged()
				s.stop()
				requireOursReadsBlocks(t, left{dir: dir, want: w.want})
			}
		})
	}
}

// It answers as ours does, but for what version 3 changed: a range leaves out the sample at its
// very begin, so times are half a second beside those of samples; what rates make of a counter that
// begins within their range, so all begin before it; and how sums are rounded.
func TestOldPrometheus_OnACopyAnswersTheSame(t *testing.T) {
	program := oldPrometheus(t)
	w := serveHTTPWorld(t)
	require.NoError(t, w.db.Sync())
	other := startProgram(t, program, nothingToScrape, copyDir(t, w.dir))
	r := rand.New(rand.NewPCG(27, 3))
	const firstFull = 20 * 60 // seconds: the longest range is behind the begin
	full := 0
	for range 200 {
		query := httpQuery(r)
		if strings.Contains(query, "topk") { // which ones of equals is left to chance
			continue
		}
		form := url.Values{"query": {query}}
		path := "/api/v1/query"
		at := float64(httpStart/1000+firstFull+r.Int64N(httpSteps*httpStep/1000-firstFull)) + 0.5
		if r.IntN(2) == 0 {
			path = "/api/v1/query_range"
			form.Set("start", fmt.Sprintf("%f", at))
			form.Set("end", fmt.Sprintf("%f", at+3600))
			form.Set("step", fmt.Sprint(15+r.IntN(300)))
		} else {
			form.Set("time", fmt.Sprintf("%f", at))
		}
		want, got := numbersOf(t, other.url, path, form), numbersOf(t, w.url, path, form)
		want.requireNear(t, got, form.Encode())
		if len(got.series) > 0 {
			full++
		}
	}
	require.Greater(t, full, 100, "queries with something in the answer")
	other.requireUndamaged()
}

// Its remote-read client takes what the HTTP API sends. It refuses names of labels that were none
// before version 3.
func TestOldPrometheus_ReadsOursFromAfar(t *testing.T) {
	program := oldPrometheus(t)
	w := newWorld(t, openOurBlocks, plan{Seed: seed(t, 9111), Series: 60})
	for i := range w.g.set {
		if i%11 == 1 || i%11 == 5 { // those with such names
			w.g.set[i] = makeSeries(1, i+1)
		}
	}
	w.append(40, 5*hour)
	w.e.flush()
	w.append(30, 2*hour)
	w.delete(worldStart+hour, worldStart+3*hour, matcher{"=", "mod", "3"})
	between := &between{handler: prom.NewHandler(w.e.(*ours).db, nil), samples: true}
	ours := httptest.NewServer(between)
	defer ours.Close()
	s := startProgram(t, program, nothingToScrape+"remote_read: [{url: "+ours.URL+"/api/v1/read, read_recent: true}]\n", t.TempDir())
	at := worldStart + 9*hour
	want := w.want.withoutStale()
	requireEqual(t, want.changed(point.text), s.samples(`{n=~".+"}[30h]`, at), "PromQL")
	requireEqual(t, want.only(t, w.g.set, matcher{"=", "mod", "2"}).changed(point.text), s.samples(`{mod="2"}[30h]`, at), "PromQL with a matcher")
	requireEqual(t, w.want.changed(point.wire), s.dump().changed(point.wire), "handed on")
	between.requireAnswers(t)
}

// Its promtool asks ours.
func TestOldPrometheus_ItsPromtoolAsks(t *testing.T) {
	program := peer.Path(t, "promtool", "prometheus")
	serveHTTPWorld(t).asks(t, program)
}

// numbers is a result of a query that another version may have computed in another order.
type numbers struct {
	status    int
	errorType string
	series    map[string][]number // by labels
}

type number struct{ at, value float64 }

func numbersOf(t *testing.T, base, path string, form url.Values) numbers {
	t.Helper()
	resp, err := http.Get(base + path + "?" + form.Encode())
	require.NoError(t, err)
	defer resp.Body.Close()
	var answer struct {
		Data struct {
			ResultType string
			Result     []struct {
				Metric map[string]string
				Value  []any
				Values [][]any
			}
		}
		ErrorType string
	}
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&answer))
	n := numbers{resp.StatusCode, answer.ErrorType, map[string][]number{}}
	for _, s := range answer.Data.Result {
		key, err := json.Marshal(s.Metric)
		require.NoError(t, err)
		if s.Value != nil {
			s.Values = append(s.Values, s.Value)
		}
		for _, p := range s.Values {
			v, err := strconv.ParseFloat(p[1].(string), 64)
			require.NoError(t, err)
			n.series[string(key)] = append(n.series[string(key)], number{p[0].(float64), v})
		}
	}
	return n
}

// requireNear requires equal series and times, and values that are equal but for rounding.
func (n numbers) requireNear(t *testing.T, got numbers, query string) {
	t.Helper()
	require.Equal(t, n.status, got.status, query)
	require.Equal(t, n.errorType, got.errorType, query)
	require.Len(t, got.series, len(n.series), query)
	for key, want := range n.series {
		require.Len(t, got.series[key], len(want), "%s: %s", query, key)
		for i, p := range got.series[key] {
			require.InDelta(t, want[i].at, p.at, 0, "%s: %s", query, key)
			require.True(t, near(want[i].value, p.value), "%s: %s at %f: %g wanted, %g there", query, key, p.at, want[i].value, p.value)
		}
	}
}

func near(a, b float64) bool {
	return a == b || math.IsNaN(a) && math.IsNaN(b) || math.Abs(a-b) <= 1e-9*max(math.Abs(a), math.Abs(b), 1)
}
