package xorchunk

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/histtest"
)

// stSample is a sample with a start timestamp.
type stSample struct {
	st, t int64
	v     uint64
}

// UnmarshalJSON reads [start timestamp, timestamp, "16 hex digits"].
func (s *stSample) UnmarshalJSON(b []byte) error {
	var bits string
	raw := []any{&s.st, &s.t, &bits}
	if err := json.Unmarshal(b, &raw); err != nil {
		return err
	}
	v, err := strconv.ParseUint(bits, 16, 64)
	s.v = v
	return err
}

type xor2Vector struct {
	Name, Chunk string
	Samples     []stSample
}

func (v xor2Vector) bytes(tb testing.TB) []byte {
	b, err := hex.DecodeString(v.Chunk)
	require.NoError(tb, err)
	return b
}

func xor2Vectors(tb testing.TB) []xor2Vector {
	b, err := os.ReadFile("testdata/xor2.json")
	require.NoError(tb, err)
	var f struct{ Vectors []xor2Vector }
	require.NoError(tb, json.Unmarshal(b, &f))
	require.NotEmpty(tb, f.Vectors)
	return f.Vectors
}

func encode2(tb testing.TB, samples []stSample) []byte {
	var e Encoder2
	for _, x := range samples {
		require.NoError(tb, e.Append(x.t, math.Float64frombits(x.v), x.st))
	}
	require.Equal(tb, len(samples), e.Len())
	return e.AppendTo(nil)
}

// decode2 decodes a whole chunk in runs of the given length.
func decode2(data []byte, run int) ([]stSample, error) {
	var d Decoder2
	if err := d.Reset(data); err != nil {
		return nil, err
	}
	var out []stSample
	ts, vs, sts := make([]int64, run), make([]float64, run), make([]int64, run)
	for {
		n, err := d.DecodeST(ts, vs, sts)
		for i := range n {
			out = append(out, stSample{sts[i], ts[i], math.Float64bits(vs[i])})
		}
		if n == 0 || err != nil {
			return out, err
		}
	}
}

func TestXOR2_Vectors_EncodeToTheSameBytes(t *testing.T) {
	for _, v := range xor2Vectors(t) {
		require.Equal(t, v.Chunk, hex.EncodeToString(encode2(t, v.Samples)), v.Name)
	}
}

func TestXOR2_Vectors_DecodeToTheSameSamples(t *testing.T) {
	for _, v := range xor2Vectors(t) {
		for _, run := range []int{1, 2, 3, 7, 126, 127, 128, 256} {
			got, err := decode2(v.bytes(t), run)
			require.NoError(t, err, v.Name)
			require.Equal(t, v.Samples, append([]stSample{}, got...), "%s, runs of %d", v.Name, run)
		}
		var d Decoder2
		require.NoError(t, d.Reset(v.bytes(t)))
		ts, vs := make([]int64, len(v.Samples)), make([]float64, len(v.Samples))
		n, err := d.Decode(ts, vs)
		require.NoError(t, err)
		require.Len(t, v.Samples, n)
		for i, s := range v.Samples {
			require.Equal(t, sample{s.t, s.v}, sample{ts[i], math.Float64bits(vs[i])}, "%s without start timestamps", v.Name)
		}
	}
}

// randomST makes samples with start timestamps that come, stay, change and go.
func randomST(r *rand.Rand, n int) (out []stSample) {
	histtest.EachStarted(r, n, func(st, t int64, v uint64) { out = append(out, stSample{st, t, v}) })
	return out
}

func TestXOR2_AnySamples_ComeBack(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 21))
	for range 500 {
		want := randomST(r, 1+r.IntN(400))
		data := encode2(t, want)
		for _, run := range []int{1 + r.IntN(200), 1000} {
			got, err := decode2(data, run)
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
	}
}

func TestXOR2Decoder_CutAnywhere_GivesAPrefixAndAnError(t *testing.T) {
	for _, v := range xor2Vectors(t) {
		data := v.bytes(t)
		for n := range data {
			cut := append(make([]byte, 0, n), data[:n]...)
			got, err := decode2(cut, 5)
			require.ErrorIs(t, err, encbuf.ErrCorrupt, "%s cut to %d of %d", v.Name, n, len(data))
			var at *encbuf.CorruptError
			require.ErrorAs(t, err, &at)
			require.LessOrEqual(t, at.Offset, int64(n))
			require.LessOrEqual(t, len(got), max(len(v.Samples)-1, 0))
			require.Equal(t, v.Samples[:len(got)], append([]stSample{}, got...))
		}
	}
}

