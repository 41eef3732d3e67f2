package index_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/labels"
)

// orderedSeries is a label set as its owner has it.
type orderedSeries struct {
	ls    labels.Labels
	pairs []index.Pair
}

func pairsOf(s orderedSeries) []index.Pair { return s.pairs }

func orderedSeriesOf(m *index.MemPostings, ls labels.Labels) orderedSeries {
	return orderedSeries{ls: ls, pairs: intern(m, ls)}
}

func requireSorted(t *testing.T, m *index.MemPostings, all []orderedSeries) {
	t.Helper()
	want := slices.Clone(all)
	slices.SortStableFunc(want, func(a, b orderedSeries) int { return labels.Compare(a.ls, b.ls) })
	index.SortByLabels(m, all, pairsOf)
	for i := range want {
		require.Equal(t, want[i].ls.String(), all[i].ls.String(), i)
	}
	for _, atOnce := range []int{1, 2, 7, 40, 1000} {
		slices.Reverse(all)
		index.SortParts(m, all, pairsOf, atOnce)
		for i := range want {
			require.Equal(t, want[i].ls.String(), all[i].ls.String(), "%d, %d at once", i, atOnce)
		}
	}
}

func TestSortByLabels_EqualsComparingLabels(t *testing.T) {
	names := []string{"a", "aa", "b", "job", "zone"}
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		m := index.NewMemPostings()
		values := 1 + rnd.IntN(30)
		seen := map[labels.Labels]bool{}
		var all []orderedSeries
		for range rnd.IntN(400) {
			var set []labels.Label
			for _, name := range names {
				if rnd.IntN(3) > 0 {
					set = append(set, labels.Label{Name: name, Value: fmt.Sprint(rnd.IntN(values))})
				}
			}
			ls := labels.New(set...)
			if !seen[ls] {
				seen[ls] = true
				all = append(all, orderedSeriesOf(m, ls))
			}
		}
		requireSorted(t, m, all)
	}
}

func TestSortByLabels_SetThatEndsIsBeforeThoseThatGoOn(t *testing.T) {
	m := index.NewMemPostings()
	requireSorted(t, m, []orderedSeries{
		orderedSeriesOf(m, labels.FromStrings("a", "1", "b", "2", "c", "3")),
		orderedSeriesOf(m, labels.FromStrings("a", "1", "c", "3")),
		orderedSeriesOf(m, labels.FromStrings("a", "1", "b", "2")),
		orderedSeriesOf(m, labels.FromStrings("a", "1")),
		orderedSeriesOf(m, labels.Labels{}),
		orderedSeriesOf(m, labels.FromStrings("b", "0")),
	})
}

func TestSortByLabels_EqualSetsStayTogether(t *testing.T) {
	m := index.NewMemPostings()
	one, two := orderedSeriesOf(m, labels.FromStrings("a", "1")), orderedSeriesOf(m, labels.FromStrings("a", "2"))
	requireSorted(t, m, []orderedSeries{two, one, two, one, one})
}

// A hundred bytes of scratch memory for each item are for those of one part, not for all.
func TestSortByLabelsInParts_TakesLittleMemory(t *testing.T) {
	const n = 150_000
	m := index.NewMemPostings()
	all := make([]orderedSeries, n)
	for i := range all {
		all[i] = orderedSeriesOf(m, labels.FromStrings(fleet(i*7919%n)...))
	}
	in := slices.Clone(all)
	whole := allocatedBy(func() { index.SortByLabels(m, all, pairsOf) })
	parts := allocatedBy(func() { index.SortByLabelsInParts(m, in, pairsOf) })
	t.Logf("%d bytes, %d in parts", whole, parts)
	require.Less(t, 3*parts, whole, "of ten parts one is twice as long, as there are samples of them only")
	for i := range all {
		if all[i].ls != in[i].ls {
			require.Equal(t, all[i].ls.String(), in[i].ls.String(), i)
		}
	}
}

// allocatedBy returns the bytes that are allocated meanwhile, with no scratch memory there from
// before.
func allocatedBy(f func()) uint64 {
	runtime.GC() // what is kept for the next one is gone with the second collection
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func BenchmarkSortByLabels(b *testing.B) {
	const n = 100_000
	m := index.NewMemPostings()
	all := make([]orderedSeries, n)
	for i := range all {
		all[i] = orderedSeriesOf(m, labels.FromStrings(fleet(i)...))
	}
	for _, take := range []int{100, 5000, n} {
		some := make([]orderedSeries, 0, take)
		for i := range take {
			some = append(some, all[i*(n/take)])
		}
		for name, sort := range map[string]func([]orderedSeries){
			"":       func(all []orderedSeries) { index.SortByLabels(m, all, pairsOf) },
			"/parts": func(all []orderedSeries) { index.SortByLabelsInParts(m, all, pairsOf) },
		} {
			b.Run(fmt.Sprintf("series=%d%s", take, name), func(b *testing.B) {
				work := make([]orderedSeries, len(some))
				b.ReportAllocs()
				for range b.N {
					copy(work, some)
					sort(work)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*take), "ns/series")
			})
		}
		b.Run(fmt.Sprintf("series=%d/comparing", take), func(b *testing.B) {
			work := make([]orderedSeries, len(some))
			for range b.N {
				copy(work, some)
				slices.SortFunc(work, func(x, y orderedSeries) int { return labels.Compare(x.ls, y.ls) })
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*take), "ns/series")
		})
	}
	// Memory of a large one that is kept costs the small ones behind it nothing.
	few, many := slices.Clone(all[:10]), slices.Clone(all[:60_000])
	for name, before := range map[string]int{"": 10, "/after=60000": len(many)} {
		b.Run("series=10"+name, func(b *testing.B) {
			runtime.GC()
			runtime.GC()
			index.SortByLabels(m, many[:before], pairsOf)
			b.ResetTimer()
			for range b.N {
				index.SortByLabels(m, few, pairsOf)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(few)), "ns/series")
		})
	}
}
