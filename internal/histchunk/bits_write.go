package histchunk

import (
	"encoding/binary"
	"math/bits"
)

// bitWriter appends bits to buf, most significant first. buf grows by whole words; up to 63
// bits wait in acc. Its first headerSize bytes are for the header.
type bitWriter struct {
	buf   []byte
	acc   uint64 // its low nbits bits are not in buf yet; what is above them is noise
	nbits uint8  // Invariant: nbits < 64
}

// reset begins a stream behind room for the header. It keeps the memory.
func (w *bitWriter) reset() {
	*w = bitWriter{buf: append(w.buf[:0], make([]byte, headerSize)...)}
}

// put appends the low n bits of x; the bits above them are zero and n <= 64.
func (w *bitWriter) put(x uint64, n uint) {
	room := 64 - uint(w.nbits)
	if n < room {
		w.acc = w.acc<<(n&63) | x
		w.nbits += uint8(n)
		return
	}
	rest := n - room
	w.buf = binary.BigEndian.AppendUint64(w.buf, w.acc<<room|x>>(rest&63))
	w.acc, w.nbits = x, uint8(rest)
}

// sizeBytes returns how long the stream is, with the header and padded to whole bytes.
func (w *bitWriter) sizeBytes() int { return max(len(w.buf), headerSize) + int(w.nbits+7)/8 }

// appendTo appends the stream, without the header, to dst.
func (w *bitWriter) appendTo(dst []byte) []byte {
	if len(w.buf) > headerSize {
		dst = append(dst, w.buf[headerSize:]...)
	}
	if w.nbits == 0 {
		return dst
	}
	x := w.acc << (64 - uint(w.nbits))
	for n := int(w.nbits); n > 0; n -= 8 {
		dst = append(dst, byte(x>>56))
		x <<= 8
	}
	return dst
}

// varbitRows has for each number of bits that must be there the row of varbitWidths.
var varbitRows = func() (rows [65]uint8) {
	for n := range rows {
		for row, w := range varbitWidths {
			if n <= w {
				rows[n] = uint8(row)
				break
			}
		}
	}
	return rows
}()

// form is how a varbit integer is written that takes at most 32 bits: its low bits that mask has,
// behind ones and a zero.
type form struct{ ones, mask, bits uint32 }

// shortForms has the form of each row of varbitWidths; of none, and of those that are longer, there
// is none here.
var shortForms = [len(varbitWidths)]form{
	1: {1 << 4, 1<<3 - 1, 5},
	2: {3 << 7, 1<<6 - 1, 9},
	3: {7 << 10, 1<<9 - 1, 13},
	4: {15 << 13, 1<<12 - 1, 17},
	5: {31 << 19, 1<<18 - 1, 24},
	6: {63 << 26, 1<<25 - 1, 32},
}

// formsByLen has the form of numbers by how many bits they have without their sign.
var formsByLen = func() (forms [64]form) {
	for n := range forms {
		forms[n] = shortForms[varbitRows[1+n]]
	}
	return forms
}()

// uvarbit writes an unsigned varbit integer in the first width that it fits.
//
//go:noinline
func (w *bitWriter) uvarbit(u uint64) { w.varbitField(u, int(varbitRows[bits.Len64(u)])) }

// varbit writes a signed varbit integer in the first width that it fits. A width of n bits
// has -(2^(n-1)-1) to 2^(n-1).
func (w *bitWriter) varbit(v int64) {
	switch {
	case v == 0:
		w.put(0, 1)
	case v > 0:
		w.varbitField(uint64(v), int(varbitRows[1+bits.Len64(uint64(v-1))]))
	default:
		w.varbitField(uint64(v), int(varbitRows[min(1+bits.Len64(uint64(-v)), 64)]))
	}
}

// varbitField writes the low bits of u that a row has.
func (w *bitWriter) varbitField(u uint64, row int) {
	switch width := uint(varbitWidths[row]); width {
	case 0:
		w.put(0, 1)
	case 64:
		w.put(1<<row-1, uint(row))
		w.put(u, 64)
	default:
		w.put((1<<row-1)<<(width+1)|u&(1<<width-1), uint(row)+1+width)
	}
}

// varint writes a zig-zag mapped varint at the present bit.
func (w *bitWriter) varint(v int64) {
	var b [binary.MaxVarintLen64]byte
	for _, x := range b[:binary.PutVarint(b[:], v)] {
		w.put(uint64(x), 8)
	}
}
