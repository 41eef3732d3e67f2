package late

import (
	"math"
	"slices"
	"sort"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Samples that come in any order, many at a time, are those of a sorted list.
func TestRecent_EqualsASortedList(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var r recent
		var list []sample // by time and commit
		bytes := int64(0)
		steps := map[string]func(*rapid.T){
			"insert": func(rt *rapid.T) {
				n := rapid.IntRange(1, 3*partLen).Draw(rt, "samples")
				begin := rapid.Int64Range(-2000, 2000).Draw(rt, "begin")
				step := rapid.SampledFrom([]int64{-7, -1, 0, 1, 7, 1009}).Draw(rt, "step")
				for i := range n {
					s := sample{t: (begin + int64(i)*step) % 2000, sum: uint64(len(list)), seq: uint64(len(list) / 100)}
					bytes += r.insert(s)
					at := sort.Search(len(list), func(k int) bool {
						return list[k].t > s.t || list[k].t == s.t && list[k].seq > s.seq
					})
					list = slices.Insert(list, at, s)
				}
				require.Equal(rt, bytes, r.bytes())
			},
			"keep": func(rt *rapid.T) {
				below := uint64(rapid.IntRange(0, len(list)/100+1).Draw(rt, "below"))
				r.keep(func(seq uint64) bool { return seq >= below })
				list = slices.DeleteFunc(list, func(s sample) bool { return s.seq < below })
				bytes = r.bytes()
			},
			"": func(rt *rapid.T) {
				require.Equal(rt, len(list), r.n)
				for i, part := range r.parts {
					require.LessOrEqual(rt, len(part), partLen)
					require.True(rt, len(part) > 0 || len(r.parts) == 1, "part %d is empty", i)
				}
				at := rapid.Int64Range(-2100, 2100).Draw(rt, "time")
				from, _ := slices.BinarySearchFunc(list, at, func(s sample, t int64) int { return int(s.t - t) })
				to, _ := slices.BinarySearchFunc(list, at+1, func(s sample, t int64) int { return int(s.t - t) })
				if last := r.last(at); from == to {
					require.Nil(rt, last)
				} else {
					require.Equal(rt, list[to-1], *last)
				}
				require.True(rt, slices.Equal(list[from:], values(&r, at)))
				require.True(rt, slices.Equal(list, values(&r, math.MinInt64)))
				if len(list) > 0 {
					require.Equal(rt, list[0], *r.oldest())
					require.Equal(rt, list[len(list)-1], *r.newest())
				}
			},
		}
		rt.Repeat(steps)
	})
}

// values copies samples from a time on.
func values(r *recent, from int64) []sample {
	var list []sample
	for s := range r.from(from) {
		list = append(list, *s)
	}
	return list
}

// Whichever way samples come, those parts that others are not put into are full.
func TestRecent_SamplesInARow_FillTheirParts(t *testing.T) {
	for _, step := range []int64{1, -1} {
		var r recent
		for i := range int64(10 * partLen) {
			r.insert(sample{t: i * step})
		}
		require.Len(t, r.parts, 10)
	}
}

// BenchmarkRecent inserts samples in an order.
func BenchmarkRecent(b *testing.B) {
	const n = 100_000
	for _, order := range []struct {
		name string
		time func(i int64) int64
	}{
		{"ascending", func(i int64) int64 { return i }},
		{"falling", func(i int64) int64 { return -i }},
		{"scattered", func(i int64) int64 { return i * 61_803 % n }},
	} {
		b.Run(order.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var r recent
				for i := range int64(n) {
					r.insert(sample{t: order.time(i)})
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/sample")
		})
	}
}
