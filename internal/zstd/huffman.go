package zstd

import "math/bits"

// Bounds of Huffman codes (4.2.1).
const (
	maxCodeBits     = 11 // Max_Number_of_Bits
	maxWeights      = 255
	directWeights   = 128 // a header byte from here on: 4 bits a weight
	weightsAccuracy = 6   // of the FSE table of weights
)

// huffman is a table of all codes: the next 11 bits of a stream lead to the symbol in the
// high byte and the length of its code in the low one.
type huffman [1 << maxCodeBits]uint16

// weights is what a Huffman table is described by. A symbol of weight w has a code of
// as many bits as the longest one has, plus 1, minus w; it has none if w is 0.
type weights struct {
	of    [maxWeights + 1]uint8
	n     int
	fse   table
	count counts
}

// read reads the description of a table in src[lo:hi] and returns where it ends.
func (w *weights) read(src []byte, lo, hi int) (end int, err error) {
	if hi-lo < 2 {
		return 0, errHuffman
	}
	n := int(src[lo])
	lo++
	if n < directWeights {
		end = lo + n
		if end > hi {
			return 0, errHuffman
		}
		return end, w.readFSE(src, lo, end)
	}
	w.n = n - (directWeights - 1)
	end = lo + (w.n+1)/2
	if end > hi {
		return 0, errHuffman
	}
	for i := range w.n { // the first of two is in the upper half
		w.of[i] = src[lo+i/2] >> (4 &^ (i * 4)) & 15
	}
	return end, nil
}

// readFSE reads weights that two FSE states take turns to write (4.2.1.2). They end where
// the next state needs bits when none is left. RFC 8878 takes a last state that needs more
// bits than there are for the end, too; no encoder writes that, and it is refused here.
func (w *weights) readFSE(src []byte, lo, hi int) error {
	symbols, accuracy, size, err := w.count.readCounts(src[lo:hi], weightsAccuracy, maxSymbols)
	if err != nil {
		return err
	}
	w.fse.build(&w.count, symbols, accuracy, nil)
	r, ok := newReader(src, lo+size, hi)
	if !ok {
		return errHuffman
	}
	turn, other := r.take(accuracy), r.take(accuracy)
	for w.n = 0; w.n < maxWeights; w.n++ {
		s := w.fse.at(turn)
		w.of[w.n] = uint8(s.base)
		if r.left() < int(s.bits) {
			break
		}
		r.refill()
		turn, other = other, uint32(s.next)+r.take(s.bits)
	}
	if r.left() != 0 || w.n+2 > maxWeights {
		return errHuffman
	}
	w.of[w.n+1] = uint8(w.fse.at(other).base)
	w.n += 2
	return nil
}

// complete adds the weight of the last symbol, which is not written: codes fill the table.
// It returns how many bits the longest code has, and how many symbols have each weight.
func (w *weights) complete() (longest uint8, ranks [maxCodeBits + 1]int, err error) {
	sum := 0
	for _, v := range w.of[:w.n] {
		if v > maxCodeBits {
			return 0, ranks, errHuffman
		}
		ranks[v]++
		sum += 1 << v >> 1
	}
	longest = uint8(bits.Len(uint(sum)))
	rest := 1<<longest - sum
	if sum == 0 || longest > maxCodeBits || rest&(rest-1) != 0 {
		return 0, ranks, errHuffman
	}
	last := bits.Len(uint(rest))
	w.of[w.n] = uint8(last)
	w.n++
	ranks[last]++
	if ranks[1] < 2 { // the longest code is as long as was computed
		return 0, ranks, errHuffman
	}
	return longest, ranks, nil
}

