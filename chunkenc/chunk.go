// Package chunkenc holds the encodings of one chunk: a run of samples of one
// series as bytes. It knows bits, times and values; it does not know which series
// a chunk belongs to, nor files, checksums or lengths around the bytes.
//
// An Encoder builds a chunk of the encoding that its samples need. An Iterator is a cursor over a
// chunk. A Decoder decodes a chunk of any encoding, floats in whole runs. All of them are for one
// goroutine at a time; a Chunk is immutable and may be read by any number of them.
//
// The bytes of chunks are trusted to have been checked (files carry a CRC around
// them), but not to be well formed: bad bytes give an error that is
// encbuf.ErrCorrupt, never a panic, and no memory beyond the batch.
//
// The format is described in docs/format/chunks.md.
package chunkenc

import (
	"encoding/binary"
	"strconv"

	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/xorchunk"
)

// Encoding is the number that files store beside a chunk's bytes.
type Encoding uint8

// The encodings of the format. The numbers are part of the files.
const (
	EncNone             Encoding = 0 // never on disk
	EncXOR              Encoding = 1 // float samples
	EncHistogram        Encoding = 2 // native histograms of integers
	EncFloatHistogram   Encoding = 3 // native histograms of floats
	EncXOR2             Encoding = 4 // float samples, each with or without a start timestamp
	EncHistogramST      Encoding = 5 // EncHistogram with start timestamps
	EncFloatHistogramST Encoding = 6 // EncFloatHistogram with start timestamps
)

var encodingNames = [...]string{
	EncNone: "none", EncXOR: "XOR", EncHistogram: "histogram", EncFloatHistogram: "float histogram", EncXOR2: "XOR2",
	EncHistogramST: "histogram with start timestamps", EncFloatHistogramST: "float histogram with start timestamps",
}

// String returns the encoding's name, or its number when it has none.
func (e Encoding) String() string {
	if int(e) < len(encodingNames) {
		return encodingNames[e]
	}
	return "encoding " + strconv.Itoa(int(e))
}

// NumSamples returns how many samples the header of a chunk of the encoding promises, also of one
// that this version does not read; 0 if data is too short for a header.
func (e Encoding) NumSamples(data []byte) int {
	if len(data) < headerSizeXOR {
		return 0
	}
	n := binary.BigEndian.Uint16(data)
	if e == EncHistogramST || e == EncFloatHistogramST { // with two flags in front
		n &= 1<<14 - 1
	}
	return int(n)
}

// Known reports whether this version can read chunks of the encoding.
func (e Encoding) Known() bool { return e >= EncXOR && e <= EncFloatHistogramST }

// Kind returns what the samples of chunks of the encoding are, ValNone if it is not known.
func (e Encoding) Kind() ValueType {
	switch e {
	case EncXOR, EncXOR2:
		return ValFloat
	case EncHistogram, EncHistogramST:
		return ValHistogram
	case EncFloatHistogram, EncFloatHistogramST:
		return ValFloatHistogram
	default:
		return ValNone
	}
}

// MaxSamples is the most samples that one chunk holds: its header counts them in
// 16 bits.
const MaxSamples = xorchunk.MaxSamples

// What the format's writers aim at, so that a chunk stays under 1 KiB. Readers rely on neither.
const (
	// TargetSamples is how many samples a chunk of floats gets.
	TargetSamples = 120
	// TargetBytes is the length behind which a chunk of floats takes no more samples.
	TargetBytes = 1005
)

// What is in front of the bit stream, in bytes.
const (
	headerSizeXOR = 2 // the sample count
	headerSize    = 3 // a byte more, in all other encodings
)

// Chunk is a read-only view of an encoded chunk. It aliases the bytes that it was
// made from and is valid as long as they are; it may be copied freely and read
// concurrently. The zero Chunk has no samples.
type Chunk struct {
	enc  Encoding
	data []byte
}

// FromData returns the chunk that data is, without copying it and without
// decoding samples. It returns ErrUnknownEncoding, with the number, for an encoding that
// this version does not read, and damage (encbuf.ErrCorrupt) for bytes too short
// to be a chunk.
func FromData(enc Encoding, data []byte) (Chunk, error) {
	if !enc.Known() {
		return Chunk{}, errUnknown(enc)
	}
	if len(data) < headerSizeXOR {
		return Chunk{}, encbuf.Corrupt(len(data), "chunk is shorter than its sample count")
	}
	if enc != EncXOR && len(data) < headerSize {
		return Chunk{}, encbuf.Corrupt(len(data), enc.String()+" chunk is shorter than its header")
	}
	return Chunk{enc: enc, data: data}, nil
}

// Encoding returns the chunk's encoding, EncNone for the zero Chunk.
func (c Chunk) Encoding() Encoding { return c.enc }

// Bytes returns the chunk's bytes, header included. They must not be changed.
func (c Chunk) Bytes() []byte { return c.data }

// NumSamples returns how many samples the chunk's header promises.
func (c Chunk) NumSamples() int { return c.enc.NumSamples(c.data) }

// Iterator returns an iterator before the chunk's first sample. A reuse that an
// earlier call on any chunk returned is reset and returned again, anything else is
// ignored. The iterator aliases the chunk's bytes.
func (c Chunk) Iterator(reuse Iterator) Iterator {
	it, ok := reuse.(*chunkIterator)
	if !ok || it == nil {
		it = &chunkIterator{}
	}
	it.reset(c)
	return it
}
