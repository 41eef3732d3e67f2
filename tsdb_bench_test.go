package tsdb_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/labels"
)

// The benchmarks that README and docs/bench.md quote. Values are of the kinds that
// real series have, a quarter each: counters, decimal gauges, constants, noise.
// Sync is by segment, as the reference engine does it, unless the name says more.

// benchOptions do no sync but at rotation.
func benchOptions() *tsdb.Options {
	o := tsdb.DefaultOptions()
	o.WAL.Sync = tsdb.SyncRotate()
	o.Limits.MaxFuture = -1
	return o
}

func openBench(b *testing.B, dir string, opts *tsdb.Options) *tsdb.DB {
	b.Helper()
	db, err := tsdb.Open(dir, opts)
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, db.Close()) })
	return db
}

// benchLabels gives series i ten labels of about 200 bytes.
func benchLabels(i int) labels.Labels {
	return labels.FromStrings(
		"__name__", fmt.Sprintf("http_server_requests_duration_seconds_%d", i%100),
		"cluster", "eu-central-1-production", "namespace", fmt.Sprintf("team-%d", i%17),
		"job", "kubernetes-service-endpoints", "instance", fmt.Sprintf("10.%d.%d.17:9100", i/250%250, i%250),
		"pod", fmt.Sprintf("service-%d-7c9f8b6d5-%05d", i%50, i/50), "container", "app",
		"method", []string{"GET", "POST", "PUT"}[i%3], "status", []string{"200", "404", "500"}[i/3%3],
		"shard", fmt.Sprint(i),
	)
}

// benchValue is the k-th value of series i.
func benchValue(i, k int) float64 {
	switch i % 4 {
	case 0:
		return float64(k * (10 + i%7))
	case 1:
		return math.Round(200*math.Sin(float64(k)/20)+float64(i%50)) / 10
	case 2:
		return 1
	default:
		x := uint64(i+1)*0x9E3779B97F4A7C15 + uint64(k)*0xBF58476D1CE4E5B9
		return float64(x>>11) / (1 << 53)
	}
}

// hot is a database with series that were all appended to.
type hot struct {
	db   *tsdb.DB
	refs []tsdb.SeriesRef
	vs   []float64
	k    int // samples of each series so far
}

const benchStep = 15_000 // milliseconds between two samples of a series

func newHot(b *testing.B, db *tsdb.DB, series int) *hot {
	h := &hot{db: db, refs: make([]tsdb.SeriesRef, series), vs: make([]float64, series)}
	app := db.Appender()
	for i := range h.refs {
		ref, err := app.Append(0, benchLabels(i), 0, benchValue(i, 0))
		require.NoError(b, err)
		h.refs[i] = ref
	}
	_, err := app.Commit(context.Background())
	require.NoError(b, err)
	h.k = 1
	return h
}

// scrape appends one sample to every series, perCommit of them a commit.
func (h *hot) scrape(b *testing.B, perCommit int) {
	t := int64(h.k) * benchStep
	for i := range h.vs {
		h.vs[i] = benchValue(i, h.k)
	}
	for from := 0; from < len(h.refs); from += perCommit {
		to := min(from+perCommit, len(h.refs))
		app := h.db.Appender()
		rejected, err := app.AppendBatch(t, h.refs[from:to], h.vs[from:to], nil)
		if err != nil || len(rejected) > 0 {
			b.Fatal(err, rejected)
		}
		if _, err := app.Commit(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
	h.k++
}

func reportPerSample(b *testing.B, samples int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(samples), "ns/sample")
	b.ReportMetric(float64(samples)/b.Elapsed().Seconds(), "samples/s")
}

func BenchmarkAppendCommit(b *testing.B) {
	for _, perCommit := range []int{1, 10, 1000} {
		b.Run(fmt.Sprintf("series=10k/commit=%d", perCommit), func(b *testing.B) {
			h := newHot(b, openBench(b, b.TempDir(), benchOptions()), 10_000)
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				h.scrape(b, perCommit)
			}
			reportPerSample(b, b.N*len(h.refs))
		})
	}
}