func TestXOR2Decoder_FlippedBits_NeverPanicAndNeverGiveMore(t *testing.T) {
	for _, v := range xor2Vectors(t) {
		data := v.bytes(t)
		for bit := range len(data) * 8 {
			bad := append([]byte{}, data...)
			bad[bit/8] ^= 0x80 >> (bit % 8)
			got, err := decode2(bad, 64)
			if err == nil {
				require.Len(t, got, int(binary.BigEndian.Uint16(bad)))
			} else {
				require.LessOrEqual(t, len(got), int(binary.BigEndian.Uint16(bad)))
				require.ErrorIs(t, err, encbuf.ErrCorrupt)
			}
		}
	}
}

func TestXOR2Decoder_WindowOfMoreThan64Bits_IsDamage(t *testing.T) {
	// Sample 1 says 31 leading zeros and 40 significant bits.
	data := []byte{0, 2, 0}
	data = binary.AppendVarint(data, 1000)
	data = binary.BigEndian.AppendUint64(data, 1)
	data = binary.AppendUvarint(data, 1000)
	data = binary.BigEndian.AppendUint64(data, (0b110<<11|31<<6|40)<<50|1)
	data = append(data, make([]byte, 16)...)
	got, err := decode2(data, 8)
	require.ErrorIs(t, err, encbuf.ErrCorrupt)
	require.ErrorContains(t, err, "window")
	require.Len(t, got, 1)
}

func TestXOR2Decoder_TooShort_IsDamage(t *testing.T) {
	for n := range headerSize2 {
		var d Decoder2
		require.ErrorIs(t, d.Reset(make([]byte, n)), encbuf.ErrCorrupt)
	}
	var d Decoder2
	require.NoError(t, d.Reset([]byte{0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 7}))
	require.Equal(t, 1, d.Left())
	require.False(t, d.HasST())
	require.ErrorIs(t, d.Reset([]byte{0, 1, 0x80, 2, 0, 0, 0, 0, 0, 0, 0, 7}), encbuf.ErrCorrupt)
}

func TestXOR2_65535Samples_AndNotOneMore(t *testing.T) {
	want := randomST(rand.New(rand.NewPCG(22, 22)), MaxSamples)
	var e Encoder2
	for _, s := range want {
		require.NoError(t, e.Append(s.t, math.Float64frombits(s.v), s.st))
	}
	require.ErrorIs(t, e.Append(0, 0, 0), ErrFull)
	data := e.AppendTo(nil)
	for _, run := range []int{256, MaxSamples} {
		got, err := decode2(data, run)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	e.Reset()
	require.Equal(t, []byte{0, 0, 0}, e.AppendTo(nil))
	require.NoError(t, e.Append(1, 2, 3))
	require.Equal(t, 1, e.Len())
}

// FuzzXOR2Decode feeds any bytes to the decoder. What it accepts must survive encoding
// and decoding again, in runs of any length.
func FuzzXOR2Decode(f *testing.F) {
	for _, v := range xor2Vectors(f) {
		f.Add(v.bytes(f), uint8(7))
	}
	f.Fuzz(func(t *testing.T, data []byte, run uint8) {
		got, err := decode2(data, int(run)+1)
		if len(data) >= headerSize {
			require.LessOrEqual(t, len(got), int(binary.BigEndian.Uint16(data)))
		}
		whole, err2 := decode2(data, MaxSamples)
		require.Equal(t, whole, got)
		require.Equal(t, err, err2)
		if len(got) > 0 {
			again, err := decode2(encode2(t, got), int(run)+1)
			require.NoError(t, err)
			require.Equal(t, got, again)
		}
	})
}

// FuzzXOR2RoundTrip encodes any samples: each 13 bytes of input make one whose time,
// value and start timestamp are near the last one's or anywhere.
func FuzzXOR2RoundTrip(f *testing.F) {
	f.Add([]byte("0123456789abcdefghijklmnopqrstuvwxyz!@#$%^&*()"))
	f.Fuzz(func(t *testing.T, in []byte) {
		var samples []stSample
		var x stSample
		for ; len(in) >= 13 && len(samples) < MaxSamples; in = in[13:] {
			any, near := binary.BigEndian.Uint64(in[5:]), int64(int16(binary.BigEndian.Uint16(in[1:])))
			nearST := int64(int16(binary.BigEndian.Uint16(in[3:])))
			switch in[0] >> 5 {
			case 0:
				x.t = int64(any)
			case 1:
				x.v = any
			case 2:
				x.st = int64(any)
			case 3:
				x.v = staleMarker
			case 4:
				x.st = x.t + nearST<<(in[0]&7)
			default:
				x.t += near << (in[0] & 7)
				x.v ^= any >> (in[0] & 31) << (in[0] & 7)
			}
			samples = append(samples, x)
		}
		got, err := decode2(encode2(t, samples), 13)
		require.NoError(t, err)
		require.Equal(t, samples, got)
	})
}
