package memseries

import (
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/seed347100a3/tsdb/index"
)

const (
	arenaBlockBits = 14
	arenaBlockLen  = 1 << arenaBlockBits // label pairs in a block: 64 KiB
	arenaFirstLen  = 1 << 8              // in the first one, which grows to that
)

// pairArena stores the label pairs of all series back to back, without a pointer or
// a length per series. Places are reused by label count when series go.
//
// put and drop are called under the directory's creation lock; at without any: a
// place is written before it is published and not reused before its series is gone.
type pairArena struct {
	blocks atomic.Pointer[[][]index.Pair] // all but the last, which is growing, of arenaBlockLen
	next   uint32                         // first place never used
	free   map[int][]uint32               // by number of pairs
}

// MaxLabels is how many labels a series may have: what fits a block's worth of
// places, far above any limit that makes sense.
const MaxLabels = 1 << 12

func (a *pairArena) at(place uint32, n int) []index.Pair {
	if n == 0 {
		return nil
	}
	blocks := *a.blocks.Load()
	off := place & (arenaBlockLen - 1)
	return blocks[place>>arenaBlockBits][off : int(off)+n : int(off)+n]
}

func (a *pairArena) put(pairs []index.Pair) uint32 {
	n := len(pairs)
	if n == 0 {
		return 0
	}
	if l := len(a.free[n]); l > 0 {
		place := a.free[n][l-1]
		a.free[n] = a.free[n][:l-1]
		copy(a.at(place, n), pairs)
		return place
	}
	if off := a.next & (arenaBlockLen - 1); off == 0 || int(off)+n > arenaBlockLen {
		a.addBlock(n)
	} else if int(off)+n > len(a.last()) {
		a.growLast(int(off) + n)
	}
	place := a.next
	a.next += uint32(n)
	copy(a.at(place, n), pairs)
	return place
}

func (a *pairArena) last() []index.Pair {
	blocks := *a.blocks.Load()
	return blocks[len(blocks)-1]
}

// addBlock appends a block and moves next to its start. The first one has room for n pairs and not
// many more: who has a hundred series, has many such arenas.
func (a *pairArena) addBlock(n int) {
	var old [][]index.Pair
	size := arenaBlockLen
	if p := a.blocks.Load(); p != nil {
		old = *p
	} else {
		size = arenaRoom(n)
	}
	blocks := append(old, make([]index.Pair, size)) // readers of the old header see a prefix
	a.next = uint32(len(old)) << arenaBlockBits
	a.blocks.Store(&blocks)
}

// growLast gives the last block room for n pairs. Readers of the old block find there all that
// was published before.
func (a *pairArena) growLast(n int) {
	blocks := slices.Clone(*a.blocks.Load())
	grown := make([]index.Pair, arenaRoom(n))
	copy(grown, blocks[len(blocks)-1])
	blocks[len(blocks)-1] = grown
	a.blocks.Store(&blocks)
}

// arenaRoom returns how long a block is made that must have room for n pairs, at most
// arenaBlockLen.
func arenaRoom(n int) int {
	size := arenaFirstLen
	for size < n {
		size *= 2
	}
	return size
}

func (a *pairArena) drop(place uint32, n int) {
	if a.free == nil {
		a.free = map[int][]uint32{}
	}
	a.free[n] = append(a.free[n], place)
}

func (a *pairArena) sizeBytes() (n int64) {
	p := a.blocks.Load()
	if p == nil {
		return 0
	}
	for _, b := range *p {
		n += int64(len(b)) * 4
	}
	return n + int64(cap(*p))*int64(unsafe.Sizeof([]index.Pair{}))
}
