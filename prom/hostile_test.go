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
	{"all times in steps of a second", "query_range", url.Values{"query": {"m"}, "start": {"-9223309901257974"}, "end": {"9223309901257974"}, "step": {"1"}}, 400, "11,000"},
	{"11,001 steps", "query_range", url.Values{"query": {"m"}, "start": {"0"}, "end": {"11001"}, "step": {"1"}}, 400, "11,000"},
	{"an end before the start", "query_range", url.Values{"query": {"m"}, "start": {"2"}, "end": {"1"}, "step": {"1"}}, 400, "before"},
	{"a subquery of very many steps", "query", url.Values{"query": {"max_over_time(vector(1)[100y:1ms])"}, "timeout": {"1s"}}, 400, "1:34: parse error: a subquery of"},
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

// A client that goes away ends its query, and the next one is answered.
func TestHostileRequests_AClientThatGoesEndsItsQuery(t *testing.T) {
	s := openStorage(t)
	fill(t, s)
	server := httptest.NewServer(prom.NewHandler(s.DB(), &prom.HandlerOptions{Engine: prom.EngineOptions{Concurrency: 1}}))
	defer server.Close()
	for range 5 {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/api/v1/query?query="+url.QueryEscape("max_over_time(vector(1)[10y:1s])"), nil)
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
}
