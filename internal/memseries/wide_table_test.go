package memseries

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Whatever comes and goes, the table has what a map has.
func TestWideTable_Random_IsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var table wideTable
		want := map[uint64]*wideChunk{}
		refs := rapid.Uint64Range(1, uint64(rapid.SampledFrom([]int{4, 40, 4000}).Draw(t, "refs")))
		stride := rapid.SampledFrom([]uint64{1, 7, 1024}).Draw(t, "stride")
		for range rapid.IntRange(0, 300).Draw(t, "steps") {
			ref := refs.Draw(t, "ref") * stride
			if want[ref] == nil {
				want[ref] = &wideChunk{}
				table.put(ref, want[ref])
			} else if rapid.Bool().Draw(t, "remove") {
				delete(want, ref)
				table.remove(ref)
			}
			other := refs.Draw(t, "other") * stride
			require.Same(t, want[other], table.find(other))
		}
		require.Equal(t, want, maps.Collect(table.all()))
		require.Equal(t, len(want), table.used)
		for ref, c := range want {
			require.Same(t, c, table.find(ref))
		}
	})
}
