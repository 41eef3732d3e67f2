package xorchunk

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/encbuf"
)

func TestXORDecoder_TooShort_IsDamage(t *testing.T) {
	for n := range headerSize {
		var d Decoder
		require.ErrorIs(t, d.Reset(make([]byte, n)), encbuf.ErrCorrupt)
	}
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
	var d Decoder
	require.NoError(t, d.Reset(data[:len(data)-1]))
	ts, vs := make([]int64, 20), make([]float64, 20)
	n, err := d.Decode(ts, vs)
	require.ErrorIs(t, err, encbuf.ErrCorrupt)
	require.Equal(t, 9, n)
	n, err = d.Decode(ts, vs)
	require.Zero(t, n)
	require.NoError(t, err)
	require.Zero(t, d.Left())
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
	var e Encoder
	for _, s := range all {
		require.NoError(t, e.Append(s.t, math.Float64frombits(s.v)))
	}
	require.ErrorIs(t, e.Append(0, 0), ErrFull)
	require.Equal(t, MaxSamples, e.Len())
	data := e.AppendTo(nil)
	require.Len(t, data, e.SizeBytes())
	for _, run := range []int{256, 1000, MaxSamples} {
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
		var s State
		var buf []byte
		for i, x := range v.Samples {
			buf = s.Append(buf, x.t, math.Float64frombits(x.v))
			require.Equal(t, v.Samples[0].t, s.FirstT())
			require.Equal(t, x.t, s.LastT())
			require.Equal(t, x.v, s.LastBits())
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
	var s State
	require.Equal(t, 2, s.SizeBytes(nil))
	require.Equal(t, []byte{0, 0}, s.Snapshot(nil, nil))
	require.Equal(t, []byte{0, 0}, s.Finish(nil))
	got, err := decode([]byte{0, 0}, 1)
	require.NoError(t, err)
	require.Empty(t, got)
}

func TestSteadyState_AllocatesNothing(t *testing.T) {
	all := series(120, 10, func(_ int, r *rand.Rand) float64 { return r.NormFloat64() })
	var s State
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
	var d Decoder
	ts, vs := make([]int64, 50), make([]float64, 50)
	require.Zero(t, testing.AllocsPerRun(10, func() {
		_ = d.Reset(buf)
		for d.Left() > 0 {
			_, _ = d.Decode(ts, vs)
		}
	}))
}
