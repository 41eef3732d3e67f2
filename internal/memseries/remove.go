package memseries

import (
	"slices"

	"github.com/seed347100a3/tsdb/index"
)

// gcDead is how many dead refs the postings may carry before they are rewritten:
// enough that the work is shared by many removals.
const gcDead = 1024

// RemoveUnused removes a series that has no sample and no pin. It reports whether it
// did. The ref is never used again.
func (d *Directory) RemoveUnused(s *Series) bool {
	d.create.Lock()
	defer d.create.Unlock()
	if !d.removeLocked(s, func() bool { return !s.Logged() && s.pendT.Load() == NoTime }) {
		return false
	}
	if len(d.create.dead) >= gcDead {
		d.cleanPostingsLocked()
	}
	return true
}

// idleLen is how many idle series are removed before others may create series.
const idleLen = 64

// RemoveIdle removes series that have no sample and no pin, and whose newest reserved
// time is before below, and returns their refs in ascending order. They may be in the log;
// their refs are never used again. remove is asked before about each, without any lock, and
// may keep it; nil removes all.
//
// A sample before below is not taken any more, and Shards.Barrier has been passed since, so
// nothing is on its way to such a series. Who staged a newer one without a pin finds it
// dead. Label places are used again at once: the caller has waited for readers that know
// the series, as for DropBefore.
func (d *Directory) RemoveIdle(below int64, remove func(ref uint64) bool) (removed []uint64) {
	var idle []*Series
	d.Shards.eachLocked(func(_ *Shard, s *Series) {
		if s.Maxt() == NoTime && s.pendT.Load() < below && isFreeLocked(d, s) {
			idle = append(idle, s)
		}
	})
	unused := idle[:0]
	for _, s := range idle {
		if remove == nil || remove(s.ref) {
			unused = append(unused, s)
		}
	}
	for some := range slices.Chunk(unused, idleLen) {
		d.create.Lock()
		for _, s := range some {
			if d.removeLocked(s, func() bool { return s.pendT.Load() < below }) {
				removed = append(removed, s.ref)
			}
		}
		d.create.Unlock()
	}
	if len(removed) > 0 {
		d.cleanPostings()
	}
	slices.Sort(removed)
	return removed
}

// removeLocked takes a series without samples and pins out of everything but the
// postings, if unused says so with the shard locked.
func (d *Directory) removeLocked(s *Series, unused func() bool) bool {
	sh := d.Shards.of(s)
	sh.mu.Lock()
	ok := s.Maxt() == NoTime && unused() && isFreeLocked(d, s)
	if ok {
		s.slot.Store(slotDead)
	}
	// A pin taken since is seen here, or its taker sees the slot dead.
	if ok && s.pins.Load() != 0 {
		s.slot.Store(slotLive)
		ok = false
	}
	if ok {
		delete(sh.mu.marks, s.ref)
		delete(sh.mu.lastSum, s.ref)
	}
	sh.mu.Unlock()
	if ok {
		d.unlistLocked(s)
		d.buryLocked(s)
	}
	return ok
}

// unlistLocked takes a dead series out of the table of label sets.
func (d *Directory) unlistLocked(s *Series) {
	d.labels.table(s.hash).remove(s.hash, s.ref, d.pages.hashOf)
	d.live.Add(-1)
}

// buryLocked has cleanPostings give the places of a dead series back.
func (d *Directory) buryLocked(s *Series) {
	d.create.dead = append(d.create.dead, s.ref)
	d.create.gone = append(d.create.gone, d.Pairs(s)...)
}

// cleanPostingsLocked takes the dead refs out of the postings; only then may their
// pages and label places go.
func (d *Directory) cleanPostingsLocked() {
	d.labels.removeLocked(d.pages.removed, d.create.gone)
	for _, ref := range d.create.dead {
		d.freeLocked(ref)
	}
	d.create.dead, d.create.gone = d.create.dead[:0], d.create.gone[:0]
}

// cleanPostings is cleanPostingsLocked for any number of dead refs, with pauses.
func (d *Directory) cleanPostings() {
	d.create.Lock()
	dead, gone := d.create.dead, d.create.gone
	d.create.dead, d.create.gone = nil, nil
	d.create.Unlock()

	for some := range d.labels.splitByLists(index.SortPairs(gone)) {
		d.create.Lock()
		d.labels.removeSomeLocked(d.pages.removed, some)
		d.create.Unlock()
	}
	d.create.Lock()
	defer d.create.Unlock()
	d.labels.removeLocked(d.pages.removed, nil)
	for _, ref := range dead {
		d.freeLocked(ref)
	}
}

// freeLocked gives a dead series' labels back, and its slot.
func (d *Directory) freeLocked(ref uint64) {
	s := d.pages.slotOf(ref)
	d.labels.pairs.drop(s.pairs, int(s.npairs))
	d.pages.freeLocked(ref, d.nextRef.Load())
}
