package memseries

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/internal/sweep"
	"github.com/seed347100a3/tsdb/labels"
)

func TestDirectory_FindsSeriesByRefAndLabels(t *testing.T) {
	d := NewDirectory(defaultCutting)
	const n = 3000
	for i := range n {
		s := newSeries(t, d, "__name__", "m", "i", fmt.Sprint(i))
		require.EqualValues(t, i+1, s.Ref())
	}
	require.Equal(t, n, d.Len())
	for i := range n {
		ls := labels.FromStrings("__name__", "m", "i", fmt.Sprint(i))
		s := d.ByLabels(ls, ls.Hash())
		require.NotNil(t, s)
		require.EqualValues(t, i+1, s.Ref())
		require.Same(t, s, d.ByRef(s.Ref()))
	}
	require.Nil(t, d.ByRef(0))
	require.Nil(t, d.ByRef(n+1))
	require.Nil(t, d.ByRef(math.MaxUint64))
}

func TestDirectory_SeriesThatWereNeverCommittedGoAway(t *testing.T) {
	d := NewDirectory(defaultCutting)
	keep := newSeries(t, d, "keep", "me")
	commit(d, 1, 1, keep, 1, 1)
	for i := range 3 * gcDead {
		s := newSeries(t, d, "i", fmt.Sprint(i))
		require.False(t, d.RemoveUnused(s), "it is pinned")
		s.Unpin()
		require.True(t, d.RemoveUnused(s))
		require.Nil(t, d.ByRef(s.Ref()))
	}
	require.Equal(t, 1, d.Len())
	require.Less(t, len(d.Postings().LabelNames(nil)), 3)
	s := newSeries(t, d, "i", "0")
	require.EqualValues(t, 3*gcDead+2, s.Ref(), "refs are never used again")
	require.Same(t, keep, d.ByRef(1))
}

func TestDirectory_RefsFarAwayLiveApart(t *testing.T) {
	d := NewDirectory(defaultCutting)
	refs := []uint64{1, 2, 1 << 20, 1<<32 - 1, 1 << 32, 1 << 39, uint64(chunks.MaxSeriesRef)}
	for _, ref := range refs {
		s, err := restore(d, ref, labels.FromStrings("ref", fmt.Sprint(ref)))
		require.NoError(t, err)
		require.Equal(t, ref, s.Ref())
	}
	for _, ref := range refs {
		require.EqualValues(t, ref, d.ByRef(ref).Ref())
		ls := labels.FromStrings("ref", fmt.Sprint(ref))
		require.Same(t, d.ByRef(ref), d.ByLabels(ls, ls.Hash()))
	}
	require.Less(t, d.SizeBytes(), int64(1<<20))
	_, err := restore(d, uint64(chunks.MaxSeriesRef)+1, labels.FromStrings("a", "b"))
	require.ErrorIs(t, err, ErrRefs)
	_, _, err = d.GetOrCreate(labels.FromStrings("one", "more"))
	require.ErrorIs(t, err, ErrRefs)
}

// Half a million values that are longer than 2 KiB are as many as there may be. One more is
// refused; what is there stays.
func TestDirectory_TextBeyondWhatFits_IsRefused(t *testing.T) {
	if !sweep.Whole() {
		t.Skip("a GiB of label text takes fifteen seconds and as much memory: the long form has it")
	}
	d := NewDirectory(defaultCutting)
	const values, perSeries = 1 << 19, 64
	long := strings.Repeat("x", 2<<10)
	set := func(i int) labels.Labels {
		var b labels.Builder
		for k := range perSeries {
			b.Set(fmt.Sprintf("l%02d", k), fmt.Sprintf("%d-%s", i, long))
		}
		return b.Labels()
	}
	made := 0
	for ; made < values/perSeries; made++ {
		if _, _, err := d.GetOrCreate(set(made)); err != nil {
			require.ErrorIs(t, err, ErrFull)
			break
		}
	}
	require.GreaterOrEqual(t, made, values/perSeries-1)
	_, _, err := d.GetOrCreate(set(made))
	require.ErrorIs(t, err, ErrFull)
	_, err = restore(d, 1<<20, set(made))
	require.ErrorIs(t, err, ErrFull)
	_, created, err := d.GetOrCreate(set(3))
	require.NoError(t, err)
	require.False(t, created)
}

func TestTable_EqualsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tb table
		hashes := map[uint64]uint64{} // of every ref ever
		present := map[uint64]bool{}
		hashOf := func(ref uint64) uint64 { return hashes[ref] }
		for ref := range uint64(rapid.IntRange(1, 300).Draw(t, "refs")) {
			ref++
			// Few different homes and tags, so that runs collide and wrap.
			hashes[ref] = rapid.Uint64Range(0, 40).Draw(t, "home")*tableCount | rapid.Uint64Range(0, 3).Draw(t, "tag")<<tagShift
			tb.insert(hashes[ref], ref, hashOf)
			present[ref] = true
			if rapid.Bool().Draw(t, "remove") {
				victim := rapid.Uint64Range(1, ref).Draw(t, "victim")
				tb.remove(hashes[victim], victim, hashOf)
				delete(present, victim)
			}
		}
		for ref, hash := range hashes {
			_, found := tb.find(hash, func(r uint64) bool { return r == ref })
			if found != present[ref] {
				t.Fatalf("ref %d: found %v, want %v", ref, found, present[ref])
			}
		}
	})
}

func TestDirectory_ConcurrentCreationGivesOneSeriesALabelSet(t *testing.T) {
	d := NewDirectory(defaultCutting)
	const n, workers = 500, 8
	var wg sync.WaitGroup
	refs := make([][n]uint64, workers)
	for w := range workers {
		wg.Go(func() {
			for i := range n {
				s, _, err := d.GetOrCreate(labels.FromStrings("i", fmt.Sprint((i+w*61)%n)))
				if err == nil {
					refs[w][(i+w*61)%n] = s.Ref()
				}
			}
		})
	}
	wg.Wait()
	require.Equal(t, n, d.Len())
	for w := range workers {
		require.Equal(t, refs[0], refs[w])
	}
}

func TestSizeBytes_IsWithinATenthOfTheHeap(t *testing.T) {
	if !sweep.Whole() {
		t.Skip("builds 100,000 series")
	}
	const n = 100_000
	before := heap()
	d := NewDirectory(defaultCutting)
	for i := range n {
		s := newSeries(t, d, "__name__", fmt.Sprintf("metric_%d_total", i%200), "instance", fmt.Sprintf("host-%d:9100", i/1000),
			"job", "node", "path", fmt.Sprintf("/api/v1/resource/%d", i%1000), "code", fmt.Sprint(200+i%5), "id", fmt.Sprint(i))
		s.Unpin()
		for k := range 15 {
			commit(d, uint64(k+1), 100, s, int64(k)*15000, float64(i*k))
		}
	}
	real := float64(heap() - before)
	require.InEpsilon(t, real, float64(d.SizeBytes()), 0.1, "heap %.0f, says %d", real, d.SizeBytes())
	t.Logf("%.0f bytes a series", real/n)
	runtime.KeepAlive(d)
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
