package memseries

import (
	"slices"

	"github.com/seed347100a3/tsdb/internal/foreground"
)

// wayTrimmed is after how many steps along all lists others may run: some ten microseconds.
const wayTrimmed = 16

// trimPieces gives blocks back of which all pieces are free. The free lists of all shards
// are taken away meanwhile, which is quick, and returned without the pieces of those
// blocks; a shard that needs pieces in between takes new ones.
func (tr *Truncation) trimPieces() {
	var lists [NumShards]uint32
	for i := range tr.shards.all {
		sh := &tr.shards.all[i]
		sh.mu.Lock()
		lists[i], sh.mu.pieces.free = sh.mu.pieces.free, 0
		sh.mu.Unlock()
	}
	a := tr.arena
	free, kept := a.countFree(lists)
	if kept > 0 {
		a.without(free, &lists, func(i int, first, last uint32) {
			sh := &tr.shards.all[i]
			sh.mu.Lock()
			sh.mu.pieces.put(first, last)
			sh.mu.Unlock()
		})
	}
	a.dropBlocks(free)
}

// countFree returns which blocks are wholly in these lists, and how many pieces of other
// blocks are. The lists are followed together: each step waits for memory, and so they wait
// for it at once (BenchmarkTrim).
func (a *pieceArena) countFree(lists [NumShards]uint32) (free []bool, kept int) {
	counts := make([]int, len(*a.blocks.Load()))
	var way foreground.Steps
	for more := true; more; {
		way.Step(wayTrimmed)
		more = false
		for i, n := range lists {
			if n != 0 {
				counts[n/pieceBlockLen]++
				lists[i] = a.at(n).next
				more = true
			}
		}
	}
	free = make([]bool, len(counts))
	for i, count := range counts {
		if free[i] = count == pieceBlockLen; !free[i] {
			kept += count
		}
	}
	return free, kept
}

// without takes the pieces of some blocks out of the lists, and calls put with what is left
// of each list that is not empty then.
func (a *pieceArena) without(blocks []bool, lists *[NumShards]uint32, put func(i int, first, last uint32)) {
	var first, last [NumShards]uint32
	var way foreground.Steps
	for more := true; more; {
		way.Step(wayTrimmed)
		more = false
		for i, n := range lists {
			if n == 0 {
				continue
			}
			more = true
			pc := a.at(n)
			lists[i] = pc.next
			if !blocks[n/pieceBlockLen] {
				if pc.next = first[i]; first[i] == 0 {
					last[i] = n
				}
				first[i] = n
			}
		}
	}
	for i, n := range first {
		if n != 0 {
			put(i, n, last[i])
		}
	}
}

// dropBlocks forgets blocks whose pieces nobody has.
func (a *pieceArena) dropBlocks(which []bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	blocks := slices.Clone(*a.blocks.Load())
	for i, drop := range which {
		if drop {
			blocks[i] = nil
			a.mu.gone = append(a.mu.gone, i)
		}
	}
	a.blocks.Store(&blocks)
}
