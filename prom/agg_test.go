package prom_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/agg"
	ourhistogram "github.com/seed347100a3/tsdb/histogram"
	tsdblabels "github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/prom"
)

// functions are those of package agg, as PromQL has them.
var functions = []struct {
	query string
	make  func(agg.Windows) (*agg.Aggregator, error)
}{
	{"count_over_time(%s)", aggregate(agg.Count)},
	{"sum_over_time(%s)", aggregate(agg.Sum)},
	{"avg_over_time(%s)", aggregate(agg.Avg)},
	{"min_over_time(%s)", aggregate(agg.Min)},
	{"max_over_time(%s)", aggregate(agg.Max)},
	{"first_over_time(%s)", aggregate(agg.First)},
	{"last_over_time(%s)", aggregate(agg.Last)},
	{"increase(%s)", aggregate(agg.Increase)},
	{"rate(%s)", aggregate(agg.Rate)},
	{"quantile_over_time(0.9, %s)", func(w agg.Windows) (*agg.Aggregator, error) { return agg.NewQuantile(0.9, w) }},
}

func aggregate(f agg.Func) func(agg.Windows) (*agg.Aggregator, error) {
	return func(w agg.Windows) (*agg.Aggregator, error) { return agg.New(f, w) }
}

// Package agg says what PromQL says: of counters with resets, gauges, gaps and stale markers.
func TestAgg_IsThatOfPromQL(t *testing.T) {
	db, err := tsdb.Open(t.TempDir(), &tsdb.Options{Blocks: tsdb.BlockOptions{Manual: true}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	const series = 12
	r := rand.New(rand.NewPCG(30, 5))
	values := [series]float64{}
	for at := dayStart; at < dayStart+600*scrape; at += scrape {
		app := db.Appender()
		for i := range series {
			switch x := r.IntN(40); {
			case x < 4:
				continue
			case x == 4 && i%3 > 0:
				values[i] = 0
			case i%4 == 3:
				values[i] = r.NormFloat64()
			default:
				values[i] += float64(r.IntN(100))
			}
			v := values[i]
			if r.IntN(50) == 0 {
				v = math.Float64frombits(ourhistogram.StaleNaN)
			}
			_, err := app.Append(0, tsdblabels.FromStrings("__name__", "m", "i", fmt.Sprint(i)), at+r.Int64N(900), v)
			require.NoError(t, err)
		}
		_, err := app.Commit(t.Context())
		require.NoError(t, err)
	}
	require.NoError(t, db.Flush(t.Context()))

	store := prom.NewStorage(db)
	engine := prom.NewEngine(&prom.EngineOptions{Experimental: true})
	for _, w := range []agg.Windows{
		{Start: dayStart, End: dayStart + 600*scrape, Step: 60_000, Range: 60_000},
		{Start: dayStart + 1234, End: dayStart + 650*scrape, Step: 30_000, Range: 300_000},
		{Start: dayStart - 60_000, End: dayStart + 100*scrape, Step: 120_000, Range: 40_000},
	} {
		for _, f := range functions {
			text := fmt.Sprintf(f.query, fmt.Sprintf("m[%dms]", w.Range))
			q, err := engine.NewRangeQuery(t.Context(), store, nil, text, time.UnixMilli(w.Start), time.UnixMilli(w.End), time.Duration(w.Step)*time.Millisecond)
			require.NoError(t, err)
			res := q.Exec(t.Context())
			require.NoError(t, res.Err)
			want := map[string][]promql.FPoint{}
			matrix, err := res.Matrix()
			require.NoError(t, err)
			for _, s := range matrix {
				want[s.Metric.Get("i")] = s.Floats
			}
			require.NotEmpty(t, want, text)
			requireAggregates(t, db, text, want, w, f.make)
			q.Close()
		}
	}
}

func requireAggregates(t *testing.T, db *tsdb.DB, text string, want map[string][]promql.FPoint, w agg.Windows, create func(agg.Windows) (*agg.Aggregator, error)) {
	t.Helper()
	a, err := create(w)
	require.NoError(t, err)
	q, err := db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	defer func() { require.NoError(t, q.Close()) }()
	for s, err := range q.Select(t.Context(), nil).All() {
		require.NoError(t, err)
		got, err := a.Points(nil, s.Iterator(nil))
		require.NoError(t, err)
		points := want[s.Labels().Get("i")]
		require.Len(t, got, len(points), "%s of %s", text, s.Labels())
		for i, p := range points {
			require.Equal(t, p.T, got[i].T)
			require.InDelta(t, p.F, got[i].V, 1e-9*max(1, math.Abs(p.F)), "%s of %s at %d", text, s.Labels(), p.T)
		}
	}
}
