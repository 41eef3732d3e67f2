package prom_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/timestamp"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	reference "github.com/prometheus/prometheus/tsdb"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/prom"
)

// The same data in our database and in the reference's, the same engine over both: answers are
// equal.

const (
	dayStart = int64(1_700_000_000_000)
	scrape   = 15_000
	scrapes  = 4 * 60 * 4 // four hours
)

// row is one sample.
type row struct {
	ls labels.Labels
	t  int64
	v  float64
}

// generate draws scrapes of counters, gauges and classic histograms with resets, gaps and stale
// markers.
func generate(seed uint64, take func([]row)) {
	r := rand.New(rand.NewPCG(seed, 1))
	type series struct {
		ls      labels.Labels
		v       float64
		counter bool
	}
	var all []*series
	for i := range 12 {
		job, inst := fmt.Sprint("job", i%3), fmt.Sprintf("host%d:9100", i%4)
		all = append(all,
			&series{labels.FromStrings("__name__", "requests_total", "code", fmt.Sprint(200+100*(i%3)), "job", job, "instance", inst, "n", fmt.Sprint(i)), 0, true},
			&series{labels.FromStrings("__name__", "temperature", "job", job, "instance", inst, "n", fmt.Sprint(i)), 20, false})
		for _, le := range []string{"0.1", "1", "+Inf"} {
			all = append(all, &series{labels.FromStrings("__name__", "latency_bucket", "le", le, "job", job, "n", fmt.Sprint(i)), 0, true})
		}
	}
	for s := range scrapes {
		var rows []row
		at := dayStart + int64(s)*scrape + int64(r.IntN(50))
		for _, se := range all {
			switch x := r.Float64(); {
			case x < 0.01:
				continue // a scrape that failed
			case x < 0.012:
				rows = append(rows, row{se.ls, at, math.Float64frombits(value.StaleNaN)})
				continue
			case x < 0.013:
				se.v = 0 // it began anew
			}
			if se.counter {
				se.v += float64(r.IntN(20))
			} else {
				se.v += r.NormFloat64()
			}
			rows = append(rows, row{se.ls, at, se.v})
		}
		take(rows)
	}
}

// pairOfStorages are ours, a part of it in blocks, and the reference's.
func pairOfStorages(t testing.TB, seed uint64) (ours, theirs storage.Storage) {
	db, err := tsdb.Open(t.TempDir(), &tsdb.Options{Blocks: tsdb.BlockOptions{Manual: true}})
	require.NoError(t, err)
	opts := reference.DefaultOptions()
	opts.RetentionDuration = 0
	other, err := reference.Open(t.TempDir(), nil, nil, opts, nil)
	require.NoError(t, err)
	other.DisableCompactions()
	mine := prom.NewStorage(db)
	t.Cleanup(func() {
		require.NoError(t, mine.Close())
		require.NoError(t, other.Close())
	})
	n := 0
	generate(seed, func(rows []row) {
		for _, to := range []storage.Storage{mine, other} {
			app := to.Appender(context.Background())
			for _, r := range rows {
				_, err := app.Append(0, r.ls, r.t, r.v)
				require.NoError(t, err)
			}
			require.NoError(t, app.Commit())
		}
		if n++; n == scrapes/2 || n == scrapes*3/4 {
			require.NoError(t, db.Flush(context.Background()))
		}
	})
	return mine, other
}

// inOrder has series selected in the order of their labels, as ours always are: sums depend on it
// in their last bits.
type inOrder struct{ storage.Storage }

type orderedQuerier struct{ storage.Querier }

func (s inOrder) Querier(mint, maxt int64) (storage.Querier, error) {
	q, err := s.Storage.Querier(mint, maxt)
	return orderedQuerier{q}, err
}

func (q orderedQuerier) Select(ctx context.Context, _ bool, hints *storage.SelectHints, ms ...*labels.Matcher) storage.SeriesSet {
	return q.Querier.Select(ctx, true, hints, ms...)
}

// drawQuery draws an expression of some depth.
func drawQuery(r *rand.Rand) string {
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	selector := pick("requests_total", "temperature", "latency_bucket", `{job="job1"}`, `{__name__=~"req.*|temp.*"}`) +
		pick("", "", "{n=~\"[0-5]\"}", "{job!=\"job0\"}", "{instance!~\"host[12].*\"}", "{nothing=\"\"}")
	if selector[0] == '{' {
		selector = pick(`{job="job1"}`, `{__name__=~"req.*|temp.*", n=~"1|2|3"}`)
	}
	mods := pick("", "", "", " offset 10m", " offset -5m", " @ 1700003600", " @ end()")
	vector := selector + mods
	if r.IntN(3) > 0 {
		window := pick("1m", "5m", "17m", "1h")
		vector = pick("rate", "increase", "irate", "delta", "avg_over_time", "max_over_time", "min_over_time", "sum_over_time", "count_over_time", "last_over_time",
			"stddev_over_time", "changes", "resets", "deriv", "present_over_time", "idelta") + "(" + selector + "[" + window + "]" + mods + ")"
	}
	switch r.IntN(8) {
	case 0:
		return vector
	case 1:
		return pick("sum", "avg", "max", "count", "stddev", "group") + " by (" + pick("job", "job, instance", "code", "n") + ") (" + vector + ")"
	case 2:
		return pick("sum", "min", "max") + " without (" + pick("n", "instance", "le") + ") (" + vector + ")"
	case 3:
		return pick("topk", "bottomk") + "(3, " + vector + ")"
	case 4:
		return "histogram_quantile(0.9, sum by (le, job) (rate(latency_bucket[5m])))"
	case 5:
		return "sum by (job) (" + vector + ") / on (job) group_left count by (job) (requests_total)"
	case 6:
		return pick("max_over_time", "avg_over_time") + "(sum by (job) (" + vector + ")[20m:" + pick("1m", "37s") + "])"
	default:
		return pick("abs", "ceil", "timestamp", "absent", "sort", "-") + "(" + vector + ")"
	}
}

