package index

// bitmap is a set of refs of the closed range lo..hi.
type bitmap struct {
	words  []uint64 // bit 0 of the first is lo
	lo, hi uint64
}

// mark adds the refs of a view that lie in the range.
//
// Bits are gathered in a register for as long as refs fall into the same word: series
// of one label value mostly lie close together, and going through memory for each
// costs five times as much (BenchmarkMemPostings_Select/prefix).
func (b *bitmap) mark(v view) {
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
