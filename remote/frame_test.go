package remote

import (
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/stretchr/testify/require"
)

// cutFrame takes the first frame off a body and returns its data.
func cutFrame(t testing.TB, body []byte) (data, rest []byte) {
	t.Helper()
	size, n := binary.Uvarint(body)
	require.Positive(t, n)
	sum := binary.BigEndian.Uint32(body[n:])
	data = body[n+4:][:size]
	require.Equal(t, crc32.Checksum(data, castagnoli), sum)
	return data, body[n+4+int(size):]
}
