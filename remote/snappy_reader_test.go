package remote

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"

	"github.com/golang/snappy"
	"github.com/stretchr/testify/require"
)

const mib = 1 << 20

// unpack reads a whole block in steps of some size.
func unpack(r io.Reader, limit int64, step int) ([]byte, *snappyReader, error) {
	s, err := newSnappyReader(r, limit)
	if err != nil {
		return nil, nil, err
	}
	var out []byte
	for s.pos() < s.total {
		b, err := s.need(step)
		if err != nil {
			return out, s, err
		}
		n := min(step, len(b))
		out = append(out, b[:n]...)
		s.skip(n)
	}
	return out, s, s.end()
}

// text is n bytes that compress as answers do.
func text(seed uint64, n int) []byte {
	rng := rand.New(rand.NewPCG(seed, 0))
	words := make([][]byte, 60)
	for i := range words {
		words[i] = make([]byte, 1+rng.IntN(30))
		for k := range words[i] {
			words[i][k] = byte(rng.Uint32())
		}
	}
	b := make([]byte, 0, n+30)
	for len(b) < n {
		b = append(b, words[rng.IntN(len(words))]...)
		b = append(b, byte(rng.Uint32()))
	}
	return b[:n]
}

// byHand makes snappy blocks that no usual encoder makes.
type byHand struct{ body, content []byte }

func (h *byHand) literal(b []byte) {
	h.body = append(h.body, 62<<2, byte(len(b)-1), byte((len(b)-1)>>8), byte((len(b)-1)>>16))
	h.body = append(h.body, b...)
	h.content = append(h.content, b...)
}

func (h *byHand) copy(back, length int) {
	h.body = append(h.body, byte(length-1)<<2|snappyCopy4)
	h.body = binary.LittleEndian.AppendUint32(h.body, uint32(back))
	for range length {
		h.content = append(h.content, h.content[len(h.content)-back])
	}
}

func (h *byHand) block() []byte {
	return append(binary.AppendUvarint(nil, uint64(len(h.content))), h.body...)
}

func TestSnappyReader_ReadsWhatEncodersMake(t *testing.T) {
	for _, n := range []int{0, 1, 59, 60, 61, 255, 256, 257, 65535, 65536, 65537, 300_000, 3*mib + 17} {
		content := text(uint64(n), n)
		block := snappy.Encode(nil, content)
		for _, step := range []int{1 << 10, 100_000} {
			got, s, err := unpack(bytes.NewReader(block), 1<<20, step)
			require.NoError(t, err)
			require.True(t, bytes.Equal(content, got), n)
			require.False(t, s.whole)
		}
		got, _, err := unpack(iotest.HalfReader(bytes.NewReader(block)), 1<<20, 1<<10)
		require.NoError(t, err)
		require.True(t, bytes.Equal(content, got), n)
		if n < mib {
			got, _, err = unpack(iotest.DataErrReader(iotest.OneByteReader(bytes.NewReader(block))), 1<<20, 13)
			require.NoError(t, err)
			require.True(t, bytes.Equal(content, got), n)
		}
	}
}

func TestSnappyReader_KeepsAWindowOfABlockOfPieces(t *testing.T) {
	content := text(1, 24*mib)
	s, err := newSnappyReader(bytes.NewReader(snappy.Encode(nil, content)), 0)
	require.NoError(t, err)
	largest := 0
	for at := 0; at < len(content); {
		b, err := s.need(1)
		require.NoError(t, err)
		require.True(t, bytes.Equal(content[at:at+len(b)], b))
		at += len(b)
		s.skip(len(b))
		if at > 2*mib {
			largest = max(largest, cap(s.out))
		}
	}
	require.NoError(t, s.end())
	require.LessOrEqual(t, largest, 4*snappyPiece)
}

// Twice the same MiB, the second as copies of the first.
func farCopies() *byHand {
	h := &byHand{}
	for _, b := range [][]byte{text(2, 100_001), text(3, mib)} {
		h.literal(b)
	}
	for range mib / 64 {
		h.copy(mib, 64)
	}
	return h
}

func TestSnappyReader_KeepsABlockWithoutPiecesWholeUpToALimit(t *testing.T) {
	h := farCopies()
	got, s, err := unpack(bytes.NewReader(h.block()), int64(len(h.content)), 1<<10)
	require.NoError(t, err)
	require.True(t, bytes.Equal(h.content, got))
	require.True(t, s.whole)

	got, _, err = unpack(bytes.NewReader(h.block()), int64(len(h.content))-1, 1<<10)
	require.ErrorIs(t, err, errLimit)
	require.Empty(t, got, "it is known from the first element on")
}

