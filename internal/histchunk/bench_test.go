package histchunk_test

import (
	"fmt"
	"testing"

	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/histchunk"
)

// benchSamples are samples of one series whose buckets grow by small numbers.
func benchSamples(buckets int) (all []*histogram.Histogram) {
	counts := make([]int64, buckets)
	x := uint32(1)
	for range 120 {
		h := &histogram.Histogram{
			Schema: 3, ZeroThreshold: 0x1p-128, PositiveSpans: []histogram.Span{{Length: uint32(buckets)}},
		}
		before := int64(0)
		for b := range counts {
			x = x*1664525 + 1013904223
			counts[b] += int64(x >> 28)
			h.PositiveBuckets = append(h.PositiveBuckets, counts[b]-before)
			before = counts[b]
			h.Count += uint64(counts[b])
		}
		h.Sum = float64(h.Count) * 0.37
		all = append(all, h)
	}
	return all
}

// BenchmarkEncoder encodes chunks of 120 samples. One operation is one sample.
func BenchmarkEncoder(b *testing.B) {
	for _, buckets := range []int{5, 20, 160} {
		ints := benchSamples(buckets)
		var floats []*histogram.FloatHistogram
		for _, h := range ints {
			floats = append(floats, h.ToFloat(nil))
		}
		var e histchunk.Encoder
		b.Run(fmt.Sprintf("ints/%d", buckets), func(b *testing.B) {
			for n := range b.N {
				i := n % len(ints)
				if i == 0 {
					e.Reset(histchunk.HeaderUnknown)
				}
				if _, taken := e.Append(int64(i)*15_000, 0, ints[i]); !taken {
					b.Fatal("cut")
				}
			}
		})
		b.Run(fmt.Sprintf("floats/%d", buckets), func(b *testing.B) {
			for n := range b.N {
				i := n % len(floats)
				if i == 0 {
					e.Reset(histchunk.HeaderUnknown)
				}
				if _, taken := e.AppendFloat(int64(i)*15_000, 0, floats[i]); !taken {
					b.Fatal("cut")
				}
			}
		})
	}
}

// BenchmarkDecoder reads chunks of 120 samples. One operation is one sample.
func BenchmarkDecoder(b *testing.B) {
	for _, buckets := range []int{5, 20, 160} {
		ints := benchSamples(buckets)
		for _, float := range []bool{false, true} {
			name := fmt.Sprintf("ints/%d", buckets)
			var e histchunk.Encoder
			for i, h := range ints {
				if float {
					e.AppendFloat(int64(i)*15_000, 0, h.ToFloat(nil))
				} else {
					e.Append(int64(i)*15_000, 0, h)
				}
			}
			if float {
				name = fmt.Sprintf("floats/%d", buckets)
			}
			data := e.AppendTo(nil)
			b.Run(name, func(b *testing.B) {
				b.SetBytes(int64(len(data) / len(ints)))
				var d histchunk.Decoder
				var h histogram.Histogram
				var f histogram.FloatHistogram
				for range b.N {
					if !d.Next() {
						if err := d.Reset(e.Encoding(), data); err != nil || !d.Next() {
							b.Fatal(err)
						}
					}
					if float {
						d.FloatHistogram(&f)
					} else {
						d.Histogram(&h)
					}
				}
			})
		}
	}
}
