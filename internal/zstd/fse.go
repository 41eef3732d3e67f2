package zstd

import "math/bits"

// Bounds of FSE tables.
const (
	minAccuracy = 5   // 4.1.1: the field counts from here
	maxStates   = 512 // 3.1.1.3.2.1: accuracy of at most 9
	maxSymbols  = 256 // a symbol is a byte
)

// state is a cell of an FSE table: what it means and where it leads. Symbols of sequences
// are written with the numbers that they stand for.
type state struct {
	base  uint32 // the symbol, or the smallest number that it stands for
	next  uint16 // the state that zeros lead to
	bits  uint8  // how many bits are added to next
	extra uint8  // how many bits are added to base
}

// table is an FSE table. Every index into it is masked, so that it needs no check; what
// lies behind its 1<<accuracy states is stale and never reached.
type table struct {
	states   [maxStates]state
	accuracy uint8
}

func (t *table) at(i uint32) *state { return &t.states[i&(maxStates-1)] }

// counts is how many states each symbol has; -1 is one that is less than probable.
type counts [maxSymbols]int16

// readCounts reads the description of a table at the start of b (4.1.1) for symbols below
// limit. It returns how many symbols it has, their accuracy, and how many bytes it took.
func (c *counts) readCounts(b []byte, maxAccuracy uint8, limit int) (symbols int, accuracy uint8, size int, err error) {
	f := forward{b: b}
	accuracy = uint8(f.take(4)) + minAccuracy
	if accuracy > maxAccuracy {
		return 0, 0, 0, errAccuracy
	}
	for left := 1 << accuracy; left > 0; symbols++ {
		if symbols >= limit || f.over() {
			return 0, 0, 0, errFSE
		}
		n := f.takeCount(left)
		c[symbols] = int16(n)
		if n == 1<<accuracy {
			return 0, 0, 0, errFSE // one symbol alone is written as RLE
		}
		left -= max(n, -n)
		if n != 0 {
			continue
		}
		for again := 3; again == 3; { // 2 bits say how many more have no state
			again = f.take(2)
			if symbols+again >= limit || f.over() {
				return 0, 0, 0, errFSE
			}
			clear(c[symbols+1 : symbols+1+again])
			symbols += again
		}
	}
	if f.over() {
		return 0, 0, 0, errFSE
	}
	return symbols, accuracy, (f.at + 7) >> 3, nil
}

// takeCount reads one count. It lies between -1 and left, and is written plus one: in one
// bit less for the small values that the spare codes of the longest width leave room for.
func (f *forward) takeCount(left int) int {
	width := bits.Len(uint(left + 1))
	spare := 1<<width - 1 - (left + 1)
	v := f.peek(width)
	low := v & (1<<(width-1) - 1)
	if low < spare {
		f.at += width - 1
		return low - 1
	}
	f.at += width
	if v >= 1<<(width-1) {
		v -= spare
	}
	return v - 1
}

// build makes the table of counts that fill it exactly (4.1.1). A symbol stands for the
// number of its code, or for itself if there are no codes.
func (t *table) build(c *counts, symbols int, accuracy uint8, codes []code) {
	t.accuracy = accuracy
	size := 1 << accuracy
	var next [maxSymbols]uint16
	spread(t.states[:size], c[:symbols], &next)
	for i := range t.states[:size] {
		s := &t.states[i]
		symbol := uint8(s.base)
		n := next[symbol]
		next[symbol]++
		s.bits = accuracy - uint8(bits.Len16(n)-1)
		s.next = n<<s.bits - uint16(size)
		s.extra = 0
		if codes != nil {
			s.base, s.extra = codes[symbol].base, codes[symbol].extra
		}
	}
}

// spread writes symbols into states: the less than probable ones at the end, the others in
// steps that reach each state once. next becomes how many states each symbol has.
func spread(states []state, c []int16, next *[maxSymbols]uint16) {
	size := len(states)
	end := size
	for symbol, n := range c {
		next[symbol] = uint16(n)
		if n < 0 {
			end--
			states[end].base = uint32(symbol)
			next[symbol] = 1
		}
	}
	step, pos := size>>1+size>>3+3, 0
	for symbol, n := range c {
		for ; n > 0; n-- {
			states[pos].base = uint32(symbol)
			for pos = (pos + step) & (size - 1); pos >= end; {
				pos = (pos + step) & (size - 1)
			}
		}
	}
}

// constant makes a table of one state, which takes no bits: RLE mode.
func (t *table) constant(c code) {
	t.accuracy = 0
	t.states[0] = state{base: c.base, extra: c.extra}
}
