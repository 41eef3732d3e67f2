package memseries

import (
	"math"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is asked of many series at once is what each of them says: some have no samples, some are
// gone, more at once than are looked at together, some are of another time or of a commit behind the
// snapshot, one is far away from all others.
func TestAppendVisible_IsWhatEachSeriesSays(t *testing.T) {
	d := NewDirectory(defaultCutting)
	const num, gone = 3*pageLen + 7, 2 * lookAhead
	var refs []uint64
	for i := range num {
		if i == num-1 {
			d.RaiseNextRef(1 << 35)
		}
		s := newSeries(t, d, "__name__", "m", "i", strconv.Itoa(i))
		refs = append(refs, s.Ref())
		switch {
		case i%7 == 0 || i < gone:
			s.Unpin() // as whoever made it
			require.True(t, d.RemoveUnused(s))
		case i%5 != 0:
			commit(d, uint64(i+1), 0, s, int64(i), 1)
		}
	}
	require.NotZero(t, d.numFar.Load())
	refs = append(refs, 1<<36) // never given out
	has := func(i int) bool { return i >= gone && i%7 != 0 && i%5 != 0 }
	first := d.ByRef(refs[num-1])
	for _, c := range []struct {
		snapshot, mint, maxt int
	}{
		{num, 0, num},
		{num / 2, 0, num},
		{num, 300, 400},
		{num, num - 1, num - 1},
		{num, num, num + 1},
	} {
		want := []*Series{first}
		for i := range num {
			if has(i) && i < c.snapshot && c.mint <= i && i <= c.maxt {
				want = append(want, d.ByRef(refs[i]))
			}
		}
		got := d.AppendVisible([]*Series{first}, refs, uint64(c.snapshot), int64(c.mint), int64(c.maxt))
		require.Equal(t, len(want), len(got), "%+v", c)
		for i := range want {
			require.Same(t, want[i], got[i])
		}
	}
}

// The race detector must have nothing to say, and what is applied is seen.
func TestAppendVisible_BesideCommits(t *testing.T) {
	d := NewDirectory(defaultCutting)
	const num = 2 * pageLen
	var all []*Series
	var refs []uint64
	for i := range num {
		s := newSeries(t, d, "__name__", "m", "i", strconv.Itoa(i))
		commit(d, 1, 0, s, 0, 1)
		all, refs = append(all, s), append(refs, s.Ref())
	}
	var writing sync.WaitGroup
	writing.Go(func() {
		for k := range int64(300) { // chunks are cut meanwhile
			for _, s := range all {
				commit(d, uint64(k+2), uint64(k), s, k+1, 1)
			}
		}
	})
	done := make(chan struct{})
	go func() { writing.Wait(); close(done) }()
	for more := true; more; {
		select {
		case <-done:
			more = false
		default:
		}
		require.Len(t, d.AppendVisible(nil, refs, math.MaxUint64, 0, math.MaxInt64), num)
	}
}
