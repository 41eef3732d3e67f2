package scrape

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/common/config"
	promhistogram "github.com/prometheus/prometheus/model/histogram"
	promlabels "github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/prom"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// page is a target whose answers a test chooses.
type page struct {
	status int
	kind   string
	text   string
	accept string

	authorization string
	served        atomic.Int64
}

func (p *page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.served.Add(1)
	p.accept, p.authorization = r.Header.Get("Accept"), r.Header.Get("Authorization")
	w.Header().Set("Content-Type", p.kind)
	if p.status != 0 {
		w.WriteHeader(p.status)
	}
	_, _ = w.Write([]byte(p.text))
}

// world is a database, and a target that is read when a test says so.
type world struct {
	*testing.T
	db     *tsdb.DB
	page   *page
	target *target
	now    time.Time
}

func newWorld(t *testing.T, change func(*Job)) *world {
	w := &world{T: t, page: &page{kind: "text/plain; version=0.0.4"}, now: time.UnixMilli(1_700_000_000_000)}
	var err error
	w.db, err = tsdb.Open("data", &tsdb.Options{FS: tsdbtest.NewMemFS(), Clock: tsdbtest.NewClock(w.now)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.db.Close()) })
	server := httptest.NewServer(w.page)
	t.Cleanup(server.Close)
	c := &Config{Jobs: []Job{{Name: "j", Static: []StaticTargets{{Targets: []string{strings.TrimPrefix(server.URL, "http://")}, Labels: map[string]string{"zone": "z"}}}}}}
	if change != nil {
		change(&c.Jobs[0])
	}
	require.NoError(t, c.Settle())
	r, err := New(c, prom.NewStorage(w.db), Options{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	require.Len(t, r.targets, 1)
	w.target = r.targets[0]
	w.target.now = func() time.Time { return w.now }
	return w
}

// scrape reads the target a second later.
func (w *world) scrape(text string) {
	w.now = w.now.Add(time.Second)
	w.page.text = text
	w.target.scrape(context.Background(), w.now)
}

// stored are the values of a metric by its labels but for those of the target, as text; a stale marker
// is "end".
func (w *world) stored(metric string) map[string]string {
	w.Helper()
	q, err := w.db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(w, err)
	defer func() { require.NoError(w, q.Close()) }()
	all := map[string]string{}
	for s, err := range q.Select(context.Background(), nil, labels.Equal(labels.MetricName, metric)).All() {
		require.NoError(w, err)
		var b labels.Builder
		b.Reset(s.Labels())
		require.Equal(w, "j", b.Get("job"))
		require.Equal(w, "z", b.Get("zone"))
		b.Del("job", "zone", "instance", labels.MetricName)
		var values []string
		for _, v := range s.Samples() {
			text := fmt.Sprint(v)
			if tsdb.IsStale(v) {
				text = "end"
			}
			values = append(values, text)
		}
		require.NoError(w, s.Err())
		all[b.Labels().String()] = strings.Join(values, " ")
	}
	return all
}

func TestScrape_StoresWhatATargetSays(t *testing.T) {
	w := newWorld(t, nil)
	w.scrape("# HELP a_total Help.\n# TYPE a_total counter\na_total{job=\"own\",x=\"1\"} 1\na_total{x=\"2\"} 5\nb 3\n")
	w.scrape("# HELP a_total Help.\n# TYPE a_total counter\na_total{job=\"own\",x=\"1\"} 2\nb 3\nb 4\n")
	w.scrape("b 3\nb{\n") // broken: nothing of it is stored
	w.scrape("b 5\n")
	require.Equal(t, map[string]string{`{exported_job="own", x="1"}`: "1 2 end", `{x="2"}`: "5 end"}, w.stored("a_total"))
	require.Equal(t, map[string]string{`{}`: "3 3 end 5"}, w.stored("b"))
	require.Equal(t, map[string]string{`{}`: "1 1 0 1"}, w.stored("up"))
	require.Equal(t, map[string]string{`{}`: "3 3 1 1"}, w.stored("scrape_samples_scraped"))
	require.Equal(t, map[string]string{`{}`: "3 0 0 0"}, w.stored("scrape_series_added"))
	require.Len(t, w.stored("scrape_duration_seconds"), 1)
	q, err := w.db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	defer q.Close()
	about, err := q.Metadata(context.Background(), labels.Equal(labels.MetricName, "a_total"))
	require.NoError(t, err)
	require.Len(t, about, 2)
	require.Equal(t, tsdb.Metadata{Type: tsdb.MetricCounter, Help: "Help."}, about[0].Metadata)
}

func TestScrape_OpenMetricsWithTimesAndExemplars(t *testing.T) {
	w := newWorld(t, nil)
	w.page.kind = "application/openmetrics-text; version=1.0.0; charset=utf-8"
	w.scrape("# TYPE a counter\na_total 1 1700000000.5 # {trace_id=\"x\"} 0.5\n# EOF\n")
	w.scrape("# EOF\n")
	require.Equal(t, map[string]string{`{}`: "1"}, w.stored("a_total"), "nobody knows when a series with times of its own ended")
	require.EqualValues(t, 1, w.db.Stats().Exemplars)
	require.Contains(t, w.page.accept, "openmetrics-text")
	require.NotContains(t, w.page.accept, "protobuf")
}

func TestScrape_Limits(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Job)
		page   *page
		text   string

		scraped string // samples that were found
	}{
		"samples": {func(j *Job) { j.SampleLimit = 2 }, &page{}, "a 1\nb 1\nc 1\nd 1\n", "4"},
		"bytes":   {func(j *Job) { j.BodySizeLimit = 10 }, &page{}, "a_long_name 1\n", "0"},
		"status":  {nil, &page{status: http.StatusInternalServerError}, "a 1\n", "0"},
		"type":    {nil, &page{kind: "application/openmetrics-text"}, "a 1\n", "1"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, test.change)
			w.page.status = test.page.status
			if test.page.kind != "" {
				w.page.kind = test.page.kind
			}
			w.scrape(test.text)
			require.Equal(t, map[string]string{`{}`: "0"}, w.stored("up"))
			require.Equal(t, map[string]string{`{}`: test.scraped}, w.stored("scrape_samples_scraped"))
			require.Empty(t, w.stored("a"))
			require.Empty(t, w.stored("a_long_name"))
		})
	}
}

