package zstd

import (
	"bytes"
	"fmt"
	"math/rand"
	"strings"
	"testing"

	reference "github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/sweep"
)

// noLimit is more than any test's content.
const noLimit = 64 << 20

// levels are the encoder's.
var levels = []reference.EncoderLevel{reference.SpeedFastest, reference.SpeedDefault,
	reference.SpeedBetterCompression, reference.SpeedBestCompression}

func encode(t testing.TB, content []byte, opts ...reference.EOption) []byte {
	t.Helper()
	enc, err := reference.NewWriter(nil, append([]reference.EOption{reference.WithEncoderConcurrency(1)}, opts...)...)
	require.NoError(t, err)
	defer func() { require.NoError(t, enc.Close()) }()
	return enc.EncodeAll(content, nil)
}

// stream encodes without knowing how long content will be, in writes of some bytes.
func stream(t testing.TB, content []byte, step int, opts ...reference.EOption) []byte {
	t.Helper()
	var out bytes.Buffer
	enc, err := reference.NewWriter(&out, append([]reference.EOption{reference.WithEncoderConcurrency(1)}, opts...)...)
	require.NoError(t, err)
	for b := content; len(b) > 0; {
		n := min(step, len(b))
		_, err = enc.Write(b[:n])
		require.NoError(t, err)
		require.NoError(t, enc.Flush())
		b = b[n:]
	}
	require.NoError(t, enc.Close())
	return out.Bytes()
}

// contents returns what there is to compress, by name.
func contents(t testing.TB) map[string][]byte {
	rnd := rand.New(rand.NewSource(1))
	random := make([]byte, 300<<10)
	rnd.Read(random)
	few := make([]byte, 300<<10) // no matches to speak of: Huffman only
	for i := range few {
		few[i] = byte(16 * rnd.NormFloat64())
	}
	var text strings.Builder
	for text.Len() < 300<<10 {
		fmt.Fprintf(&text, "series %d of instance %d has the value %g; ", rnd.Intn(1000), rnd.Intn(50), rnd.NormFloat64())
	}
	periodic := make([]byte, 0, 300<<10)
	for period := 1; len(periodic) < 300<<10; period = period%40 + 1 {
		periodic = append(periodic, bytes.Repeat(random[period:2*period], 1+rnd.Intn(100))...)
	}
	far := bytes.Repeat(random, 2) // matches reach 300 KiB back
	return map[string][]byte{
		"zeros":    make([]byte, 300<<10),
		"random":   random,
		"few":      few,
		"text":     []byte(text.String()),
		"periodic": periodic,
		"far":      far,
		"records":  records(t),
	}
}

func requireDecodes(t testing.TB, d *Decoder, content, frame []byte, what string) {
	t.Helper()
	got, err := d.Decode([]byte("before"), frame, len(content))
	require.NoError(t, err, what)
	require.True(t, bytes.Equal(content, got[len("before"):]), what)
	require.Equal(t, "before", string(got[:len("before")]), what)
	if len(content) > 0 {
		_, err = d.Decode(nil, frame, len(content)-1)
		require.ErrorIs(t, err, ErrTooLarge, what)
	}
}

func TestDecode_GivesWhatWasEncodedAtEveryLevelAndLength(t *testing.T) {
	d := NewDecoder()
	lengths := []int{0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 63, 64, 100, 255, 256, 257, 1000, 1023, 1024, 4095, 5000, 16383, 16384,
		65535, 65536, 65792, maxBlock - 1, maxBlock, maxBlock + 1, 2*maxBlock - 1, 2*maxBlock + 17}
	tried, places := 0, sweep.Of(t, 1, 3)
	for name, content := range contents(t) {
		for _, level := range levels {
			for _, n := range lengths {
				if tried++; !places.Has(tried) {
					continue
				}
				c := content[:min(n, len(content))]
				frame := encode(t, c, reference.WithEncoderLevel(level), reference.WithEncoderCRC(n%2 == 0))
				requireDecodes(t, d, c, frame, fmt.Sprintf("%s, %d bytes, %s", name, n, level))
			}
			requireDecodes(t, d, content, encode(t, content, reference.WithEncoderLevel(level)), name)
		}
	}
}

func TestDecode_GivesWhatWasEncodedWithEveryWindow(t *testing.T) {
	d := NewDecoder()
	n, places := 0, sweep.Of(t, 1, 5)
	for name, content := range contents(t) {
		for _, level := range levels {
			for window := 1 << 10; window <= 8<<20; window <<= 2 {
				if n++; !places.Has(n) {
					continue
				}
				opts := []reference.EOption{reference.WithEncoderLevel(level), reference.WithWindowSize(window)}
				what := fmt.Sprintf("%s, window %d, %s", name, window, level)
				requireDecodes(t, d, content, encode(t, content, opts...), what)
				requireDecodes(t, d, content, stream(t, content, 50_001, opts...), what)
				requireDecodes(t, d, content, encode(t, content, append(opts, reference.WithSingleSegment(true))...), what)
				opts = append(opts, reference.WithAllLitEntropyCompression(true), reference.WithNoEntropyCompression(false))
				requireDecodes(t, d, content, encode(t, content, opts...), what)
			}
		}
		plain := encode(t, content, reference.WithNoEntropyCompression(true))
		requireDecodes(t, d, content, plain, name)
	}
}

