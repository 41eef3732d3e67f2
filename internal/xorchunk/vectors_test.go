package xorchunk

import (
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// sample is one (t, v) with the value as bits, so that NaNs compare.
type sample struct {
	t int64
	v uint64
}

// UnmarshalJSON reads [timestamp, "16 hex digits"].
func (s *sample) UnmarshalJSON(b []byte) error {
	var raw [2]json.RawMessage
	if err := json.Unmarshal(b, &raw); err != nil {
		return err
	}
	var bits string
	if err := json.Unmarshal(raw[1], &bits); err != nil {
		return err
	}
	if err := json.Unmarshal(raw[0], &s.t); err != nil {
		return err
	}
	v, err := strconv.ParseUint(bits, 16, 64)
	s.v = v
	return err
}

type xorVector struct {
	Name       string
	Chunk      string
	Samples    []sample
	DecodeOnly bool `json:"decode_only"`
}

func (v xorVector) bytes(tb testing.TB) []byte {
	b, err := hex.DecodeString(v.Chunk)
	require.NoError(tb, err)
	return b
}

func xorVectors(tb testing.TB) []xorVector {
	b, err := os.ReadFile("testdata/xor.json")
	require.NoError(tb, err)
	var f struct{ Vectors []xorVector }
	require.NoError(tb, json.Unmarshal(b, &f))
	require.NotEmpty(tb, f.Vectors)
	return f.Vectors
}

// encode runs samples through an State whose buffer has exactly the room that
// the contract asks for, and checks Snapshot, SizeBytes and Finish against each other.
func encode(tb testing.TB, samples []sample) []byte {
	var s State
	var buf []byte
	for _, x := range samples {
		grown := make([]byte, len(buf), len(buf)+MaxSampleBytes)
		copy(grown, buf)
		buf = s.Append(grown, x.t, math.Float64frombits(x.v))
		require.Equal(tb, &grown[:1][0], &buf[0], "the buffer must not move")
	}
	require.Equal(tb, len(samples), s.Len())
	size := s.SizeBytes(buf)
	before := s
	snap := s.Snapshot(nil, buf)
	require.Equal(tb, before, s)
	fin := s.Finish(buf)
	require.Equal(tb, snap, fin)
	require.Len(tb, fin, size)
	if len(buf) > 0 {
		require.Equal(tb, &buf[0], &fin[0], "finished in place")
	}
	return fin
}

// decode decodes a whole chunk in runs of the given length.
func decode(data []byte, run int) ([]sample, error) {
	var d Decoder
	if err := d.Reset(data); err != nil {
		return nil, err
	}
	var out []sample
	ts, vs := make([]int64, run), make([]float64, run)
	for {
		n, err := d.Decode(ts, vs)
		for i := range n {
			out = append(out, sample{ts[i], math.Float64bits(vs[i])})
		}
		if n == 0 || err != nil {
			return out, err
		}
	}
}

func TestXOR_Vectors_EncodeToTheSameBytes(t *testing.T) {
	for _, v := range xorVectors(t) {
		if v.DecodeOnly {
			continue
		}
		t.Run(v.Name, func(t *testing.T) {
			require.Equal(t, v.Chunk, hex.EncodeToString(encode(t, v.Samples)))
		})
	}
}

func TestXOR_Vectors_DecodeToTheSameSamples(t *testing.T) {
	for _, v := range xorVectors(t) {
		t.Run(v.Name, func(t *testing.T) {
			for _, run := range []int{1, 2, 3, 7, 256} {
				got, err := decode(v.bytes(t), run)
				require.NoError(t, err)
				require.Len(t, got, len(v.Samples))
				for i := range got {
					require.Equal(t, v.Samples[i], got[i], "sample %d, runs of %d", i, run)
				}
			}
		})
	}
}
