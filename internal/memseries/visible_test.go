package memseries

import (
	"math"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is asked of many series at once is what each of them says: some have no samples, some are
// gone, some are of another time or of a commit behind the snapshot.
func TestAppendVisible_IsWhatEachSeriesSays(t *testing.T) {
	d := NewDirectory(defaultCutting)
	const num = 3*lookAhead + 7
	var refs []uint64
	for i := range num {
		s := newSeries(t, d, "__name__", "m", "i", strconv.Itoa(i))
		refs = append(refs, s.Ref())
		switch {
		case i%7 == 0:
			s.Unpin() // as whoever made it
			require.True(t, d.RemoveUnused(s))
		case i%5 != 0:
			commit(d, uint64(i+1), 0, s, int64(i), 1)
		}
	}
	refs = append(refs, num+1000) // never given out
	first := d.ByRef(refs[1])
	for _, c := range []struct {
		snapshot   uint64
		mint, maxt int64
	}{
		{math.MaxUint64, math.MinInt64, math.MaxInt64},
		{num / 2, math.MinInt64, math.MaxInt64},
		{num, 20, lookAhead + 1},
		{num, num, math.MaxInt64},
	} {
		want := []*Series{first}
		for _, ref := range refs {
			if s := d.ByRef(ref); s != nil && d.Visible(s, c.snapshot, c.mint, c.maxt) {
				want = append(want, s)
			}
		}
		require.Equal(t, want, d.AppendVisible([]*Series{first}, refs, c.snapshot, c.mint, c.maxt))
	}
	appended := 0
	for i := range num {
		if i%7 != 0 && i%5 != 0 {
			appended++
		}
	}
	require.Len(t, d.AppendVisible(nil, refs, math.MaxUint64, math.MinInt64, math.MaxInt64), appended)
}
