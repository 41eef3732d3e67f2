package reftable

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Whatever comes and goes, the table has what a map has.
func TestTable_Random_IsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var table Table[*int]
		want := map[uint64]*int{}
		refs := rapid.Uint64Range(1, uint64(rapid.SampledFrom([]int{4, 40, 4000}).Draw(t, "refs")))
		stride := rapid.SampledFrom([]uint64{1, 7, 1024}).Draw(t, "stride")
		for range rapid.IntRange(0, 300).Draw(t, "steps") {
			ref := refs.Draw(t, "ref") * stride
			switch what := rapid.IntRange(0, 20).Draw(t, "what"); {
			case want[ref] == nil:
				want[ref] = new(int)
				table.Add(ref, want[ref])
			case what == 0:
				keep := func(ref uint64, v *int) bool { return ref/stride%3 != 0 && v == want[ref] }
				table.Keep(keep)
				maps.DeleteFunc(want, func(ref uint64, v *int) bool { return !keep(ref, v) })
			case what > 10:
				delete(want, ref)
				table.Remove(ref)
			}
			other := refs.Draw(t, "other") * stride
			require.Same(t, want[other], table.Find(other))
		}
		require.Equal(t, want, maps.Collect(table.All()))
		require.Equal(t, len(want), table.used)
		for ref, v := range want {
			require.Same(t, v, table.Find(ref))
		}
	})
}
