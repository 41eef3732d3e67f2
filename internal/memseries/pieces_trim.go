package memseries

import "slices"

// trimPieces gives blocks back of which all pieces are free. The free lists of all shards
// are taken away meanwhile, which is quick, and returned without the pieces of those
// blocks; a shard that needs pieces in between takes new ones.
func (d *Directory) trimPieces() {
	var lists [NumShards]uint32
	for i := range d.shards {
		sh := &d.shards[i]
		sh.mu.Lock()
		lists[i], sh.mu.pieces.free = sh.mu.pieces.free, 0
		sh.mu.Unlock()
	}
	a := d.chunkBytes
	free := a.countFree(lists[:])
	for i := range d.shards {
		first, last := a.without(lists[i], free)
		if first == 0 {
			continue
		}
		sh := &d.shards[i]
		sh.mu.Lock()
		sh.mu.pieces.put(first, last)
		sh.mu.Unlock()
	}
	a.dropBlocks(free)
}

// countFree returns which blocks are wholly in these lists.
func (a *pieceArena) countFree(lists []uint32) (free []bool) {
	counts := make([]int, len(*a.blocks.Load()))
	for _, n := range lists {
		for ; n != 0; n = a.at(n).next {
			counts[n/pieceBlockLen]++
		}
	}
	free = make([]bool, len(counts))
	for i, count := range counts {
		free[i] = count == pieceBlockLen
	}
	return free
}

// without takes the pieces of some blocks out of a list.
func (a *pieceArena) without(list uint32, blocks []bool) (first, last uint32) {
	for n := list; n != 0; {
		pc := a.at(n)
		next := pc.next
		if !blocks[n/pieceBlockLen] {
			if pc.next = first; first == 0 {
				last = n
			}
			first = n
		}
		n = next
	}
	return first, last
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
