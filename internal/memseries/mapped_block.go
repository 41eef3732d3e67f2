package memseries

import (
	"math"

	"github.com/seed347100a3/tsdb/chunks"
)

// mappedBlockLen is how many full chunks of a series stand in one block.
const mappedBlockLen = 8

// mappedBlock is a run of full chunks, field by field, so that it has no gaps, and counted from
// the first of them: 128 bytes, where whole times and refs would take 208. They are most of what a
// series has in memory once it has some twenty chunks (peak memory of recovery).
//
//	+------+------+------+------------+-----------+----------+----------+
//	| mint | file | pair | 8 begins   | 8 lengths | 8 places | 8 nums   |
//	| 8 B  | 4 B  | 4 B  | 32 B       | 32 B      | 32 B     | 16 B     |
//	+------+------+------+------------+-----------+----------+----------+
//
// A chunk that 32 bits are too few for gives its series pairs of blocks: each block has a second
// one behind it in the list, for the upper halves.
type mappedBlock struct {
	mint   int64  // where the first chunk began when the block was begun
	file   uint32 // the file that places count from; 0: there are no refs yet
	paired bool

	begins  [mappedBlockLen]uint32 // from mint on, in milliseconds
	lengths [mappedBlockLen]uint32 // from there to the newest sample, in milliseconds
	places  [mappedBlockLen]uint32 // files behind file, and the offset there; noFile, and where it waits; 0: there is no ref
	nums    [mappedBlockLen]uint16
}

// offsetBits hold every offset in a head-chunk file: none is longer than chunks.MaxHeadFileBytes.
// What is left is for files, 31 of them: a series that has eight full chunks in more has pairs. The
// last number says that the chunk is in none, and where it waits for one.
const (
	offsetBits = 27
	noFile     = 1<<(32-offsetBits) - 1
)

// begin makes a block ready for a first chunk at mint.
func (b *mappedBlock) begin(mint int64) { b.mint, b.file = mint, 0 }

// put makes m chunk i of the block. It says no when it has no room for what m is. Differences wrap,
// so nothing overflows: what fits 32 bits comes back as it was.
func (b *mappedBlock) put(i int, m Mapped) bool {
	begin, length := uint64(m.MinT-b.mint), uint64(m.MaxT-m.MinT)
	place, ok := b.place(m.Ref)
	if !ok || begin > math.MaxUint32 || length > math.MaxUint32 {
		return false
	}
	b.begins[i], b.lengths[i], b.places[i], b.nums[i] = uint32(begin), uint32(length), place, m.Num
	return true
}

// place returns how the block keeps a ref.
func (b *mappedBlock) place(ref chunks.Ref) (uint32, bool) {
	switch {
	case ref == 0:
		return 0, true
	case ref.File() == waitingFile:
		return noFile<<offsetBits | ref.Offset(), ref.Offset() < 1<<offsetBits
	case b.file == 0:
		b.file = ref.File()
	}
	behind, offset := ref.File()-b.file, ref.Offset()
	ok := b.file > 0 && behind < noFile && offset > 0 && offset < 1<<offsetBits
	return behind<<offsetBits | offset, ok
}

// at returns chunk i.
func (b *mappedBlock) at(i int) Mapped {
	m := Mapped{MinT: b.mint + int64(b.begins[i]), Num: b.nums[i]}
	m.MaxT = m.MinT + int64(b.lengths[i])
	switch p := b.places[i]; {
	case p>>offsetBits == noFile:
		m.Ref = chunks.NewRef(waitingFile, p&(1<<offsetBits-1))
	case p != 0:
		m.Ref = chunks.NewRef(b.file+p>>offsetBits, p&(1<<offsetBits-1))
	}
	return m
}

// putPair makes m chunk i of two blocks, which keep it in halves: lower ones, upper ones.
func putPair(low, high *mappedBlock, i int, m Mapped) {
	length := uint64(m.MaxT - m.MinT)
	low.begins[i], high.begins[i] = uint32(m.MinT), uint32(uint64(m.MinT)>>32)
	low.lengths[i], high.lengths[i] = uint32(length), uint32(length>>32)
	low.places[i], high.places[i] = uint32(m.Ref), uint32(m.Ref>>32)
	low.nums[i] = m.Num
}

// pairAt returns chunk i of two blocks.
func pairAt(low, high *mappedBlock, i int) Mapped {
	whole := func(low, high uint32) uint64 { return uint64(high)<<32 | uint64(low) }
	m := Mapped{MinT: int64(whole(low.begins[i], high.begins[i])), Num: low.nums[i]}
	m.MaxT = m.MinT + int64(whole(low.lengths[i], high.lengths[i]))
	m.Ref = chunks.Ref(whole(low.places[i], high.places[i]))
	return m
}
