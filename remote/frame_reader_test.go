package remote

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

// framed is a frame of some data.
func framed(data []byte) []byte {
	b := binary.AppendUvarint(nil, uint64(len(data)))
	b = binary.BigEndian.AppendUint32(b, crc32.Checksum(data, castagnoli))
	return append(b, data...)
}

func readFrames(r io.Reader, limit int) (all [][]byte, err error) {
	fr := newFrameReader(r, limit)
	for {
		data, err := fr.next()
		if err != nil {
			return all, err
		}
		all = append(all, bytes.Clone(data))
	}
}

func TestFrameReader_ReadsFrames(t *testing.T) {
	want := [][]byte{text(1, 10), {}, text(2, 127), text(3, 128), text(4, 3*mib), text(5, 1)}
	var body []byte
	for _, data := range want {
		body = append(body, framed(data)...)
	}
	got, err := readFrames(iotest.HalfReader(bytes.NewReader(body)), 3*mib)
	require.Equal(t, io.EOF, err)
	require.Len(t, got, len(want))
	for i := range want {
		require.True(t, bytes.Equal(want[i], got[i]))
	}
	_, err = readFrames(bytes.NewReader(body), 3*mib-1)
	require.ErrorIs(t, err, errLimit)
}

func TestFrameReader_ACutIsAnErrorSaveBetweenFrames(t *testing.T) {
	first := framed(text(1, 200))
	body := append(bytes.Clone(first), framed(text(2, 300))...)
	for n := range len(body) {
		got, err := readFrames(bytes.NewReader(body[:n]), mib)
		switch n {
		case 0, len(first):
			require.Equal(t, io.EOF, err, n)
			require.Len(t, got, min(n, 1))
		default:
			require.ErrorIs(t, err, errMalformed, n)
		}
	}
}

func TestFrameReader_AChangedByteIsAnError(t *testing.T) {
	body := framed(text(1, 200))
	for i := range body {
		bad := bytes.Clone(body)
		bad[i] ^= 1 << (i % 8)
		_, err := readFrames(bytes.NewReader(bad), 1000)
		require.True(t, isAny(err, errMalformed, errLimit), "%d: %v", i, err)
	}
}

func TestFrameReader_ALengthCostsNothingBeforeItsBytes(t *testing.T) {
	fr := newFrameReader(bytes.NewReader(append(binary.AppendUvarint(nil, 1<<30), text(1, 1000)...)), 1<<30)
	_, err := fr.next()
	require.ErrorIs(t, err, errMalformed)
	require.LessOrEqual(t, cap(fr.buf), frameStepBytes)
	for _, length := range [][]byte{binary.AppendUvarint(nil, 1<<63), bytes.Repeat([]byte{0xff}, 9), bytes.Repeat([]byte{0x80}, 20), bytes.Repeat([]byte{0xff}, 20)} {
		_, err := readFrames(bytes.NewReader(length), 1000)
		require.True(t, isAny(err, errMalformed, errLimit), "%x: %v", length, err)
	}
}

func FuzzFrameReader(f *testing.F) {
	for _, v := range readVectors(f) {
		if v.Body != nil {
			f.Add(unhex(f, *v.Body))
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		frames, err := readFrames(bytes.NewReader(body), mib)
		size := 0
		for _, data := range frames {
			size += len(data)
		}
		require.LessOrEqual(t, size, len(body))
		require.True(t, err == io.EOF || isAny(err, errMalformed, errLimit), err)
	})
}
