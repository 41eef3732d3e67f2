package thanos

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

const (
	blockRange = 2 * time.Hour
	// days are enough that one block of two days comes of them, wherever they begin, and Thanos
	// downsamples what is longer than 40 hours.
	days     = 5
	interval = time.Minute
	counters = 10
)

var external = labels.FromStrings("cluster", "test", "replica", "a")

// data is a data directory: blocks of two hours, and a head that is in the log only.
type data struct {
	dir string
	// first, last are times of samples, in milliseconds; of those at flushed and later none is in a
	// block.
	first, flushed, last int64
	blocks               int
}

// write makes a directory whose samples end some minutes ago. uploading returns the options to
// open it with, of those that it gets.
func write(t testing.TB, uploading func(dir string, o *tsdb.Options) *tsdb.Options) data {
	t.Helper()
	ctx, d := context.Background(), data{dir: filepath.Join(t.TempDir(), "data")}
	end := time.Now().Add(-10 * time.Minute).Truncate(interval)
	begin := end.Add(-days * 24 * time.Hour)
	clock := tsdbtest.NewClock(begin)
	o := &tsdb.Options{Clock: clock, Blocks: tsdb.BlockOptions{Manual: true, Range: blockRange}}
	db, err := tsdb.Open(d.dir, uploading(d.dir, o))
	require.NoError(t, err)
	d.first = begin.UnixMilli()
	for at := begin; at.Before(end); at = at.Add(interval) {
		if at.Equal(at.Truncate(blockRange)) && at.After(begin) && end.Sub(at) > blockRange/2 {
			require.NoError(t, db.Flush(ctx))
			d.flushed = at.UnixMilli()
		}
		clock.Set(at)
		scrape(t, db, at.UnixMilli(), at.Sub(begin))
		d.last = at.UnixMilli()
	}
	d.blocks = len(db.Blocks())
	for _, m := range db.Blocks() {
		require.Equal(t, 1, m.Compaction.Level)
		require.Less(t, m.MaxTime-1, d.flushed)
	}
	require.NoError(t, db.Close())
	return d
}

// scrape commits a sample of each series: counters that are reset now and then, a gauge, series
// that come and go, and native histograms. Counters are never near 0: after a reset to 0 Thanos
// gives another rate than Prometheus, as it adds up what was before.
func scrape(t testing.TB, db *tsdb.DB, now int64, since time.Duration) {
	t.Helper()
	app := db.Appender()
	add := func(s tsdb.Sample, pairs ...string) {
		s.T = now
		_, err := app.AppendSample(0, labels.FromStrings(pairs...), s)
		require.NoError(t, err)
	}
	n := float64(since / interval)
	for i := range counters {
		add(tsdb.Sample{V: (10_000 + math.Mod(n, 1000+float64(i))) * float64(i+1)}, "__name__", "requests_total", "job", fmt.Sprint("job", i%3), "instance", fmt.Sprint(i))
	}
	add(tsdb.Sample{V: math.Sin(n/100) * 7}, "__name__", "temperature", "room", "a")
	hour := int(since / time.Hour)
	add(tsdb.Sample{V: n}, "__name__", "pod", "hour", fmt.Sprint(hour))
	count := uint64(n) + 1
	add(tsdb.Sample{H: &histogram.Histogram{Schema: 1, ZeroThreshold: 0.001, ZeroCount: 1, Count: 2*count + 1, Sum: n,
		PositiveSpans: []histogram.Span{{Offset: 0, Length: 2}}, PositiveBuckets: []int64{int64(count), 0}}}, "__name__", "latency", "job", "job1")
	_, err := app.Commit(context.Background())
	require.NoError(t, err)
}
