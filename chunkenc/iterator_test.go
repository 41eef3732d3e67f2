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

func TestBoundedIterator_AnyMovesBoundsAndDeletes_EqualTheModel(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	for range 60 {
		all := series(1+r.IntN(3*BatchSize), 5000, func(_ int, r *rand.Rand) float64 { return r.NormFloat64() })
		mint, maxt := pick(r, all), pick(r, all)
		if r.IntN(4) == 0 {
			mint = math.MinInt64
		}
		if r.IntN(4) == 0 {
			maxt = math.MaxInt64
		}
		deleted := randomIntervals(r, all)
		var want []sample
		for _, s := range all {
			if s.t >= mint && s.t <= maxt && !covered(deleted, s.t) {
				want = append(want, s)
			}
		}
		c, err := FromData(EncXOR, encode(t, all))
		require.NoError(t, err)
		var b BoundedIterator
		checkIterator(t, r, want, func() Iterator {
			b.Reset(c.Iterator(nil), mint, maxt, deleted)
			return &b
		})
	}
}

// pick returns a time at, just before or just after one of the samples.
func pick(r *rand.Rand, samples []sample) int64 {
	return samples[r.IntN(len(samples))].t + int64(r.IntN(3)) - 1
}

func randomIntervals(r *rand.Rand, samples []sample) []Interval {
	var out []Interval
	t := samples[0].t - 1000
	for range r.IntN(12) {
		t += 2 + int64(r.IntN(400_000))
		end := t + int64(r.IntN(300_000))
		out = append(out, Interval{t, end})
		t = end
	}
	return out
}

func covered(deleted []Interval, t int64) bool {
	for _, d := range deleted {
		if d.Mint <= t && t <= d.Maxt {
			return true
		}
	}
	return false
}

func TestBoundedIterator_EdgesOfTime(t *testing.T) {
	all := []sample{{math.MinInt64, 1}, {-1, 2}, {0, 3}, {1, 4}, {math.MaxInt64, 5}}
	c, err := FromData(EncXOR, encode(t, all))
	require.NoError(t, err)
	for _, x := range []struct {
		mint, maxt int64
		deleted    []Interval
		want       []sample
	}{
		{math.MinInt64, math.MaxInt64, nil, all},
		{math.MinInt64, math.MinInt64, nil, all[:1]},
		{math.MaxInt64, math.MaxInt64, nil, all[4:]},
		{math.MinInt64 + 1, math.MaxInt64 - 1, nil, all[1:4]},
		{0, 0, nil, all[2:3]},
		{1, 0, nil, nil},
		{math.MinInt64, math.MaxInt64, []Interval{{math.MinInt64, math.MaxInt64}}, nil},
		{math.MinInt64, math.MaxInt64, []Interval{{math.MinInt64, -1}, {1, 1}}, []sample{all[2], all[4]}},
		{-1, 1, []Interval{{0, 0}}, []sample{all[1], all[3]}},
	} {
		r := rand.New(rand.NewPCG(1, 1))
		checkIterator(t, r, x.want, func() Iterator {
			b := &BoundedIterator{}
			b.Reset(c.Iterator(nil), x.mint, x.maxt, x.deleted)
			return b
		})
	}
}

func TestBoundedIterator_ZeroValue_IsEmpty(t *testing.T) {
	var b BoundedIterator
	require.Equal(t, ValNone, b.Next())
	require.Equal(t, ValNone, b.Seek(0))
	require.Equal(t, ValNone, b.NextBatch(&Batch{}))
	require.NoError(t, b.Err())
	var it FloatIterator
	require.Equal(t, ValNone, it.Next())
	require.Equal(t, ValNone, it.Seek(0))
	require.Equal(t, ValNone, it.NextBatch(&Batch{}))
	require.NoError(t, it.Err())
}

func TestBoundedIterator_StopsDecodingBehindMaxt(t *testing.T) {
	all := series(1000, 0, func(i int, _ *rand.Rand) float64 { return float64(i) })
	c, err := FromData(EncXOR, encode(t, all))
	require.NoError(t, err)
	inner := &FloatIterator{}
	inner.Reset(c)
	var b BoundedIterator
	b.Reset(inner, all[0].t, all[2].t, nil)
	for range 3 {
		require.Equal(t, ValFloat, b.Next())
	}
	require.Equal(t, ValNone, b.Next())
	require.Equal(t, 1000-BatchSize, inner.dec.Left())
}
