package memseries

import "slices"

// Ending is series that ended on their way out of a Directory, although samples of their times are
// still taken. Blocks have what they have. It belongs to one goroutine, which holds what Truncation
// wants.
//
//  1. The caller waits for readers that do not know the blocks.
//  2. Begin, KillLocked, End. From then on nobody finds the series, and who staged a sample for one
//     finds it dead. Another series may get its labels.
//  3. The caller waits for readers that may know the series. Then Free gives their places back.
type Ending struct {
	d     *Directory
	stays func(ref uint64) bool
	all   []ended
	until int64 // milliseconds, behind all of their samples
	dead  []*Series
	refs  []uint64 // of these, ascending
}

// ended is a series, and the time of its newest sample, in the head or not, or on its way.
type ended struct {
	series *Series
	newest int64
}

// EndedSince returns the series whose newest sample, one on its way included, is before a time, and
// that nobody has pinned. Those with samples elsewhere (Directory.Kept) are left out, and those of
// which stays says so, here and by KillLocked; their shard is locked.
//
//go:noinline
func EndedSince(d *Directory, since int64, stays func(ref uint64) bool) *Ending {
	e := &Ending{d: d, until: NoTime, stays: stays}
	d.Shards.eachLocked(func(_ *Shard, s *Series) {
		if newest := s.PendingT(); newest != NoTime && newest < since && s.Logged() && isFreeLocked(d, s) && !stays(s.ref) {
			e.all, e.until = append(e.all, ended{s, newest}), max(e.until, newest+1)
		}
	})
	return e
}

// Len returns how many series there are.
func (e *Ending) Len() int { return len(e.all) }

// Until returns a time, in milliseconds, behind all samples of the series.
func (e *Ending) Until() int64 { return e.until }

// Refs returns the refs of all of them, and their shards.
func (e *Ending) Refs() (refs map[uint64]bool, shards ShardSet) {
	refs = make(map[uint64]bool, len(e.all))
	for _, one := range e.all {
		refs[one.series.ref] = true
		shards |= Bit(one.series)
	}
	return refs, shards
}

// Begin keeps series from being created until End.
func (e *Ending) Begin() { e.d.create.Lock() }

// KillLocked makes those series dead to which nothing was appended since, and returns their refs.
// Their shards are locked.
func (e *Ending) KillLocked() []uint64 {
	for _, one := range e.all {
		s := one.series
		if s.PendingT() != one.newest || s.Maxt() > one.newest || !isFreeLocked(e.d, s) || e.stays(s.ref) {
			continue
		}
		s.slot.Store(slotLeft)
		if s.pins.Load() != 0 { // its taker sees the slot dead, or the pin is seen here
			s.slot.Store(slotLive)
			continue
		}
		e.dead, e.refs = append(e.dead, s), append(e.refs, s.ref)
	}
	slices.Sort(e.refs)
	return e.refs
}

// End forgets the samples of the dead, and lets others have their labels. With an error nothing has
// become of it, and they live.
func (e *Ending) End(err error) {
	defer e.d.create.Unlock()
	for _, s := range e.dead {
		if err != nil {
			s.slot.Store(slotLive)
			continue
		}
		sh := e.d.Shards.of(s)
		sh.mu.Lock()
		e.d.Truncation.dropBeforeLocked(sh, s, s.PendingT()+1)
		delete(sh.mu.marks, s.ref)
		sh.mu.Unlock()
		e.d.unlistLocked(s)
	}
	if err != nil {
		e.dead, e.refs = nil, nil
		return
	}
	e.d.Truncation.shrink()
}

// Free gives the places of the dead back.
func (e *Ending) Free() {
	e.d.create.Lock()
	for _, s := range e.dead {
		s.slot.Store(slotDead)
		e.d.buryLocked(s)
	}
	e.d.create.Unlock()
	if len(e.dead) > 0 {
		e.d.cleanPostings()
	}
}

// isFreeLocked reports whether a series is there, nobody has pinned it, and it has no samples
// elsewhere.
func isFreeLocked(d *Directory, s *Series) bool {
	return s.slot.Load() == slotLive && s.pins.Load() == 0 && (d.Kept == nil || !d.Kept(s.ref))
}