// Labels of the target, or those of the answer, as the job says; a time that is not honoured is that of
// the scrape.
func TestScrape_Honor(t *testing.T) {
	no := false
	w := newWorld(t, func(j *Job) { j.HonorTimestamps = &no })
	w.scrape("a 1 1699999999000\n")
	w.scrape("")
	require.Equal(t, map[string]string{`{}`: "1 end"}, w.stored("a"))

	w = newWorld(t, func(j *Job) { j.HonorLabels = true })
	w.scrape("a{zone=\"z\",job=\"j\",x=\"1\"} 1\n")
	require.Equal(t, map[string]string{`{x="1"}`: "1"}, w.stored("a"))
	w.scrape("b{instance=\"\"} 1\n")
	q, err := w.db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	defer q.Close()
	for s, err := range q.Select(context.Background(), nil, labels.Equal(labels.MetricName, "b")).All() {
		require.NoError(t, err)
		require.Equal(t, `{__name__="b", job="j", zone="z"}`, s.Labels().String(), "an empty label says that there should be none")
	}
}

// A series may have several samples with times of their own, but none far ahead: it would take no
// others until then.
func TestScrape_Times(t *testing.T) {
	w := newWorld(t, nil)
	w.scrape("a 1 1700000000100\na 2 1700000000500\nb 1 1700003000000\n")
	w.scrape("b 2\n")
	require.Equal(t, map[string]string{`{}`: "1 2"}, w.stored("a"))
	require.Equal(t, map[string]string{`{}`: "2"}, w.stored("b"))
}

func TestScrape_TellsAnExemplarWithoutATimeOnce(t *testing.T) {
	w := newWorld(t, nil)
	w.page.kind = "application/openmetrics-text; version=1.0.0; charset=utf-8"
	for range 3 {
		w.scrape("# TYPE a counter\na_total 1 # {trace_id=\"x\"} 0.5\n# EOF\n")
	}
	require.EqualValues(t, 1, w.db.Stats().Exemplars)
	w.scrape("# TYPE a counter\na_total 1 # {trace_id=\"y\"} 0.5\n# EOF\n")
	require.EqualValues(t, 2, w.db.Stats().Exemplars)
}

