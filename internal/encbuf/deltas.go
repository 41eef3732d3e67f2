package encbuf

// SkipDeltas moves behind n signed varints, which Count has found to fit, and each of which is what
// a number differs by from the one before; the first one from 0. It returns the sum of the numbers,
// and whether one of them is below 0.
func (d *Dec) SkipDeltas(n int) (sum uint64, negative bool) {
	b, off := d.buf, d.off
	number, signs := int64(0), int64(0)
	for ; n > 0; n-- {
		var u uint64
		switch {
		case off < len(b) && b[off] < 0x80:
			u = uint64(b[off])
			off++
		case off+1 < len(b) && b[off+1] < 0x80:
			u = uint64(b[off]&0x7f) | uint64(b[off+1])<<7
			off += 2
		default:
			d.off = off
			u = d.longUvarint()
			off = d.off
		}
		number += zagzig(u)
		signs |= number
		sum += uint64(number)
	}
	d.off = off
	return sum, signs < 0
}
