package chunkenc

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// checkIterator drives iterators over want with random moves and compares each step
// with the obvious implementation: an index.
func checkIterator(t *testing.T, r *rand.Rand, want []sample, open func() Iterator) {
	t.Helper()
	for range 30 {
		it := open()
		pos := -1
		for steps := 0; pos < len(want) && steps < 3*len(want)+3; steps++ {
			switch r.IntN(8) {
			case 0, 1, 2:
				pos++
				requireAt(t, want, pos, it, it.Next())
			case 3, 4:
				pos = checkSeek(t, r, want, pos, it)
			case 5:
				pos = checkBatch(t, want, pos, it, NewBatch(1+r.IntN(9)))
			case 6:
				pos = checkBatch(t, want, pos, it, &Batch{})
			default:
				// A seek that must not move.
				if pos >= 0 {
					requireAt(t, want, pos, it, it.Seek(before(want[pos].t, r.IntN(3))))
				}
			}
		}
		require.NoError(t, it.Err())
		if pos >= len(want) {
			require.Equal(t, ValNone, it.Next(), "stays at the end")
			require.Equal(t, ValNone, it.Seek(math.MinInt64))
			require.Equal(t, ValNone, it.NextBatch(NewBatch(3)))
		}
	}
}

func checkSeek(t *testing.T, r *rand.Rand, want []sample, pos int, it Iterator) int {
	t.Helper()
	pos = max(pos, 0)
	ahead := min(pos+r.IntN(len(want)/4+3), len(want))
	target := int64(math.MaxInt64)
	if ahead < len(want) {
		target = before(want[ahead].t, r.IntN(3))
	}
	for pos < len(want) && want[pos].t < target {
		pos++
	}
	requireAt(t, want, pos, it, it.Seek(target))
	return pos
}

func checkBatch(t *testing.T, want []sample, pos int, it Iterator, b *Batch) int {
	t.Helper()
	vt := it.NextBatch(b)
	require.Equal(t, len(b.T), len(b.V))
	if pos+1 >= len(want) {
		require.Equal(t, ValNone, vt)
		require.Zero(t, b.Len())
		return len(want)
	}
	require.Equal(t, ValFloat, vt)
	require.NotZero(t, b.Len())
	for i := range b.T {
		pos++
		require.Less(t, pos, len(want))
		require.Equal(t, want[pos], sample{b.T[i], math.Float64bits(b.V[i])})
	}
	requireAt(t, want, pos, it, vt)
	return pos
}

// before returns t-n, or the earliest time if that would wrap.
func before(t int64, n int) int64 {
	return max(t, math.MinInt64+int64(n)) - int64(n)
}

func requireAt(t *testing.T, want []sample, pos int, it Iterator, vt ValueType) {
	t.Helper()
	if pos >= len(want) {
		require.Equal(t, ValNone, vt)
		return
	}
	require.Equal(t, ValFloat, vt, "at %d of %d", pos, len(want))
	at, v := it.At()
	require.Equal(t, want[pos], sample{at, math.Float64bits(v)}, "at %d of %d", pos, len(want))
	require.Equal(t, at, it.AtT())
}

// sorted reports whether seeking in samples makes sense.
func sorted(samples []sample) bool {
	for i := 1; i < len(samples); i++ {
		if samples[i].t <= samples[i-1].t {
			return false
		}
	}
	return true
}

func TestXORIterator_AnyMoves_EqualTheModel(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	for _, v := range xorVectors(t) {
		if !sorted(v.Samples) {
			continue
		}
		c, err := FromData(EncXOR, v.bytes(t))
		require.NoError(t, err)
		var it Iterator
		checkIterator(t, r, v.Samples, func() Iterator {
			it = c.Iterator(it)
			return it
		})
	}
	long := series(5*BatchSize+17, 3, func(_ int, r *rand.Rand) float64 { return r.NormFloat64() })
	c, err := FromData(EncXOR, encode(t, long))
	require.NoError(t, err)
	checkIterator(t, r, long, func() Iterator { return c.Iterator(nil) })
}

func TestChunkIterator_ZeroValue_IsEmpty(t *testing.T) {
	var it chunkIterator
	require.Equal(t, ValNone, it.Next())
	require.Equal(t, ValNone, it.Seek(0))
	require.Equal(t, ValNone, it.NextBatch(&Batch{}))
	require.NoError(t, it.Err())
}
