package chunkenc

import "testing"

func BenchmarkChunkIterator(b *testing.B) {
	const n, count = 120, 64
	all := series(n * count)
	chunks := make([]Chunk, count)
	for i := range chunks {
		chunks[i] = Chunk{enc: EncXOR, data: encode(b, all[i*n:(i+1)*n])}
	}
	var it Iterator
	var sum float64
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		it = chunks[i%count].Iterator(it)
		for it.Next() != ValNone {
			_, v := it.At()
			sum += v
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/sample")
}
