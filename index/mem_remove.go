package index

import (
	"slices"
)

// retired are numbers that stand for nothing any more, but may still be known to
// readers that pinned an epoch up to this one.
type retired struct {
	epoch uint64
	pairs []Pair
	names []uint32
}

// Remove takes dead series out of the lists of the given pairs, which are those of the
// dead series, and drops pairs whose last series goes, with strings that nothing else
// uses. Repeated pairs are fine. dead is asked for every ref of every such list, maybe
// more than once, and must not call back.
//
// Readers keep what they selected. Lists are rewritten beside the lock, each is
// replaced under it for itself; so a reader may find a dead series in one and not in
// another. A pair that never had a series stays.
func (m *MemPostings) Remove(dead func(ref uint64) bool, pairs ...Pair) {
	m.create.Lock()
	defer m.create.Unlock()
	m.removePairs(dead, pairs)
	m.lists.remove(0, dead)
}

// RemoveSome is Remove for a part of the pairs, and leaves the list of all series as it is: with
// many series Remove takes long, and nobody makes a new one meanwhile. A last Remove, without
// pairs, ends it.
func (m *MemPostings) RemoveSome(dead func(ref uint64) bool, pairs ...Pair) {
	m.create.Lock()
	defer m.create.Unlock()
	m.removePairs(dead, pairs)
}

// removePairs takes dead series out of the lists of pairs. The caller holds create.
func (m *MemPostings) removePairs(dead func(ref uint64) bool, pairs []Pair) {
	var r retired
	for _, p := range SortPairs(slices.Clone(pairs)) {
		if m.lists.remove(p, dead) {
			r.pairs = append(r.pairs, p)
		}
	}
	m.dropPairs(&r)
	m.reclaim(r)
}

// SortPairs sorts pairs in place and returns them, each once. It goes by numbers of 64 bits, for
// which the sort is in a small program anyway.
func SortPairs(pairs []Pair) []Pair {
	keys := make([]uint64, len(pairs))
	for i, p := range pairs {
		keys[i] = uint64(p)
	}
	keys = sortRefs(keys)
	for i, k := range keys {
		pairs[i] = Pair(k)
	}
	return pairs[:len(keys)]
}

// dropPairs makes pairs unfindable, and names of which none is left. New values cannot
// come meanwhile: create is held.
func (m *MemPostings) dropPairs(r *retired) {
	byName := make(map[uint32]map[Pair]struct{})
	for _, p := range r.pairs {
		group := m.pairs.drop(p)
		if byName[group] == nil {
			byName[group] = make(map[Pair]struct{})
		}
		byName[group][p] = struct{}{}
	}
	for group, gone := range byName {
		if m.values.drop(group, gone) {
			m.pairs.names.drop(group)
			r.names = append(r.names, group)
		}
	}
}

// reclaim puts numbers into quarantine and frees those that no pinned reader of an
// earlier epoch can know any more.
func (m *MemPostings) reclaim(r retired) {
	var oldest uint64
	r.epoch, oldest = m.pins.endEpoch()
	q := append(m.create.quarantine, r)
	for len(q) > 0 && q[0].epoch < oldest {
		for _, p := range q[0].pairs {
			m.pairs.values.release(uint32(p))
		}
		for _, group := range q[0].names {
			m.pairs.names.release(group)
		}
		q = q[1:]
	}
	m.create.quarantine = slices.Clip(q)
}
