package zstd

import (
	"encoding/binary"
	"math/bits"
)

// Streams of entropy-coded bits are read from their end to their start (RFC 8878, 4.1).
// The last byte has a set bit that ends the padding: what is below it are the first bits.
//
// A stream is read through 64 bits at a time, which lie at ptr in b. b begins guard bytes
// before the stream, so that they can be loaded near its start as well. There always are
// that many: a frame has nine bytes before its first stream at least.
const guard = 8

// reader reads a stream backwards. Hot loops keep its fields in variables of their own.
//
// Invariant: ptr*8 - used is how many bits are left; it is negative when too many were
// read, which gives bits without meaning and no other harm.
type reader struct {
	b    []byte
	ptr  int    // of the word in b
	used uint   // bits of the word that are read, from the highest
	word uint64 // little-endian, at ptr
}

// newReader returns a reader of the stream src[lo:hi]; ok is false if it has no end mark.
//
//go:noinline
func newReader(src []byte, lo, hi int) (r reader, ok bool) {
	if hi <= lo || src[hi-1] == 0 {
		return r, false
	}
	r.b = src[lo-guard : hi]
	r.ptr = len(r.b) - 8
	r.word = load(r.b, r.ptr)
	r.used = uint(bits.LeadingZeros8(src[hi-1])) + 1
	return r, true
}

// refill makes 57 bits ready to be taken if that many are left.
func (r *reader) refill() {
	n := min(r.used>>3, uint(r.ptr))
	r.ptr -= int(n)
	r.used -= n << 3
	r.word = load(r.b, r.ptr)
}

// take returns the next n bits.
func (r *reader) take(n uint8) uint32 {
	v := peek(r.word, r.used, n)
	r.used += uint(n)
	return v
}

// left returns how many bits are left.
func (r *reader) left() int { return r.ptr*8 - int(r.used) }

// peek returns the n bits of word, 32 at most, that come after the highest used ones.
func peek(word uint64, used uint, n uint8) uint32 {
	return uint32(word << (used & 63) >> 1 >> ((63 - n) & 63))
}

func load(b []byte, at int) uint64 { return binary.LittleEndian.Uint64(b[at:]) }

// forward reads bits from the start of b, lowest bit first, as descriptions of FSE tables
// are written. Behind the end it reads zeros; over tells.
type forward struct {
	b  []byte
	at int // in bits
}

// peek returns the next n bits, 16 at most.
func (f *forward) peek(n int) int {
	v := 0
	for i := 0; i < 3; i++ {
		if k := f.at>>3 + i; k < len(f.b) {
			v |= int(f.b[k]) << (8 * i)
		}
	}
	return v >> (f.at & 7) & (1<<n - 1)
}

func (f *forward) take(n int) int {
	v := f.peek(n)
	f.at += n
	return v
}

// over is true if bits behind the end were taken.
func (f *forward) over() bool { return f.at > 8*len(f.b) }
