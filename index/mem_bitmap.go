package index

import "math/bits"

// bitmap is a set of refs of the closed range lo..hi.
type bitmap struct {
	words  []uint64 // bit 0 of the first is lo
	lo, hi uint64
}

// mark adds the refs of a list that lie in the range.
//
// Bits are gathered in a register for as long as refs fall into the same word: series
// of one label value mostly lie close together, and going through memory for each
// costs five times as much (BenchmarkMemPostings_Select/prefix).
func (b *bitmap) mark(v refList) {
	if v.ids != nil {
		v.ids.mark(b)
		return
	}
	c := v.cursor()
	if b.lo > 0 && len(v.skips) > 0 && v.skips[0].ref < b.lo {
		c.jump(b.lo)
	}
	for c.next() {
		if c.ref >= b.lo {
			b.markFrom(&c)
			return
		}
	}
}

// appendSet appends the refs of a list that the bitmap has. dst has room for all refs of the
// bitmap and wordRefs more.
func (b *bitmap) appendSet(dst []uint64, v refList) []uint64 {
	if v.ids != nil {
		return v.ids.appendSet(dst, b)
	}
	c, n := v.cursor(), len(dst)
	if len(v.skips) > 0 && v.skips[0].ref < b.lo {
		c.jump(b.lo)
	}
	for c.next() && c.ref <= b.hi {
		if c.ref < b.lo {
			continue
		}
		at, end := c.ref-b.lo, b.hi-b.lo
		dst = dst[:n+1]
		dst[n] = c.ref
		n += b.bit(at)
		for at+wordRefs*0x7f <= end {
			w, ok := c.word()
			if !ok {
				break
			}
			if past := at + sumBytes(w); b.none(at, past) {
				at = past
				continue
			}
			eight := dst[n : n+wordRefs][:wordRefs]
			kept := 0
			for range wordRefs { // without a branch, which would be wrong every few times
				at += w & 0x7f
				w >>= 8
				eight[kept&(wordRefs-1)] = at + b.lo
				kept += b.bit(at)
			}
			n += kept
		}
		c.ref = at + b.lo
	}
	return dst[:n]
}

// all gives the refs, ascending.
//
//go:noinline
func (b *bitmap) all(yield func(ref uint64) bool) {
	for i, w := range b.words {
		for base := b.lo + uint64(i)*64; w != 0; w &= w - 1 {
			if !yield(base + uint64(bits.TrailingZeros64(w))) {
				return
			}
		}
	}
}

// none reports whether the words of bits from to to are known to be empty, which is asked of
// near ones only: most, where the bitmap has the series of few values.
func (b *bitmap) none(from, to uint64) bool {
	words := b.words[from/64 : to/64+1]
	if len(words) > wordRefs {
		return false
	}
	set := uint64(0)
	for _, w := range words {
		set |= w
	}
	return set == 0
}

// bit is 1 if the bit is set.
func (b *bitmap) bit(at uint64) int { return int(b.words[at/64] >> (at % 64) & 1) }

// markFrom adds the present ref of the cursor and those behind it.
func (b *bitmap) markFrom(c *cursor) {
	if c.ref > b.hi {
		return
	}
	at, end := c.ref-b.lo, b.hi-b.lo
	i, bits := at/64, uint64(1)<<(at%64)
	for {
		for at+wordRefs*0x7f <= end {
			w, ok := c.word()
			if !ok {
				break
			}
			if w == dense && at%64 < 64-wordRefs {
				bits |= 0xff << (at%64 + 1)
				at += wordRefs
				continue
			}
			for range wordRefs {
				at += w & 0x7f
				w >>= 8
				if at/64 != i {
					b.words[i] |= bits
					i, bits = at/64, 0
				}
				bits |= 1 << (at % 64)
			}
		}
		c.ref = at + b.lo
		if !c.next() {
			break
		}
		if at = c.ref - b.lo; at > end {
			break
		}
		if at/64 != i {
			b.words[i] |= bits
			i, bits = at/64, 0
		}
		bits |= 1 << (at % 64)
	}
	b.words[i] |= bits
}
