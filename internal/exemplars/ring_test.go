package exemplars_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed347100a3/tsdb/exemplar"
	"github.com/seed347100a3/tsdb/internal/exemplars"
	"github.com/seed347100a3/tsdb/internal/invariants"
	"github.com/seed347100a3/tsdb/labels"
)

// model is the obvious ring: all that was inserted, the newest of it.
type model struct {
	most   int
	kept   []exemplars.Entry // in the order of inserts
	coming map[uint64][]exemplars.Entry
	next   uint64 // commit to be settled
}

func same(a, b exemplars.Entry) bool {
	return a.Series.Equal(b.Series) && a.T == b.T && a.Labels.Equal(b.Labels) && math.Float64bits(a.Value) == math.Float64bits(b.Value)
}

func (m *model) has(e exemplars.Entry) bool {
	is := func(o exemplars.Entry) bool { return same(o, e) }
	for _, list := range m.coming {
		if slices.ContainsFunc(list, is) {
			return true
		}
	}
	return slices.ContainsFunc(m.kept, is)
}

func (m *model) shrink() { m.kept = m.kept[max(0, len(m.kept)-m.most):] }

func (m *model) selected(mint, maxt int64, seq uint64, name string) (found []exemplar.Series) {
	bySeries := map[string]*exemplar.Series{}
	for _, e := range m.kept {
		if e.T < mint || e.T > maxt || e.Seq > seq || name != "" && e.Series.Get("n") != name {
			continue
		}
		s := bySeries[e.Series.String()]
		if s == nil {
			s = &exemplar.Series{Labels: e.Series}
			bySeries[e.Series.String()] = s
		}
		e.HasT = true
		s.Exemplars = append(s.Exemplars, e.Exemplar)
	}
	for _, s := range bySeries {
		sort.SliceStable(s.Exemplars, func(i, k int) bool { return s.Exemplars[i].T < s.Exemplars[k].T })
		found = append(found, *s)
	}
	slices.SortFunc(found, func(a, b exemplar.Series) int { return labels.Compare(a.Labels, b.Labels) })
	return found
}

func drawEntry(rt *rapid.T) exemplars.Entry {
	n := rapid.IntRange(1, 3).Draw(rt, "series")
	e := exemplars.Entry{
		Series: labels.FromStrings("n", fmt.Sprint(n)), Ref: uint64(n) + 10*rapid.Uint64Range(0, 1).Draw(rt, "ref"),
		Exemplar: exemplar.Exemplar{
			T:     rapid.SampledFrom([]int64{math.MinInt64, -1, 0, 1, 2, math.MaxInt64}).Draw(rt, "t"),
			Value: rapid.SampledFrom([]float64{0, math.Copysign(0, -1), math.NaN()}).Draw(rt, "v"),
		},
	}
	if rapid.Bool().Draw(rt, "labelled") {
		e.Labels = labels.FromStrings("id", "x")
	}
	return e
}

// Whatever comes, the ring has what the model has. Commits reserve in their order, and are settled
// in it, or all that are left are cancelled.
func TestRing_KeepsWhatTheObviousOneDoes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &model{most: rapid.IntRange(1, 6).Draw(rt, "most"), coming: map[uint64][]exemplars.Entry{}, next: 1}
		r := exemplars.New(m.most)
		newest := uint64(0)
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			switch rapid.IntRange(0, 7).Draw(rt, "op") {
			case 0, 1, 2:
				newest++
				var list, fresh []exemplars.Entry
				for range rapid.IntRange(0, 4).Draw(rt, "n") {
					e := drawEntry(rt)
					list = append(list, e)
					if e.Seq = newest; m.most > 0 && !m.has(e) {
						fresh = append(fresh, e)
						m.coming[newest] = fresh
					}
				}
				require.Len(rt, r.Reserve(newest, list), len(fresh))
			case 3, 4:
				upTo := rapid.Uint64Range(m.next-1, newest).Draw(rt, "published")
				r.Settle(upTo)
				for ; m.next <= upTo; m.next++ {
					for _, e := range m.coming[m.next] {
						m.kept = append(m.kept, e)
						m.shrink()
					}
					delete(m.coming, m.next)
				}
			case 5:
				inOrder, first := rapid.Bool().Draw(rt, "cancelled in order"), m.next
				for ; newest >= m.next; newest-- {
					gone := newest
					if inOrder {
						gone, first = first, first+1
					}
					r.Cancel(gone)
					delete(m.coming, gone)
					m.check(rt, r, newest)
				}
			case 6:
				e := drawEntry(rt)
				r.Restore(&e)
				if m.most > 0 && !m.has(e) {
					m.kept = append(m.kept, e)
					m.shrink()
				}
			case 7:
				m.most = rapid.IntRange(-1, 6).Draw(rt, "most")
				r.SetMost(m.most)
				if m.most = max(m.most, 0); m.most == 0 {
					clear(m.coming)
				}
				m.shrink()
			}
			m.check(rt, r, newest)
		}
	})
}