func BenchmarkAppendNewSeries(b *testing.B) {
	const series = 200_000
	sets := make([]labels.Labels, series)
	for i := range sets {
		sets[i] = benchLabels(i)
	}
	b.ReportAllocs()
	for range b.N {
		b.StopTimer()
		db, err := tsdb.Open(b.TempDir(), benchOptions())
		require.NoError(b, err)
		b.StartTimer()
		for from := 0; from < series; from += 1000 {
			app := db.Appender()
			for i := from; i < from+1000; i++ {
				if _, err := app.Append(0, sets[i], 1, 1); err != nil {
					b.Fatal(err)
				}
			}
			if _, err := app.Commit(context.Background()); err != nil {
				b.Fatal(err)
			}
		}
		b.StopTimer()
		require.NoError(b, db.Close())
		b.StartTimer()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*series), "ns/series")
}

func BenchmarkSyncCommit(b *testing.B) {
	for _, writers := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			opts := benchOptions()
			opts.WAL.Sync = tsdb.SyncCommit()
			db := openBench(b, b.TempDir(), opts)
			h := newHot(b, db, 10*writers)
			b.ResetTimer()
			var wg sync.WaitGroup
			for w := range writers {
				wg.Go(func() {
					refs, vs := h.refs[10*w:10*w+10], h.vs[10*w:10*w+10]
					for k := range b.N {
						app := db.Appender()
						_, err := app.AppendBatch(int64(k+1)*benchStep, refs, vs, nil)
						if err == nil {
							_, err = app.Commit(context.Background())
						}
						if err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N*writers)/b.Elapsed().Seconds(), "commits/s")
		})
	}
}

func BenchmarkReplay(b *testing.B) {
	const series, samples = 10_000, 500
	dir := b.TempDir()
	db, err := tsdb.Open(dir, benchOptions())
	require.NoError(b, err)
	h := newHot(b, db, series)
	for h.k < samples {
		h.scrape(b, 1000)
	}
	require.NoError(b, db.Close())
	b.Run(fmt.Sprintf("series=10k/samples=%d", samples), func(b *testing.B) {
		for range b.N {
			db, err := tsdb.Open(dir, benchOptions())
			require.NoError(b, err)
			rep := db.OpenReport()
			require.EqualValues(b, series*samples, rep.Samples+rep.SamplesInChunks)
			b.StopTimer()
			require.NoError(b, db.Close())
			b.StartTimer()
		}
		reportPerSample(b, b.N*series*samples)
	})
}

// BenchmarkOpenSnapshot opens what a kill leaves when there is a snapshot of the head: so
// many series, and so many commits of all of them behind it.
func BenchmarkOpenSnapshot(b *testing.B) {
	for _, c := range []struct{ series, tail int }{{10_000, 0}, {100_000, 0}, {10_000, 400}, {100_000, 40}} {
		b.Run(fmt.Sprintf("series=%d/tail=%d", c.series, c.series*c.tail), func(b *testing.B) {
			dir, opts := b.TempDir(), benchOptions()
			opts.Blocks.Manual = true // Close takes no snapshot
			db, err := tsdb.Open(dir, opts)
			require.NoError(b, err)
			h := newHot(b, db, c.series)
			for h.k < 60 {
				h.scrape(b, 1000)
			}
			require.NoError(b, tsdb.TakeHeadSnapshot(db))
			for h.k < 60+c.tail {
				h.scrape(b, 1000)
			}
			require.NoError(b, db.Close())
			rep := tsdb.OpenReport{}
			for b.Loop() {
				db, err := tsdb.Open(dir, opts)
				require.NoError(b, err)
				b.StopTimer()
				rep = db.OpenReport()
				require.NotEmpty(b, rep.Snapshot)
				require.EqualValues(b, c.series*(60+c.tail), rep.Samples+rep.SamplesInChunks)
				require.NoError(b, db.Close())
				b.StartTimer()
			}
			b.ReportMetric(float64(rep.SnapshotBytes), "snapshot-B")
			b.ReportMetric(float64(rep.Bytes), "log-B")
		})
	}
}

