package chunkenc

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/encbuf"
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

func TestXORIterator_AnyMoves_EqualTheModel(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	shapes := [][]sample{
		{{math.MinInt64, 1}},
		{{-1, 0}, {0, 1 << 63}},
		{{math.MinInt64, 1}, {0, 2}, {math.MaxInt64, 3}},
		series(BatchSize),
		series(5*BatchSize + 17),
	}
	var it Iterator
	for _, samples := range shapes {
		c, err := FromData(EncXOR, encode(t, samples))
		require.NoError(t, err)
		checkIterator(t, r, samples, func() Iterator { return c.Iterator(nil) })
		checkIterator(t, r, samples, func() Iterator {
			it = c.Iterator(it)
			return it
		})
	}
}

func TestChunkIterator_ZeroValue_IsEmpty(t *testing.T) {
	var it chunkIterator
	require.Equal(t, ValNone, it.Next())
	require.Equal(t, ValNone, it.Seek(0))
	require.Equal(t, ValNone, it.NextBatch(&Batch{}))
	require.NoError(t, it.Err())
}

func TestChunkIterator_GoodSamplesComeBeforeTheError(t *testing.T) {
	data := encode(t, series(10))
	var it chunkIterator
	it.reset(Chunk{enc: EncXOR, data: data[:len(data)-1]})
	for i := range 9 {
		require.Equal(t, ValFloat, it.Next(), i)
	}
	require.Equal(t, ValNone, it.Next())
	require.ErrorIs(t, it.Err(), encbuf.ErrCorrupt)
}
