package remote

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/labels"
)

func TestSpreadVarint_IsThatOfTheStandardLibrary(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	values := []uint64{0, math.MaxUint64, math.MaxInt64, 1 << 63}
	for bit := range 64 {
		values = append(values, 1<<bit-1, 1<<bit, 1<<bit+1)
		for range 100 {
			values = append(values, rng.Uint64()>>bit)
		}
	}
	for _, v := range values {
		want := binary.AppendUvarint(nil, v)
		require.Equal(t, len(want), sizeVarint(v), "%#x", v)
		if v < 1<<14 {
			word, n := shortVarint(v)
			require.Equal(t, want, binary.LittleEndian.AppendUint64(nil, word)[:n], "%#x", v)
			require.Len(t, want, n)
		}
		word, n := spreadVarint(v)
		if v == 0 || v >= 1<<56 {
			require.Zero(t, n, "%#x", v)
			continue
		}
		require.Equal(t, want, binary.LittleEndian.AppendUint64(nil, word)[:n], "%#x", v)
		require.Zero(t, word>>(8*n-8)>>8, "%#x", v)
	}
}

// What add writes without a loop is what it writes field by field.
func TestFrameEncoder_AddIsAddRare(t *testing.T) {
	times := []int64{0, 1, 127, 128, 1 << 41, 1<<56 - 1, 1 << 56, math.MaxInt64, -1, math.MinInt64}
	data := make([]byte, 1<<14)
	for i := range data {
		data[i] = byte(i)
	}
	for _, mint := range times {
		for _, maxt := range times {
			for _, enc := range []chunkenc.Encoding{0, 1, 5, 127, 128, 255} {
				for _, n := range []int{0, 1, 100, 127, 128, 16384 - chunkHeaderRoom, 16385 - chunkHeaderRoom, 16383, 16384} {
					got, want := frameEncoder{buf: []byte("abc")}, frameEncoder{buf: []byte("abc"), chunks: 1}
					got.add(mint, maxt, enc, data[:n])
					want.addRare(mint, maxt, enc, data[:n])
					got.buf, want.buf = got.buf[:len(got.buf):len(got.buf)], want.buf[:len(want.buf):len(want.buf)]
					require.Equal(t, want, got)
				}
			}
		}
	}
}

func appendLabels(dst []byte, ls []labels.Label) []byte {
	for _, l := range ls {
		dst = appendLabel(dst, l)
	}
	return dst
}
