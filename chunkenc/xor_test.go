package chunkenc

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/encbuf"
)

func TestFromData_UnknownEncodings_AreErrorsWithTheNumber(t *testing.T) {
	for _, enc := range []Encoding{0, 7, 8, 0x70, 0x81, 255} {
		_, err := FromData(enc, make([]byte, 100))
		require.ErrorIs(t, err, ErrUnknownEncoding)
		require.ErrorContains(t, err, "encoding ")
	}
	_, err := FromData(7, nil)
	require.ErrorContains(t, err, "encoding 7")
	require.Equal(t, "encoding 7", Encoding(7).String())
	require.Equal(t, "float histogram with start timestamps", EncFloatHistogramST.String())
	require.Equal(t, "XOR", EncXOR.String())
	require.Equal(t, "XOR2", EncXOR2.String())
	require.Equal(t, "none", EncNone.String())
}

func TestFromData_TooShort_IsDamage(t *testing.T) {
	for n := range headerSize {
		_, err := FromData(EncXOR, make([]byte, n))
		require.ErrorIs(t, err, encbuf.ErrCorrupt)
		var d XORDecoder
		require.ErrorIs(t, d.Reset(make([]byte, n)), encbuf.ErrCorrupt)
		var it chunkIterator
		it.reset(Chunk{enc: EncXOR, data: make([]byte, n)})
		require.Equal(t, ValNone, it.Next())
		require.ErrorIs(t, it.Err(), encbuf.ErrCorrupt)
	}
	require.Zero(t, Chunk{}.NumSamples())
	require.Equal(t, ValNone, Chunk{}.Iterator(nil).Next())
}

func TestXORDecoder_CutAnywhere_GivesAPrefixAndAnError(t *testing.T) {
	for _, v := range xorVectors(t) {
		data := v.bytes(t)
		for n := range data {
			cut := append(make([]byte, 0, n), data[:n]...)
			got, err := decode(cut, 5)
			require.ErrorIs(t, err, encbuf.ErrCorrupt, "%s cut to %d of %d", v.Name, n, len(data))
			var at *encbuf.CorruptError
			require.ErrorAs(t, err, &at)
			require.LessOrEqual(t, at.Offset, int64(n))
			require.LessOrEqual(t, len(got), max(len(v.Samples)-1, 0))
			require.Equal(t, v.Samples[:len(got)], append([]sample{}, got...))
		}
	}
}

func TestXORDecoder_FlippedBits_NeverPanicAndNeverGiveMore(t *testing.T) {
	for _, v := range xorVectors(t) {
		data := v.bytes(t)
		for bit := range len(data) * 8 {
			bad := append([]byte{}, data...)
			bad[bit/8] ^= 0x80 >> (bit % 8)
			got, err := decode(bad, 64)
			require.LessOrEqual(t, len(got), int(binary.BigEndian.Uint16(bad)))
			if err == nil {
				require.Len(t, got, int(binary.BigEndian.Uint16(bad)))
			} else {
				require.ErrorIs(t, err, encbuf.ErrCorrupt)
			}
		}
	}
}

func TestXORDecoder_WindowOfMoreThan64Bits_IsDamage(t *testing.T) {
	// Sample 1 says 31 leading zeros and 40 significant bits.
	data := binary.BigEndian.AppendUint16(nil, 2)
	data = binary.AppendVarint(data, 1000)
	data = binary.BigEndian.AppendUint64(data, 1)
	data = binary.AppendUvarint(data, 1000)
	data = binary.BigEndian.AppendUint64(data, (0b11<<11|31<<6|40)<<51|1)
	data = append(data, make([]byte, 16)...)
	got, err := decode(data, 8)
	require.ErrorIs(t, err, encbuf.ErrCorrupt)
	require.ErrorContains(t, err, "window")
	require.Len(t, got, 1)
}

// The place of the damage is the same however many samples are decoded at a time, also behind
// values of full precision.
func TestXORDecoder_ImpossibleWindow_BehindWideOnes(t *testing.T) {
	all := series(60, 3, func(_ int, r *rand.Rand) float64 { return r.NormFloat64() })
	data := encode(t, all)
	found := 0
	for bit := range len(data) * 8 {
		bad := append([]byte{}, data...)
		bad[bit/8] ^= 0x80 >> (bit % 8)
		got, err := decode(bad, 64)
		one, oneErr := decode(bad, 1)
		require.Equal(t, oneErr, err)
		require.Equal(t, one, got)
		if err != nil && strings.Contains(err.Error(), "window") {
			found++
		}
	}
	require.Greater(t, found, 100)
}

func TestXORDecoder_AfterDamage_GivesNothingMore(t *testing.T) {
	all := series(10, 0, func(i int, _ *rand.Rand) float64 { return float64(i) })
	data := encode(t, all)
	var d XORDecoder
	require.NoError(t, d.Reset(data[:len(data)-1]))
	ts, vs := make([]int64, 20), make([]float64, 20)
	n, err := d.Decode(ts, vs)
	require.ErrorIs(t, err, encbuf.ErrCorrupt)
	require.Equal(t, 9, n)
	n, err = d.Decode(ts, vs)
	require.Zero(t, n)
	require.NoError(t, err)
	require.Zero(t, d.Left())

	var it chunkIterator
	it.reset(Chunk{enc: EncXOR, data: data[:len(data)-1]})
	for i := range 9 {
		require.Equal(t, ValFloat, it.Next(), "good samples come before the error: %d", i)
	}
	require.Equal(t, ValNone, it.Next())
	require.ErrorIs(t, it.Err(), encbuf.ErrCorrupt)
}

