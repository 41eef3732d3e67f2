package ship

import (
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/chunkenc"
)

// chunkFile is a file of chunks of these sizes.
func chunkFile(enc chunkenc.Encoding, sizes ...int) []byte {
	b := append([]byte(nil), header[:]...)
	for i, size := range sizes {
		b = binary.AppendUvarint(b, uint64(size))
		from := len(b)
		b = append(b, byte(enc))
		for k := range size {
			b = append(b, byte(i+k))
		}
		b = binary.BigEndian.AppendUint32(b, crc32.Checksum(b[from:], crc32.MakeTable(crc32.Castagnoli)))
	}
	return b
}

// scan has a file pass in pieces.
func scan(text []byte, piece int) (s *scanner, reason string) {
	s = &scanner{}
	for len(text) > 0 && reason == "" && !s.unknown {
		n := min(piece, len(text))
		reason, text = s.next(text[:n]), text[n:]
	}
	return s, reason
}

// In whatever pieces a file passes, the same is found.
func TestScanner_InPieces(t *testing.T) {
	text := chunkFile(chunkenc.EncXOR, 1, 2, 127, 128, 300, 20_000)
	for _, piece := range []int{1, 2, 3, 7, 64, 1 << 20} {
		s, reason := scan(text, piece)
		require.Empty(t, reason)
		require.True(t, s.whole())
		require.Equal(t, int64(3+1+20_000+4), s.largest)
		s, reason = scan(append(text[:len(text):len(text)], 0, 0, 0), piece) // as a file that was made longer ahead
		require.Empty(t, reason)
		require.True(t, s.whole())
		_, reason = scan(append(text[:len(text):len(text)], 0, 1), piece)
		require.NotEmpty(t, reason)
	}
	for enc := range 256 {
		s, reason := scan(chunkFile(chunkenc.Encoding(enc), 10, 20), 5)
		require.Empty(t, reason)
		require.Equal(t, enc < 1 || enc > 3, s.unknown, enc)
	}
}

// No flipped bit and no cut passes, but for a cut between two chunks.
func TestScanner_SeesDamage(t *testing.T) {
	text := chunkFile(chunkenc.EncHistogram, 3, 200, 5)
	ends := map[int]bool{len(header): true}
	for i, at := 0, len(header); i < 3; i++ {
		size, n := binary.Uvarint(text[at:])
		at += n + 1 + int(size) + checksumSize
		ends[at] = true
	}
	for i := range text {
		s, reason := scan(text[:i], 16)
		require.Empty(t, reason)
		require.Equal(t, ends[i], s.whole(), i)
		for bit := range 8 {
			damaged := append([]byte(nil), text...)
			damaged[i] ^= 1 << bit
			s, reason := scan(damaged, 16)
			require.True(t, reason != "" || s.unknown || !s.whole(), "bit %d of byte %d", bit, i)
		}
	}
}

func TestScanner_LengthsOutOfRange(t *testing.T) {
	for _, length := range [][]byte{{0x80, 0x80, 0x80, 0x80, 0x80}, {0xff, 0xff, 0xff, 0xff, 0x7f}, binary.AppendUvarint(nil, maxChunkSize+1)} {
		_, reason := scan(append(append([]byte(nil), header[:]...), length...), 1)
		require.Contains(t, reason, "out of range")
	}
}

func TestIndexScanner_WantsBothEnds(t *testing.T) {
	text := append([]byte{0xBA, 0xAA, 0xD7, 0x00, 2}, make([]byte, 500)...)
	toc := make([]byte, tocSize-checksumSize)
	toc[5] = 1
	text = binary.BigEndian.AppendUint32(append(text, toc...), crc32.Checksum(toc, crc32.MakeTable(crc32.Castagnoli)))
	for _, piece := range []int{1, 4, 50, 51, 52, 53, 300, 1000} {
		check := func(text []byte) (reason string, whole bool) {
			s := &indexScanner{}
			for len(text) > 0 && reason == "" {
				n := min(piece, len(text))
				reason, text = s.next(text[:n]), text[n:]
			}
			return reason, s.whole()
		}
		reason, whole := check(text)
		require.Empty(t, reason)
		require.True(t, whole)
		_, whole = check(text[:len(text)-1])
		require.False(t, whole)
		_, whole = check(append(text[:len(text):len(text)], 0))
		require.False(t, whole)
		for i, b := range []byte{0, 0, 0, 1, 3} {
			other := append([]byte(nil), text...)
			other[i] = b
			reason, _ = check(other)
			require.NotEmpty(t, reason)
		}
	}
}

// Every chunk file is scanned while it is uploaded, so this must be faster than any network.
func BenchmarkScanner(b *testing.B) {
	sizes := make([]int, 10_000)
	for i := range sizes {
		sizes[i] = 150
	}
	text := chunkFile(chunkenc.EncXOR, sizes...)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if s, reason := scan(text, 64<<10); reason != "" || !s.whole() {
			b.Fatal(reason)
		}
	}
}