func TestDecode_SeveralMegabytes(t *testing.T) {
	d := NewDecoder()
	var content []byte
	parts := contents(t)
	for len(content) < 5<<20 {
		for _, name := range []string{"text", "zeros", "records", "few", "random", "periodic"} {
			content = append(content, parts[name]...)
		}
	}
	for _, level := range levels {
		requireDecodes(t, d, content, encode(t, content, reference.WithEncoderLevel(level)), level.String())
		requireDecodes(t, d, content, stream(t, content, 1<<20, reference.WithEncoderLevel(level)), level.String())
	}
}

func TestDecode_FramesInARowAndSkippableOnes(t *testing.T) {
	d := NewDecoder()
	skip := []byte{0x5a, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3}
	a, b := []byte("one frame"), bytes.Repeat([]byte("and another "), 1000)
	src := bytes.Join([][]byte{skip, encode(t, a), skip, skip, encode(t, b), skip}, nil)
	requireDecodes(t, d, append(bytes.Clone(a), b...), src, "in a row")
	got, err := d.Decode(nil, nil, 0)
	require.NoError(t, err)
	require.Empty(t, got)
	for cut := 1; cut < len(skip); cut++ {
		_, err = d.Decode(nil, skip[:cut], noLimit)
		require.ErrorIs(t, err, errTruncated)
	}
}

func TestDecode_RefusesWhatItDoesNotSupport(t *testing.T) {
	d := NewDecoder()
	frame := encode(t, bytes.Repeat([]byte("abcdefgh"), 100), reference.WithSingleSegment(true))
	with := func(at int, b byte) []byte {
		f := bytes.Clone(frame)
		f[at] = b
		return f
	}
	dictionary := append(append(bytes.Clone(frame[:4]), frame[4]|1, 7), frame[5:]...)
	none := append(append(bytes.Clone(frame[:4]), frame[4]|1, 0), frame[5:]...)
	for what, c := range map[string]struct {
		frame []byte
		want  error
	}{
		"magic number":          {with(0, 0), errMagic},
		"a reserved bit":        {with(4, frame[4]|reservedHeaderBit), errReserved},
		"a dictionary":          {dictionary, errDictionary},
		"the dictionary 0":      {none, nil},
		"content size":          {with(5, frame[5]^1), errContent},
		"checksum":              {with(len(frame)-1, frame[len(frame)-1]^1), errChecksum},
		"a window of 768 MiB":   {[]byte{0x28, 0xb5, 0x2f, 0xfd, 0, 19<<3 | 4, 1, 0, 0}, errWindow},
		"a window of 512 MiB":   {[]byte{0x28, 0xb5, 0x2f, 0xfd, 0, 19 << 3, 1, 0, 0}, nil},
		"a block of 128 KiB +1": {[]byte{0x28, 0xb5, 0x2f, 0xfd, 0, 19 << 3, 3, 0, 0x10, 'x'}, nil},
		"a reserved block":      {[]byte{0x28, 0xb5, 0x2f, 0xfd, 0, 19 << 3, 7, 0, 0}, errReserved},
		"a run above its window": {[]byte{0x28, 0xb5, 0x2f, 0xfd, 0, 0, 3, 0x21, 0, 'x'},
			errBlock},
	} {
		_, err := d.Decode(nil, c.frame, noLimit)
		if c.want == nil {
			require.NoError(t, err, what)
			continue
		}
		require.ErrorIs(t, err, c.want, what)
	}
}

func TestContentSize_IsWhatTheHeaderSays(t *testing.T) {
	for _, n := range []int{0, 1, 255, 256, 257, 65791, 65792, 100_000} {
		size, known, err := ContentSize(encode(t, make([]byte, n), reference.WithZeroFrames(true), reference.WithSingleSegment(true)))
		require.NoError(t, err)
		require.True(t, known)
		require.EqualValues(t, n, size)
	}
	_, known, err := ContentSize(stream(t, make([]byte, 100), 10))
	require.NoError(t, err)
	require.False(t, known)
	_, _, err = ContentSize([]byte{0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0})
	require.ErrorIs(t, err, errMagic)
}

func TestPredefinedTables_AreFull(t *testing.T) {
	for _, k := range newKinds() {
		sum := 0
		for _, n := range k.predefined {
			sum += max(int(n), -int(n))
		}
		require.Equal(t, 1<<k.accuracy, sum)
	}
	k := newKinds()
	require.Equal(t, code{65536, 16}, k[literalLengths].codes[35])
	require.Equal(t, code{65539, 16}, k[matchLengths].codes[52])
	require.Equal(t, code{1 << 30, 30}, k[offsets].codes[30])
}

func TestDecode_AllocatesNothingInSteadyState(t *testing.T) {
	d := NewDecoder()
	content := records(t)
	frames := [][]byte{encode(t, content), encode(t, content[:300]), encode(t, make([]byte, 1000))}
	dst := make([]byte, 0, len(content))
	require.Zero(t, testing.AllocsPerRun(100, func() {
		for _, f := range frames {
			if _, err := d.Decode(dst, f, len(content)); err != nil {
				t.Error(err)
			}
		}
	}))
}
