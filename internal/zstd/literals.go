package zstd

// Types of literals (3.1.1.3.1.1).
const (
	rawLiterals        = 0
	rleLiterals        = 1
	compressedLiterals = 2
	treelessLiterals   = 3
)

// slack in bytes is how far behind the literals may be read: they are copied in words.
const slack = 16

// literals reads the literals of the block src[lo:hi] and returns where they end. They are
// at d.lit[:d.nlit] then, which is part of src if they are raw.
func (d *Decoder) literals(src []byte, lo, hi, blockMax int) (end int, err error) {
	h, ok := parseLiterals(src[lo:hi])
	if !ok || h.size > blockMax || h.stored > hi-lo-h.header {
		return 0, errLiterals
	}
	lo += h.header
	end = lo + h.stored
	d.nlit = h.size
	if h.kind == rawLiterals {
		d.lit = src[lo:]
		return end, nil
	}
	if cap(d.buf) < h.size+slack {
		d.buf = make([]byte, h.size+h.size/4+slack)
	}
	d.lit = d.buf[:cap(d.buf)]
	out := d.lit[:h.size]
	switch h.kind {
	case rleLiterals:
		fill(out, src[lo])
		return end, nil
	case compressedLiterals:
		if lo, err = d.weights.read(src, lo, end); err != nil {
			return 0, err
		}
		if err = d.huff.build(&d.weights); err != nil {
			return 0, err
		}
		d.hasHuff = true
	}
	if !d.hasHuff {
		return 0, errLiterals // treeless, and no tree came before
	}
	if h.single {
		return end, d.huff.decode(out, src, lo, end)
	}
	return end, d.huff.decode4(out, src, lo, end)
}

// literalsHeader is what the header of literals says, sizes in bytes.
type literalsHeader struct {
	kind   byte
	single bool // one stream instead of four
	header int  // size of the header
	size   int  // of the literals
	stored int  // size of what they are decoded from
}

// parseLiterals reads the header at the start of b; ok is false if it is not all there.
func parseLiterals(b []byte) (h literalsHeader, ok bool) {
	if len(b) == 0 {
		return h, false
	}
	h.kind = b[0] & 3
	format := b[0] >> 2 & 3
	if h.kind == rawLiterals || h.kind == rleLiterals {
		h.header, ok = plainHeader(format), true
		if len(b) < h.header {
			return h, false
		}
		// One byte leaves 5 bits for the size, others 4 and what follows.
		if h.size = int(littleEndian(b[:h.header]) >> 4); h.header == 1 {
			h.size = int(b[0] >> 3)
		}
		h.stored = h.size
		if h.kind == rleLiterals {
			h.stored = 1
		}
		return h, ok
	}
	// Both sizes have 10 bits, or 14, or 18.
	h.single = format == 0
	wide := max(int(format), 1) - 1
	h.header = 3 + wide
	if len(b) < h.header {
		return h, false
	}
	width := 10 + 4*wide
	v := littleEndian(b[:h.header]) >> 4
	h.size = int(v & (1<<width - 1))
	h.stored = int(v >> width)
	return h, true
}

// plainHeader returns how long the header of raw and RLE literals is.
func plainHeader(format byte) int {
	switch format {
	case 1:
		return 2
	case 3:
		return 3
	default: // only the lower bit of the format is there: the other belongs to the size
		return 1
	}
}

func littleEndian(b []byte) (v uint64) {
	for i, c := range b {
		v |= uint64(c) << (8 * i)
	}
	return v
}

func fill(b []byte, c byte) {
	for i := range b {
		b[i] = c
	}
}
