// Package xorchunk has the encodings of a chunk of floats: XOR, and XOR2, in which a sample may
// have a start timestamp. It knows bits, times and values. It does not know that there are other
// encodings, series or files. Package chunkenc is what others see of it.
//
// There are two ways in. State encodes into a buffer of the caller, so that a million open chunks
// cost no pointers. Encoder and Encoder2 have buffers of their own. Decoder and Decoder2 decode
// whole runs into slices. The types with a 2 are those of XOR2. All of them are for one goroutine
// at a time.
//
// Bytes of chunks need not be well formed: bad ones give an error that is encbuf.ErrCorrupt, never
// a panic, and no memory.
//
// The format is described in docs/format/chunks.md.
package xorchunk

// MaxSamples is the most samples that one chunk holds: its header counts them in 16 bits.
const MaxSamples = 1<<16 - 1

// headerSize is the sample count in front of the bit stream of an XOR chunk, in bytes.
const headerSize = 2

// Sample is one float sample without its series: T in milliseconds, V bit for bit.
type Sample struct {
	T int64
	V float64
}