// A label of the target moves one of the answer aside, and never over another.
func TestScrape_LabelsMovedAsideStayApart(t *testing.T) {
	w := newWorld(t, func(j *Job) { j.Static[0].Labels["exported_zone"] = "e" })
	w.scrape("a{zone=\"q\",exported_zone=\"r\"} 1\n")
	require.Len(t, w.stored("a"), 1)
	for text := range w.stored("a") {
		require.Contains(t, text, `="q"`)
		require.Contains(t, text, `="r"`)
	}
}

// What is in no answer that is stored is new again: nothing is remembered of an append that failed.
func TestScrape_RemembersNothingOfAnAppendThatFailed(t *testing.T) {
	w := newWorld(t, nil)
	to := w.target.to
	w.target.to = broken{}
	const text = "# HELP a Help.\n# TYPE a gauge\na 1\n"
	w.scrape(text)
	w.target.to = to
	w.scrape(text)
	require.Equal(t, map[string]string{`{}`: "1"}, w.stored("scrape_series_added"))
	q, err := w.db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	defer q.Close()
	about, err := q.Metadata(context.Background(), labels.Equal(labels.MetricName, "a"))
	require.NoError(t, err)
	require.Len(t, about, 1)
}

// broken takes samples and commits none.
type broken struct{}

func (broken) AppenderV2(context.Context) storage.AppenderV2 { return brokenAppender{} }

type brokenAppender struct{ storage.AppenderV2 }

func (brokenAppender) Append(
	storage.SeriesRef, promlabels.Labels, int64, int64, float64, *promhistogram.Histogram, *promhistogram.FloatHistogram, storage.AppendV2Options,
) (storage.SeriesRef, error) {
	return 1, nil
}

func (brokenAppender) Commit() error   { return errors.New("the disk is full") }
func (brokenAppender) Rollback() error { return nil }

// Start timestamps are stored where it is asked for. Then they are no samples of their own.
func TestScrape_StoresStartTimestamps(t *testing.T) {
	const text = "# TYPE a counter\na_total 1\na_created 1600000000.5\n# EOF\n"
	for _, starts := range []bool{false, true} {
		w := newWorld(t, nil)
		w.page.kind = "application/openmetrics-text; version=1.0.0; charset=utf-8"
		w.target.starts = starts
		w.scrape(text)
		require.Equal(t, map[string]string{`{}`: "1"}, w.stored("a_total"))
		require.Len(t, w.stored("a_created"), map[bool]int{true: 0, false: 1}[starts])
		q, err := w.db.Querier(math.MinInt64, math.MaxInt64)
		require.NoError(t, err)
		for s, err := range q.Select(context.Background(), nil, labels.Equal(labels.MetricName, "a_total")).All() {
			require.NoError(t, err)
			it := s.Iterator(nil)
			require.Equal(t, chunkenc.ValFloat, it.Next())
			require.Equal(t, map[bool]int64{true: 1_600_000_000_500}[starts], it.AtST())
		}
		require.NoError(t, q.Close())
	}
}

func TestScrape_TellsHowTargetsAre(t *testing.T) {
	w := newWorld(t, func(j *Job) { j.Params = map[string][]string{"module": {"x"}} })
	tell := func() prom.Target { return w.target.tell() }
	require.Equal(t, "unknown", tell().Health)
	w.scrape("a 1\n")
	up := tell()
	require.Equal(t, "up", up.Health)
	require.Equal(t, w.now, up.LastScrape)
	require.Positive(t, up.Seconds)
	require.Equal(t, [4]string{"j", "1m", "10s", ""}, [4]string{up.Pool, up.Interval, up.Timeout, up.LastError})
	require.Equal(t, "z", up.Labels["zone"])
	require.Equal(t, map[string]string{
		"__address__": up.Labels["instance"], "__metrics_path__": "/metrics", "__scheme__": "http", "__scrape_interval__": "1m", "__scrape_timeout__": "10s",
		"__param_module": "x", "job": "j", "zone": "z",
	}, up.Discovered)
	w.page.status = http.StatusTeapot
	w.scrape("")
	require.Equal(t, "down", tell().Health)
	require.Contains(t, tell().LastError, "418")
}

