package xorchunk

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"testing"
)

// benchSeries are the shapes that the benchmarks measure, one chunk each.
var benchSeries = []struct {
	name string
	make func(n int) []sample
}{
	{"const", func(n int) []sample { return series(n, 0, func(int, *rand.Rand) float64 { return 1 }) }},
	{"counter", func(n int) []sample {
		c := 1e6
		return series(n, 0, func(_ int, r *rand.Rand) float64 { c += float64(r.IntN(500)); return c })
	}},
	{"counter-jitter", func(n int) []sample {
		c := 1e6
		return series(n, 20, func(_ int, r *rand.Rand) float64 { c += float64(r.IntN(500)); return c })
	}},
	{"gauge", func(n int) []sample {
		g := 1000.0
		return series(n, 0, func(_ int, r *rand.Rand) float64 { g += r.NormFloat64(); return math.Round(g*100) / 100 })
	}},
	{"gauge-int", func(n int) []sample {
		return series(n, 0, func(_ int, r *rand.Rand) float64 { return float64(r.IntN(1000)) })
	}},
	{"noise", func(n int) []sample {
		return series(n, 0, func(_ int, r *rand.Rand) float64 { return r.NormFloat64() })
	}},
	{"random", func(n int) []sample {
		return series(n, 5, func(_ int, r *rand.Rand) float64 { return r.Float64() })
	}},
}

func series(n, jitter int, value func(i int, r *rand.Rand) float64) []sample {
	r := rand.New(rand.NewPCG(1, 2))
	out := make([]sample, n)
	t := int64(1_700_000_000_000)
	for i := range out {
		at := t
		if jitter > 0 {
			at += int64(r.IntN(2*jitter+1) - jitter)
		}
		out[i] = sample{at, math.Float64bits(value(i, r))}
		t += 15_000
	}
	return out
}

// perSample reports time per sample; b.N counts chunks of n.
func perSample(b *testing.B, n int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/sample")
}

// benchChunks is how many different chunks a benchmark walks over, so that the branch
// predictor does not learn one of them by heart.
const benchChunks = 64

func benchData(mk func(int) []sample, n int) (samples [][]sample, chunks [][]byte) {
	all := mk(benchChunks * n)
	for i := range benchChunks {
		part := all[i*n : (i+1)*n]
		var e Encoder
		for _, x := range part {
			_ = e.Append(x.t, math.Float64frombits(x.v))
		}
		samples, chunks = append(samples, part), append(chunks, e.AppendTo(nil))
	}
	return samples, chunks
}

func BenchmarkXORAppend(b *testing.B) {
	for _, s := range benchSeries {
		b.Run(s.name, func(b *testing.B) {
			const n = 120
			samples, _ := benchData(s.make, n)
			buf := make([]byte, 0, 4096)
			var x State
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				x.Reset()
				buf = buf[:0]
				for _, p := range samples[i%benchChunks] {
					buf = x.Append(buf, p.t, math.Float64frombits(p.v))
				}
			}
			perSample(b, n)
		})
	}
}

func BenchmarkXORDecode(b *testing.B) {
	for _, s := range benchSeries {
		b.Run(s.name, func(b *testing.B) {
			const n = 120
			_, chunks := benchData(s.make, n)
			ts, vs := make([]int64, n+1), make([]float64, n+1)
			var d Decoder
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				_ = d.Reset(chunks[i%benchChunks])
				if got, err := d.Decode(ts, vs); got != n || err != nil {
					b.Fatal(got, err)
				}
			}
			perSample(b, n)
		})
	}
}

// BenchmarkXORDecode_Mixture decodes chunks of counters, gauges, constants and noise in turn,
// as the comparison with other engines has them (prom/bench).
func BenchmarkXORDecode_Mixture(b *testing.B) {
	const n, count = 120, 400
	r := rand.New(rand.NewPCG(1, 2))
	chunks := make([][]byte, count)
	for i := range chunks {
		x := float64(r.IntN(10_000))
		var e Encoder
		for k := range n {
			switch i % 4 {
			case 0:
				x += float64(r.IntN(128))
			case 1:
				x = (math.Round(x*100) + float64(bits.OnesCount64(r.Uint64())) - 32) / 100
			case 2:
			default:
				x = 1 + float64(r.Uint64()>>12)/(1<<52)
			}
			_ = e.Append(1_700_000_000_000+int64(k)*1000, x)
		}
		chunks[i] = e.AppendTo(nil)
	}
	ts, vs := make([]int64, n+1), make([]float64, n+1)
	var d Decoder
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		_ = d.Reset(chunks[i%count])
		if got, err := d.Decode(ts, vs); err != nil || got != n {
			b.Fatal(got, err)
		}
	}
	perSample(b, n)
}
