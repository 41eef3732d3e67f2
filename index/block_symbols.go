package index

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/foreground"
)

// symbolStride is how far apart the symbols are whose places are kept in memory: to
// find one, half as many lengths are read on average. Half a byte a symbol is a fortieth
// of what the strings take (BenchmarkReader_Symbol).
const symbolStride = 8

// symbolTable are the strings of a block, in the file. It keeps no reference to them
// but the mapped bytes.
type symbolTable struct {
	file   *blockFile
	text   []byte   // each with its length before it
	base   int      // offset of text in the file
	count  int      // of symbols
	empty  bool     // symbol 0 is the empty string
	stride int      // between places; 1 for version 1, whose series name places
	places []uint32 // in text, of every stride-th symbol
}

// openSymbols reads the content of the symbol table section, which starts at base.
func openSymbols(content []byte, base, version int) (symbolTable, error) {
	d := encbuf.NewDec(content)
	count := d.BE32()
	if uint64(count) > uint64(d.Len()) {
		d.Fail("number of symbols exceeds the symbol table")
	}
	if d.Err() != nil {
		return symbolTable{}, d.Err()
	}
	t := symbolTable{text: content[countBytes:], base: base + countBytes, count: int(count), stride: symbolStride}
	if version == 1 {
		t.stride = 1
	}
	t.places = make([]uint32, 0, (t.count+t.stride-1)/t.stride)
	off := 0
	var way foreground.Steps
	for n, place := 0, 0; n < t.count; n++ { // without a division for each, as in readEntries
		way.Step(waySteps)
		if n == place {
			t.places = append(t.places, uint32(off))
			place += t.stride
		}
		if off = skipString(t.text, off); off < 0 {
			return symbolTable{}, encbuf.Corrupt(countBytes, "symbols are longer than their table")
		}
	}
	t.empty = t.count > 0 && t.text[0] == 0
	if off != len(t.text) {
		return symbolTable{}, encbuf.Corrupt(countBytes+off, "symbol table is longer than its symbols")
	}
	return t, nil
}

// skipString returns the offset behind the string at off, -1 if it is not whole. It
// takes an offset of -1, too.
func skipString(b []byte, off int) int {
	if uint(off) >= uint(len(b)) {
		return -1
	}
	if n := int(b[off]); n < 0x80 {
		if off += 1 + n; off <= len(b) {
			return off
		}
		return -1
	}
	length, n := binary.Uvarint(b[off:])
	if n <= 0 || length > uint64(len(b)-off-n) {
		return -1
	}
	return off + n + int(length)
}

// cutString returns the string at off and the offset behind it, -1 if it is not whole.
func cutString(b []byte, off int) (s []byte, next int) {
	if next = skipString(b, off); next < 0 {
		return nil, -1
	}
	if b[off] < 0x80 {
		return b[off+1 : next], next
	}
	_, n := binary.Uvarint(b[off:])
	if n <= 0 || off+n > next { // the bytes change while they are read
		return nil, -1
	}
	return b[off+n : next], next
}

func (t *symbolTable) noSymbol() error {
	return t.file.corrupt(t.base-countBytes-sectionHeadBytes, "no such symbol")
}

// at returns the string of a symbol; false if there is none.
func (t *symbolTable) at(n uint32) ([]byte, bool) {
	if uint64(n) >= uint64(t.count) {
		return nil, false
	}
	off := int(t.places[n/uint32(t.stride)])
	for range n % uint32(t.stride) {
		off = skipString(t.text, off)
	}
	s, next := cutString(t.text, off)
	return s, next >= 0
}

// encoded returns a symbol with its length before it; false if there is none.
func (t *symbolTable) encoded(n uint32) ([]byte, bool) {
	if uint64(n) >= uint64(t.count) {
		return nil, false
	}
	off := int(t.places[n/uint32(t.stride)])
	for range n % uint32(t.stride) {
		off = skipString(t.text, off)
	}
	next := skipString(t.text, off)
	if next < 0 {
		return nil, false
	}
	return t.text[off:next], true
}

// place returns where in text a symbol is that there is; -1 if one before it is not whole. A call
// costs at and encoded, which are asked for each label, a tenth of their time: they have the loop.
func (t *symbolTable) place(n uint32) int {
	off := int(t.places[n/uint32(t.stride)])
	for range n % uint32(t.stride) {
		off = skipString(t.text, off)
	}
	return off
}

// number returns the number of the symbol at a place of the file: version 1.
func (t *symbolTable) number(place uint64) (uint32, bool) {
	if place < uint64(t.base) || place-uint64(t.base) > math.MaxUint32 {
		return 0, false
	}
	n, ok := slices.BinarySearch(t.places, uint32(place-uint64(t.base)))
	return uint32(n), ok
}

// find returns the number of a string; symbols ascend.
func (t *symbolTable) find(s string) (uint32, bool) { return t.findFrom(0, s) }

// findFrom is find for a string that is not below symbol from. It doubles its step, so
// that a near one is found at once.
func (t *symbolTable) findFrom(from uint32, s string) (uint32, bool) {
	lo, step := int(from)/t.stride, 1 // lo: a place whose symbol is not above s
	if lo >= len(t.places) || t.above(lo, s) {
		return 0, false
	}
	for lo+step < len(t.places) && !t.above(lo+step, s) {
		lo += step
		step *= 2
	}
	for hi := min(lo+step, len(t.places)); lo+1 < hi; {
		if mid := int(uint(lo+hi) / 2); t.above(mid, s) {
			hi = mid
		} else {
			lo = mid
		}
	}
	off := int(t.places[lo])
	for n := lo * t.stride; n < min((lo+1)*t.stride, t.count); n++ {
		var have []byte
		if have, off = cutString(t.text, off); off < 0 {
			return 0, false
		}
		if string(have) == s {
			return uint32(n), true
		}
	}
	return 0, false
}

// above tells whether the symbol of a place is above s.
func (t *symbolTable) above(place int, s string) bool {
	have, _ := cutString(t.text, int(t.places[place]))
	return string(have) > s
}
