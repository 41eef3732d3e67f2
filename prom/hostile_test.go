package prom_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/prom"
)

// hostile is requests that nobody means well with, or at all. Each has an answer of its own.
var hostile = []struct {
	name   string
	path   string
	form   url.Values
	status int
	says   string
}{
	{"a query that ends too early", "query", url.Values{"query": {"sum(rate(m[5m])"}}, 400, "1:16: parse error: unclosed left parenthesis"},
	{"a query of two MiB", "query", url.Values{"query": {strings.Repeat("m+", 1<<20) + "m"}}, 400, "at most"},
	{"a query of many brackets", "query", url.Values{"query": {strings.Repeat("(", 60_000)}}, 400, "parse error"},
	{"a query of many minus signs", "query", url.Values{"query": {strings.Repeat("-", 100_000) + "1"}}, 400, "more than 5000 operators"},
	{"a query of many functions", "query", url.Values{"query": {strings.Repeat("abs(", 6000) + "m" + strings.Repeat(")", 6000)}}, 400, "nested more than"},
	{"a sum of sixty thousand terms", "query", url.Values{"query": {strings.Repeat("m+", 60_000) + "m"}}, 400, "more than 5000 operators"},
	{"a sum of a thousand terms", "query", url.Values{"query": {strings.Repeat("m+", 1000) + "m"}}, 200, ""},
	{"a regular expression that repeats repeats", "query", url.Values{"query": {`m{i=~"(((a{1000}){1000}){1000})"}`}}, 400, "repeat"},
	{"a long regular expression", "query", url.Values{"query": {`m{i=~"` + strings.Repeat("(a|b)*", 10_000) + `"}`}}, 0, ""},
	{"a regular expression for backtrackers", "query", url.Values{"query": {`m{i=~"(a+)+$"}`}, "time": {"0"}}, 200, ""},
	{"no query", "query", url.Values{}, 400, "no expression"},
	{"not a number for a time", "query", url.Values{"query": {"m"}, "time": {"NaN"}}, 400, "no time"},
	{"an endless time", "query", url.Values{"query": {"m"}, "time": {"+Inf"}}, 200, ""},
	{"the time of clients that mean all", "query", url.Values{"query": {"m"}, "time": {"-9223309901257974"}}, 200, ""},
	{"an overflowing time", "query", url.Values{"query": {"m"}, "time": {"1e300"}}, 200, ""},
	{"a step of 0", "query_range", url.Values{"query": {"m"}, "start": {"0"}, "end": {"1"}, "step": {"0"}}, 400, "zero or negative"},
	{"a step that is not a number", "query_range", url.Values{"query": {"m"}, "start": {"0"}, "end": {"1"}, "step": {"NaN"}}, 400, "step"},
	{"a step of a nanosecond", "query_range", url.Values{"query": {"m"}, "start": {"0"}, "end": {"1"}, "step": {"1e-9"}}, 400, "11,000"},
	{"a step of half a millisecond", "query_range", url.Values{"query": {"m"}, "start": {"0"}, "end": {"1"}, "step": {"0.0005"}}, 400, "shorter than a millisecond"},
	{"a subquery step of a tenth of a millisecond", "query", url.Values{"query": {"max_over_time(m[1s:0.0001])"}}, 400, "below a millisecond"},
	{"a step that is cut to milliseconds", "query_range", url.Values{"query": {"m"}, "start": {"0"}, "end": {"20"}, "step": {"0.0019"}}, 400, "11,000"},
	{"12,000 steps within twelve seconds", "query_range", url.Values{"query": {"m"}, "start": {"0"}, "end": {"11.999"}, "step": {"0.001"}}, 400, "11,000"},
	{"all times in steps of a second", "query_range", url.Values{"query": {"m"}, "start": {"-9223309901257974"}, "end": {"9223309901257974"}, "step": {"1"}}, 400, "11,000"},
	{"11,001 steps", "query_range", url.Values{"query": {"m"}, "start": {"0"}, "end": {"11001"}, "step": {"1"}}, 400, "11,000"},
	{"an end before the start", "query_range", url.Values{"query": {"m"}, "start": {"2"}, "end": {"1"}, "step": {"1"}}, 400, "before"},
	{"a subquery of very many steps", "query", url.Values{"query": {"max_over_time(vector(1)[100y:1ms])"}, "timeout": {"1s"}}, 400, "1:34: parse error: a subquery of"},
	{"windows of very many points", "query_range", url.Values{"query": {"max_over_time(vector(1)[40000s:1s])"}, "start": {"0"}, "end": {"11000"}, "step": {"1"}}, 422, "4.4e+08 points"},
	{"a subquery between steps that lie far apart", "query_range", url.Values{"query": {"max_over_time(m[5s:1s])"}, "start": {"0"}, "end": {"4000000000"}, "step": {"400000"}}, 422, "have 4e+09 points"},
	{"subqueries over more time than a duration has", "query_range", url.Values{"query": {"max_over_time(max_over_time(m[1d:1m])[1d:1m])"}, "start": {"-9000000000"}, "end": {"9000000000"}, "step": {"2000000"}}, 422, "points for each series"},
	{"ranges that add up to more time than a duration has", "query", url.Values{"query": {"max_over_time(max_over_time(max_over_time(m[1y:1h])[200y:1d])[200y:100y])"}}, 422, "points for each series"},
	{"a join of everything with everything", "query", url.Values{"query": {`{i=~".+"} * on () group_left {i=~".+"}`}, "time": {"0.5"}}, 422, ""},
	{"a selector that selects nothing in particular", "series", url.Values{"match[]": {"{}"}}, 400, "at least one"},
	{"a function for a selector", "series", url.Values{"match[]": {"rate(m[5m])"}}, 400, "parse error"},
	{"a thousand selectors", "series", url.Values{"match[]": strings.Split(strings.Repeat("m,", 1000)+"m", ",")}, 200, ""},
	{"a limit below 0", "labels", url.Values{"limit": {"-1"}}, 400, "non-negative"},
	{"a label that is not text", "label/%ff/values", url.Values{}, 400, "invalid label name"},
	{"an endpoint that there is not", "nothing", url.Values{}, 404, ""},
	{"status of very many", "status/tsdb", url.Values{"limit": {"99999"}}, 400, "must not exceed"},
}

