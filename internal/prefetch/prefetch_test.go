package prefetch_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/prefetch"
)

// What is asked for is not changed, nothing is allocated, and nil is no fault.
func TestPrefetch_HasNoEffectThatCanBeSeen(t *testing.T) {
	b, x, y := byte(7), int64(8), int64(9)
	allocs := testing.AllocsPerRun(100, func() {
		prefetch.Byte(&b)
		prefetch.Int64s(&x, &y)
		prefetch.Byte(nil)
		prefetch.Int64s(nil, nil)
	})
	require.Zero(t, allocs)
	require.Equal(t, []int64{7, 8, 9}, []int64{int64(b), x, y})
}

// What a call costs when the line is there.
func BenchmarkPrefetch(b *testing.B) {
	var x byte
	for b.Loop() {
		prefetch.Byte(&x)
	}
}
