package index_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/labels"
)

func removeAll(m *index.MemPostings, pairs ...index.Pair) {
	m.Remove(func(uint64) bool { return true }, pairs...)
}

func TestRemove_APinnedPairKeepsItsText(t *testing.T) {
	m := index.NewMemPostings()
	p := m.Intern("pod", "old")
	m.Add(1, []index.Pair{p})
	release := m.Pin()
	removeAll(m, p)
	_, ok := m.Lookup("pod", "old")
	require.False(t, ok)
	require.Empty(t, m.LabelNames(nil))

	for i := range 10 {
		q := m.Intern("pod", fmt.Sprint("new", i))
		require.NotEqual(t, p, q)
		m.Add(2, []index.Pair{q})
		removeAll(m, q)
	}
	name, value := m.Label(p)
	require.Equal(t, "pod=old", name+"="+value)

	release()
	removeAll(m)
	name, value = m.Label(p)
	require.Empty(t, name+value)
}

func TestRemove_ReadersKeepWhatTheySelected(t *testing.T) {
	m := index.NewMemPostings()
	p := m.Intern("job", "api")
	for ref := range uint64(5000) {
		m.Add(ref+1, []index.Pair{p})
	}
	refs := m.Refs(p)
	m.Remove(func(ref uint64) bool { return ref%2 == 0 }, p, p)
	require.Len(t, refs, 5000)
	require.Equal(t, 2500, m.Count(p))
	m.Add(6000, []index.Pair{p})
	require.Len(t, sel(t, m, labels.Equal("job", "api")), 2501)
	require.Len(t, sel(t, m), 2501)
}

func TestRemove_LeavesPairsThatNeverHadASeries(t *testing.T) {
	m := index.NewMemPostings()
	p, q := m.Intern("job", "api"), m.Intern("job", "db")
	m.Add(1, []index.Pair{p})
	removeAll(m, p, q)
	got, ok := m.Lookup("job", "db")
	require.True(t, ok)
	require.Equal(t, q, got)
}

func TestRemove_ChurnDoesNotGrowTheIndex(t *testing.T) {
	m := index.NewMemPostings()
	const batch = 3000
	var old []index.Pair
	ref, early := uint64(0), int64(0)
	for round := range 40 {
		var young []index.Pair
		for range batch {
			ref++
			pairs := intern(m, labels.FromStrings("job", "api", "pod", fmt.Sprintf("pod-%09d", ref), "id", fmt.Sprint(ref/20)))
			m.Add(ref, pairs)
			young = append(young, pairs...)
		}
		limit := ref - batch
		m.Remove(func(r uint64) bool { return r <= limit }, old...)
		old = young
		if round == 4 {
			early = m.SizeBytes()
		}
	}
	require.LessOrEqual(t, m.SizeBytes(), early+early/10)
	require.Len(t, sel(t, m), batch)
}

// Part by part, with new series between the parts, Remove comes to the same.
func TestRemoveSome_PartsAndAnEnd_AreOneRemove(t *testing.T) {
	m := index.NewMemPostings()
	var gone []index.Pair
	for ref := uint64(1); ref <= 100; ref++ {
		pairs := intern(m, labels.FromStrings("job", "api", "pod", fmt.Sprint(ref), "side", fmt.Sprint(ref%2)))
		m.Add(ref, pairs)
		if ref <= 50 {
			gone = append(gone, pairs...)
		}
	}
	dead := func(ref uint64) bool { return ref <= 50 }
	slices.Sort(gone)
	gone = slices.Compact(gone)
	next := uint64(101)
	for part := range slices.Chunk(gone, 7) {
		m.RemoveSome(dead, part...)
		m.Add(next, intern(m, labels.FromStrings("job", "api", "pod", fmt.Sprint(next-100), "side", "0")))
		next++
	}
	require.Len(t, sel(t, m), int(next-1), "the list of all series is as it was")
	m.Remove(dead)
	require.Len(t, sel(t, m), int(next-1)-50)
	for i := uint64(1); i < next; i++ {
		_, ok := m.Lookup("pod", fmt.Sprint(i))
		require.Equal(t, i > 50 && i <= 100 || i+100 < next, ok, i)
	}
	p, _ := m.Lookup("side", "0")
	require.Equal(t, 25+int(next)-101, m.Count(p))
}

// Of long strings the hash is kept: the table grows by it, and they are dropped by it.
func TestRemove_LongValuesAreFoundAndDropped(t *testing.T) {
	m := index.NewMemPostings()
	const n = 300 // the table grows five times
	long := func(i int) string { return fmt.Sprint(i, strings.Repeat("x", 4096)) }
	pairs := make([]index.Pair, n)
	for i := range pairs {
		pairs[i] = m.Intern("long", long(i))
		m.Add(uint64(i)+1, pairs[i:i+1])
	}
	for i := 0; i < n; i += 2 {
		removeAll(m, pairs[i])
	}
	removeAll(m) // numbers and blocks are free now
	for i := n; i < n+50; i++ {
		m.Add(uint64(i)+1, []index.Pair{m.Intern("long", long(i)), m.Intern("short", fmt.Sprint(i))})
	}
	for i := range n + 50 {
		p, ok := m.Lookup("long", long(i))
		require.Equal(t, i >= n || i%2 == 1, ok, "value %d", i)
		if ok {
			require.Equal(t, long(i), m.Value(p))
		}
	}
}

// The block of a long string goes with it, that of the first string of all, too.
func TestRemove_ALongValue_LeavesNoText(t *testing.T) {
	m := index.NewMemPostings()
	idle := m.SizeBytes()
	p := m.Intern(strings.Repeat("n", 2049), strings.Repeat("v", 1<<20))
	m.Add(1, []index.Pair{p})
	require.Greater(t, m.SizeBytes(), idle+1<<20)
	removeAll(m, p)
	removeAll(m)
	require.Less(t, m.SizeBytes(), idle+1<<15)
}
