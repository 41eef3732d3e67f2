package main

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// staleMarker is what the reference writes where a series ends.
var staleMarker = math.Float64frombits(0x7ff0000000000002)

func TestAppendSample_IsReadBackBitForBit(t *testing.T) {
	for v, want := range map[uint64]string{
		math.Float64bits(1.5): "1.5",
		plainNaN:              "NaN",
		0x7ff0000000000002:    "NaN(0x7ff0000000000002)",
		0xfff8000000000000:    "NaN(0xfff8000000000000)",
		1 << 63:               "-0",
		0x7ff << 52:           "+Inf",
		1:                     "5e-324",
	} {
		require.Equal(t, want, string(appendSample(nil, math.Float64frombits(v))))
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		bits := r.Uint64()
		if r.IntN(2) == 0 {
			bits |= 0x7ff << 52 // a NaN
		}
		text := appendSample(nil, math.Float64frombits(bits))
		v, err := parseValue(text)
		require.NoError(t, err, string(text))
		require.Equal(t, bits, math.Float64bits(v), string(text))
	}
}

func TestParseValue_RefusesWhatIsNoNaN(t *testing.T) {
	v, err := parseValue([]byte("nan(0X7FF0000000000002)"))
	require.NoError(t, err)
	require.Equal(t, math.Float64bits(staleMarker), math.Float64bits(v))
	for _, text := range []string{
		"NaN(0x7ff0000000000002", "NaN(0x7ff0000000000000)", "NaN(0x1)", "NaN(0x)", "NaN(0xg)", "NaN(0x07ff8000000000001)",
		"NaN(0x7ff0_000000000002)", "NaN(0x-7ff000000000002)", "NaN(2)",
	} {
		_, err := parseValue([]byte(text))
		require.ErrorContains(t, err, "the value is no ", text)
		require.ErrorContains(t, err, strconv.Quote(text))
	}
}