// Credentials are sent as Prometheus sends them, and what contradicts itself is refused.
func TestScrape_Credentials(t *testing.T) {
	w := newWorld(t, func(j *Job) { j.Client.Authorization = &config.Authorization{Credentials: "tok"} })
	w.scrape("a 1\n")
	require.Equal(t, "Bearer tok", w.page.authorization)
	for name, change := range map[string]func(*Job){
		"two passwords": func(j *Job) { j.Client.BasicAuth = &config.BasicAuth{Username: "u", Password: "p", PasswordFile: "f"} },
		"two ways": func(j *Job) {
			j.Client.BasicAuth = &config.BasicAuth{Username: "u", Password: "p"}
			j.Client.Authorization = &config.Authorization{Credentials: "tok"}
		},
		"__label": func(j *Job) {
			j.Static = []StaticTargets{{Targets: []string{"h:1"}, Labels: map[string]string{"__address__": "x"}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := &Config{Jobs: []Job{{Name: "j", Static: []StaticTargets{{Targets: []string{"h:1"}}}}}}
			change(&c.Jobs[0])
			require.Error(t, c.Settle())
		})
	}
	c := &Config{Jobs: []Job{{Name: "j", Client: config.HTTPClientConfig{BasicAuth: &config.BasicAuth{PasswordFile: "secret"}}}}}
	c.SetDirectory("etc")
	require.Equal(t, "etc/secret", c.Jobs[0].Client.BasicAuth.PasswordFile)
}

// A target that fails has ended series, each once; they are no new ones when it answers again. What
// is said of a family is said of its series, and of no other whose name begins so.
func TestScrape_OfATargetThatFails(t *testing.T) {
	w := newWorld(t, nil)
	const text = "# HELP go Help.\n# TYPE go counter\ngo 1\ngo_total 1\ngofer 2\n"
	w.scrape(text)
	w.page.status = http.StatusInternalServerError
	w.scrape(text)
	w.scrape(text)
	w.page.status = 0
	w.scrape(text)
	require.Equal(t, map[string]string{`{}`: "2 end 2"}, w.stored("gofer"))
	require.Equal(t, map[string]string{`{}`: "3 0 0 0"}, w.stored("scrape_series_added"))
	require.Equal(t, map[string]string{`{}`: "3 0 0 3"}, w.stored("scrape_samples_scraped"))
	q, err := w.db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	defer q.Close()
	about, err := q.Metadata(context.Background())
	require.NoError(t, err)
	var names []string
	for _, m := range about {
		names = append(names, m.Labels.Get(labels.MetricName))
	}
	require.ElementsMatch(t, []string{"go", "go_total"}, names)
}

// A target that is listed twice is read once.
func TestNew_ATargetListedTwiceIsOne(t *testing.T) {
	c := &Config{Jobs: []Job{{Name: "j", Static: []StaticTargets{{Targets: []string{"h:1", "h:1", "h:2"}, Labels: map[string]string{"job": ""}}}}}}
	require.NoError(t, c.Settle())
	r, err := New(c, broken{}, Options{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	require.Len(t, r.targets, 2)
	require.Equal(t, "j", r.targets[0].labels.Get("job"), "an empty label removes none")
}

// Targets are read at times of their own, and all reading has ended when Run returns.
func TestRunner_EndsWithItsContext(t *testing.T) {
	w := newWorld(t, func(j *Job) { j.Interval, j.Timeout = 5_000_000, 5_000_000 }) // 5 ms
	r := &Runner{targets: []*target{w.target}}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.Run(ctx)
	}()
	require.Eventually(t, func() bool { return w.page.served.Load() > 2 }, time.Minute, time.Millisecond)
	cancel()
	<-ended
	at := time.UnixMilli(1_700_000_000_123)
	for range 10 {
		wait := w.target.offset(at, time.Minute)
		require.Positive(t, wait)
		require.LessOrEqual(t, wait, time.Minute)
		require.Equal(t, time.Minute, w.target.offset(at.Add(wait), time.Minute))
		at = at.Add(wait + 7*time.Second)
	}
}
