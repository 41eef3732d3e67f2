package tsdb_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
)

// BenchmarkBlockWriter appends b.N samples of 10,000 series with ten labels, a scrape of
// all of them every 15 s, and makes blocks of them. It reports the greatest heap, too.
func BenchmarkBlockWriter(b *testing.B) {
	const series = 10_000
	sets := make([]labels.Labels, series)
	for i := range sets {
		sets[i] = labels.FromStrings("__name__", fmt.Sprintf("backfilled_metric_%d_total", i%100), "instance", fmt.Sprintf("host-%d.example:9100", i/100),
			"job", "node", "region", "eu-central-1", "zone", fmt.Sprintf("eu-central-1%c", 'a'+i%3), "env", "production", "team", "storage",
			"cluster", fmt.Sprintf("c%d", i%7), "device", fmt.Sprintf("sd%c", 'a'+i%16), "mode", "user")
	}
	for _, byRef := range []bool{true, false} {
		b.Run(fmt.Sprintf("ref=%v", byRef), func(b *testing.B) {
			var peak uint64
			w, err := tsdb.NewBlockWriter(b.TempDir(), &tsdb.BlockWriterOptions{Progress: func(p tsdb.BlockWriterProgress) {
				if p.Samples%(1<<20) == 0 || p.Written > 0 {
					var m runtime.MemStats
					runtime.ReadMemStats(&m)
					peak = max(peak, m.HeapAlloc)
				}
			}})
			require.NoError(b, err)
			refs := make([]tsdb.SeriesRef, series)
			b.ReportAllocs()
			b.ResetTimer()
			for n := range b.N {
				i, scrape := n%series, int64(n/series)
				ref := refs[i]
				if !byRef {
					ref = 0
				}
				if refs[i], err = w.AppendRef(ref, sets[i], 1_700_000_000_000+scrape*15_000+int64(i%1000), float64(scrape*int64(i%17+1))); err != nil {
					b.Fatal(err)
				}
			}
			metas, err := w.Flush(context.Background())
			require.NoError(b, err)
			b.StopTimer()
			require.NoError(b, w.Close())
			samples := uint64(0)
			for _, m := range metas {
				samples += m.Stats.NumSamples
			}
			require.EqualValues(b, b.N, samples)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Msamples/s")
			b.ReportMetric(float64(peak)/(1<<20), "MiB-heap")
		})
	}
}
