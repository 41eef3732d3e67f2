package index

import (
	"encoding/binary"
	"math/bits"
	"sort"
)

func uvarintBytes(v uint64) int { return (bits.Len64(v|1) + 6) / 7 }

// count returns how many refs a view holds.
func (v view) count() int {
	if len(v.b) == 0 {
		if v.one != 0 {
			return 1
		}
		return 0
	}
	n, b := 0, v.b
	for ; len(b) >= 8; b = b[8:] {
		n += 8 - bits.OnesCount64(binary.LittleEndian.Uint64(b)&0x8080808080808080)
	}
	for _, c := range b {
		if c < 0x80 {
			n++
		}
	}
	return n
}

// first returns the smallest ref, 0 if there is none.
func (v view) first() uint64 {
	if len(v.b) == 0 {
		return v.one
	}
	ref, _ := binary.Uvarint(v.b)
	return ref
}

// appendTo appends the refs to dst.
func (v view) appendTo(dst []uint64) []uint64 {
	if len(v.b) == 0 {
		if v.one != 0 {
			dst = append(dst, v.one)
		}
		return dst
	}
	b, ref := v.b, uint64(0)
	for i := 0; i < len(b); {
		d := uint64(b[i])
		i++
		if d >= 0x80 {
			var n int
			if d, n = binary.Uvarint(b[i-1:]); n <= 0 {
				return dst
			}
			i += n - 1
		}
		ref += d
		dst = append(dst, ref)
	}
	return dst
}

// cursor reads a view in order. The zero value is at the end.
type cursor struct {
	b     []byte
	skips []skip
	off   int
	ref   uint64
	one   uint64
}

func (v view) cursor() cursor { return cursor{b: v.b, skips: v.skips, one: v.one} }

// next moves to the next ref; false at the end.
func (c *cursor) next() bool {
	if c.off >= len(c.b) {
		return c.nextOne()
	}
	d := uint64(c.b[c.off])
	c.off++
	if d >= 0x80 {
		return c.nextLong()
	}
	c.ref += d
	return true
}

func (c *cursor) nextLong() bool {
	d, n := binary.Uvarint(c.b[c.off-1:])
	if n <= 0 {
		c.off = len(c.b)
		return false
	}
	c.off += n - 1
	c.ref += d
	return true
}

func (c *cursor) nextOne() bool {
	if c.one == 0 {
		return false
	}
	c.ref, c.one = c.one, 0
	return true
}

// seek moves forward to the first ref that is not below ref, and stays where it is if
// it is there already; next or seek was called before, or ref is not 0.
func (c *cursor) seek(ref uint64) bool {
	if c.ref >= ref && c.ref != 0 {
		return true
	}
	c.jump(ref)
	for c.next() {
		if c.ref >= ref {
			return true
		}
	}
	return false
}

// jump takes the last entry point before ref, if it lies ahead. Points near the
// present one are tried first: seeks mostly go a short way.
func (c *cursor) jump(ref uint64) {
	if len(c.skips) == 0 || c.skips[0].ref >= ref {
		return
	}
	lo, hi := 0, 1
	for hi < len(c.skips) && c.skips[hi].ref < ref {
		lo, hi = hi, 2*hi+1
	}
	hi = min(hi, len(c.skips))
	lo += sort.Search(hi-lo, func(i int) bool { return c.skips[lo+i].ref >= ref }) - 1
	if s := c.skips[lo]; int(s.off) > c.off {
		c.off, c.ref = int(s.off), s.ref
	}
	c.skips = c.skips[lo:]
}

// intersect keeps the refs that the view has too, in place.
func (v view) intersect(refs []uint64) []uint64 {
	kept := refs[:0]
	c := v.cursor()
	for _, ref := range refs {
		if !c.seek(ref) {
			break
		}
		if c.ref == ref {
			kept = append(kept, ref)
		}
	}
	return kept
}

// subtract keeps the refs that the view does not have, in place.
func (v view) subtract(refs []uint64) []uint64 {
	kept := refs[:0]
	c := v.cursor()
	for i, ref := range refs {
		if !c.seek(ref) {
			return append(kept, refs[i:]...)
		}
		if c.ref != ref {
			kept = append(kept, ref)
		}
	}
	return kept
}