// Changes of time and value of every length follow each other in any order, with runs of the
// same in between, and are decoded in runs of any length.
func TestXORDecoder_AnyWindowAndDistance(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 500 {
		all := make([]sample, 1+r.IntN(300))
		at, delta, v, idle := int64(0), int64(1000), r.Uint64(), 0
		for i := range all {
			all[i] = sample{at, v}
			if r.IntN(4) == 0 && idle <= 0 {
				delta += r.Int64N(2<<r.IntN(40)) - 1<<r.IntN(40)
			}
			at += delta
			if idle--; idle > 0 {
				continue
			}
			if r.IntN(20) == 0 {
				idle = r.IntN(50)
			}
			sig := 1 + r.IntN(64)
			v ^= r.Uint64() >> (64 - sig) << r.IntN(65-sig)
		}
		data := encode(t, all)
		for _, run := range []int{1, 2, 7, 120, len(all)} {
			got, err := decode(data, run)
			require.NoError(t, err)
			require.Equal(t, all, got)
		}
	}
}

func TestXOR_65535Samples_AndNotOneMore(t *testing.T) {
	all := series(MaxSamples, 30, func(i int, r *rand.Rand) float64 {
		if i%100 < 50 {
			return 1
		}
		return r.NormFloat64()
	})
	var e XOREncoder
	for _, s := range all {
		require.NoError(t, e.Append(s.t, math.Float64frombits(s.v)))
	}
	require.ErrorIs(t, e.Append(0, 0), ErrChunkFull)
	require.Equal(t, MaxSamples, e.Len())
	data := e.AppendTo(nil)
	require.Len(t, data, e.SizeBytes())
	for _, run := range []int{BatchSize, 1000, MaxSamples} {
		got, err := decode(data, run)
		require.NoError(t, err)
		require.Equal(t, all, got)
	}
	require.Panics(t, func() { e.state.Append(e.buf, 0, 0) })

	e.Reset()
	require.Equal(t, []byte{0, 0}, e.AppendTo(nil))
	require.NoError(t, e.Append(1, 2))
	require.Equal(t, 1, e.Len())
}

func TestXORState_Snapshots_AreEachAPrefix(t *testing.T) {
	for _, v := range xorVectors(t) {
		var s XORState
		var buf []byte
		for i, x := range v.Samples {
			buf = s.Append(buf, x.t, math.Float64frombits(x.v))
			require.Equal(t, v.Samples[0].t, s.FirstT())
			require.Equal(t, x.t, s.LastT())
			require.Equal(t, x.v, math.Float64bits(s.LastV()))
			snap := s.Snapshot([]byte("before"), buf)
			require.Equal(t, "before", string(snap[:6]))
			require.Len(t, snap[6:], s.SizeBytes(buf))
			got, err := decode(snap[6:], 50)
			require.NoError(t, err)
			require.Equal(t, v.Samples[:i+1], got)
		}
	}
}

func TestXORState_EmptyChunk(t *testing.T) {
	var s XORState
	require.Equal(t, 2, s.SizeBytes(nil))
	require.Equal(t, []byte{0, 0}, s.Snapshot(nil, nil))
	require.Equal(t, []byte{0, 0}, s.Finish(nil))
	got, err := decode([]byte{0, 0}, 1)
	require.NoError(t, err)
	require.Empty(t, got)
}

func TestChunk_Iterator_ReusesOnlyItsOwn(t *testing.T) {
	c, err := FromData(EncXOR, encode(t, []sample{{1, 1}, {2, 2}}))
	require.NoError(t, err)
	require.Equal(t, 2, c.NumSamples())
	require.Equal(t, EncXOR, c.Encoding())
	it := c.Iterator(nil)
	require.Equal(t, ValFloat, it.Next())
	require.Same(t, it, c.Iterator(it))
	require.Equal(t, ValFloat, it.Next())
	require.Equal(t, int64(1), it.AtT())
	require.NotSame(t, it, c.Iterator(struct{ Iterator }{}))
	require.NotNil(t, c.Iterator((*chunkIterator)(nil)))
}

func TestSteadyState_AllocatesNothing(t *testing.T) {
	all := series(120, 10, func(_ int, r *rand.Rand) float64 { return r.NormFloat64() })
	var s XORState
	buf := make([]byte, 0, 2048)
	snap := make([]byte, 0, 2048)
	require.Zero(t, testing.AllocsPerRun(10, func() {
		s.Reset()
		buf = buf[:0]
		for _, x := range all {
			buf = s.Append(buf, x.t, math.Float64frombits(x.v))
		}
		snap = s.Snapshot(snap[:0], buf)
		buf = s.Finish(buf)
	}))
	it := Chunk{enc: EncXOR, data: buf}.Iterator(nil)
	batch := &Batch{}
	read := func() {
		it = Chunk{enc: EncXOR, data: buf}.Iterator(it)
		for it.Next() != ValNone {
			it.At()
		}
		it = Chunk{enc: EncXOR, data: buf}.Iterator(it)
		it.Next()
		for it.NextBatch(batch) != ValNone {
			it.At()
		}
	}
	read()
	require.Zero(t, testing.AllocsPerRun(10, read))
}

// Whatever is in a chunk, its header says how many samples there are.
func TestEncoding_NumSamples(t *testing.T) {
	for enc := EncXOR; enc <= EncFloatHistogramST; enc++ {
		require.Zero(t, enc.NumSamples([]byte{1}))
		require.Equal(t, 0x0102, enc.NumSamples([]byte{1, 2}))
	}
	require.Equal(t, 0xc102, EncHistogram.NumSamples([]byte{0xc1, 2}))
	require.Equal(t, 0x0102, EncHistogramST.NumSamples([]byte{0xc1, 2}), "without the flags")
	require.Equal(t, 0x0102, EncFloatHistogramST.NumSamples([]byte{0x81, 2}))
}
