package tsdb_test

import (
	"context"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
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

// BenchmarkAppendHistograms appends scrapes of 1,000 series by ref, a commit each.
func BenchmarkAppendHistograms(b *testing.B) {
	for _, buckets := range []int{5, 20, 160} {
		b.Run(fmt.Sprintf("buckets=%d", buckets), func(b *testing.B) {
			series, scrapes := 1000, 600/(1+buckets/20)
			all := benchHistograms(series, scrapes, buckets)
			db := openBench(b, b.TempDir(), benchOptions())
			refs := make([]tsdb.SeriesRef, series)
			scrape := func(k int) {
				app := db.Appender()
				for i, h := range all[k%scrapes] {
					var ls labels.Labels
					if refs[i] == 0 {
						ls = benchLabels(i)
					}
					ref, err := app.AppendSample(refs[i], ls, tsdb.Sample{T: int64(k) * benchStep, H: h})
					if err != nil {
						b.Fatal(err)
					}
					refs[i] = ref
				}
				_, err := app.Commit(context.Background())
				require.NoError(b, err)
			}
			for k := range scrapes {
				scrape(k)
			}
			b.ReportAllocs()
			k := scrapes
			for b.Loop() {
				scrape(k)
				k++
			}
			reportPerSample(b, b.N*series)
		})
	}
}