func BenchmarkMemoryPerSeries(b *testing.B) {
	const series = 100_000
	for range b.N {
		dir := b.TempDir()
		db, err := tsdb.Open(dir, benchOptions())
		require.NoError(b, err)
		h := newHot(b, db, series)
		for h.k < 15 {
			h.scrape(b, 1000)
		}
		require.NoError(b, db.Close())
		h = nil
		before := heapBytes()
		db, err = tsdb.Open(dir, benchOptions())
		require.NoError(b, err)
		after := heapBytes()
		b.ReportMetric(float64(after-before)/series, "bytes/series")
		b.ReportMetric(float64(db.Stats().HeadSizeBytes)/series, "said-bytes/series")
		require.NoError(b, db.Close())
	}
}

func heapBytes() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func BenchmarkSelectHead(b *testing.B) {
	const series, samples = 100_000, 30
	db := openBench(b, b.TempDir(), benchOptions())
	h := newHot(b, db, series)
	for h.k < samples {
		h.scrape(b, 1000)
	}
	benchSelects(b, db, series, samples)
	regex := mustRegexp(b, "__name__", "http_server_requests_duration_seconds_1.*")
	again := [][]*labels.Matcher{{regex, labels.Equal("method", "GET")}}
	b.Run("labels", func(b *testing.B) { benchLabelsOnly(b, db, nil, again) })
	b.Run("labels-transient", func(b *testing.B) { benchLabelsOnly(b, db, &tsdb.SelectHints{Transient: true}, again) })
	var inTurns [][]*labels.Matcher // 88,000 series: when one is asked for again others have taken its place
	for tens := 1; tens <= 4; tens++ {
		for _, method := range []string{"GET", "POST", "PUT"} {
			inTurns = append(inTurns, []*labels.Matcher{mustRegexp(b, "pod", fmt.Sprintf("service-%d.*", tens)), labels.Equal("method", method)})
		}
	}
	b.Run("labels-first", func(b *testing.B) { benchLabelsOnly(b, db, nil, inTurns) })
}

func mustRegexp(b *testing.B, name, expr string) *labels.Matcher {
	m, err := labels.Regexp(name, expr)
	require.NoError(b, err)
	return m
}

// BenchmarkSelectHead_ManySeries finds one in 27 of series that do not fit any cache, and reads
// them one after the other.
func BenchmarkSelectHead_ManySeries(b *testing.B) {
	const series, samples = 1_000_000, 15
	db := openBench(b, b.TempDir(), benchOptions())
	h := newHot(b, db, series)
	for h.k < samples {
		h.scrape(b, 1000)
	}
	regex := mustRegexp(b, "__name__", "http_server_requests_duration_seconds_1.*")
	for name, batches := range map[string]bool{"batches": true, "iterator": false} {
		b.Run(name, func(b *testing.B) {
			read := 0
			for range b.N {
				read += benchSelect(b, db, math.MaxInt64, batches, []*labels.Matcher{regex, labels.Equal("method", "GET")})
			}
			require.NotZero(b, read)
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(read/samples), "ns/series")
		})
	}
}

// benchLabelsOnly reads the labels of some twentieths of the series in turn, as text that the
// caller may keep, or of transient ones piece by piece.
func benchLabelsOnly(b *testing.B, db *tsdb.DB, hints *tsdb.SelectHints, queries [][]*labels.Matcher) {
	var pieces []labels.Label
	series, text := 0, 0
	b.ReportAllocs()
	for i := range b.N {
		q, err := db.Querier(math.MinInt64, math.MaxInt64)
		require.NoError(b, err)
		set := q.Select(context.Background(), hints, queries[i%len(queries)]...)
		for set.Next() {
			series++
			if hints == nil {
				text += set.At().Labels().SizeBytes()
				continue
			}
			pieces = set.At().AppendLabels(pieces[:0])
			text += len(pieces)
		}
		require.NoError(b, errors.Join(set.Err(), q.Close()))
	}
	require.NotZero(b, text)
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(series), "ns/series")
}

