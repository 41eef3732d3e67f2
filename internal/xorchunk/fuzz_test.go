package xorchunk

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzXORDecode feeds any bytes to the decoder. It gives what bits one by one give, in runs of
// any length, and what it accepts must survive encoding and decoding again.
func FuzzXORDecode(f *testing.F) {
	for _, v := range xorVectors(f) {
		f.Add(v.bytes(f), uint8(7))
	}
	f.Fuzz(func(t *testing.T, data []byte, run uint8) {
		got, _ := decode(data, int(run)+1)
		if len(data) >= headerSize {
			require.LessOrEqual(t, len(got), int(binary.BigEndian.Uint16(data)))
		}
		_ = requirePlain(t, data, 1, int(run)+1, MaxSamples)
		if len(got) > 0 {
			again, err := decode(encode(t, got), int(run)+1)
			require.NoError(t, err)
			require.Equal(t, got, again)
		}
	})
}

// FuzzXORRoundTrip encodes any times and value bits: each 11 bytes of input make a
// sample whose time is near the last one's or anywhere.
func FuzzXORRoundTrip(f *testing.F) {
	f.Add([]byte("0123456789abcdefghijklmnopqrstuvwxyz"))
	for _, v := range xorVectors(f) {
		var b []byte
		for _, s := range v.Samples {
			b = append(b, 0xff, 0, 0)
			b = binary.BigEndian.AppendUint64(b, uint64(s.t))
			b = append(b, 0xfe, 0, 0)
			b = binary.BigEndian.AppendUint64(b, s.v)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var samples []sample
		var last sample
		for ; len(in) >= 11 && len(samples) < MaxSamples; in = in[11:] {
			bits := binary.BigEndian.Uint64(in[3:])
			near := int64(int16(binary.BigEndian.Uint16(in[1:])))
			switch in[0] {
			case 0xff:
				last.t = int64(bits)
			case 0xfe:
				last.v = bits
			default:
				last.t += near << (in[0] & 7)
				if in[0]&8 == 0 {
					last.v ^= bits >> (in[0] >> 2) << (in[0] >> 3)
				}
			}
			samples = append(samples, last)
		}
		data := encode(t, samples)
		got, err := decode(data, 13)
		require.NoError(t, err)
		require.Equal(t, samples, append([]sample(nil), got...))
	})
}
