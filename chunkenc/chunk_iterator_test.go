package chunkenc

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestChunkIterator_OfXOR2_AnyMoves_EqualTheModel(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 31))
	var it Iterator
	for range 40 {
		all := randomST(r, 1+r.IntN(3*BatchSize))
		c, err := FromData(EncXOR2, encode2(t, all))
		require.NoError(t, err)
		require.Equal(t, len(all), c.NumSamples())
		checkIterator(t, r, withoutST(all), func() Iterator {
			it = c.Iterator(it)
			return it
		})
	}
}

// startOf is the start timestamp of the sample at a time.
func startOf(all []stSample, t int64) int64 {
	for _, s := range all {
		if s.t == t {
			return s.st
		}
	}
	return -1
}

// Wherever an iterator stands, and whatever batch it filled, each sample has its own start
// timestamp.
func TestIterators_GiveEachSampleItsStartTimestamp(t *testing.T) {
	r := rand.New(rand.NewPCG(32, 32))
	for range 200 {
		all := randomST(r, 1+r.IntN(2*BatchSize))
		c, err := FromData(EncXOR2, encode2(t, all))
		require.NoError(t, err)
		it, b := c.Iterator(nil), NewBatch(1+r.IntN(300))
		for moved := ValFloat; moved != ValNone; {
			switch r.IntN(3) {
			case 0:
				moved = it.Next()
			case 1:
				moved = it.Seek(all[r.IntN(len(all))].t)
			default:
				moved = it.NextBatch(b)
				for i, at := range b.T {
					require.Equal(t, startOf(all, at), b.StartOf(i))
				}
			}
			if moved != ValNone {
				require.Equal(t, startOf(all, it.AtT()), it.AtST())
			}
		}
		require.NoError(t, it.Err())
	}
}

func TestChunkIterator_ChunksWithoutStartTimestamps_NeedNoRoomForThem(t *testing.T) {
	all := make([]stSample, 200) // those from 127 on have fields
	for i := range all {
		all[i] = stSample{t: int64(i+1) * 1000, v: uint64(i)}
	}
	for _, c := range []Chunk{
		{enc: EncXOR, data: encode(t, withoutST(all))},
		{enc: EncXOR2, data: encode2(t, all[:100])},
	} {
		b := Batch{}
		require.Equal(t, ValFloat, c.Iterator(nil).NextBatch(&b))
		require.Zero(t, cap(b.ST))
	}
	b := Batch{}
	require.Equal(t, ValFloat, Chunk{enc: EncXOR2, data: encode2(t, all)}.Iterator(nil).NextBatch(&b))
	require.Equal(t, 200, b.Len())
	require.Empty(t, b.ST)
}

func TestBatch_Append_MixesRunsWithAndWithoutStartTimestamps(t *testing.T) {
	plain := &Batch{T: []int64{1, 2, 3}, V: []float64{1, 2, 3}}
	started := &Batch{T: []int64{4, 5, 6}, V: []float64{4, 5, 6}, ST: []int64{40, 0, 60}}
	var b Batch
	b.Append(plain, 1, 3)
	require.Empty(t, b.ST)
	b.Append(started, 0, 2)
	b.Append(plain, 0, 1)
	require.Equal(t, Batch{T: []int64{2, 3, 4, 5, 1}, V: []float64{2, 3, 4, 5, 1}, ST: []int64{0, 0, 40, 0, 0}}, b)
	b.Move(0, 2)
	b.Cut(2)
	require.Equal(t, Batch{T: []int64{4, 3}, V: []float64{4, 3}, ST: []int64{40, 0}}, b)
	require.EqualValues(t, 40, b.StartOf(0))
	b.Cut(0)
	b.Append(plain, 0, 1)
	require.Empty(t, b.ST)
	require.Zero(t, b.StartOf(0))
}

func TestEncoder_IsXORUntilASampleHasAStartTimestamp(t *testing.T) {
	r := rand.New(rand.NewPCG(33, 33))
	var e Encoder
	for range 300 {
		e.Reset()
		require.Equal(t, EncXOR, e.Encoding())
		all := randomST(r, 1+r.IntN(300))
		started := false
		for i, s := range all {
			require.NoError(t, e.Append(s.t, math.Float64frombits(s.v), s.st))
			started = started || s.st != 0
			require.Equal(t, i+1, e.Len())
		}
		if started {
			require.Equal(t, EncXOR2, e.Encoding())
			require.Equal(t, encode2(t, all), e.AppendTo(nil))
		} else {
			require.Equal(t, EncXOR, e.Encoding())
			require.Equal(t, encode(t, withoutST(all)), e.AppendTo(nil))
		}
	}
}

func TestEncoder_Full(t *testing.T) {
	var e Encoder
	for i := range MaxSamples {
		require.NoError(t, e.Append(int64(i), 0, 0))
	}
	require.ErrorIs(t, e.Append(MaxSamples, 0, 0), ErrChunkFull)
	require.ErrorIs(t, e.Append(MaxSamples, 0, 1), ErrChunkFull)
	require.Equal(t, EncXOR, e.Encoding())
	require.Equal(t, MaxSamples, e.Len())
}

func TestDecoder_OtherEncodings_AreErrors(t *testing.T) {
	var d Decoder
	require.NoError(t, d.Reset(EncXOR, encode(t, []sample{{1, 1}})))
	require.Equal(t, 1, d.Left())
	require.ErrorIs(t, d.Reset(7, nil), ErrUnknownEncoding)
	require.Zero(t, d.Left())
	b := NewBatch(3)
	require.NoError(t, d.Decode(b, 3))
	require.Zero(t, b.Len())
}

func TestDecoder_SteadyState_AllocatesNothing(t *testing.T) {
	all := randomST(rand.New(rand.NewPCG(34, 34)), 240)
	all[0].st = 1
	data := encode2(t, all)
	var it Iterator
	b := &Batch{}
	read := func() {
		it = Chunk{enc: EncXOR2, data: data}.Iterator(it)
		it.Next()
		for it.NextBatch(b) != ValNone {
			it.AtST()
		}
	}
	read()
	require.Zero(t, testing.AllocsPerRun(10, read))
}