func TestHostileRequests_AreAnsweredAndDisturbNobody(t *testing.T) {
	s := openStorage(t)
	fill(t, s)
	server := httptest.NewServer(prom.NewHandler(s.DB(), &prom.HandlerOptions{Engine: prom.EngineOptions{Timeout: time.Minute, MaxSamples: 100_000}}))
	defer server.Close()

	// A probe asks all the time; each of its questions is answered within a second.
	ctx, stop := context.WithCancel(context.Background())
	var probe sync.WaitGroup
	var slowest time.Duration
	probes := 0
	probe.Go(func() {
		for ctx.Err() == nil {
			begin := time.Now()
			resp, err := http.Get(server.URL + "/api/v1/query?query=count(m)&time=0.5")
			if err != nil {
				t.Error(err)
				return
			}
			if resp.StatusCode != http.StatusOK {
				t.Errorf("the probe got %s", resp.Status)
			}
			_, _ = io.Copy(io.Discard, resp.Body) // it is not looked at
			_ = resp.Body.Close()
			slowest = max(slowest, time.Since(begin))
			probes++
		}
	})
	for round := range 4 {
		for _, h := range hostile {
			name := fmt.Sprintf("%s, round %d", h.name, round)
			resp, err := http.PostForm(server.URL+"/api/v1/"+h.path, h.form)
			if h.path == "nothing" || strings.HasPrefix(h.path, "label/") || strings.HasPrefix(h.path, "status/") {
				require.NoError(t, resp.Body.Close())
				resp, err = http.Get(server.URL + "/api/v1/" + h.path + "?" + h.form.Encode())
			}
			require.NoError(t, err, name)
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err, name)
			require.NoError(t, resp.Body.Close())
			if h.status != 0 {
				require.Equal(t, h.status, resp.StatusCode, "%s: %.300s", name, body)
			}
			require.Contains(t, string(body), h.says, name)
			if resp.StatusCode != http.StatusNotFound {
				var answer struct{ Status, ErrorType string }
				require.NoError(t, json.Unmarshal(body, &answer), "%s: %.300s", name, body)
				require.Equal(t, resp.StatusCode == http.StatusOK, answer.Status == "success", name)
				require.Equal(t, resp.StatusCode != http.StatusOK, answer.ErrorType != "", name)
			}
		}
	}
	stop()
	probe.Wait()
	require.Positive(t, probes)
	t.Logf("%d questions of the probe, the slowest took %s", probes, slowest)
}

