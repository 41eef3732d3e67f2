package index

import (
	"context"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
)

// pairLists are the lists of refs of all pairs. That of the zero Pair has every series.
//
// Safe for concurrent use. The lock is a leaf, and no long list is decoded under it.
type pairLists struct {
	mu struct {
		sync.RWMutex
		lists
		pages    []*listPage // the first one is always there
		rewrites uint64      // lists that were not only appended to
	}
}

const (
	listPageLen = 256 // pairs in a page of lists: 4 KiB
	listBytes   = 16  // of a list

	// holdLists is how many lists are read under the lock in one go.
	holdLists = 128
)

type listPage [listPageLen]list

func (pl *pairLists) init(size *atomic.Int64) {
	pl.mu.size = size
	pl.addPageLocked()
}

func (pl *pairLists) addPageLocked() {
	before := cap(pl.mu.pages)
	pl.mu.pages = append(pl.mu.pages, new(listPage))
	pl.mu.size.Add(listPageLen*listBytes + int64(cap(pl.mu.pages)-before)*8)
}

// addPair makes an empty list for a pair that is new. The caller holds MemPostings.create, and as
// nobody else makes pages, may look how many there are without the lock.
func (pl *pairLists) addPair(p Pair) {
	if int(p/listPageLen) < len(pl.mu.pages) {
		return
	}
	pl.mu.Lock()
	defer pl.mu.Unlock()
	pl.addPageLocked()
}

// ofLocked returns the list of a pair that was interned.
func (pl *pairLists) ofLocked(p Pair) *list {
	return &pl.mu.pages[p/listPageLen][p%listPageLen]
}

// add is MemPostings.Add.
func (pl *pairLists) add(ref uint64, pairs []Pair) {
	if ref == 0 || ref > MaxRef {
		panic("BUG: series ref outside of what postings hold")
	}
	pl.mu.Lock()
	defer pl.mu.Unlock()
	pl.addLocked(ref, pairs)
}

func (pl *pairLists) addLocked(ref uint64, pairs []Pair) {
	pl.addToLocked(pl.ofLocked(0), ref)
	for _, p := range pairs {
		pl.addToLocked(pl.ofLocked(p), ref)
	}
}

func (pl *pairLists) addToLocked(l *list, ref uint64) {
	switch last := l.last(); {
	case ref > last:
		pl.mu.append(l, ref)
	case ref < last:
		pl.insertLocked(l, ref)
	}
}

// insertLocked adds a ref in the middle of a list, which is made anew.
func (pl *pairLists) insertLocked(l *list, ref uint64) {
	refs := pl.mu.refsOf(l).appendTo(nil)
	if i, found := slices.BinarySearch(refs, ref); !found {
		refs = append(refs, 0) // not by slices.Insert, which is compiled anew for them (TestSmallestProgram)
		copy(refs[i+1:], refs[i:])
		refs[i] = ref
		pl.mu.replace(l, refs)
		pl.mu.rewrites++
	}
}

// addAll is MemPostings.AddAll.
func (pl *pairLists) addAll(all iter.Seq2[uint64, []Pair]) {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	pl.reserveLocked(all)
	for ref, pairs := range all {
		if ref == 0 || ref > MaxRef {
			panic("BUG: series ref outside of what postings hold")
		}
		pl.addLocked(ref, pairs)
	}
}

// reserveLocked finds out how long each list will be and makes room.
func (pl *pairLists) reserveLocked(all iter.Seq2[uint64, []Pair]) {
	type grown struct {
		last uint64
		size uint32
	}
	after := make([]grown, len(pl.mu.pages)*listPageLen) // by pair
	follow := func(p Pair, ref uint64) {
		g := &after[p]
		if g.last == 0 {
			l := pl.ofLocked(p)
			g.last, g.size = l.last(), l.size
			if g.size == 0 && g.last != 0 {
				g.size = uint32(uvarintBytes(g.last))
			}
		}
		if ref > g.last {
			g.size += uint32(uvarintBytes(ref - g.last))
			g.last = ref
		}
	}
	for ref, pairs := range all {
		follow(0, ref)
		for _, p := range pairs {
			follow(p, ref)
		}
	}
	for p := range after {
		if last := after[p].last; last != 0 && int(after[p].size) > uvarintBytes(last) {
			pl.mu.room(pl.ofLocked(Pair(p)), int(after[p].size))
		}
	}
}

