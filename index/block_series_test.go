package index_test

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed347100a3/tsdb/index"
)

// Passing over numbers ends where reading them does, whatever lies behind them.
func TestSkipUvarints_EndsWhereTheyDo(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		before := rapid.SliceOfN(rapid.Byte(), 0, 9).Draw(rt, "before")
		numbers := rapid.SliceOfN(rapid.OneOf(rapid.Uint64Max(200), rapid.Uint64Max(1<<15), rapid.Uint64()), 0, 40).Draw(rt, "numbers")
		b := append([]byte(nil), before...)
		for _, n := range numbers {
			b = binary.AppendUvarint(b, n)
		}
		end := len(b)
		require.Equal(rt, end, index.SkipUvarints(b, len(before), len(numbers)), "nothing behind them")
		behind := rapid.SliceOfN(rapid.Byte(), 1, 20).Draw(rt, "behind")
		require.Equal(rt, end, index.SkipUvarints(append(b, behind...), len(before), len(numbers)))
		if len(numbers) > 0 {
			require.Equal(rt, -1, index.SkipUvarints(b[:end-1], len(before), len(numbers)), "the last one cut off")
		}
	})
}
