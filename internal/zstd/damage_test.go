package zstd

import (
	"bytes"
	"math/rand"
	"runtime"
	"testing"

	reference "github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
)

// smallFrames have every kind of block, of literals and of tables among them, and a checksum.
func smallFrames(t testing.TB) (frames [][]byte) {
	for _, v := range vectors(t) {
		if len(v.frame) < 3500 {
			frames = append(frames, v.frame)
		}
	}
	for _, content := range contents(t) {
		frames = append(frames, encode(t, content[:700], reference.WithEncoderLevel(reference.SpeedBestCompression)))
	}
	return frames
}

// damagedLimit in bytes is what damaged frames may decode to.
const damagedLimit = 1 << 20

func hasChecksum(t testing.TB, frame []byte) bool {
	h, err := parseHeader(frame)
	require.NoError(t, err)
	return h.checksum
}

func TestDecode_EveryFlippedBitIsFoundOrDoesNotMatter(t *testing.T) {
	d := NewDecoder()
	for _, frame := range smallFrames(t) {
		content, err := d.Decode(nil, frame, damagedLimit)
		require.NoError(t, err)
		checksum := hasChecksum(t, frame)
		dst := make([]byte, 0, damagedLimit)
		for bit := range 8 * len(frame) {
			frame[bit/8] ^= 1 << (bit % 8)
			got, err := d.Decode(dst, frame, damagedLimit)
			// Only the checksum finds other bytes, and one bit of the header says whether
			// there is one.
			if err == nil && checksum && bit/8 != 4 {
				require.True(t, bytes.Equal(content, got), "bit %d", bit)
			}
			frame[bit/8] ^= 1 << (bit % 8)
		}
	}
}

func TestDecode_EveryCutIsFound(t *testing.T) {
	d := NewDecoder()
	for _, frame := range smallFrames(t) {
		for n := 1; n < len(frame); n++ {
			got, err := d.Decode([]byte("x"), frame[:n:n], damagedLimit)
			require.Error(t, err, "cut at %d of %d", n, len(frame))
			require.Equal(t, "x", string(got))
		}
	}
}

func TestDecode_DamageTakesMemoryInProportionToTheLimit(t *testing.T) {
	rnd := rand.New(rand.NewSource(3))
	frames := smallFrames(t)
	d := NewDecoder()
	for range 3000 {
		frame := bytes.Clone(frames[rnd.Intn(len(frames))])
		for range 1 + rnd.Intn(4) {
			frame[rnd.Intn(len(frame))] = byte(rnd.Int())
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got, err := d.Decode(nil, frame, damagedLimit)
		runtime.ReadMemStats(&after)
		require.LessOrEqual(t, len(got), damagedLimit)
		if err != nil {
			require.Empty(t, got)
		}
		require.LessOrEqual(t, after.TotalAlloc-before.TotalAlloc, uint64(2*damagedLimit+2*maxBlock))
	}
}

func TestDecode_AClaimedSizeTakesNoMemory(t *testing.T) {
	d := NewDecoder()
	frame := []byte{0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0, 0x20, 0, 0, 0, 0, 1, 0, 0} // 512 MiB, and none there
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := d.Decode(nil, frame, 1<<30)
	runtime.ReadMemStats(&after)
	require.ErrorIs(t, err, errContent)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<10))
}