// heavy is expressions that take as much as one may, or more.
var heavy = []url.Values{
	{"query": {"max_over_time(vector(1)[9000000s:1s])"}},
	{"query": {"max_over_time(max_over_time(vector(1)[9000000s:1s])[1000s:1s])"}},
	{"query": {"max_over_time(vector(1)[40000s:1s])"}, "start": {"0"}, "end": {"11000"}, "step": {"1"}},
	{"query": {"max_over_time(vector(1)[13000s:1s])"}, "start": {"0"}, "end": {"11000"}, "step": {"1"}},
	{"query": {"quantile_over_time(0.5, vector(1)[900s:1s])"}, "start": {"0"}, "end": {"11000"}, "step": {"1"}},
	{"query": {`{i=~".+"} * on () group_left {i=~".+"}`}, "time": {"0.5"}},
	{"query": {strings.Repeat("m+", 1000) + "m"}, "time": {"0.5"}},
	{"query": {`quantile_over_time(0.5, {i=~".+"}[1h])`}, "start": {"0"}, "end": {"11"}, "step": {"0.001"}},
	{"query": {strings.Repeat("m+", 1<<19) + "m"}},
	{"query": {`m{i=~"` + strings.Repeat("(a|b)*", 10_000) + `"}`}},
}

// A hundred at once, by the options that a server has by default, and a question each 100 ms
// beside them.
func TestHostileRequests_AHundredAtOnce(t *testing.T) {
	s := openStorage(t)
	fill(t, s)
	server := httptest.NewServer(prom.NewHandler(s.DB(), nil))
	defer server.Close()
	ask := func(path string, form url.Values) int {
		resp, err := http.PostForm(server.URL+"/api/v1/"+path, form)
		if err != nil {
			t.Error(err)
			return 0
		}
		_, _ = io.Copy(io.Discard, resp.Body) // it is not looked at
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	var requests sync.WaitGroup
	for i := range 100 {
		form := url.Values{"timeout": {"20s"}}
		for name, values := range heavy[i%len(heavy)] {
			form[name] = values
		}
		path := "query"
		if form.Has("step") {
			path = "query_range"
		}
		requests.Go(func() {
			if status := ask(path, form); status/100 != 2 && status/100 != 4 && status != http.StatusServiceUnavailable {
				t.Errorf("%d for %.100s", status, form.Encode())
			}
		})
	}
	over := make(chan struct{})
	go func() { requests.Wait(); close(over) }()
	var slowest time.Duration
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for running := true; running; {
		begin := time.Now()
		require.Equal(t, http.StatusOK, ask("query", url.Values{"query": {"count(m)"}, "time": {"0.5"}}))
		slowest = max(slowest, time.Since(begin))
		select {
		case <-tick.C:
		case <-over:
			running = false
		}
	}
	t.Logf("the slowest answer took %s", slowest)
	require.Less(t, slowest, 5*time.Second, "it is below one where nobody else uses the machine")
}

// A client that goes away ends its query, and the next one is answered.
func TestHostileRequests_AClientThatGoesEndsItsQuery(t *testing.T) {
	s := openStorage(t)
	fill(t, s)
	server := httptest.NewServer(prom.NewHandler(s.DB(), &prom.HandlerOptions{Engine: prom.EngineOptions{Concurrency: 1}}))
	defer server.Close()
	for range 5 {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/api/v1/query?query="+url.QueryEscape("max_over_time(vector(1)[9000000s:1s])"), nil)
		require.NoError(t, err)
		if resp, err := http.DefaultClient.Do(req); err == nil {
			require.NoError(t, resp.Body.Close())
		}
		cancel()
	}
	resp, err := http.Get(server.URL + "/api/v1/query?query=1")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Eventually(t, func() bool {
		resp, err := http.Get(server.URL + "/metrics")
		require.NoError(t, err)
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Contains(t, string(text), "\nprometheus_engine_queries ")
		return strings.Contains(string(text), "\nprometheus_engine_queries 0\n")
	}, 10*time.Second, 10*time.Millisecond, "queries that nobody waits for go on")
}
