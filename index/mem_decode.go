package index

import (
	"encoding/binary"
	"math/bits"
	"sort"
)

func uvarintBytes(v uint64) int { return (bits.Len64(v|1) + 6) / 7 }

// count returns how many refs a list holds.
//
//go:noinline
func (v refList) count() int {
	if v.ids != nil {
		return v.ids.len()
	}
	if len(v.b) == 0 {
		if v.one != 0 {
			return 1
		}
		return 0
	}
	n, b := 0, v.b
	for ; len(b) >= 8; b = b[8:] {
		n += 8 - bits.OnesCount64(binary.LittleEndian.Uint64(b)&longBits)
	}
	for _, c := range b {
		if c < 0x80 {
			n++
		}
	}
	return n
}

// first returns the smallest ref, 0 if there is none.
func (v refList) first() uint64 {
	if len(v.b) == 0 {
		return v.one
	}
	ref, _ := binary.Uvarint(v.b)
	return ref
}

// appendTo appends the refs to dst.
func (v refList) appendTo(dst []uint64) []uint64 {
	if v.ids != nil {
		return v.ids.appendTo(dst)
	}
	if len(v.b) == 0 {
		if v.one != 0 {
			dst = append(dst, v.one)
		}
		return dst
	}
	ref := uint64(0)
	c := v.cursor()
	for {
		if w, ok := c.word(); ok {
			var eight [wordRefs]uint64
			for i := range eight {
				ref += w & 0x7f
				eight[i] = ref
				w >>= 8
			}
			dst = append(dst, eight[:]...)
			c.ref = ref
			continue
		}
		if !c.next() {
			return dst
		}
		ref = c.ref
		dst = append(dst, ref)
	}
}

// wordRefs is how many differences of one byte are taken in one step.
const wordRefs = 8

// longBits are the bits that differences of more than one byte set.
const longBits = 0x8080808080808080

// sumBytes adds the bytes of a word.
func sumBytes(w uint64) uint64 {
	const even = 0x00ff00ff00ff00ff
	return ((w&even + w>>8&even) * 0x0001000100010001) >> 48
}

// cursor reads a list in order. The zero value is at the end.
type cursor struct {
	b     []byte
	skips []skip
	off   int
	ref   uint64
	one   uint64
}

func (v refList) cursor() cursor { return cursor{b: v.b, skips: v.skips, one: v.one} }

// word takes the next eight differences if each is one byte; the caller adds them to
// ref.
func (c *cursor) word() (w uint64, ok bool) {
	if c.off+wordRefs > len(c.b) {
		return 0, false
	}
	w = binary.LittleEndian.Uint64(c.b[c.off:])
	if w&longBits != 0 {
		return 0, false
	}
	c.off += wordRefs
	return w, true
}

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
	if !c.next() || c.ref >= ref { // the next one is asked for often
		return c.ref >= ref && c.ref != 0
	}
	c.jump(ref)
	c.skipWords(ref)
	for c.next() {
		if c.ref >= ref {
			return true
		}
	}
	return false
}

// dense is a word of eight refs that follow each other without a gap, as series have
// that were created together.
const dense = 0x0101010101010101

// skipWords passes over eight refs at a time while all of them are below ref. In a run
// without gaps it stops right before ref.
func (c *cursor) skipWords(ref uint64) {
	b, off, at := c.b, c.off, c.ref
	for off+wordRefs <= len(b) {
		w := binary.LittleEndian.Uint64(b[off:])
		if w&longBits != 0 {
			break
		}
		sum := sumBytes(w)
		if at+sum >= ref {
			if w == dense {
				off += int(ref - 1 - at)
				at = ref - 1
			}
			break
		}
		at += sum
		off += wordRefs
	}
	c.off, c.ref = off, at
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

// intersect keeps the refs that the list has, too, in place.
func (v refList) intersect(refs []uint64) []uint64 {
	if v.ids != nil {
		return v.ids.keep(refs, true)
	}
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

// subtract keeps the refs that the list does not have, in place.
func (v refList) subtract(refs []uint64) []uint64 {
	if v.ids != nil {
		return v.ids.keep(refs, false)
	}
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