func TestSnappyReader_RefusesACopyFromBeforeItsWindow(t *testing.T) {
	h := &byHand{}
	for i := range 40 {
		h.literal(text(uint64(i), snappyPiece))
	}
	pieces := len(h.content)
	h.copy(2*mib, 64)
	got, _, err := unpack(bytes.NewReader(h.block()), 64*mib, 1<<10)
	require.ErrorIs(t, err, errLimit)
	require.True(t, bytes.Equal(h.content[:len(got)], got))
	require.LessOrEqual(t, len(got), pieces)
}

func TestSnappyReader_ACutBlockIsAnError(t *testing.T) {
	h := &byHand{}
	h.literal(text(1, 300))
	h.copy(100, 64)
	h.literal(text(2, 10))
	for _, block := range [][]byte{h.block(), snappy.Encode(nil, text(5, 2000))} {
		for n := range len(block) {
			_, _, err := unpack(bytes.NewReader(block[:n]), mib, 16)
			require.ErrorIs(t, err, errMalformed, n)
		}
		_, _, err := unpack(bytes.NewReader(append(bytes.Clone(block), 0)), mib, 16)
		require.ErrorIs(t, err, errMalformed)
	}
}

func TestSnappyReader_BadBlocksAreErrors(t *testing.T) {
	for name, block := range map[string][]byte{
		"no length":                 {0x80, 0x80},
		"a length of 33 bits":       {0x80, 0x80, 0x80, 0x80, 0x10},
		"a length of 80 bits":       bytes.Repeat([]byte{0xff}, 12),
		"four GiB of nothing":       {0xff, 0xff, 0xff, 0xff, 0x0f},
		"a copy at the start":       {0x08, snappyCopy1 | 0<<2, 0x01, 0x00, 0x00},
		"a copy of what comes":      {0x08, 0x04, 'a', 'b', snappyCopy2 | 5<<2, 0x03, 0x00},
		"a copy from itself":        {0x08, 0x04, 'a', 'b', snappyCopy2 | 5<<2, 0x00, 0x00},
		"a literal over the end":    {0x02, 0x08, 'a', 'b', 'c'},
		"a copy over the end":       {0x08, 0x04, 'a', 'b', snappyCopy2 | 6<<2, 0x02, 0x00},
		"a literal of four GiB":     {0x08, 63 << 2, 0xff, 0xff, 0xff, 0xff, 'a'},
		"less than its length says": {0x08, 0x04, 'a', 'b'},
	} {
		_, _, err := unpack(bytes.NewReader(block), mib, 1)
		require.ErrorIs(t, err, errMalformed, name)
	}
}

func TestSnappyReader_ReadErrorsAreKept(t *testing.T) {
	block := snappy.Encode(nil, text(1, 100_000))
	for _, n := range []int{0, 1, 100, len(block) - 1, len(block)} {
		r := io.MultiReader(bytes.NewReader(block[:n]), iotest.ErrReader(io.ErrClosedPipe))
		_, _, err := unpack(r, mib, 1000)
		require.ErrorIs(t, err, io.ErrClosedPipe, n)
	}
}

func FuzzSnappyReader(f *testing.F) {
	f.Add(snappy.Encode(nil, text(1, 1000)), 10)
	f.Add(snappy.Encode(nil, text(1, 200_000)), 1000)
	f.Add(farCopies().block(), 100)
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0x0f}, 1)
	f.Fuzz(func(t *testing.T, block []byte, step int) {
		if n, err := snappy.DecodedLen(block); err != nil || n > 8*mib {
			t.Skip("the other decoder would make room for it")
		}
		want, wantErr := snappy.Decode(nil, block)
		got, s, err := unpack(bytes.NewReader(block), 8*mib, 1+max(step, 0)%(1<<20))
		require.Equal(t, wantErr == nil, err == nil, "%v, %v", wantErr, err)
		if err == nil {
			require.True(t, bytes.Equal(want, got))
			require.LessOrEqual(t, cap(s.out), 17*mib)
		}
	})
}

func BenchmarkSnappyReader(b *testing.B) {
	content := text(1, 16*mib)
	block := snappy.Encode(nil, content)
	b.SetBytes(int64(len(content)))
	b.ReportAllocs()
	for b.Loop() {
		s, err := newSnappyReader(bytes.NewReader(block), mib)
		require.NoError(b, err)
		for s.pos() < s.total {
			got, err := s.need(1)
			if err != nil {
				b.Fatal(err)
			}
			s.skip(len(got))
		}
	}
}
