package xorchunk

import (
	"math"
	"testing"
)

// bench2 are the chunks of benchData in the second encoding. started: each sample starts
// where the one before it was, as deltas do.
func bench2(samples [][]sample, started bool) (chunks [][]byte) {
	for _, part := range samples {
		var e Encoder2
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
				ts, vs := make([]int64, n+1), make([]float64, n+1)
				var sts []int64
				if started {
					sts = make([]int64, n+1)
				}
				var d Decoder2
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					_ = d.Reset(chunks[i%benchChunks])
					if got, err := d.DecodeST(ts, vs, sts); err != nil || got != n {
						b.Fatal(got, err)
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
			var e Encoder2
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
