package late_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/late"
)

func TestBlockRange_StaysOnOneSideOfTheHead(t *testing.T) {
	for _, c := range []struct{ t, start, newest, mint, end int64 }{
		{5, 100, 99, 0, 10},
		{10, 100, 99, 10, 20},
		{-1, 100, 99, -10, 0},
		{-10, 100, 99, -10, 0},
		{95, 97, 96, 90, 97},   // the head begins in the range
		{95, 97, 98, 90, 97},   // and what is behind it
		{97, 97, 98, 97, 99},   // comes into a block that ends with the samples
		{98, 97, 250, 97, 100}, // or with the range
		{90, 90, 90, 90, 91},
		{math.MinInt64 + 2, 0, 0, math.MinInt64 + 1, math.MinInt64 + 8}, // no multiple of 10 is before it
		{math.MaxInt64 - 1, 0, math.MaxInt64 - 1, math.MaxInt64 - 7, math.MaxInt64},
	} {
		mint, end := late.BlockRange(c.t, c.start, c.newest, 10)
		require.Equal(t, [2]int64{c.mint, c.end}, [2]int64{mint, end}, "%+v", c)
		require.True(t, mint <= c.t && c.t < end, "%+v", c)
	}
}
