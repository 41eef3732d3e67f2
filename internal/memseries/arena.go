package memseries

import (
	"sync/atomic"

	"github.com/seed347100a3/tsdb/index"
)

const (
	arenaBlockBits = 14
	arenaBlockLen  = 1 << arenaBlockBits // label pairs in a block: 64 KiB
)

type arenaBlock [arenaBlockLen]index.Pair

// pairArena stores the label pairs of all series back to back, without a pointer or
// a length per series. Places are reused by label count when series go.
//
// put and drop are called under the directory's creation lock; at without any: a
// place is written before it is published and not reused before its series is gone.
type pairArena struct {
	blocks atomic.Pointer[[]*arenaBlock]
	next   uint32           // first place never used
	free   map[int][]uint32 // by number of pairs
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
		a.grow()
	}
	place := a.next
	a.next += uint32(n)
	copy(a.at(place, n), pairs)
	return place
}

// grow appends a block and moves next to its start.
func (a *pairArena) grow() {
	var old []*arenaBlock
	if p := a.blocks.Load(); p != nil {
		old = *p
	}
	blocks := append(old, new(arenaBlock)) // readers of the old header see a prefix
	a.next = uint32(len(old)) << arenaBlockBits
	a.blocks.Store(&blocks)
}

func (a *pairArena) drop(place uint32, n int) {
	if a.free == nil {
		a.free = map[int][]uint32{}
	}
	a.free[n] = append(a.free[n], place)
}

func (a *pairArena) sizeBytes() int64 {
	p := a.blocks.Load()
	if p == nil {
		return 0
	}
	return int64(len(*p))*arenaBlockLen*4 + int64(cap(*p))*8
}
