package exemplars_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/seed347100a3/tsdb/exemplar"
	"github.com/seed347100a3/tsdb/internal/exemplars"
	"github.com/seed347100a3/tsdb/labels"
)

const (
	benchKept = 100_000 // of a ring
	benchMany = 32_000  // of one commit, all of one series
)

// benchTimes are the times that the exemplars of one series come with.
var benchTimes = []struct {
	name string
	t    func(i int64) int64
}{
	{"rising", func(i int64) int64 { return i }},
	{"same", func(int64) int64 { return 1 }},
	{"falling", func(i int64) int64 { return -i }},
	{"alternating", func(i int64) int64 { return i * (1 - 2*(i&1)) }},
	{"anyhow", func(i int64) int64 { return i * 40_503 & (1<<20 - 1) }},
}

// benchEntries returns exemplars of one series.
func benchEntries(from, n int64, t func(int64) int64) []exemplars.Entry {
	series := labels.FromStrings("__name__", "requests_total", "path", "/orders")
	list := make([]exemplars.Entry, n)
	for i := range list {
		k := from + int64(i)
		list[i] = exemplars.Entry{Series: series, Ref: 7, Exemplar: exemplar.Exemplar{
			Labels: labels.FromStrings("trace_id", fmt.Sprintf("%032x", k)), Value: 1, T: t(k),
		}}
	}
	return list
}

// commitTo is all that a commit does of a ring.
func commitTo(r *exemplars.Ring, seq uint64, list []exemplars.Entry) int {
	for i := range list {
		r.Look(list[i].Ref, &list[i].Exemplar)
	}
	n := len(r.Reserve(seq, list))
	r.Settle(seq)
	return n
}

// One commit has very many exemplars of one series. The ring is empty before, or full of others
// like these.
func BenchmarkRing_ManyOfOneSeries(b *testing.B) {
	for _, times := range benchTimes {
		for _, before := range []int64{0, benchKept} {
			b.Run(fmt.Sprintf("times=%s/before=%d", times.name, before), func(b *testing.B) {
				old, more := benchEntries(0, before, times.t), benchEntries(before, benchMany, times.t)
				for b.Loop() {
					b.StopTimer()
					r := exemplars.New(benchKept)
					commitTo(r, 1, append([]exemplars.Entry(nil), old...))
					list := append([]exemplars.Entry(nil), more...)
					b.StartTimer()
					if commitTo(r, 2, list) != benchMany {
						b.Fatal("some are lost")
					}
				}
			})
		}
	}
}

// Two commits of series that have no shard in common reserve in another order than that of the log.
func BenchmarkRing_ManyOfTwoCommits(b *testing.B) {
	first, second := benchEntries(0, benchMany, benchTimes[0].t), benchEntries(0, benchMany, benchTimes[0].t)
	for i := range second {
		second[i].Series, second[i].Ref = labels.FromStrings("a", "b"), 8
	}
	for b.Loop() {
		b.StopTimer()
		one, two := append([]exemplars.Entry(nil), first...), append([]exemplars.Entry(nil), second...)
		r := exemplars.New(benchKept)
		b.StartTimer()
		r.Reserve(2, two)
		r.Reserve(1, one)
		r.Settle(2)
	}
}

// A thousand series have an exemplar each in a commit. The ring is full; one in ten is a repeat.
func BenchmarkRing_Scrape(b *testing.B) {
	const series = 1000
	lists := make([][]exemplars.Entry, 2*benchKept/series)
	for k := range lists {
		for i := range series {
			e := exemplars.Entry{Series: labels.FromStrings("__name__", "requests_total", "path", fmt.Sprint(i)), Ref: uint64(i + 1)}
			e.Exemplar = exemplar.Exemplar{Labels: labels.FromStrings("trace_id", fmt.Sprintf("%016x%016x", k, i)), Value: 1}
			lists[k] = append(lists[k], e)
		}
	}
	r, seq := exemplars.New(benchKept), uint64(0)
	list := make([]exemplars.Entry, series)
	scrape := func() {
		copy(list, lists[seq%uint64(len(lists))])
		for i := range list {
			if list[i].T = int64(seq) * 15_000; i%10 == 0 && seq > 0 {
				list[i].T -= 15_000
				list[i].Labels = lists[(seq-1)%uint64(len(lists))][i].Labels
			}
		}
		seq++
		commitTo(r, seq, list)
	}
	for range len(lists) {
		scrape()
	}
	for b.Loop() {
		scrape()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/series, "ns/exemplar")
}

// All exemplars of a ring are those of one series.
func BenchmarkRing_Select(b *testing.B) {
	for _, times := range benchTimes {
		b.Run("times="+times.name, func(b *testing.B) {
			r := exemplars.New(benchKept)
			commitTo(r, 1, benchEntries(0, benchKept, times.t))
			for b.Loop() {
				if n := len(r.Select(math.MinInt64, math.MaxInt64, 1, nil)[0].Exemplars); n != benchKept {
					b.Fatal(n)
				}
			}
		})
	}
}

// A log brings back a full ring.
func BenchmarkRing_Restore(b *testing.B) {
	for _, times := range benchTimes {
		b.Run("times="+times.name, func(b *testing.B) {
			list := benchEntries(0, benchKept, times.t)
			for b.Loop() {
				r := exemplars.New(benchKept)
				for i := range list {
					r.Look(7, nil)
					r.Restore(&list[i])
				}
			}
		})
	}
}
