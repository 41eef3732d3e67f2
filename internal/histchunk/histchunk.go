// Package histchunk has the encodings of chunks of native histograms: integer and float ones,
// each with or without start timestamps. It knows bits, times and histograms, and when a
// sample can lie in the chunk of the one before it. It does not know which series a chunk
// belongs to, nor files, checksums or lengths around the bytes.
//
// A Decoder walks the samples of one chunk; an Encoder builds chunks, and says where the next
// one begins. Both are for one goroutine at a time. Histograms are copied in and out: neither
// side keeps what belongs to the other.
//
// The bytes of chunks are trusted to have been checked (files carry a CRC around them), but
// not to be well formed: bad bytes give an *encbuf.CorruptError, never a panic, and no memory
// beyond a fixed multiple of the bytes that are there.
//
// The format is described in docs/format/chunks.md.
package histchunk

import (
	"strconv"
)

// Encoding is the number that files store beside a chunk's bytes: that of package chunkenc, which
// is above this one.
type Encoding = uint8

// The encodings of this package.
const (
	EncInts     Encoding = 2 // integer histograms
	EncFloats   Encoding = 3 // float histograms
	EncIntsST   Encoding = 5 // integer histograms with start timestamps
	EncFloatsST Encoding = 6 // float histograms with start timestamps
)

// Known reports whether chunks of the encoding are read here.
func Known(enc Encoding) bool {
	return enc == EncInts || enc == EncFloats || enc == EncIntsST || enc == EncFloatsST
}

// How many samples one chunk holds: its header counts them in 16 bits, or in the 14 that the
// counter reset header leaves.
const (
	MaxSamples   = 1<<16 - 1
	MaxSamplesST = 1<<14 - 1
)

// headerSize is what is in front of the bit stream, in bytes: count and flags, or flags,
// count and the byte of start timestamps.
const headerSize = 3

// Header says how a chunk follows the one before it in its series: its counter reset header.
// The numbers are those of the formats.
type Header uint8

// The counter reset headers.
const (
	HeaderUnknown  Header = 0 // nobody knows, or the chunk before is of another kind
	HeaderNotReset Header = 1 // the counters go on
	HeaderReset    Header = 2 // a counter was reset
	HeaderGauge    Header = 3 // a chunk of gauges
)

// String returns the header's name.
func (h Header) String() string {
	switch h {
	case HeaderUnknown:
		return "unknown"
	case HeaderNotReset:
		return "not reset"
	case HeaderReset:
		return "reset"
	case HeaderGauge:
		return "gauge"
	default:
		return "header " + strconv.Itoa(int(h))
	}
}
