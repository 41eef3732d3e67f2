package index

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestSortKeys_EqualsTheSortOfPackageSlices(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.SampledFrom([]int{0, 1, 2, 11, 12, 13, 24, 25, 48, 100, 1000}).Draw(t, "keys")
		most := rapid.SampledFrom([]uint64{0, 3, 1 << 60}).Draw(t, "most")
		keys := make([]numberedKey, n)
		for i := range keys {
			keys[i] = numberedKey{rapid.Uint64Range(0, most).Draw(t, "key"), uint32(i)}
		}
		want := slices.Clone(keys)
		slices.SortStableFunc(want, func(a, b numberedKey) int {
			if a.key != b.key {
				return map[bool]int{true: -1, false: 1}[a.key < b.key]
			}
			return int(b.num) - int(a.num)
		})
		sortKeys(keys, make([]numberedKey, n), func(a, b numberedKey) bool { return a.num > b.num })
		require.Equal(t, want, keys)
	})
}
