package tsdb_test

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/labels"
)

// benchHistograms makes scrapes of series whose histograms are counters with buckets side by side:
// some 32 observations from one scrape to the next, most of them in the middle.
func benchHistograms(series, scrapes, buckets int) [][]*histogram.Histogram {
	rng := rand.New(rand.NewPCG(1, uint64(buckets)))
	counts := make([][]int64, series)
	sums := make([]float64, series)
	for i := range counts {
		counts[i] = slices.Repeat([]int64{1}, buckets)
	}
	all := make([][]*histogram.Histogram, scrapes)
	for k := range all {
		for i, c := range counts {
			h := &histogram.Histogram{
				Schema: 3, ZeroThreshold: 1e-128, PositiveBuckets: make([]int64, buckets),
				PositiveSpans: []histogram.Span{{Offset: -int32(buckets / 2), Length: uint32(buckets)}},
			}
			for range rng.IntN(64) {
				at := (bits.OnesCount64(rng.Uint64())-32)*buckets/32 + buckets/2
				c[min(max(at, 0), buckets-1)]++
				sums[i] += float64(rng.IntN(1<<24)) / (1 << 24)
			}
			before := int64(0)
			for j, n := range c {
				h.PositiveBuckets[j], before = n-before, n
				h.Count += uint64(n)
			}
			h.Sum = sums[i]
			all[k] = append(all[k], h)
		}
	}
	return all
}

// hotHistograms is a database with series of histograms that were all appended to.
type hotHistograms struct {
	db   *tsdb.DB
	all  [][]*histogram.Histogram // by scrape; they begin again when they are over
	refs []tsdb.SeriesRef
	k    int // samples of each series so far
}

func newHotHistograms(b *testing.B, dir string, buckets int) *hotHistograms {
	const series = 1000
	opts := benchOptions()
	opts.Head.SnapshotThreshold = -1 // what replay reads is the log
	db, err := tsdb.Open(dir, opts)
	require.NoError(b, err)
	b.Cleanup(func() { _ = db.Close() }) // maybe it is already
	h := &hotHistograms{db: db, all: benchHistograms(series, 600/(1+buckets/20), buckets)}
	h.refs = make([]tsdb.SeriesRef, series)
	for range h.all {
		h.scrape(b)
	}
	return h
}

// scrape appends one sample to every series, in one commit.
func (h *hotHistograms) scrape(b *testing.B) {
	app := h.db.Appender()
	for i, sample := range h.all[h.k%len(h.all)] {
		var ls labels.Labels
		if h.refs[i] == 0 {
			ls = benchLabels(i)
		}
		ref, err := app.AppendSample(h.refs[i], ls, tsdb.Sample{T: int64(h.k) * benchStep, H: sample})
		if err != nil {
			b.Fatal(err)
		}
		h.refs[i] = ref
	}
	_, err := app.Commit(context.Background())
	require.NoError(b, err)
	h.k++
}

var benchBuckets = []int{5, 20, 160}

func BenchmarkAppendHistograms(b *testing.B) {
	for _, buckets := range benchBuckets {
		b.Run(fmt.Sprintf("buckets=%d", buckets), func(b *testing.B) {
			h := newHotHistograms(b, b.TempDir(), buckets)
			b.ReportAllocs()
			for b.Loop() {
				h.scrape(b)
			}
			reportPerSample(b, b.N*len(h.refs))
		})
	}
}

func BenchmarkReplayHistograms(b *testing.B) {
	for _, buckets := range benchBuckets {
		b.Run(fmt.Sprintf("buckets=%d", buckets), func(b *testing.B) {
			dir := b.TempDir()
			h := newHotHistograms(b, dir, buckets)
			require.NoError(b, h.db.Close())
			n := len(h.refs) * h.k
			b.ReportAllocs()
			for range b.N {
				opts := benchOptions()
				opts.Head.SnapshotThreshold = -1
				db, err := tsdb.Open(dir, opts)
				require.NoError(b, err)
				b.StopTimer()
				rep := db.OpenReport()
				require.EqualValues(b, n, rep.Samples+rep.SamplesInChunks)
				require.NoError(b, db.Close())
				b.StartTimer()
			}
			reportPerSample(b, b.N*n)
		})
	}
}

// BenchmarkReadHistograms reads all samples of 1,000 series in the head.
func BenchmarkReadHistograms(b *testing.B) {
	for _, buckets := range benchBuckets {
		b.Run(fmt.Sprintf("buckets=%d", buckets), func(b *testing.B) {
			h := newHotHistograms(b, b.TempDir(), buckets)
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				q, err := h.db.Querier(math.MinInt64, math.MaxInt64)
				require.NoError(b, err)
				var it chunkenc.Iterator
				var to histogram.Histogram
				set := q.Select(context.Background(), nil)
				for n = 0; set.Next(); {
					for it = set.At().Iterator(it); it.Next() == chunkenc.ValHistogram; n++ {
						it.AtHistogram(&to)
					}
				}
				require.NoError(b, set.Err())
				require.NoError(b, q.Close())
			}
			require.Equal(b, len(h.refs)*h.k, n)
			reportPerSample(b, b.N*n)
		})
	}
}