func (m *model) check(rt *rapid.T, r *exemplars.Ring, newest uint64) {
	mint := rapid.SampledFrom([]int64{math.MinInt64, 0, 2}).Draw(rt, "mint")
	maxt := rapid.SampledFrom([]int64{math.MaxInt64, 1, -1}).Draw(rt, "maxt")
	seq := rapid.Uint64Range(0, newest).Draw(rt, "seq")
	require.Equal(rt, fmt.Sprint(m.selected(mint, maxt, seq, "")), fmt.Sprint(r.Select(mint, maxt, seq, nil)))
	require.Equal(rt, fmt.Sprint(m.selected(mint, maxt, seq, "2")), fmt.Sprint(r.Select(mint, maxt, seq, []*labels.Matcher{labels.Equal("n", "2")})))
	var before []exemplars.Entry
	for _, e := range m.kept {
		if e.HasT = true; e.Seq <= seq {
			before = append(before, e)
		}
	}
	require.Equal(rt, fmt.Sprint(before), fmt.Sprint(r.Before(seq)))
	s := r.Stats()
	require.Equal(rt, len(m.kept), s.Exemplars)
	require.Equal(rt, len(m.selected(math.MinInt64, math.MaxInt64, math.MaxUint64, "")), s.Series)
	if len(m.kept)+len(m.coming) == 0 {
		require.LessOrEqual(rt, s.SizeBytes, int64(128*8), "nothing is left but places")
	}
	e := drawEntry(rt)
	if ls, repeat := r.Look(e.Ref, &e.Exemplar); !ls.IsEmpty() {
		e.Series = ls
		isSame := func(o exemplars.Entry) bool { return same(o, e) }
		require.Equal(rt, slices.ContainsFunc(m.kept, isSame), repeat, "what is on its way is no repeat")
	}
	newestRef, wantRefs := map[string]uint64{}, map[uint64]bool{}
	for _, e := range before {
		newestRef[e.Series.String()] = e.Ref
	}
	for i := range before {
		before[i].Ref = newestRef[before[i].Series.String()]
		wantRefs[before[i].Ref] = true
	}
	logged, refs := r.Logged(seq)
	require.Equal(rt, fmt.Sprint(before), fmt.Sprint(logged))
	require.Equal(rt, wantRefs, refs)
}

// What is on its way is logged once, and is no repeat for those who ask: its commit may yet fail.
// It is found whatever came behind it.
func TestRing_WhatIsOnItsWayMayYetBeCancelled(t *testing.T) {
	r := exemplars.New(10)
	entries := func(times ...int64) (list []exemplars.Entry) {
		for _, at := range times {
			list = append(list, exemplars.Entry{Series: labels.FromStrings("a", "b"), Ref: 1, Exemplar: exemplar.Exemplar{T: at}})
		}
		return list
	}
	require.Equal(t, 3, commitTo(r, 1, entries(5, 9, 7)))
	require.Len(t, r.Reserve(2, entries(6, 12, 11, 6)), 3)
	require.Empty(t, r.Reserve(3, entries(6, 7, 9, 11, 12)))
	for at, want := range map[int64]bool{5: true, 6: false, 7: true, 8: false, 9: true, 11: false, 12: false} {
		_, repeat := r.Look(1, &entries(at)[0].Exemplar)
		require.Equal(t, want, repeat, "at %d", at)
	}
	require.Len(t, r.Reserve(4, entries(8)), 1)
	r.Cancel(2)
	require.Len(t, r.Reserve(5, entries(11, 6)), 2)
	r.Settle(5)
	var times []int64
	for _, e := range r.Select(math.MinInt64, math.MaxInt64, 5, nil)[0].Exemplars {
		times = append(times, e.T)
	}
	require.Equal(t, []int64{5, 6, 7, 8, 9, 11}, times)
	_, repeat := r.Look(1, &entries(6)[0].Exemplar)
	require.True(t, repeat)
}

