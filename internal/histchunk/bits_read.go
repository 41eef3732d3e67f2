package histchunk

import (
	"encoding/binary"
	"math/bits"
)

// bitReader takes bits from the front of data, most significant first. Bits are in an
// accumulator that is refilled by whole words.
type bitReader struct {
	data  []byte
	pos   int    // first byte of data that is not in acc
	acc   uint64 // the next nbits bits, at the top; below them zeros, or the bits that follow
	nbits int    // how many bits of acc count; below 64
	short bool   // more was read than there is; from then on all reads give 0
}

// left returns how many bits are left.
func (r *bitReader) left() int { return r.nbits + 8*(len(r.data)-r.pos) }

// fill gives acc at least 56 bits, unless data ends before.
func (r *bitReader) fill() {
	if r.pos+8 <= len(r.data) {
		r.acc |= binary.BigEndian.Uint64(r.data[r.pos:]) >> (uint(r.nbits) & 63)
		r.pos += (63 - r.nbits) >> 3
		r.nbits |= 56
		return
	}
	for r.nbits < 56 && r.pos < len(r.data) {
		r.acc |= uint64(r.data[r.pos]) << uint(56-r.nbits)
		r.pos++
		r.nbits += 8
	}
}

// take returns the next n bits, 1 to 64 of them.
func (r *bitReader) take(n int) uint64 {
	if n > r.nbits {
		r.fill()
	}
	if n > r.nbits {
		return r.takeLong(n)
	}
	x := r.acc >> uint(64-n)
	r.acc <<= uint(n)
	r.nbits -= n
	return x
}

// skip passes over the next n bits, which fill has looked for.
func (r *bitReader) skip(n int) {
	if n > r.nbits {
		r.takeLong(n)
		return
	}
	r.acc <<= uint(n)
	r.nbits -= n
}

// takeLong is take where acc, just filled, has fewer than n bits.
func (r *bitReader) takeLong(n int) uint64 {
	if n > r.left() {
		r.short = true
		r.data, r.pos, r.acc, r.nbits = r.data[:0], 0, 0, 0
		return 0
	}
	k := r.nbits // 56 to 63
	high := r.acc >> uint(64-k)
	r.acc <<= uint(k)
	r.nbits = 0
	r.fill()
	rest := n - k
	x := high<<uint(rest) | r.acc>>uint(64-rest)
	r.acc <<= uint(rest)
	r.nbits -= rest
	return x
}

// varbitWidths are the bits of a varbit integer behind so many ones, and a zero except for
// the last.
var varbitWidths = [...]int{0, 3, 6, 9, 12, 18, 25, 56, 64}

// uvarbit reads an unsigned varbit integer.
func (r *bitReader) uvarbit() uint64 {
	u, _ := r.varbitField()
	return u
}

// varbit reads a signed varbit integer: a field above the half of its range is negative.
func (r *bitReader) varbit() int64 {
	u, w := r.varbitField()
	if u > 1<<(w-1) && w < 64 {
		u -= 1 << w
	}
	return int64(u)
}

// varbitField reads a field and returns its width in bits, 1 for the empty one.
func (r *bitReader) varbitField() (u uint64, width uint) {
	if r.nbits < 32 {
		r.fill()
	}
	if r.acc>>63 == 0 {
		if r.nbits == 0 {
			r.take(1)
			return 0, 1
		}
		r.acc <<= 1
		r.nbits--
		return 0, 1
	}
	ones := min(bits.LeadingZeros64(^r.acc), len(varbitWidths)-1)
	w := varbitWidths[ones]
	used := min(ones+1, len(varbitWidths)-1)
	if all := used + w; all <= r.nbits {
		u = r.acc << uint(used) >> uint(64-w)
		r.acc <<= uint(all)
		r.nbits -= all
		return u, uint(w)
	}
	r.take(used)
	return r.take(w), uint(w)
}

// varint reads a zig-zag mapped varint, whose bytes need not begin at a byte. One that
// exceeds 64 bits is cut.
func (r *bitReader) varint() int64 {
	u := uint64(0)
	for shift := uint(0); shift < 70; shift += 7 {
		b := r.take(8)
		u |= b & 0x7f << shift
		if b < 0x80 {
			break
		}
	}
	return int64(u>>1) ^ -int64(u&1)
}
