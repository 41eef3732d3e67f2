package zstd

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"

	reference "github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
)

// fuzzLimit in bytes keeps a run short.
const fuzzLimit = 256 << 10

// newReference returns the other decoder, with the limits of ours.
func newReference(t testing.TB) *reference.Decoder {
	ref, err := reference.NewReader(nil, reference.WithDecoderConcurrency(1), reference.WithDecodeAllCapLimit(true),
		reference.WithDecoderMaxMemory(math.MaxInt64))
	require.NoError(t, err)
	t.Cleanup(ref.Close)
	return ref
}

// stricter is true for what we refuse and the reference takes. The RFC is with us: a match
// of no distance is damage (3.1.1.5), where the reference makes it one byte; a table of
// offsets has 256 states at most (3.1.1.3.2.1), where the reference takes 512.
func stricter(err error) bool {
	return errors.Is(err, errZeroOffset) || errors.Is(err, errAccuracy)
}

// looser is true for what the reference refuses and we take. It wants four bytes behind the
// start of an FSE table, which may be shorter with all that follows it.
func looser(err error) bool { return strings.Contains(err.Error(), "too small") }

// FuzzDecode: any bytes. No panic, never more than the limit, and what the reference makes
// of it.
func FuzzDecode(f *testing.F) {
	for _, frame := range smallFrames(f) {
		f.Add(frame)
	}
	d := NewDecoder()
	ref := newReference(f)
	dst, refDst := make([]byte, 0, fuzzLimit), make([]byte, 0, fuzzLimit)
	f.Fuzz(func(t *testing.T, src []byte) {
		got, err := d.Decode(dst, src, fuzzLimit)
		want, refErr := ref.DecodeAll(src, refDst)
		switch {
		case err == nil && refErr == nil:
			require.True(t, bytes.Equal(want, got))
		case err == nil:
			require.True(t, looser(refErr), "only the reference refuses: %v", refErr)
		case refErr == nil:
			require.True(t, stricter(err), "only we refuse: %v", err)
		}
		if h, e := parseHeader(src); e == nil && !h.skip {
			var r reference.Header
			require.NoError(t, r.Decode(src))
			require.Equal(t, r.HasFCS, h.known)
			require.Equal(t, r.FrameContentSize, h.content)
		}
		// The same with room that is there already and too small, behind other content.
		again, errAgain := d.Decode(make([]byte, 3, 100), src, fuzzLimit)
		require.Equal(t, err, errAgain)
		if err == nil {
			require.True(t, bytes.Equal(got, again[3:]))
		}
	})
}

// FuzzEncoded: any content at any level, repeated so that there are matches.
func FuzzEncoded(f *testing.F) {
	for i, content := range [][]byte{nil, []byte("a"), []byte("abcabcabcabcab"), bytes.Repeat([]byte{0}, 300), records(f)[:2000]} {
		f.Add(content, byte(i), uint16(i*i))
	}
	d := NewDecoder()
	var encoders []*reference.Encoder
	for _, level := range levels {
		for _, more := range [][]reference.EOption{nil, {reference.WithWindowSize(1 << 10)}, {reference.WithAllLitEntropyCompression(true)}} {
			enc, err := reference.NewWriter(nil, append(more, reference.WithEncoderLevel(level), reference.WithEncoderConcurrency(1))...)
			require.NoError(f, err)
			encoders = append(encoders, enc)
		}
	}
	f.Fuzz(func(t *testing.T, content []byte, encoder byte, times uint16) {
		var all []byte
		for len(all) < fuzzLimit-len(content) && times > 0 {
			all = append(append(all, content...), byte(times)) // no two rounds are the same
			times--
		}
		frame := encoders[int(encoder)%len(encoders)].EncodeAll(all, nil)
		got, err := d.Decode(nil, frame, len(all))
		require.NoError(t, err)
		require.True(t, bytes.Equal(all, got))
	})
}
