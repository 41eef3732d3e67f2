package chunkenc_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/itertest"
	"github.com/seed347100a3/tsdb/internal/xorchunk"
)

// fewSamples are five samples, the times of which leave gaps.
func fewSamples(withStarts bool) (list []itertest.Sample) {
	for i := range int64(5) {
		s := itertest.Sample{T: 10 + 3*i, V: float64(i) / 3}
		if withStarts && i%2 == 1 {
			s.ST = s.T - 2
		}
		list = append(list, s)
	}
	return list
}

// chunkOf encodes samples; only XOR2 keeps start timestamps.
func chunkOf(t *testing.T, list []itertest.Sample, xor2 bool) chunkenc.Chunk {
	t.Helper()
	var xor xorchunk.Encoder
	var second xorchunk.Encoder2
	for _, s := range list {
		if xor2 {
			require.NoError(t, second.Append(s.T, s.V, s.ST))
		} else {
			require.NoError(t, xor.Append(s.T, s.V))
		}
	}
	enc, data := chunkenc.EncXOR, xor.AppendTo(nil)
	if xor2 {
		enc, data = chunkenc.EncXOR2, second.AppendTo(nil)
	}
	c, err := chunkenc.FromData(enc, data)
	require.NoError(t, err)
	return c
}

func TestIterator_AllSequencesOfFourMoves_EqualTheSlice(t *testing.T) {
	for name, c := range map[string]struct {
		xor2, starts bool
	}{"XOR": {}, "XOR2": {xor2: true}, "XOR2 with start timestamps": {xor2: true, starts: true}} {
		want := fewSamples(c.starts)
		chunk := chunkOf(t, want, c.xor2)
		var reuse chunkenc.Iterator
		require.NoError(t, itertest.CheckAll(want, 4, func() chunkenc.Iterator {
			reuse = chunk.Iterator(reuse)
			return reuse
		}), name)
	}
	var none chunkenc.Chunk
	require.NoError(t, itertest.CheckAll(nil, 3, func() chunkenc.Iterator { return none.Iterator(nil) }))
}

// A chunk that is damaged behind some samples: the end is as final, and has its error.
func TestIterator_BehindDamage_StaysAtItsEndWithTheError(t *testing.T) {
	for _, xor2 := range []bool{false, true} {
		list := make([]itertest.Sample, 300)
		r := rand.New(rand.NewPCG(5, 5))
		for i := range list {
			list[i] = itertest.Sample{T: int64(i) * 1000, V: r.Float64()}
		}
		whole := chunkOf(t, list, xor2)
		chunk, err := chunkenc.FromData(whole.Encoding(), whole.Bytes()[:len(whole.Bytes())/2])
		require.NoError(t, err)
		for _, toEnd := range []func(chunkenc.Iterator){
			func(it chunkenc.Iterator) {
				for it.Next() != chunkenc.ValNone {
				}
			},
			func(it chunkenc.Iterator) { it.Seek(math.MaxInt64) },
			func(it chunkenc.Iterator) {
				for b := chunkenc.NewBatch(7); it.NextBatch(b) != chunkenc.ValNone; {
				}
			},
		} {
			it := chunk.Iterator(nil)
			toEnd(it)
			requireEnded(t, it)
		}
	}
}

// requireEnded tries every way to move an iterator that has ended with an error.
func requireEnded(t *testing.T, it chunkenc.Iterator) {
	t.Helper()
	err := it.Err()
	require.Error(t, err)
	for range 2 {
		require.Equal(t, chunkenc.ValNone, it.Seek(math.MinInt64))
		require.Equal(t, chunkenc.ValNone, it.Next())
		b := chunkenc.Batch{T: []int64{1}, V: []float64{1}}
		require.Equal(t, chunkenc.ValNone, it.NextBatch(&b))
		require.Zero(t, b.Len())
		require.Equal(t, err, it.Err())
	}
}
