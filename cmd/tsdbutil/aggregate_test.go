package main

import (
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The end of a step is the nearest time at t or later that is a number of steps away, wherever.
func TestStepEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at, from := rapid.Int64().Draw(t, "t"), rapid.Int64().Draw(t, "from")
		step := rapid.Int64Range(1, math.MaxInt64).Draw(t, "step")
		if rapid.Bool().Draw(t, "short") {
			step = rapid.Int64Range(1, 100).Draw(t, "short step")
		}
		end := stepEnd(at, from, step)
		require.GreaterOrEqual(t, end, at)
		over := new(big.Int).Mod(new(big.Int).Sub(big.NewInt(end), big.NewInt(from)), big.NewInt(step))
		ahead := new(big.Int).Sub(big.NewInt(end), big.NewInt(at))
		require.Negative(t, ahead.Cmp(big.NewInt(step)))
		if over.Sign() != 0 {
			require.Equal(t, int64(math.MaxInt64), end)
		}
	})
	require.Equal(t, int64(120_000), stepEnd(60_001, 0, 60_000))
	require.Equal(t, int64(-60_000), stepEnd(-60_001, 0, 60_000))
	require.Equal(t, int64(60_000), stepEnd(60_000, 0, 60_000))
}