// build fills the table: by weight, and by symbol among those of the same weight (4.2.1.3).
func (h *huffman) build(w *weights) error {
	longest, ranks, err := w.complete()
	if err != nil {
		return err
	}
	spare := maxCodeBits - longest // bits behind the longest code, which say nothing
	var start [maxCodeBits + 2]int
	for v := 1; v <= maxCodeBits; v++ {
		start[v+1] = start[v] + ranks[v]<<(v-1)<<spare
	}
	for symbol, v := range w.of[:w.n] {
		if v == 0 {
			continue
		}
		from := start[v]
		to := from + 1<<(v-1)<<spare
		start[v] = to
		cells, e := h[from:to], uint16(symbol)<<8|uint16(longest+1-v)
		for i := range cells {
			cells[i] = e
		}
	}
	return nil
}

// decode fills out with the symbols of the one stream src[lo:hi], which they use up.
func (h *huffman) decode(out, src []byte, lo, hi int) error {
	r, ok := newReader(src, lo, hi)
	if !ok {
		return errLiterals
	}
	for len(out) >= perWord && r.ptr >= guard {
		h.five(&r, out)
		out = out[perWord:]
	}
	return h.rest(&r, out)
}

// perWord is how many symbols the 57 bits of a word give at least.
const perWord = 5

// five decodes five symbols. The word must not reach the start of the stream.
func (h *huffman) five(r *reader, out []byte) {
	out = out[:perWord]
	r.ptr -= int(r.used >> 3)
	w := load(r.b, r.ptr) << (r.used & 7)
	e0 := h[w>>(64-maxCodeBits)]
	w <<= e0 & 15
	e1 := h[w>>(64-maxCodeBits)]
	w <<= e1 & 15
	e2 := h[w>>(64-maxCodeBits)]
	w <<= e2 & 15
	e3 := h[w>>(64-maxCodeBits)]
	w <<= e3 & 15
	e4 := h[w>>(64-maxCodeBits)]
	out[0], out[1], out[2], out[3], out[4] = byte(e0>>8), byte(e1>>8), byte(e2>>8), byte(e3>>8), byte(e4>>8)
	r.used = r.used&7 + uint(e0&15+e1&15+e2&15+e3&15+e4&15)
}

// rest decodes symbol by symbol, and checks that nothing is left of the stream.
func (h *huffman) rest(r *reader, out []byte) error {
	for i := range out {
		r.refill()
		e := h[peek(r.word, r.used, maxCodeBits)]
		r.used += uint(e & 15)
		out[i] = byte(e >> 8)
	}
	if r.left() != 0 {
		return errLiterals
	}
	return nil
}

// jumpTable in bytes is the lengths of the first three of four streams (3.1.1.3.1.6).
const jumpTable = 6

// decode4 is decode for four streams, which give a fourth of out each; the last gives what
// is left. They are read side by side, as the processor can then work on all of them.
func (h *huffman) decode4(out, src []byte, lo, hi int) error {
	part := (len(out) + 3) / 4
	if hi-lo < jumpTable || 3*part > len(out) {
		return errLiterals
	}
	var r [4]reader
	var outs [4][]byte
	at := lo + jumpTable
	for i := range r {
		end, to := hi, len(out)
		if i < 3 {
			end, to = at+int(src[lo+2*i])+int(src[lo+2*i+1])<<8, (i+1)*part
		}
		if end > hi {
			return errLiterals
		}
		ok := false
		if r[i], ok = newReader(src, at, end); !ok {
			return errLiterals
		}
		at, outs[i] = end, out[i*part:to]
	}
	h.sideBySide(&r, &outs)
	for i := range r {
		if err := h.rest(&r[i], outs[i]); err != nil {
			return err
		}
	}
	return nil
}

// sideBySide decodes until one of the streams is nearly read.
func (h *huffman) sideBySide(r *[4]reader, outs *[4][]byte) {
	for len(outs[3]) >= perWord && r[0].ptr >= guard && r[1].ptr >= guard && r[2].ptr >= guard && r[3].ptr >= guard {
		for i := range r {
			h.five(&r[i], outs[i])
			outs[i] = outs[i][perWord:]
		}
	}
}