// sortedLines returns a result in an order of its own: that of a vector is not defined.
func sortedLines(res *promql.Result) []string {
	lines := strings.Split(res.String(), "\n")
	slices.Sort(lines)
	return lines
}

func TestQueries_AreAnsweredAsByTheReference(t *testing.T) {
	ours, theirs := pairOfStorages(t, 1)
	engine := prom.NewEngine(nil)
	r := rand.New(rand.NewPCG(7, 7))
	answered := 0
	for range 400 {
		text := drawQuery(r)
		at := dayStart + r.Int64N(scrapes*scrape)
		run := func(s storage.Storage) *promql.Result {
			var q promql.Query
			var err error
			if r := text; len(r)%2 == 0 {
				q, err = engine.NewInstantQuery(context.Background(), s, nil, text, timestamp.Time(at))
			} else {
				q, err = engine.NewRangeQuery(context.Background(), s, nil, text, timestamp.Time(at), timestamp.Time(at).Add(time.Hour), 73*time.Second)
			}
			require.NoError(t, err, text)
			return q.Exec(context.Background())
		}
		want, got := run(inOrder{theirs}), run(ours)
		if want.Err != nil {
			require.Error(t, got.Err, text)
			require.Equal(t, want.Err.Error(), got.Err.Error(), text)
			continue
		}
		require.NoError(t, got.Err, text)
		require.Equal(t, sortedLines(want), sortedLines(got), text)
		require.Equal(t, len(want.Warnings), len(got.Warnings), text)
		if len(got.String()) > 0 {
			answered++
		}
	}
	require.Greater(t, answered, 250, "most queries have an answer")
}

// drawHistogramQuery draws an expression over series of native histograms.
func drawHistogramQuery(r *rand.Rand) string {
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	selector := pick("ints", "counts", "gauges", "custom", "bounds", "all_kinds", "started", `{__name__=~"ints|counts|gauges"}`)
	vector := selector + pick("", "", " offset 10m", " @ 1700003600")
	if r.IntN(3) > 0 {
		vector = pick("rate", "increase", "delta", "irate", "idelta", "sum_over_time", "avg_over_time", "last_over_time", "first_over_time",
			"count_over_time", "resets", "changes", "present_over_time") + "(" + selector + "[" + pick("1m", "5m", "40m") + "])"
	}
	switch r.IntN(5) {
	case 0:
		return vector
	case 1:
		return pick("histogram_quantile(0.9, ", "histogram_fraction(0, 2, ", "histogram_count(", "histogram_sum(", "histogram_avg(", "histogram_stddev(") + vector + ")"
	case 2:
		return pick("sum", "avg", "count", "group") + "(" + vector + ")"
	case 3:
		return vector + pick(" * 2", " / 3", " == "+selector, " - "+selector)
	default:
		return pick("timestamp", "absent", "-", "sum by (job)") + "(" + vector + ")"
	}
}

// Native histograms, and series that have several kinds of samples, give the same answers, too.
func TestQueries_OverHistograms_AreAnsweredAsByTheReference(t *testing.T) {
	ours, all := mixedStorage(t)
	theirs := inOrder{openReference(t)}
	addParts(t, theirs, all, func() {})
	engine := prom.NewEngine(&prom.EngineOptions{Experimental: true})
	r := rand.New(rand.NewPCG(8, 8))
	answered := 0
	for range 400 {
		text := drawHistogramQuery(r)
		at := timestamp.Time(dayStart + r.Int64N(400*scrape))
		ranged := r.IntN(2) == 0
		run := func(s storage.Storage) *promql.Result {
			q, err := engine.NewInstantQuery(context.Background(), s, nil, text, at)
			if ranged {
				q, err = engine.NewRangeQuery(context.Background(), s, nil, text, at, at.Add(time.Hour), 73*time.Second)
			}
			if err != nil {
				return &promql.Result{Err: err}
			}
			return q.Exec(context.Background())
		}
		want, got := run(theirs), run(ours)
		require.Equal(t, fmt.Sprint(want.Err), fmt.Sprint(got.Err), text)
		if want.Err != nil {
			continue
		}
		require.Equal(t, sortedLines(want), sortedLines(got), "%s at %v, ranged: %v", text, at, ranged)
		require.Equal(t, notesOf(want), notesOf(got), text)
		if len(got.String()) > 0 {
			answered++
		}
	}
	require.Greater(t, answered, 250, "most queries have an answer")
}

// notesOf returns what an engine says beside a result.
func notesOf(res *promql.Result) []string {
	warnings, infos := res.Warnings.AsStrings("", 0, 0)
	notes := append(warnings, infos...)
	slices.Sort(notes)
	return notes
}
