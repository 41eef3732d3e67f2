package prom_test

import (
	"context"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/prom"
)

const (
	grafanaStart = int64(1_700_000_000_000) // ms
	grafanaStep  = int64(15_000)
	grafanaSteps = 241 // an hour
)

// grafanaSeries are what Grafana's editors and dashboards meet: counters, a classic histogram, a
// gauge without a value at times, and names beyond what Prometheus took before version 3.
var grafanaSeries = []struct {
	labels labels.Labels
	value  func(i int) float64
}{
	{labels.FromStrings("__name__", "http_requests_total", "job", "api", "instance", "a:80", "code", "200"), func(i int) float64 { return float64(30 * i) }},
	{labels.FromStrings("__name__", "http_requests_total", "job", "api", "instance", "a:80", "code", "500"), func(i int) float64 { return float64(3 * i) }},
	{labels.FromStrings("__name__", "http_requests_total", "job", "api", "instance", "b:80", "code", "200"), func(i int) float64 { return float64(15 * i) }},
	{labels.FromStrings("__name__", "latency_seconds_bucket", "job", "api", "le", "0.1"), func(i int) float64 { return float64(i) }},
	{labels.FromStrings("__name__", "latency_seconds_bucket", "job", "api", "le", "1"), func(i int) float64 { return float64(2 * i) }},
	{labels.FromStrings("__name__", "latency_seconds_bucket", "job", "api", "le", "+Inf"), func(i int) float64 { return float64(2 * i) }},
	{labels.FromStrings("__name__", "temperature", "room", "attic"), func(i int) float64 { return []float64{20.5, math.NaN(), math.Inf(1), math.Inf(-1)}[i%4] }},
	{labels.FromStrings("__name__", "mysystem.prod.west.cpu.load_total", "my lovely_http.status:sum", "ok", "花火", "夏", "1st.ā", "v/1"), func(i int) float64 { return float64(i) }},
}