// Very many of one series, in any order of times, in commits that are reserved in another order
// than they are settled in, or cancelled: nothing looks at each of the others for each of them.
func TestRing_OfVeryManyOfOneSeriesEachIsFoundAtOnce(t *testing.T) {
	kept, many := int64(benchKept), int64(benchMany)
	if invariants.Enabled { // as they are under the race detector
		kept, many = kept/10, many/10
	}
	const most = 20 * time.Second // half a second, if nothing else runs; it was more than a minute
	for _, times := range benchTimes {
		t.Run(times.name, func(t *testing.T) {
			begin := time.Now()
			r := exemplars.New(int(kept))
			other := func(list []exemplars.Entry) []exemplars.Entry {
				for i := range list {
					list[i].Series, list[i].Ref = labels.FromStrings("other", "one"), 8
				}
				return list
			}
			require.EqualValues(t, kept, commitTo(r, 1, benchEntries(0, kept, times.t)))
			require.Len(t, r.Reserve(3, other(benchEntries(0, many, times.t))), int(many))
			require.Len(t, r.Reserve(2, benchEntries(kept, many, times.t)), int(many))
			require.Len(t, r.Reserve(4, benchEntries(2*kept, many, times.t)), int(many))
			r.Cancel(4)
			r.Settle(3)
			require.Zero(t, commitTo(r, 5, benchEntries(kept, many, times.t)))
			found := r.Select(math.MinInt64, math.MaxInt64, 5, nil)
			require.Len(t, found, 2)
			require.Len(t, found[0].Exemplars, int(kept-many))
			require.Len(t, found[1].Exemplars, int(many))
			require.True(t, slices.IsSortedFunc(found[0].Exemplars, func(a, b exemplar.Exemplar) int { return cmp.Compare(a.T, b.T) }))
			again := exemplars.New(int(kept))
			for _, e := range r.Before(5) {
				again.Restore(&e)
			}
			require.Equal(t, found, again.Select(math.MinInt64, math.MaxInt64, 5, nil))
			require.Less(t, time.Since(begin), most)
		})
	}
}

// Several commits at once, and readers: each exemplar is there once, in the order of commits.
func TestRing_TakesCommitsAtOnce(t *testing.T) {
	const writers, each = 4, 200
	r := exemplars.New(writers * each)
	var seqs sync.Mutex
	var seq, published uint64
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				ls := labels.FromStrings("w", fmt.Sprint(w))
				e := exemplars.Entry{Series: ls, Ref: uint64(w + 1), Exemplar: exemplar.Exemplar{T: int64(i % 7), Value: float64(i)}}
				seqs.Lock()
				seq++
				mine := seq
				r.Reserve(mine, []exemplars.Entry{e, e})
				published = mine
				seqs.Unlock()
				r.Settle(mine)
				_, repeat := r.Look(e.Ref, &e.Exemplar)
				require.True(t, repeat)
				r.Select(0, 3, mine, nil)
			}
		})
	}
	wg.Wait()
	r.Settle(published)
	all := r.Before(math.MaxUint64)
	require.Len(t, all, writers*each)
	require.True(t, slices.IsSortedFunc(all, func(a, b exemplars.Entry) int { return int(a.Seq) - int(b.Seq) }))
}

// What is not there takes no memory, and what goes gives it back.
func TestRing_MemoryIsThatOfWhatIsThere(t *testing.T) {
	r := exemplars.New(1 << 20)
	empty := r.Stats().SizeBytes
	require.Zero(t, empty)
	for i := range 1000 {
		r.Restore(&exemplars.Entry{Series: labels.FromStrings("s", fmt.Sprint(i%10)), Ref: uint64(i%10) + 1,
			Exemplar: exemplar.Exemplar{T: int64(i), Labels: labels.FromStrings("trace_id", "0123456789abcdef")}})
	}
	full := r.Stats()
	require.Greater(t, full.SizeBytes, int64(1000*100))
	require.Less(t, full.SizeBytes, int64(1000*250))
	r.SetMost(10)
	require.Less(t, r.Stats().SizeBytes, full.SizeBytes/20)
	r.SetMost(0)
	require.Zero(t, r.Stats().SizeBytes)
}

// Labels that lie in a buffer are copied.
func TestRing_RestoreCopiesLabels(t *testing.T) {
	buf := labels.FromStrings("a", "b").AppendEncoded(nil)
	lying, err := labels.UnsafeFromEncoded(buf)
	require.NoError(t, err)
	r := exemplars.New(2)
	r.Restore(&exemplars.Entry{Series: lying, Ref: 1, Exemplar: exemplar.Exemplar{Labels: lying}})
	for i := range buf {
		buf[i] = 'x'
	}
	found := r.Select(0, 0, 0, []*labels.Matcher{labels.Equal("a", "b")})
	require.Len(t, found, 1)
	require.Equal(t, labels.FromStrings("a", "b"), found[0].Exemplars[0].Labels)
}
