package sweep

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOf_EachPlaceIsTriedWithOneOfTheSeedsAndAllInAWholeSweep(t *testing.T) {
	defer func(w bool, s uint64) { *whole, *seed = w, s }(*whole, *seed)
	*whole = false
	tried := map[int]int{}
	for *seed = range uint64(7) {
		places := Of(t, 1, 7)
		for _, at := range places.Below(100) {
			require.True(t, places.Has(at))
			require.False(t, places.Has(at+1))
			tried[at]++
		}
	}
	for at := range 100 {
		require.Equal(t, 1, tried[at], "place %d", at)
	}
	*whole = true
	require.Len(t, Of(t, 1, 7).Below(100), 100)
}