// BenchmarkSelectBlock reads a block of two hours; the head is empty.
func BenchmarkSelectBlock(b *testing.B) { benchSelectBlocks(b, 1) }

// BenchmarkSelectBlocks is the same over blocks each of which has a part of the time.
func BenchmarkSelectBlocks(b *testing.B) { benchSelectBlocks(b, 4) }

func benchSelectBlocks(b *testing.B, blocks int) {
	const series, samples = 20_000, 480
	opts := benchOptions()
	opts.Blocks.Manual = true
	db := openBench(b, b.TempDir(), opts)
	h := newHot(b, db, series)
	for h.k < samples {
		h.scrape(b, 1000)
		if h.k%(samples/blocks) == 0 {
			require.NoError(b, db.Flush(context.Background()))
		}
	}
	require.Len(b, db.Blocks(), blocks)
	benchSelects(b, db, series, samples)
}

// benchSelects runs some queries, reading every sample in batches; one series by the
// iterator, too.
func benchSelects(b *testing.B, db *tsdb.DB, series, samples int) {
	regex := mustRegexp(b, "__name__", "http_server_requests_duration_seconds_1.*")
	one := []*labels.Matcher{labels.Equal("shard", fmt.Sprint(series/2+1))}
	for _, c := range []struct {
		name     string
		matchers []*labels.Matcher
		batches  bool
		maxt     int64
	}{
		{"one", one, true, math.MaxInt64},
		{"one-iterator", one, false, math.MaxInt64},
		{"one-start", one, false, int64(samples/10-1) * benchStep},
		{"regex", []*labels.Matcher{regex, labels.Equal("method", "GET")}, true, math.MaxInt64},
		{"everything", nil, true, math.MaxInt64},
		{"everything-iterator", nil, false, math.MaxInt64},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			read := 0
			for range b.N {
				read += benchSelect(b, db, c.maxt, c.batches, c.matchers)
			}
			require.Zero(b, read%(samples/10))
			require.NotZero(b, read)
			reportPerSample(b, read)
		})
	}
}

// benchSelect reads what a query up to maxt selects and returns the number of samples.
func benchSelect(b *testing.B, db *tsdb.DB, maxt int64, batches bool, ms []*labels.Matcher) (n int) {
	q, err := db.Querier(math.MinInt64, maxt)
	if err != nil {
		b.Fatal(err)
	}
	batch := chunkenc.NewBatch(0)
	set := q.Select(context.Background(), nil, ms...)
	sum := 0.0
	var it chunkenc.Iterator
	for set.Next() {
		it = set.At().Iterator(it)
		for batches && it.NextBatch(batch) != chunkenc.ValNone {
			n += batch.Len()
			for _, v := range batch.V {
				sum += v
			}
		}
		for !batches && it.Next() != chunkenc.ValNone {
			_, v := it.At()
			n++
			sum += v
		}
		if it.Err() != nil {
			b.Fatal(it.Err())
		}
	}
	if err := errors.Join(set.Err(), q.Close()); err != nil {
		b.Fatal(err)
	}
	return n
}

// that each commit must keep what they see.
func BenchmarkCommitWhileReading(b *testing.B) {
	h := newHot(b, openBench(b, b.TempDir(), benchOptions()), 10_000)
	for range 10 {
		q, err := h.db.Querier(0, math.MaxInt64)
		require.NoError(b, err)
		defer q.Close()
		h.scrape(b, 1000)
	}
	b.ResetTimer()
	start := time.Now()
	for range b.N {
		h.scrape(b, 1000)
	}
	b.ReportMetric(float64(time.Since(start).Nanoseconds())/float64(b.N*len(h.refs)), "ns/sample")
}
