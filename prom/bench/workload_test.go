package bench

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The recording has series that move and series that stand, all equally long.
func TestTrace_HasSeriesOfOneLength(t *testing.T) {
	series := trace()
	require.Greater(t, len(series), 100)
	moving := 0
	for _, line := range series {
		require.Len(t, line, len(series[0]))
		for _, v := range line {
			if v != line[0] {
				moving++
				break
			}
		}
	}
	require.Greater(t, moving, len(series)/2)
	require.Less(t, moving, len(series))
}

// The same seed gives the same values, and each kind is what it says.
func TestValues_AreOfTheirKind(t *testing.T) {
	for kind := range valueKinds {
		a, b := newValuesOf([]valueKind{kind}, 3, seed), newValuesOf([]valueKind{kind}, 3, seed)
		was, is, again := make([]float64, 3), make([]float64, 3), make([]float64, 3)
		a.scrape(was)
		b.scrape(again)
		for range 50 {
			a.scrape(is)
			b.scrape(again)
			require.Equal(t, is, again, kind)
			for i := range is {
				switch kind {
				case counters:
					require.GreaterOrEqual(t, is[i], was[i])
				case constants:
					require.Equal(t, was[i], is[i])
				case noise:
					require.NotEqual(t, was[i], is[i])
				}
			}
			copy(was, is)
		}
	}
}

// Label sets of a real server are many, and their names are sorted.
func TestRealSets_AreSorted(t *testing.T) {
	sets, err := realSets()
	require.NoError(t, err)
	require.Len(t, sets, realSeries)
	for _, set := range sets {
		for k := 2; k < len(set); k += 2 {
			require.Greater(t, set[k], set[k-2])
		}
	}
}

// What this process does is not what others do.
func TestLoadWatch_LeavesOutThisProcess(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the load of others is known on Linux only")
	}
	w := watchLoad()
	require.True(t, w.ok)
	w.all, w.used, w.own = w.all-1000*time.Second, w.used-600*time.Second, w.own-200*time.Second
	require.InDelta(t, 0.4, w.others(), 0.05)
	w.all += 2000 * time.Second // the clock went backwards
	require.InDelta(t, -1, w.others(), 0)
}
