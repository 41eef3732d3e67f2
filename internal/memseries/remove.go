package memseries

import (
	"iter"
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
	if !d.removeLocked(s, func() bool { return !s.logged && s.pendT.Load() == NoTime }) {
		return false
	}
	if len(d.create.dead) >= gcDead {
		d.cleanPostingsLocked()
	}
	return true
}

// idleRun is how many idle series are removed before others may create series.
const idleRun = 64

// RemoveIdle removes series that have no sample and no pin, and whose newest reserved
// time is before below, and returns their refs in ascending order. They may be in the log;
// their refs are never used again. remove is asked before about each, without any lock, and
// may keep it; nil removes all.
//
// A sample before below is not taken any more, and Barrier has been passed since, so
// nothing is on its way to such a series. Who staged a newer one without a pin finds it
// dead. Label places are used again at once: the caller has waited for readers that know
// the series, as for DropBefore.
func (d *Directory) RemoveIdle(below int64, remove func(ref uint64) bool) (removed []uint64) {
	var idle []*Series
	d.eachLocked(func(_ *Shard, s *Series) {
		if s.pins.Load() == 0 && s.Maxt() == NoTime && s.pendT.Load() < below {
			idle = append(idle, s)
		}
	})
	if remove != nil {
		idle = slices.DeleteFunc(idle, func(s *Series) bool { return !remove(s.ref) })
	}
	for run := range slices.Chunk(idle, idleRun) {
		d.create.Lock()
		for _, s := range run {
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
	sh := d.ShardOf(s)
	sh.mu.Lock()
	ok := s.slot.Load() == slotLive && s.pins.Load() == 0 && s.Maxt() == NoTime && unused()
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
		d.forgetLocked(s)
	}
	return ok
}

// Drop removes a series with all its samples. Only recovery calls it, when the log
// says that the series was removed.
func (d *Directory) Drop(s *Series) {
	d.create.Lock()
	defer d.create.Unlock()
	s.slot.Store(slotDead)
	sh := d.ShardOf(s)
	sh.mu.cutMapped(s, 0)
	if s.enc.Len() > 0 {
		sh.mu.dropOpen(s)
	}
	d.forgetLocked(s)
	if len(d.create.dead) >= gcDead {
		d.cleanPostingsLocked()
	}
}

// forgetLocked takes a dead series out of the table of label sets.
func (d *Directory) forgetLocked(s *Series) {
	d.tables[s.hash%tableCount].remove(s.hash, s.ref, d.hashOf)
	d.live.Add(-1)
	d.create.dead = append(d.create.dead, s.ref)
	d.create.gone = append(d.create.gone, d.Pairs(s)...)
}

// cleanPostingsLocked takes the dead refs out of the postings; only then may their
// pages and label places go.
func (d *Directory) cleanPostingsLocked() {
	d.removePostingsLocked(d.create.gone)
	for _, ref := range d.create.dead {
		d.freeSlotLocked(ref)
	}
	d.create.dead, d.create.gone = d.create.dead[:0], d.create.gone[:0]
}

// While a run of pairs is taken out of the postings nobody creates series. cleanRun is how many
// refs their lists may have, which is some ten milliseconds, if they are not one list alone; and
// cleanPair is what a pair costs besides, in refs (BenchmarkRemoveIdle: the longest creation of a
// series beside it took 400 ms when a run was 32,768 pairs, 70 ms now).
const (
	cleanRun  = 1 << 19
	cleanPair = 16
)

// cleanPostings is cleanPostingsLocked for any number of dead refs, with pauses.
func (d *Directory) cleanPostings() {
	d.create.Lock()
	dead, gone := d.create.dead, d.create.gone
	d.create.dead, d.create.gone = nil, nil
	d.create.Unlock()

	for run := range d.cleanRuns(index.SortPairs(gone)) {
		d.create.Lock()
		d.forgetInternedLocked()
		d.postings.RemoveSome(d.removed, run...)
		d.create.Unlock()
	}
	d.create.Lock()
	defer d.create.Unlock()
	d.removePostingsLocked(nil)
	for _, ref := range dead {
		d.freeSlotLocked(ref)
	}
}

// cleanRuns splits pairs by how long their lists are.
func (d *Directory) cleanRuns(pairs []index.Pair) iter.Seq[[]index.Pair] {
	return func(yield func([]index.Pair) bool) {
		from, size := 0, 0
		for i, p := range pairs {
			n := d.postings.Count(p) + cleanPair
			if i > from && size+n > cleanRun {
				if !yield(pairs[from:i]) {
					return
				}
				from, size = i, 0
			}
			size += n
		}
		if from < len(pairs) {
			yield(pairs[from:])
		}
	}
}

// freeSlotLocked gives a dead series' labels back, and its page when it was the last
// one there. A page that still gets new refs stays.
func (d *Directory) freeSlotLocked(ref uint64) {
	if s, ok := d.far.Load(ref); ok {
		d.arena.drop(s.(*Series).pairs, int(s.(*Series).npairs))
		d.far.Delete(ref)
		d.numFar.Add(-1)
		return
	}
	pages, p := *d.pages.Load(), ref>>pageBits
	s := &pages[p].Load().series[ref&(pageLen-1)]
	d.arena.drop(s.pairs, int(s.npairs))
	count := &d.create.counts[p]
	count.dead++
	if count.dead == count.used && p != d.nextRef.Load()>>pageBits {
		pages[p].Store(nil)
		d.numPages.Add(-1)
		*count = pageCount{}
	}
}
