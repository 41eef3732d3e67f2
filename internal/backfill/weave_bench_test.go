package backfill

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// BenchmarkMerge_Woven reads a block of 100 series from runs of the same time that take turns:
// sample by sample, as when several instances write beside each other, or in stretches of a
// hundred.
func BenchmarkMerge_Woven(b *testing.B) {
	for _, runs := range []int64{2, 5, 100} {
		for _, stretch := range []int64{1, 100} {
			b.Run(fmt.Sprintf("runs=%d,stretch=%d", runs, stretch), func(b *testing.B) {
				const series = 100
				samples := 10_000 / runs // of a series in a run
				s := NewStore(fileutil.OS, b.TempDir(), Options{Range: 1 << 40, MemoryBytes: 64 << 20})
				for r := range runs {
					for i := range series {
						ref := uint64(0)
						for k := range samples {
							t := (k/stretch*runs+r)*stretch + k%stretch
							var err error
							ref, err = s.Append(ref, name(i), t, float64(k))
							require.NoError(b, err)
						}
					}
					require.NoError(b, s.Spill())
				}
				m, err := s.Merge()
				require.NoError(b, err)
				b.ReportAllocs()
				for b.Loop() {
					require.NoError(b, m.Block(context.Background(), 0, math.MinInt64, math.MaxInt64, discard{}))
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(int64(b.N)*series*samples*runs), "ns/sample")
				require.NoError(b, m.Close())
			})
		}
	}
}
