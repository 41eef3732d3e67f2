package memseries

import (
	"math"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is asked of many series at once is what each of them says: some have no samples, some are
// gone, more at once than are looked at together, some are of another time or of a commit behind
// the snapshot, one is far away from all others.
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
	require.NotZero(t, d.pages.numFar.Load())
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
		got, present := d.Past(uint64(c.snapshot)).AppendVisible([]*Series{first}, refs, int64(c.mint), int64(c.maxt))
		require.True(t, present, "each series has one sample")
		require.Equal(t, len(want), len(got), "%+v", c)
		for i := range want {
			require.Same(t, want[i], got[i])
		}
	}
}

// The oldest and the newest sample of a snapshot say whether one is in the range, unless they lie
// on both sides of it.
func TestPresence_IsWhatTheOldestAndTheNewestSampleTell(t *testing.T) {
	d := NewDirectory(defaultCutting)
	s, other := newSeries(t, d, "a", "1"), newSeries(t, d, "a", "2")
	commit(d, 1, 0, s, 10, 1)
	commit(d, 2, 0, s, 20, 1)
	commit(d, 3, 0, s, 30, 1)
	commit(d, 4, 0, other, 25, 1)
	for _, c := range []struct {
		snapshot   uint64
		mint, maxt int64
		want       Presence
	}{
		{3, 0, 9, Absent}, {3, 0, 10, Present}, {3, 10, 10, Present}, {3, 11, 29, Possible}, {3, 20, 20, Possible},
		{3, 11, 30, Present}, {3, 30, 30, Present}, {3, 30, 99, Present}, {3, 31, 99, Absent}, {3, 0, 99, Present},
		{2, 11, 29, Present}, {2, 20, 20, Present}, {2, 11, 19, Possible}, {2, 21, 99, Absent},
		{1, 11, 29, Absent}, {1, 0, 99, Present}, {0, 0, 99, Absent}, {3, 25, 24, Possible},
	} {
		require.Equal(t, c.want, d.Past(c.snapshot).Presence(s, c.mint, c.maxt), "%+v", c)
		require.Equal(t, c.want != Absent, d.Past(c.snapshot).Visible(s, c.mint, c.maxt), "%+v", c)
		found, present := d.Past(c.snapshot).AppendVisible(nil, []uint64{s.Ref(), other.Ref()}, c.mint, c.maxt)
		require.Equal(t, c.want != Absent, len(found) > 0 && found[0] == s)
		require.Equal(t, c.want != Possible, present, "%+v", c)
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
		got, present := d.Past(math.MaxUint64).AppendVisible(nil, refs, 0, math.MaxInt64)
		require.Len(t, got, num)
		require.True(t, present)
	}
}