// newGrafanaSource serves them, the first half from a block.
func newGrafanaSource(t *testing.T) string {
	db, err := tsdb.Open(t.TempDir(), &tsdb.Options{Blocks: tsdb.BlockOptions{Manual: true}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	for i := range grafanaSteps {
		app := db.Appender()
		for _, s := range grafanaSeries {
			_, err := app.Append(0, s.labels, grafanaStart+int64(i)*grafanaStep, s.value(i))
			require.NoError(t, err)
		}
		_, err := app.Commit(context.Background())
		require.NoError(t, err)
		if i == grafanaSteps/2 {
			require.NoError(t, db.Flush(context.Background()))
		}
	}
	server := httptest.NewServer(prom.NewHandler(db, nil))
	t.Cleanup(server.Close)
	return server.URL
}

// sender is who sends a request of Grafana: its headers.
type sender map[string]string

var (
	// The plugin, that is what queries panels, checks a data source and looks names up.
	plugin = sender{
		"User-Agent": "Grafana/12.1.0", "Accept-Encoding": "gzip", "X-Grafana-Org-Id": "1", "X-Datasource-Uid": "P1809F7CD0C75ACF3",
		"X-Dashboard-Uid": "abc", "X-Panel-Id": "2", "Traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	}
	// A browser whose request the server hands on, as older versions do.
	browser = sender{
		"User-Agent": "Mozilla/5.0 (X11; Linux x86_64)", "Accept": "application/json, text/plain, */*", "Accept-Encoding": "gzip, deflate, br, zstd",
		"Accept-Language": "de,en;q=0.5", "Origin": "http://grafana.example", "X-Forwarded-For": "192.0.2.1", "X-Grafana-Org-Id": "1",
	}
)

const (
	form        = "application/x-www-form-urlencoded"
	formCharset = "application/x-www-form-urlencoded; charset=UTF-8"
)

// grafanaCalls are requests as Grafana writes them, byte for byte, and what it must be able to take
// from the answer. Where two forms of one are listed, versions or settings differ.
var grafanaCalls = []struct {
	name   string
	from   sender
	method string
	path   string // with parameters
	typ    string // of the body
	body   string
	check  func(t *testing.T, a *grafanaAnswer)
}{
	// "Save & test" asks for a sum, and then what kind of server this is.
	{"health", plugin, "POST", "/api/v1/query", form, "query=1%2B1&time=4", scalar(4, "2")},
	{"health with a time-out", plugin, "POST", "/api/v1/query", form, "query=1%2B1&time=4&timeout=60s", scalar(4, "2")},
	{"health by GET", plugin, "GET", "/api/v1/query?query=1%2B1&time=4", "", "", scalar(4, "2")},
	{"kind of server", plugin, "GET", "/api/v1/status/buildinfo", "", "", plainPrometheus},

	// Panels.
	{"instant", plugin, "POST", "/api/v1/query", form, "query=http_requests_total&time=1700003600.123", vector(3, 1700003600.123)},
	{"instant, nothing there", plugin, "POST", "/api/v1/query", form, "query=no_such_metric&time=1700003600", vector(0, 0)},
	{"instant, a range of samples", plugin, "POST", "/api/v1/query", form, "query=http_requests_total%5B5m%5D&time=1700003600", matrix(3, 20)},
	{"instant, a string", plugin, "POST", "/api/v1/query", form, "query=%22x%22&time=4", stringValue(4, "x")},
	{"instant of all kinds of numbers", plugin, "POST", "/api/v1/query", form, "query=temperature%5B1m%5D&time=1700000060", values("NaN", "+Inf", "-Inf", "20.5")},
	{
		"range", plugin, "POST", "/api/v1/query_range", form,
		"end=1700003600&query=sum+by+%28instance%29+%28rate%28http_requests_total%7Bjob%3D%22api%22%7D%5B1m0s%5D%29%29&start=1700000040&step=15&timeout=60s", matrix(2, 238),
	},
	{
		"range by GET", plugin, "GET",
		"/api/v1/query_range?end=1700003600&query=sum+by+%28instance%29+%28rate%28http_requests_total%7Bjob%3D%22api%22%7D%5B1m0s%5D%29%29&start=1700000040&step=15", "", "", matrix(2, 238),
	},
	{"range with parts of seconds", plugin, "POST", "/api/v1/query_range", form, "end=1700000010.5&query=temperature&start=1700000000.5&step=0.5", matrix(1, 21)},
	{"range, nothing there", plugin, "POST", "/api/v1/query_range", form, "end=1700003600&query=no_such_metric&start=1700000000&step=15", matrix(0, 0)},
	{
		"heat map", plugin, "POST", "/api/v1/query_range", form,
		"end=1700003600&query=sum+by%28le%29+%28rate%28latency_seconds_bucket%5B1m0s%5D%29%29&start=1700000100&step=60", matrix(3, 59),
	},
	{"a name in quotes", plugin, "POST", "/api/v1/query", form, "query=%7B%22mysystem.prod.west.cpu.load_total%22%2C+%22%E8%8A%B1%E7%81%AB%22%3D%22%E5%A4%8F%22%7D&time=1700003600", vector(1, 1700003600)},
	{"a note beside the data", plugin, "POST", "/api/v1/query", form, "query=rate%28temperature%5B5m%5D%29&time=1700003600", noted("might not be a counter")},
	{
		"parameters that a data source adds", plugin, "POST", "/api/v1/query?max_source_resolution=5m&partial_response=true&dedup=true", form,
		"query=http_requests_total&time=1700003600", vector(3, 1700003600),
	},

	// Exemplars: the probe gives milliseconds where seconds belong.
	{"are there exemplars", plugin, "POST", "/api/v1/query_exemplars", form, "query=test&start=1699998200000&end=1700000000000", list()},
	{"are there exemplars, by GET", plugin, "GET", "/api/v1/query_exemplars?query=test&start=1699998200000&end=1700000000000", "", "", list()},
	{"exemplars", plugin, "POST", "/api/v1/query_exemplars", form, "end=1700003600&query=rate%28http_requests_total%5B1m0s%5D%29&start=1700000000", list()},

	// Editors look names and values up. The times are whole minutes, so that browsers can keep
	// answers.
	{
		"names of metrics", plugin, "GET", "/api/v1/label/__name__/values?limit=40000&start=1699999980&end=1700003640", "", "",
		list("http_requests_total", "latency_seconds_bucket", "mysystem.prod.west.cpu.load_total", "temperature"),
	},
	{
		"names of labels", plugin, "POST", "/api/v1/labels", form, "limit=40000&start=1699999980&end=1700003640",
		list("1st.ā", "__name__", "code", "instance", "job", "le", "my lovely_http.status:sum", "room", "花火"),
	},
	{
		"names of labels, by GET", plugin, "GET", "/api/v1/labels?limit=40000&start=1699999980&end=1700003640", "", "",
		list("1st.ā", "__name__", "code", "instance", "job", "le", "my lovely_http.status:sum", "room", "花火"),
	},
	{
		"names of labels of a metric", plugin, "POST", "/api/v1/labels", form, "limit=40000&start=1699999980&end=1700003640&match%5B%5D=%7B__name__%3D%22temperature%22%7D",
		list("__name__", "room"),
	},
	{
		"names of labels of a query's metrics", browser, "POST", "/api/v1/labels", formCharset, "start=1699999980&end=1700003640&match%5B%5D=temperature&match%5B%5D=latency_seconds_bucket",
		list("__name__", "job", "le", "room"),
	},
	{
		"names of labels, in the body and in the URL", browser, "POST", "/api/v1/labels?start=1699999980&end=1700003640&match%5B%5D=temperature", formCharset, "",
		list("__name__", "room"),
	},
	{
		"values of a label", plugin, "GET", "/api/v1/label/instance/values?limit=40000&start=1699999980&end=1700003640&match%5B%5D=%7B__name__%3D%22http_requests_total%22%2Ccode%3D%22200%22%7D", "", "",
		list("a:80", "b:80"),
	},
	{
		"values of a label, spaces as %20", browser, "GET", "/api/v1/label/instance/values?match%5B%5D=http_requests_total%7Bcode%3D~%225..%22%2C%20job!%3D%22%22%7D&start=1700000000&end=1700003600", "", "",
		list("a:80"),
	},
	{"values of a label that is nowhere", plugin, "GET", "/api/v1/label/nowhere/values?limit=40000&start=1699999980&end=1700003640", "", "", list()},
	{"values before there is anything", plugin, "GET", "/api/v1/label/job/values?limit=40000&start=1600000000&end=1600003600", "", "", list()},
	{"a limit", plugin, "GET", "/api/v1/label/__name__/values?limit=2&start=1699999980&end=1700003640", "", "", list("http_requests_total", "latency_seconds_bucket")},
	{"values of a label with a dot, a space and a low line", plugin, "GET", "/api/v1/label/U__my_20_lovely__http_2e_status:sum/values?limit=40000&start=1699999980&end=1700003640", "", "", list("ok")},
	{"values of a label in another script", plugin, "GET", "/api/v1/label/U___82b1__706b_/values?limit=40000&start=1699999980&end=1700003640", "", "", list("夏")},
	{"values of a label with a digit in front and a code with a zero", plugin, "GET", "/api/v1/label/U___31_st_2e__0101_/values?limit=40000&start=1699999980&end=1700003640", "", "", list("v/1")},
	{"values of a label that seems escaped", plugin, "GET", "/api/v1/label/U__job/values?limit=40000&start=1699999980&end=1700003640", "", "", list("api")},
	{"all series", plugin, "POST", "/api/v1/series", form, "start=1700000000&end=1700003600&match%5B%5D=%7B__name__!%3D%22%22%7D&limit=40000", labelSets(8)},
	{"all series, by GET", plugin, "GET", "/api/v1/series?start=1700000000&end=1700003600&match%5B%5D=%7B__name__!%3D%22%22%7D&limit=40000", "", "", labelSets(8)},
	{"series that have a label", plugin, "POST", "/api/v1/series", form, "start=1700000000&end=1700003600&match%5B%5D=%7B%22%E8%8A%B1%E7%81%AB%22!%3D%22%22%7D&limit=40000", labelSets(1)},
	{"series of a variable", browser, "POST", "/api/v1/series", formCharset, "match%5B%5D=http_requests_total&start=1700000000&end=1700003600", labelSets(3)},
	{"a query of a variable", browser, "POST", "/api/v1/query", formCharset, "query=count%20by%20(job)%20(http_requests_total)&time=1700003600", vector(1, 1700003600)},

	// What there is nothing of has its shape all the same.
	{"metadata", plugin, "GET", "/api/v1/metadata?limit=40000", "", "", object(`{}`)},
	{"metadata without a limit", browser, "GET", "/api/v1/metadata", "", "", object(`{}`)},
	{"rules", plugin, "GET", "/api/v1/rules", "", "", object(`{"groups":[]}`)},
	{"alerts", plugin, "GET", "/api/v1/alerts", "", "", object(`{"alerts":[]}`)},

	// Errors are shown as they come. After 400 and 405 of a POST the same is asked by GET.
	{"a wrong expression", plugin, "POST", "/api/v1/query_range", form, "end=1700003600&query=sum%28&start=1700000000&step=15&timeout=60s", failure(400, "bad_data", "1:5: parse error: unclosed left parenthesis")},
	{"a wrong expression, by GET", plugin, "GET", "/api/v1/query_range?end=1700003600&query=sum%28&start=1700000000&step=15", "", "", failure(400, "bad_data", "1:5: parse error: unclosed left parenthesis")},
	{"a join that is none", plugin, "POST", "/api/v1/query", form, "query=http_requests_total+%2B+on%28job%29+http_requests_total&time=1700003600", failure(422, "execution", "many-to-many")},
	{"too many points", plugin, "POST", "/api/v1/query_range", form, "end=1700036000&query=up&start=1700000000&step=1", failure(400, "bad_data", "11,000 points")},
	{"the empty selector", plugin, "POST", "/api/v1/series", form, "start=1700000000&end=1700003600&match%5B%5D=%7B%7D&limit=40000", failure(400, "bad_data", "at least one")},
	{"values by POST", plugin, "POST", "/api/v1/label/job/values", form, "start=1699999980&end=1700003640", status(405)},
	{"metadata by POST", plugin, "POST", "/api/v1/metadata", form, "", status(405)},
	{"suggestions, which only Mimir has", plugin, "POST", "/suggestions", "application/json", `{"labelName":"job","limit":1000,"start":"1699999980","end":"1700003640"}`, status(404)},
}

func TestGrafana_EachOfItsCallsGetsWhatItNeeds(t *testing.T) {
	url := newGrafanaSource(t)
	packed := map[string]int{}
	for _, c := range grafanaCalls {
		t.Run(c.name, func(t *testing.T) {
			req, err := http.NewRequest(c.method, url+c.path, strings.NewReader(c.body))
			require.NoError(t, err)
			for name, value := range c.from {
				req.Header.Set(name, value)
			}
			if c.typ != "" {
				req.Header.Set("Content-Type", c.typ)
			}
			a := sendGrafana(t, req)
			packed[a.packing]++
			c.check(t, a)
		})
	}
	require.NotZero(t, packed["gzip"], packed)
}
