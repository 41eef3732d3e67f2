package remote

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPutVarint_IsThatOfTheStandardLibrary(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	values := []uint64{0, math.MaxUint64, math.MaxInt64, 1 << 63}
	for bit := range 64 {
		values = append(values, 1<<bit-1, 1<<bit, 1<<bit+1)
		for range 100 {
			values = append(values, rng.Uint64()>>bit)
		}
	}
	for _, v := range values {
		var b [binary.MaxVarintLen64 + putRoom]byte
		n := putVarint(b[:], v)
		require.Equal(t, binary.AppendUvarint(nil, v), b[:n], "%#x", v)
		require.Equal(t, n, sizeVarint(v))
	}
}
