package thanos

import (
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"sort"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// queries ask for samples as they are, ranges of them, aggregations, joins and histograms. None
// names an external label: Thanos adds those, and the server does not.
var queries = []string{
	`requests_total`,
	`requests_total{job="job1",instance!="4"}`,
	`{__name__=~"temp.*|pod"}`,
	`temperature offset 30m`,
	`rate(requests_total[10m])`,
	`increase(requests_total{instance="9"}[1h])`,
	`sum by (job) (rate(requests_total[5m]))`,
	`avg without (instance) (requests_total)`,
	`topk by (job) (2, requests_total)`,
	`count(pod)`,
	`max_over_time(temperature[3h]) - min_over_time(temperature[3h])`,
	`quantile_over_time(0.9, temperature[1h])`,
	`requests_total / on (job) group_left () sum by (job) (requests_total)`,
	`histogram_quantile(0.9, rate(latency[10m]))`,
	`histogram_count(latency)`,
	`latency`,
	`absent(nothing)`,
}

// result is a series of an answer.
type result struct {
	Metric     map[string]string
	Values     [][2]any
	Histograms [][2]any
}

func (r *result) key() string {
	text, err := json.Marshal(r.Metric) // sorted by name
	if err != nil {
		panic(err)
	}
	return string(text)
}

// ask asks an HTTP API, and decodes the data of its answer.
func ask(t testing.TB, base, path string, form url.Values, into any) {
	t.Helper()
	text := fetch(t, base+path+"?"+form.Encode())
	var answer struct {
		Data     json.RawMessage
		Warnings []string
	}
	require.NoError(t, json.Unmarshal([]byte(text), &answer), "%s", text)
	require.Empty(t, answer.Warnings, "%s %v", path, form)
	require.NoError(t, json.Unmarshal(answer.Data, into), "%s", text)
}

// queryRange asks for a query from a time to another one, in milliseconds, without the external
// labels of the answer.
func queryRange(t testing.TB, base, query string, from, to int64, step time.Duration) []result {
	t.Helper()
	var data struct{ Result []result }
	ask(t, base, "/api/v1/query_range", url.Values{
		"query": {query}, "start": {seconds(from)}, "end": {seconds(to)}, "step": {fmt.Sprint(step.Seconds())},
		"max_source_resolution": {"0s"}, "dedup": {"true"}, "partial_response": {"false"},
	}, &data)
	for _, r := range data.Result {
		for l := range external.All() {
			delete(r.Metric, l.Name)
		}
	}
	sort.Slice(data.Result, func(i, k int) bool { return data.Result[i].key() < data.Result[k].key() })
	return data.Result
}

func seconds(ms int64) string { return strconv.FormatFloat(float64(ms)/1000, 'f', 3, 64) }

// same requires that two servers answer everything in the same way from a time to another one.
func same(t testing.TB, ours, theirs string, from, to int64) {
	t.Helper()
	some := 0
	for _, query := range queries {
		for _, step := range []time.Duration{time.Hour, 17 * time.Minute} {
			want, got := queryRange(t, ours, query, from, to, step), queryRange(t, theirs, query, from, to, step)
			require.Len(t, got, len(want), query)
			for i := range want {
				require.Equal(t, want[i].Metric, got[i].Metric, query)
				require.Equal(t, want[i].Histograms, got[i].Histograms, query)
				require.Len(t, got[i].Values, len(want[i].Values), "%s %s", query, want[i].key())
				for k, v := range want[i].Values {
					require.Equal(t, v[0], got[i].Values[k][0], query)
					sameValue(t, v[1].(string), got[i].Values[k][1].(string), query)
					some++
				}
				some += len(want[i].Histograms)
			}
		}
	}
	require.Greater(t, some, 10_000)
	sameNames(t, ours, theirs, from, to)
}

// sameValue allows what comes of another order of additions.
func sameValue(t testing.TB, want, got, query string) {
	t.Helper()
	if want == got {
		return
	}
	w, err := strconv.ParseFloat(want, 64)
	require.NoError(t, err)
	g, err := strconv.ParseFloat(got, 64)
	require.NoError(t, err)
	require.LessOrEqual(t, math.Abs(w-g), 1e-12*math.Abs(w), "%s: %s and %s", query, want, got)
}

// sameNames asks for labels and series.
func sameNames(t testing.TB, ours, theirs string, from, to int64) {
	t.Helper()
	within := url.Values{"start": {seconds(from)}, "end": {seconds(to)}, "match[]": {"requests_total", `{__name__=~"temp.*"}`, "latency"}}
	names := func(base string) (list []string) {
		var all []string
		ask(t, base, "/api/v1/labels", within, &all)
		for _, name := range all {
			if !external.Has(name) {
				list = append(list, name)
			}
		}
		return list
	}
	require.Equal(t, names(ours), names(theirs))
	for _, name := range names(ours) {
		var want, got []string
		ask(t, ours, "/api/v1/label/"+name+"/values", within, &want)
		ask(t, theirs, "/api/v1/label/"+name+"/values", within, &got)
		require.Equal(t, want, got, name)
	}
	series := func(base string) (list []string) {
		var all []map[string]string
		ask(t, base, "/api/v1/series", within, &all)
		for _, s := range all {
			for l := range external.All() {
				delete(s, l.Name)
			}
			r := result{Metric: s}
			list = append(list, r.key())
		}
		sort.Strings(list)
		return list
	}
	require.Equal(t, series(ours), series(theirs))
}
