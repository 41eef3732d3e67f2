package index_test

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/labels"
)

// While series come and go, a reader must find each stable series in each answer, never
// a living series under labels that it does not have, and pairs that it holds must keep
// their text.
func TestMemPostings_ReadersSeeWholeSeriesWhileOthersWrite(t *testing.T) {
	const stable, rounds, batch = 500, 60, 40
	m := index.NewMemPostings()
	for ref := range uint64(stable) {
		add(m, ref+1, "kind", "stable", "n", fmt.Sprint(ref), "mod", fmt.Sprint(ref%7))
	}
	var want []uint64
	for ref := range uint64(stable) {
		if ref%7 == 3 {
			want = append(want, ref+1)
		}
	}
	var done atomic.Bool
	var dying atomic.Uint64 // refs below it are dead, or about to be
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for !done.Load() {
				readWhileWriting(t, m, want, &dying)
			}
		})
	}
	churn(m, stable+1, rounds, batch, &dying)
	done.Store(true)
	wg.Wait()
	require.Equal(t, []string{"stable"}, m.LabelValues("kind", nil))
	require.Len(t, sel(t, m), stable)
}

// churn adds batches of young series and removes each two batches later.
func churn(m *index.MemPostings, ref uint64, rounds, batch int, dying *atomic.Uint64) {
	var pairs []index.Pair
	for round := range rounds {
		for range batch {
			ps := intern(m, labels.FromStrings("kind", "young", "n", fmt.Sprint("young", ref), "mod", fmt.Sprint(ref%7), fmt.Sprint("name", round), "x"))
			m.Add(ref, ps)
			pairs = append(pairs, ps...)
			ref++
		}
		if round%2 == 1 {
			dying.Store(ref)
			m.Remove(func(r uint64) bool { return r > 500 && r < ref }, pairs...)
			pairs = pairs[:0]
		}
	}
}

func readWhileWriting(t *testing.T, m *index.MemPostings, want []uint64, dying *atomic.Uint64) {
	defer m.Pin()()
	living := func(refs []uint64) []uint64 {
		limit := dying.Load()
		return slices.DeleteFunc(refs, func(ref uint64) bool { return ref > 500 && ref < limit })
	}
	mod := labels.Equal("mod", "3")
	require.Equal(t, want, living(sel(t, m, mod, labels.Equal("kind", "stable"))))
	require.Equal(t, want, living(sel(t, m, mod, labels.NotEqual("kind", "young"))))
	require.Equal(t, want, living(sel(t, m, mod, regexp(t, "n", "[0-9]+"))))
	require.Equal(t, want, living(sel(t, m, mod, notRegexp(t, "n", "young.*"))))
	for _, ref := range sel(t, m, regexp(t, "n", "young.+")) {
		require.Greater(t, ref, uint64(500))
	}
	require.True(t, slices.Contains(m.LabelValues("kind", nil), "stable"))
	require.True(t, slices.Contains(m.LabelNames(nil), "mod"))
	if p, ok := m.Lookup("kind", "young"); ok {
		name, value := m.Label(p)
		require.Equal(t, "kind=young", name+"="+value)
	}
	name, value := m.Label(m.Intern("kind", "stable"))
	require.Equal(t, "kind=stable", name+"="+value)
}
