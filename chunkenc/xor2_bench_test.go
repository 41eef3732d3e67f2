package chunkenc

import (
	"math"
	"testing"
)

// bench2 are the chunks of benchData in the second encoding. started: each sample starts
// where the one before it was, as deltas do.
func bench2(samples [][]sample, started bool) (chunks [][]byte) {
	for _, part := range samples {
		var e XOR2Encoder
		st := int64(0)
		for _, x := range part {
			_ = e.Append(x.t, math.Float64frombits(x.v), st)
			if started {
				st = x.t
			}
		}
		chunks = append(chunks, e.AppendTo(nil))
	}
	return chunks
}

func BenchmarkXOR2Decode(b *testing.B) {
	for _, s := range benchSeries {
		for name, started := range map[string]bool{"plain": false, "started": true} {
			b.Run(s.name+"/"+name, func(b *testing.B) {
				const n = 120
				samples, _ := benchData(s.make, n)
				chunks := bench2(samples, started)
				batch := NewBatch(BatchSize)
				var d Decoder
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					_ = d.Reset(EncXOR2, chunks[i%benchChunks])
					if err := d.Decode(batch, BatchSize); err != nil || batch.Len() != n {
						b.Fatal(batch.Len(), err)
					}
				}
				perSample(b, n)
			})
		}
	}
}

func BenchmarkXOR2Append(b *testing.B) {
	for _, s := range benchSeries {
		b.Run(s.name, func(b *testing.B) {
			const n = 120
			samples, _ := benchData(s.make, n)
			var e XOR2Encoder
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				e.Reset()
				for _, p := range samples[i%benchChunks] {
					_ = e.Append(p.t, math.Float64frombits(p.v), 0)
				}
			}
			perSample(b, n)
		})
	}
}
