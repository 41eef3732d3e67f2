package index

import (
	"slices"
)

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
	m.removeFrom(&m.mu.all, false, dead)
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
	pairs = SortPairs(slices.Clone(pairs))

	var r retired
	for _, p := range pairs {
		if m.removeFrom(m.list(p), true, dead) {
			r.pairs = append(r.pairs, p)
		}
	}
	m.dropPairs(&r)
	m.reclaim(r)
}

// SortPairs sorts pairs in place and returns them, each once. It goes by numbers of 64 bits, for which
// the sort is in a small program anyway.
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

// list returns the list of a pair; its fields need the lock.
func (m *MemPostings) list(p Pair) *list {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.listLocked(p)
}

// removeFrom rewrites one list and reports whether its last ref went. The old bytes
// are decoded and filtered without the lock if they are many; refs that were appended
// meanwhile are added, and after anything else the work is done again.
func (m *MemPostings) removeFrom(l *list, counted bool, dead func(ref uint64) bool) (emptied bool) {
	m.mu.RLock()
	seen, rewrites, v := *l, m.mu.rewrites, m.mu.viewOf(l)
	big := l.class == classBig && l.size > 0
	m.mu.RUnlock()

	var kept []uint64
	if big {
		kept = slices.DeleteFunc(v.appendTo(make([]uint64, 0, v.count())), dead)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	had := m.mu.viewOf(l).count()
	switch now := m.mu.viewOf(l); {
	case had == 0:
		return false
	case !big || rewrites != m.mu.rewrites:
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
	m.mu.replace(l, kept)
	m.mu.rewrites++
	if counted && len(kept) == 0 {
		m.mu.npairs--
	}
	return len(kept) == 0
}

// dropPairs makes pairs unfindable, and names of which none is left.
func (m *MemPostings) dropPairs(r *retired) {
	byName := make(map[uint32]map[Pair]struct{})
	for _, p := range r.pairs {
		group, _ := m.values.at(uint32(p))
		if byName[group] == nil {
			byName[group] = make(map[Pair]struct{})
		}
		byName[group][p] = struct{}{}
		m.values.drop(uint32(p))
	}
	for group, gone := range byName {
		if m.dropValues(group, gone) {
			m.names.drop(group)
			r.names = append(r.names, group)
		}
	}
}

// dropValues takes pairs out of the values of a name and reports whether that was all
// of them. New values cannot come meanwhile: create is held.
func (m *MemPostings) dropValues(group uint32, gone map[Pair]struct{}) (last bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	nv := m.mu.byName[group]
	left := make([]Pair, 0, len(nv.vals)-len(gone))
	sorted := 0
	for i, p := range nv.vals {
		if _, ok := gone[p]; ok {
			continue
		}
		left = append(left, p)
		if i < nv.sorted {
			sorted++
		}
	}
	m.setValuesLocked(nv, left, sorted)
	if len(left) > 0 {
		return false
	}
	m.size.Add(-nameValuesBytes)
	m.mu.byName[group] = nil
	return true
}

// reclaim puts numbers into quarantine and frees those that no pinned reader of an
// earlier epoch can know any more.
func (m *MemPostings) reclaim(r retired) {
	var oldest uint64
	r.epoch, oldest = m.endEpoch()
	q := append(m.create.quarantine, r)
	for len(q) > 0 && q[0].epoch < oldest {
		for _, p := range q[0].pairs {
			m.values.release(uint32(p))
		}
		for _, group := range q[0].names {
			m.names.release(group)
		}
		q = q[1:]
	}
	m.create.quarantine = slices.Clip(q)
}
