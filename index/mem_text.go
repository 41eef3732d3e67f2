package index

import (
	"encoding/binary"
	"math/bits"
	"strings"
	"sync/atomic"
)

// Where a string lies is one uint32, so that it fits a word with its group: 19 bits
// of block number and 13 bits of offset, in steps of textStep bytes.
const (
	textOffsetBits = 13
	textStep       = 2
	textBlockBytes = textStep << textOffsetBits // 16 KiB
	textFirstBytes = 1 << 10                    // the first block of a small head
	textMaxPacked  = 2 << 10                    // a longer string gets a block of its own
	textMaxBlocks  = 1 << (32 - textOffsetBits)
)

// text keeps strings packed in blocks. A block is one Go string that grows at its
// end, so that reading is taking a substring. Each string has its length before it,
// as a uvarint, and at most one byte of padding behind it.
//
// Reading needs no lock. Writing belongs to whoever holds MemPostings.create.
type text struct {
	blocks atomic.Pointer[[]atomic.Pointer[string]]
	size   *atomic.Int64 // of MemPostings

	open    strings.Builder // the block that is being filled
	openNum uint32          // its number; textMaxBlocks: there was none yet
	owned   []textBlock     // by block number
	free    []uint32        // block numbers
}

// textBlock is what the writer knows about a block.
type textBlock struct {
	live uint32 // bytes of strings that are not released
	cap  uint32 // bytes of memory
	// long is the hash of the string that has the block for itself, as it takes a microsecond
	// to make it again; 0 for others.
	long uint64
}

func (t *text) init(size *atomic.Int64) {
	t.size = size
	t.openNum = textMaxBlocks // none: a long string may take the first number
	t.blocks.Store(new([]atomic.Pointer[string]))
}

// at returns the string at a place that put returned. A place whose string was
// released meanwhile gives any string, or none: the caller must know better.
func (t *text) at(place uint32) string { return textBlocks(*t.blocks.Load()).at(place) }

// textBlocks are the blocks of a text at one moment, by number.
type textBlocks []atomic.Pointer[string]

func (t textBlocks) at(place uint32) string {
	block, off := t.find(place)
	begin, end := span(block, off)
	return block[begin:end]
}

// encodedAt is at with the length in front, as a uvarint. Where at has no string at all, the
// length is missing, too.
func (t textBlocks) encodedAt(place uint32) string {
	block, off := t.find(place)
	begin, end := span(block, off)
	if begin == 0 {
		return ""
	}
	return block[off:end]
}

// find returns the block of a place, empty if there is none, and where in it.
func (t textBlocks) find(place uint32) (block string, off int) {
	num := place >> textOffsetBits
	if int(num) >= len(t) {
		return "", 0
	}
	b := t[num].Load()
	if b == nil {
		return "", 0
	}
	return *b, int(place&(1<<textOffsetBits-1)) * textStep
}

// span returns where the string is whose length stands at off; begin is 0 if there is none.
func span(block string, off int) (begin, end int) {
	if off >= len(block) {
		return 0, 0
	}
	if n := int(block[off]); n < 0x80 && n < len(block)-off {
		return off + 1, off + 1 + n
	}
	var n uint64
	for shift := 0; off < len(block) && shift < 64; shift += 7 {
		c := block[off]
		off++
		n |= uint64(c&0x7f) << shift
		if c < 0x80 {
			break
		}
	}
	if n > uint64(len(block)-off) {
		return 0, 0
	}
	return off, off + int(n)
}

// textBytes is what a string takes in its block.
func textBytes(s string) int {
	n := (bits.Len64(uint64(len(s))|1)+6)/7 + len(s)
	return (n + textStep - 1) / textStep * textStep
}

// put copies a string with its hash and returns its place.
func (t *text) put(s string, hash uint64) uint32 {
	n := textBytes(s)
	if len(s) > textMaxPacked {
		var own strings.Builder
		own.Grow(n)
		num := t.newBlock(own.Cap())
		t.owned[num].long = hash
		t.write(&own, num, s)
		return num << textOffsetBits
	}
	if t.open.Cap()-t.open.Len() < n || t.open.Len() >= textBlockBytes {
		t.openBlock(n)
	}
	place := t.openNum<<textOffsetBits | uint32(t.open.Len()/textStep)
	t.write(&t.open, t.openNum, s)
	return place
}

// longHash returns the hash that put got with a string, 0 if it was not kept.
func (t *text) longHash(place uint32) uint64 { return t.owned[place>>textOffsetBits].long }

// openBlock begins a new block to fill. Blocks grow with the text, so that a small
// head stays small.
func (t *text) openBlock(need int) {
	full := t.openNum
	if t.open.Cap() > 0 && t.owned[full].live == 0 {
		t.drop(full)
	}
	size := max(min(textBlockBytes, textFirstBytes*(len(t.owned)+1)), need)
	t.open = strings.Builder{}
	t.open.Grow(size)
	t.openNum = t.newBlock(t.open.Cap())
}

// newBlock returns the number of a new block of the given size.
func (t *text) newBlock(size int) uint32 {
	t.size.Add(int64(size))
	if n := len(t.free); n > 0 {
		num := t.free[n-1]
		t.free = t.free[:n-1]
		t.owned[num] = textBlock{cap: uint32(size)}
		return num
	}
	num := len(t.owned)
	if num == textMaxBlocks {
		panic("BUG: label text exceeds what the index can hold; the head's budget must stop before")
	}
	t.owned = append(t.owned, textBlock{cap: uint32(size)})
	if old := *t.blocks.Load(); num >= len(old) {
		grown := make([]atomic.Pointer[string], max(16, 2*len(old)))
		for i := range old {
			grown[i].Store(old[i].Load())
		}
		t.blocks.Store(&grown)
	}
	return uint32(num)
}

// write appends a string to a block and shows readers the longer block.
func (t *text) write(to *strings.Builder, num uint32, s string) {
	var head [binary.MaxVarintLen64]byte
	begin := to.Len()
	to.Write(head[:binary.PutUvarint(head[:], uint64(len(s)))])
	to.WriteString(s)
	for (to.Len()-begin)%textStep != 0 {
		to.WriteByte(0)
	}
	t.owned[num].live += uint32(to.Len() - begin)
	block := to.String()
	(*t.blocks.Load())[num].Store(&block)
}

// release gives up the string at a place; a block without strings is given back.
func (t *text) release(place uint32) {
	num := place >> textOffsetBits
	t.owned[num].live -= uint32(textBytes(t.at(place)))
	if t.owned[num].live == 0 && num != t.openNum {
		t.drop(num)
	}
}

func (t *text) drop(num uint32) {
	t.size.Add(-int64(t.owned[num].cap))
	t.owned[num] = textBlock{}
	(*t.blocks.Load())[num].Store(nil)
	t.free = append(t.free, num)
}

// room tells whether so many strings fit if each takes a block.
func (t *text) room(n int) bool { return textMaxBlocks-len(t.owned)+len(t.free) >= n }
