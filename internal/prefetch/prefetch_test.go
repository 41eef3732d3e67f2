package prefetch_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/prefetch"
)

// What is asked for is not changed, nothing is allocated, and nil is no fault.
func TestLine_HasNoEffectThatCanBeSeen(t *testing.T) {
	x, y := int64(8), [2]string{"a", "b"}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		var local [64]byte
		prefetch.Line(&local[7])
		prefetch.Line(&x)
		prefetch.Lines(&x, &y[1])
		prefetch.Text("text"[1:])
		prefetch.Text("")
		prefetch.Line[int](nil)
		prefetch.Lines[int, string](nil, nil)
	}))
	require.Equal(t, int64(8), x)
	require.Equal(t, [2]string{"a", "b"}, y)
}

// What a call costs when the line is there.
func BenchmarkLine(b *testing.B) {
	var x byte
	for b.Loop() {
		prefetch.Line(&x)
	}
}
