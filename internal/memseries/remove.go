package memseries

// gcDead is how many dead refs the postings may carry before they are rewritten:
// enough that the work is shared by many removals.
const gcDead = 1024

// RemoveUnused removes a series that has no sample and no pin. It reports whether it
// did. The ref is never used again.
func (d *Directory) RemoveUnused(s *Series) bool {
	d.create.Lock()
	defer d.create.Unlock()
	sh := d.ShardOf(s)
	sh.mu.Lock()
	unused := s.slot.Load() == slotLive && s.pins.Load() == 0 && !s.logged && s.Maxt() == NoTime && s.pendT.Load() == NoTime
	if unused {
		s.slot.Store(slotDead)
	}
	// A pin taken since is seen here, or its taker sees the slot dead.
	if unused && s.pins.Load() != 0 {
		s.slot.Store(slotLive)
		unused = false
	}
	sh.mu.Unlock()
	if unused {
		d.forgetLocked(s)
	}
	return unused
}

// Drop removes a series with all its samples. Only recovery calls it, when the log
// says that the series was removed.
func (d *Directory) Drop(s *Series) {
	d.create.Lock()
	defer d.create.Unlock()
	s.slot.Store(slotDead)
	sh := d.ShardOf(s)
	sh.mu.mappedBytes -= int64(cap(s.mapped)) * mappedBytes
	s.bytes.drop(&sh.mu.pieces)
	s.mapped = nil
	d.forgetLocked(s)
}

// forgetLocked takes a dead series out of the table and, at times, of the postings.
func (d *Directory) forgetLocked(s *Series) {
	d.tables[s.hash%tableCount].remove(s.hash, s.ref, d.hashOf)
	d.live.Add(-1)
	d.create.dead = append(d.create.dead, s.ref)
	d.create.gone = append(d.create.gone, d.Pairs(s)...)
	if len(d.create.dead) >= gcDead {
		d.cleanPostingsLocked()
	}
}

// cleanPostingsLocked takes the dead refs out of the postings; only then may their
// pages and label places go.
func (d *Directory) cleanPostingsLocked() {
	dead := make(map[uint64]struct{}, len(d.create.dead))
	for _, ref := range d.create.dead {
		dead[ref] = struct{}{}
	}
	d.postings.Remove(func(ref uint64) bool { _, ok := dead[ref]; return ok }, d.create.gone...)
	for _, ref := range d.create.dead {
		d.freeSlotLocked(ref)
	}
	d.create.dead, d.create.gone = d.create.dead[:0], d.create.gone[:0]
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
