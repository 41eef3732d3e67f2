package page_test

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/labels"
)

// measured is a database of histograms with what was counted last, by names of metrics; of
// latencies by their paths.
type measured struct {
	db   *tsdb.DB
	last map[string]*counted
}

// measuredSpan ends at the end of the data.
const measuredSpan = 6 * time.Hour

// latencySchema has four buckets for each doubling.
const latencySchema = 2

// offsetZero is how far the zero bucket of offsets reaches.
const offsetZero = 1.0 / 1024

var sizeBounds = []float64{100, 1000, 5000, 10000, 50000, 100000, 1e6}

// counted is a histogram that counts what is observed.
type counted struct {
	schema    int32
	zero      float64
	bounds    []float64 // of custom buckets
	counts    map[int32]int64
	negative  map[int32]int64
	zeroCount uint64
	sum       float64
}

func (c *counted) observe(v float64) {
	c.sum += v
	switch {
	case c.bounds != nil:
		i := 0
		for i < len(c.bounds) && v > c.bounds[i] {
			i++
		}
		c.counts[int32(i)]++
	case math.Abs(v) <= c.zero:
		c.zeroCount++
	case v > 0:
		c.counts[bucketIndex(v, c.schema)]++
	default:
		c.negative[bucketIndex(-v, c.schema)]++
	}
}

func bucketIndex(v float64, schema int32) int32 {
	return int32(math.Ceil(math.Log2(v) * math.Ldexp(1, int(schema))))
}

func (c *counted) histogram() *histogram.Histogram {
	h := &histogram.Histogram{Schema: c.schema, ZeroThreshold: c.zero, ZeroCount: c.zeroCount, Count: c.zeroCount, Sum: c.sum, CustomValues: c.bounds}
	h.PositiveSpans, h.PositiveBuckets = laidOut(c.counts, &h.Count)
	h.NegativeSpans, h.NegativeBuckets = laidOut(c.negative, &h.Count)
	return h
}

// laidOut writes counts as spans and differences, and adds them up.
func laidOut(counts map[int32]int64, total *uint64) (spans []histogram.Span, deltas []int64) {
	if len(counts) == 0 {
		return nil, nil
	}
	lowest, highest := int32(math.MaxInt32), int32(math.MinInt32)
	for i, n := range counts {
		lowest, highest = min(lowest, i), max(highest, i)
		*total += uint64(n)
	}
	before := int64(0)
	for i := lowest; i <= highest; i++ {
		deltas = append(deltas, counts[i]-before)
		before = counts[i]
	}
	return []histogram.Span{{Offset: lowest, Length: uint32(len(deltas))}}, deltas
}

// newMeasured opens a database of latencies of three paths, which grow slower in the middle of the
// time, of offsets on both sides of 0, and of sizes in buckets with given bounds.
func newMeasured(t *testing.T) measured {
	t.Helper()
	db, err := tsdb.Open(t.TempDir(), &tsdb.Options{Blocks: tsdb.BlockOptions{Manual: true}, WAL: tsdb.WALOptions{Sync: tsdb.SyncNever()}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	sources := measuredSources()
	for at := data.end.Add(-measuredSpan); !at.After(data.end); at = at.Add(scrapeStep) {
		app := db.Appender()
		for _, s := range sources {
			hours := (measuredSpan - data.end.Sub(at)).Hours()
			for range s.per {
				s.kind.observe(s.draw(hours))
			}
			_, err := app.AppendSample(0, s.ls, tsdb.Sample{T: at.UnixMilli(), H: s.kind.histogram()})
			require.NoError(t, err)
		}
		_, err = app.Append(0, labels.FromStrings("__name__", "up", "job", "web"), at.UnixMilli(), 1)
		require.NoError(t, err)
		_, err := app.Commit(context.Background())
		require.NoError(t, err)
	}
	m := measured{db: db, last: map[string]*counted{}}
	for _, s := range sources {
		m.last[s.name] = s.kind
	}
	return m
}

// source is a series of histograms: so many observations for each scrape.
type source struct {
	name string
	ls   labels.Labels
	kind *counted
	per  int
	draw func(hours float64) float64
}

func measuredSources() []source {
	r := rand.New(rand.NewPCG(3, 9))
	offset := &counted{schema: 1, zero: offsetZero, counts: map[int32]int64{}, negative: map[int32]int64{}}
	size := &counted{schema: histogram.CustomBuckets, bounds: sizeBounds, counts: map[int32]int64{}}
	return []source{
		latency(r, "/api/orders", 0.021, 60),
		latency(r, "/api/search", 0.074, 40),
		latency(r, "/login", 0.0052, 20),
		{"clock_offset_seconds", labels.FromStrings("__name__", "clock_offset_seconds", "job", "node"), offset, 30, func(hours float64) float64 {
			return (r.NormFloat64() + 0.8*math.Sin(hours*2)) * 0.03
		}},
		{"response_size_bytes", labels.FromStrings("__name__", "response_size_bytes", "job", "web"), size, 50, func(float64) float64 {
			return math.Exp(math.Log(9000) + r.NormFloat64()*1.8)
		}},
	}
}

// latency is that of a path: some requests ask another service, and all are slow in the middle.
func latency(r *rand.Rand, path string, typical float64, per int) source {
	ls := labels.FromStrings("__name__", "http_request_duration_seconds", "instance", "web-1:8080", "job", "web", "path", path)
	return source{path, ls, &counted{schema: latencySchema, counts: map[int32]int64{}}, per, func(hours float64) float64 {
		slow := 1 + 3*math.Exp(-math.Pow((hours-3.4)/0.45, 2))
		v := typical * slow * math.Exp(r.NormFloat64()*0.35)
		if r.IntN(100) < 12 {
			v *= 14 * (1 + 0.3*math.Sin(hours*3))
		}
		return v
	}}
}
