package agg_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/agg"
	"github.com/seed347100a3/tsdb/chunkenc"
)

// BenchmarkPoints aggregates chunks of 120 samples, 15 seconds apart: windows of five minutes side
// by side, and as many that begin a minute apart. A counter falls never, a gauge every other time.
// There are so many chunks that no processor remembers where.
func BenchmarkPoints(b *testing.B) {
	const samples, distance, window, many = 120, 15_000, 300_000, 2000
	r := rand.New(rand.NewPCG(1, 2))
	for _, data := range []string{"counter", "gauge"} {
		var chunks [many]chunkenc.Chunk
		for k := range chunks {
			var e chunkenc.Encoder
			v := 0.0
			for i := range int64(samples) {
				if v += float64(r.IntN(100)); data == "gauge" {
					v = float64(r.IntN(1000))
				}
				require.NoError(b, e.Append(i*distance, v, 0))
			}
			var err error
			chunks[k], err = chunkenc.FromData(chunkenc.EncXOR, e.AppendTo(nil))
			require.NoError(b, err)
		}
		for _, step := range []int64{window, window / 5} {
			w := agg.Windows{Start: window, End: samples * distance, Step: step, Range: window}
			name := map[int64]string{window: "/apart/", window / 5: "/overlapping/"}[step]
			for f := agg.Count; f <= agg.Rate; f++ {
				a, err := agg.New(f, w)
				require.NoError(b, err)
				b.Run(data+name+f.String(), func(b *testing.B) { benchPoints(b, a, chunks[:]) })
			}
			a, err := agg.NewQuantile(0.9, w)
			require.NoError(b, err)
			b.Run(data+name+"quantile", func(b *testing.B) { benchPoints(b, a, chunks[:]) })
		}
	}
}

func benchPoints(b *testing.B, a *agg.Aggregator, chunks []chunkenc.Chunk) {
	b.ReportAllocs()
	var points []agg.Point
	var it chunkenc.Iterator
	var err error
	n := 0
	for b.Loop() {
		it = chunks[n/120%len(chunks)].Iterator(it)
		if points, err = a.Points(points[:0], it); err != nil {
			b.Fatal(err)
		}
		n += 120
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/sample")
}
