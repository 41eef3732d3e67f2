package encbuf

import (
	"encoding/binary"
	"math"
)

// Dec is a cursor over encoded bytes. Reading beyond the end or a malformed varint
// fails the cursor: the first error stays, and every later read gives zero. So a
// decoder reads a run of fields and asks Err once.
//
// A Dec never panics and allocates nothing but its error. What Bytes and Str
// return aliases the input.
type Dec struct {
	buf []byte // cut at off when the cursor fails, so that no later read succeeds
	off int
	err error
}

// NewDec returns a cursor at the start of b, which must not change while it is read.
func NewDec(b []byte) Dec { return Dec{buf: b} }

// Err returns nil or the *CorruptError that the first failed read left; its offset
// counts from the start of the input.
func (d *Dec) Err() error { return d.err }

// Len returns how many bytes are left; zero after a failure.
func (d *Dec) Len() int { return len(d.buf) - d.off }

// Offset returns how many bytes were read.
func (d *Dec) Offset() int { return d.off }

// Since returns the bytes from offset off, an earlier Offset, to the present one; they
// alias the input.
//
//go:noinline
func (d *Dec) Since(off int) []byte { return d.buf[off:d.off:d.off] }

// Fail makes the cursor fail at its present place; an earlier failure stays.
//
//go:noinline
func (d *Dec) Fail(reason string) { d.FailAt(d.off, reason) }

// FailAt is Fail with the place named: off counts from the start of the input. It is not inlined:
// that would be 28 kB of a small program.
//
//go:noinline
func (d *Dec) FailAt(off int, reason string) {
	if d.err == nil {
		d.err = Corrupt(off, reason)
	}
	d.buf = d.buf[:d.off]
}

// Byte reads one byte.
func (d *Dec) Byte() byte {
	if d.off >= len(d.buf) {
		d.Fail("input ends where a byte is expected")
		return 0
	}
	b := d.buf[d.off]
	d.off++
	return b
}

// BE32 reads four bytes, big endian.
func (d *Dec) BE32() uint32 {
	if d.Len() < 4 {
		d.Fail("input ends inside a be32")
		return 0
	}
	v := binary.BigEndian.Uint32(d.buf[d.off:])
	d.off += 4
	return v
}

// BE64 reads eight bytes, big endian.
func (d *Dec) BE64() uint64 {
	if d.Len() < 8 {
		d.Fail("input ends inside a be64")
		return 0
	}
	v := binary.BigEndian.Uint64(d.buf[d.off:])
	d.off += 8
	return v
}

// Float64 reads the bits of a float64 from eight bytes; NaNs keep their payload.
func (d *Dec) Float64() float64 { return math.Float64frombits(d.BE64()) }

// Uvarint reads an unsigned varint. Forms longer than needed are accepted, as long
// as the value fits 64 bits.
func (d *Dec) Uvarint() uint64 {
	if d.off < len(d.buf) && d.buf[d.off] < 0x80 {
		d.off++
		return uint64(d.buf[d.off-1])
	}
	return d.longUvarint()
}

func (d *Dec) longUvarint() uint64 {
	v, n := binary.Uvarint(d.buf[d.off:])
	switch {
	case n > 0:
		d.off += n
		return v
	case n == 0:
		d.Fail("input ends inside a varint")
	default:
		d.Fail("varint exceeds 64 bits")
	}
	return 0
}

// Varint reads a zig-zag mapped varint.
func (d *Dec) Varint() int64 {
	return zagzig(d.Uvarint())
}

// zagzig is the opposite of Zigzag.
func zagzig(u uint64) int64 { return int64(u>>1) ^ -int64(u&1) }

// Varints reads n varints, which Count has found to fit, and appends them to dst. Those of up to
// two bytes take no branch that depends on them.
func (d *Dec) Varints(dst []int64, n int) []int64 {
	rest := d.buf[d.off:]
	for ; n > 0; n-- {
		var u uint64
		if len(rest) >= 2 && rest[0]&rest[1] < 0x80 {
			u = uint64(rest[0])
			long := u >> 7
			u = u&0x7f | uint64(rest[1])<<7&-long
			rest = rest[1+long:]
		} else {
			d.off = len(d.buf) - len(rest)
			u = d.longUvarint()
			rest = d.buf[d.off:]
		}
		dst = append(dst, zagzig(u))
	}
	d.off = len(d.buf) - len(rest)
	return dst
}

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

// Count reads a uvarint that says how many entries follow, each of at least minBytes
// bytes (1 or more). A count that the rest of the input cannot hold fails the
// cursor, so that the caller may allocate for what it gets.
func (d *Dec) Count(minBytes int) int {
	off := d.off
	n := d.Uvarint()
	if n > uint64(d.Len()/minBytes) {
		d.off = off
		d.Fail("count exceeds what the input can hold")
		return 0
	}
	return int(n)
}

// Bytes reads n bytes; they alias the input.
func (d *Dec) Bytes(n int) []byte {
	if n < 0 || n > d.Len() {
		d.Fail("length exceeds the input")
		return nil
	}
	b := d.buf[d.off : d.off+n : d.off+n]
	d.off += n
	return b
}

// Str reads a length-prefixed string; the bytes alias the input.
func (d *Dec) Str() []byte { return d.Bytes(d.Count(1)) }