// refs decodes a list, a large one without the lock.
func (pl *pairLists) refs(p Pair) []uint64 {
	pl.mu.RLock()
	l := pl.ofLocked(p)
	v := pl.mu.refsOf(l)
	if l.class != classBig {
		defer pl.mu.RUnlock()
		return v.appendTo(make([]uint64, 0, v.count()))
	}
	pl.mu.RUnlock()
	return v.appendTo(make([]uint64, 0, v.count()))
}

func (pl *pairLists) count(p Pair) int {
	pl.mu.RLock()
	defer pl.mu.RUnlock()
	return pl.mu.refsOf(pl.ofLocked(p)).count()
}

// each yields the pairs that have series and that keep accepts; nil accepts each. The refs
// that keep is given are valid during the call.
func (pl *pairLists) each(pairs []Pair, keep func(Pair, Postings) bool, yield func(Pair) bool) {
	var buf []uint64
	for _, p := range pairs {
		pl.mu.RLock()
		l := pl.ofLocked(p)
		empty := l.last() == 0
		if !empty && keep != nil {
			buf = pl.mu.refsOf(l).appendTo(buf[:0])
		}
		pl.mu.RUnlock()
		if empty || keep != nil && !keep(p, NewPostings(buf)) {
			continue
		}
		if !yield(p) {
			return
		}
	}
}

// cost is the size of the lists in bytes.
func (pl *pairLists) cost(_ context.Context, pairs []Pair) (int, error) {
	pl.mu.RLock()
	defer pl.mu.RUnlock()
	bytes := 0
	for _, p := range pairs {
		bytes += int(pl.ofLocked(p).size) + 1
	}
	return bytes, nil
}

// bounds is that of listSource.
func (pl *pairLists) bounds(_ context.Context, one []Pair) (lo, hi uint64, err error) {
	pl.mu.RLock()
	defer pl.mu.RUnlock()
	l := pl.ofLocked(one[0])
	return pl.mu.refsOf(l).first(), l.last(), nil
}

// read gives small lists to use under the lock, large ones without.
func (pl *pairLists) read(ctx context.Context, pairs []Pair, use func(refList)) error {
	var few [8]refList // more of them are on the heap
	big := few[:0]
	for len(pairs) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		batch := pairs[:min(holdLists, len(pairs))]
		pairs = pairs[len(batch):]
		big = pl.readBatch(big[:0], batch, use)
		for _, v := range big {
			use(v)
		}
	}
	return nil
}

// readBatch gives the small lists to use and appends the large ones to big.
func (pl *pairLists) readBatch(big []refList, pairs []Pair, use func(refList)) []refList {
	pl.mu.RLock()
	defer pl.mu.RUnlock()
	for _, p := range pairs {
		l := pl.ofLocked(p)
		if v := pl.mu.refsOf(l); l.class == classBig {
			big = append(big, v)
		} else {
			use(v)
		}
	}
	return big
}

// remove rewrites one list and reports whether its last ref went. The old bytes
// are decoded and filtered without the lock if they are many; refs that were appended
// meanwhile are added, and after anything else the work is done again.
func (pl *pairLists) remove(p Pair, dead func(ref uint64) bool) (emptied bool) {
	pl.mu.RLock()
	l := pl.ofLocked(p)
	seen, rewrites, v := *l, pl.mu.rewrites, pl.mu.refsOf(l)
	big := l.class == classBig && l.size > 0
	pl.mu.RUnlock()

	var kept []uint64
	if big {
		kept = slices.DeleteFunc(v.appendTo(make([]uint64, 0, v.count())), dead)
	}
	pl.mu.Lock()
	defer pl.mu.Unlock()
	had := pl.mu.refsOf(l).count()
	switch now := pl.mu.refsOf(l); {
	case had == 0:
		return false
	case !big || rewrites != pl.mu.rewrites:
		kept = slices.DeleteFunc(now.appendTo(nil), dead)
	case l.size > seen.size:
		c := cursor{b: now.b, off: int(seen.size), ref: seen.last()}
		for c.next() {
			if !dead(c.ref) {
				kept = append(kept, c.ref)
			}
		}
	}
	if len(kept) == had {
		return false
	}
	pl.mu.replace(l, kept)
	pl.mu.rewrites++
	return len(kept) == 0
}
