package histchunk

import (
	"encoding/binary"
	"math/bits"
)

// column is one number that each sample of a chunk has: its time, a count, a bucket. It holds
// what the next one is coded against.
//
// The window of floats says which bits of two neighbours differ: the number of leading zeros
// in the low byte, and of trailing ones in the next. A decoder begins with all bits, which
// is 0; an encoder without a window.
type column struct {
	v uint64 // of the newest sample: an integer, or the bits of a float
	d uint64 // integers: v minus the one before it, 0 at first; floats: the window
}

// windowUnset has more leading zeros than there are, so that no value fits it.
const windowUnset = 0xff

// dod writes an integer as the change of its change. Everything wraps. It is not inlined: the least
// program has little room.
//
//go:noinline
func (w *bitWriter) dod(c *column, x uint64) {
	delta := x - c.v
	w.varbit(int64(delta - c.d))
	c.v, c.d = x, delta
}

// dods is dod of one column after the other, up to the last number. Its loop keeps the state of the
// writer in registers and writes the short forms; others go the long way (BenchmarkEncoder).
func (w *bitWriter) dods(cols []column, xs []int64) {
	acc, nbits := w.acc, uint(w.nbits)
	cols = cols[:len(xs)]
	for i, x := range xs {
		c := &cols[i]
		delta := uint64(x) - c.v
		change := delta - c.d
		c.v, c.d = uint64(x), delta
		bit, n := uint64(0), uint(1)
		if change != 0 {
			// The form of n bits has one number more above 0 than below it.
			u := int64(change - 1)
			f := &formsByLen[bits.Len64(uint64(u^u>>63))&63]
			if n = uint(f.bits); n == 0 {
				w.acc, w.nbits = acc, uint8(nbits)
				w.varbit(int64(change))
				acc, nbits = w.acc, uint(w.nbits)
				continue
			}
			bit = uint64(f.ones) | change&uint64(f.mask)
		}
		if nbits += n; nbits < 64 {
			acc = acc<<(n&63) | bit
			continue
		}
		nbits -= 64
		w.buf = binary.BigEndian.AppendUint64(w.buf, acc<<((n-nbits)&63)|bit>>(nbits&63))
		acc = bit
	}
	w.acc, w.nbits = acc, uint8(nbits)
}

// dod reads what the writer's dod wrote.
func (r *bitReader) dod(c *column) {
	c.d += uint64(r.varbit())
	c.v += c.d
}

// dods is dod of one column after the other. Its loop keeps the state of the reader in
// registers and takes the short forms; others go the long way (BenchmarkDecoder).
func (r *bitReader) dods(cols []column) {
	data, pos, acc, nbits := r.data, r.pos, r.acc, r.nbits
	for i := range cols {
		c := &cols[i]
		if nbits < 32 && pos+8 <= len(data) {
			acc |= binary.BigEndian.Uint64(data[pos:]) >> (uint(nbits) & 63)
			pos += (63 - nbits) >> 3
			nbits |= 56
		}
		ones := bits.LeadingZeros64(^acc)
		if nbits < 32 || ones > 6 {
			r.pos, r.acc, r.nbits = pos, acc, nbits
			r.dod(c)
			data, pos, acc, nbits = r.data, r.pos, r.acc, r.nbits
			continue
		}
		used := ones + 1
		if ones > 0 {
			w := varbitWidths[ones&7]
			used += w
			// The field without what is in front of it and behind it, less 1, with the sign
			// of its top bit, and 1 added: so the one pattern that would be the lowest
			// number is the highest.
			u := acc<<(uint(used-w)&63) - 1<<(uint(64-w)&63)
			c.d += uint64(int64(u)>>(uint(64-w)&63)) + 1
		}
		acc <<= uint(used) & 63
		nbits -= used
		c.v += c.d
	}
	r.pos, r.acc, r.nbits = pos, acc, nbits
}

// raw writes the first float of a column.
//
//go:noinline
func (w *bitWriter) raw(c *column, x uint64) {
	w.put(x, 64)
	c.v, c.d = x, windowUnset
}

// xor writes a float as its difference to the one before: in the window of the one before if
// that has all bits, else in a new one.
func (w *bitWriter) xor(c *column, x uint64) {
	diff := x ^ c.v
	c.v = x
	if diff == 0 {
		w.put(0, 1)
		return
	}
	lead, trail := min(uint(bits.LeadingZeros64(diff)), 31), uint(bits.TrailingZeros64(diff))
	if uint(uint8(c.d)) <= lead && uint(c.d>>8) <= trail {
		lead, trail = uint(uint8(c.d)), uint(c.d>>8)
		w.put(0b10, 2)
	} else {
		c.d = uint64(lead | trail<<8)
		w.put(uint64(0b11<<11|lead<<6|(64-lead-trail)&63), 13) // 64 bits are written as 0
	}
	w.put(diff>>(trail&63), 64-lead-trail)
}

// xor reads what the writer's xor wrote. It reports whether the window is possible.
func (r *bitReader) xor(c *column) bool {
	if r.nbits < 13 {
		r.fill()
	}
	head := r.acc // bits that are not there are zeros, and found missing when they are skipped
	if head>>63 == 0 {
		r.skip(1)
		return true
	}
	if head>>62 == 0b10 {
		r.skip(2)
	} else {
		r.skip(13)
		lead, sig := uint(head<<2>>59), uint(head<<7>>58)
		if sig == 0 {
			sig = 64
		}
		if lead+sig > 64 {
			return false
		}
		c.d = uint64(lead | (64-lead-sig)<<8)
	}
	lead, trail := uint(uint8(c.d)), uint(c.d>>8)
	c.v ^= r.take(int(64-lead-trail)) << (trail & 63)
	return true
}
