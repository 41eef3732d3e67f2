package memseries

import (
	"sort"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/labels"
)

// Restoration makes the series of a directory what log, snapshot and chunk files say. Nobody reads
// or appends before it is finished. Its Restorers append; all else here is called while they are at
// rest, or for series that are not theirs.
type Restoration struct{ d *Directory }

// NewRestoration begins to restore an empty directory.
func NewRestoration(d *Directory) Restoration { return Restoration{d} }

// NewRestorer returns a worker's share.
func (rs Restoration) NewRestorer() *Restorer {
	d := rs.d
	r := &Restorer{d: d, MinValid: NoTime}
	r.cutting, r.limit, r.pieces.arena = d.Shards.all[0].mu.cutting, NoTime, d.chunkBytes
	r.pieces.recycled = new(recycled)
	r.onFull = r.keepFull
	return r
}

// Restore makes a series with a given ref, as recovery reads it from the log. The
// postings learn of it by Finish. The ref is not in use; the labels are new, have
// that hash, and are not kept. Errors: ErrRefs, ErrRefUsed, ErrFull.
func (rs Restoration) Restore(ref uint64, ls labels.Labels, hash uint64) (*Series, error) {
	d := rs.d
	if ref == 0 || ref > uint64(chunks.MaxSeriesRef) {
		return nil, ErrRefs
	}
	d.create.Lock()
	defer d.create.Unlock()
	if d.pages.removed(ref) {
		return nil, ErrRefUsed
	}
	if !d.Postings().Room(ls.Len()) {
		return nil, ErrFull
	}
	d.nextRef.Store(max(d.nextRef.Load(), ref+1))
	return d.createLocked(ref, ls, hash), nil
}

// Drop removes a series with all its samples, as the log says that it was removed.
func (rs Restoration) Drop(s *Series) {
	d := rs.d
	d.create.Lock()
	defer d.create.Unlock()
	s.slot.Store(slotDead)
	sh := d.Shards.of(s)
	sh.mu.mapped.cut(s, 0)
	if s.enc.Len() > 0 {
		sh.mu.dropOpen(s)
	}
	d.unlistLocked(s)
	d.buryLocked(s)
	if len(d.create.dead) >= gcDead {
		d.cleanPostingsLocked()
	}
}

// Attach gives a restored series the full chunks that its files have, oldest first
// and without overlap. It keeps nothing of ms.
func (rs Restoration) Attach(s *Series, ms []Mapped) {
	s.pendV = notReached
	sh := rs.d.Shards.of(s)
	for _, m := range ms {
		sh.mu.mapped.add(s, m)
	}
}

// AttachKnown is Attach for a series of a snapshot: the log from there on is behind the
// known chunks, and what it repeats of them is not looked at. Of the others, those that are
// behind them stay.
func (rs Restoration) AttachKnown(s *Series, known, others []Mapped) {
	rs.Attach(s, known)
	s.pendV, s.lastSeq = 0, uint64(len(known))
	if len(known) > 0 {
		s.prevMaxt = known[len(known)-1].MaxT
	}
	sh := rs.d.Shards.of(s)
	for _, m := range others {
		if s.numMapped == 0 || m.MinT > s.Maxt() {
			sh.mu.mapped.add(s, m)
		}
	}
}

// AttachMore adds full chunks that were written under another ref of the series, in
// the order of time. Those that overlap what the series has are left out, and all of
// them if the log has already put samples into its open chunk. Its worker is at rest.
func (rs Restoration) AttachMore(s *Series, ms []Mapped) {
	if s.enc.Len() > 0 {
		return
	}
	var all []Mapped
	for _, m := range s.mapped() {
		all = append(all, m)
	}
	all = append(all, ms...)
	sort.SliceStable(all, func(i, k int) bool { return all[i].MinT < all[k].MinT })
	sh := rs.d.Shards.of(s)
	sh.mu.mapped.cut(s, 0)
	for _, m := range all {
		if s.numMapped == 0 || m.MinT > s.Maxt() {
			sh.mu.mapped.add(s, m)
		}
	}
	s.lastSeq = 0 // the worker finds its place again
	if s.pendV = notReached; s.prevMaxt != NoTime {
		s.pendV = 0 // which of them the log has is not known any more
	}
}

// DropStale takes full chunks from series that end before the first sample that the log has
// of the series, or of which the log has none at all, and returns how many there were, and where
// the newest of them ends. The log has everything from where it was truncated last, so these are
// left over from before: of a file that had newer chunks, too. They are in a block, or were
// deleted. Chunks that end at truncated or later stay: the log was not truncated so far, so
// it has lost what they have. It is called before Finish, if nothing else of the log was lost.
func (rs Restoration) DropStale(truncated int64) (dropped int, newest int64) {
	newest = NoTime
	for s := range rs.d.All() {
		n := int(min(s.pendV, uint64(s.numMapped)))
		for n > 0 && s.mappedMaxt(n-1) >= truncated {
			n--
		}
		if n > 0 {
			newest = max(newest, s.mappedMaxt(n-1))
			rs.d.Shards.of(s).mu.mapped.drop(s, n)
			dropped += n
		}
	}
	return dropped, newest
}

// BeyondLog counts full chunks that the log does not have: behind are those of series of which it
// has older samples, and as chunks never outrun the log, it has lost its end; unreached those
// before all that it has of their series. It is called before DropStale.
func (rs Restoration) BeyondLog() (behind, unreached int) {
	for s := range rs.d.All() {
		n := int(s.numMapped)
		first := int(min(s.pendV, uint64(n)))
		unreached += first
		for i := n - 1; i >= first && s.mappedMaxt(i) > s.prevMaxt; i-- {
			behind++
		}
	}
	return behind, unreached
}

// Finish makes the restored series ordinary ones, all as of commit seq, and
// indexes their labels. newest reads the Sum of the last sample of a full chunk, and what it is.
func (rs Restoration) Finish(seq uint64, newest func(Mapped) (sum uint64, kind chunkenc.ValueType, err error)) error {
	for s := range rs.d.All() {
		s.lastSeq, s.prevMaxt = seq, NoTime
		s.SetLogged(true)
		sum := s.enc.LastBits()
		if n := int(s.numMapped); s.enc.Len() == 0 && n > 0 {
			var kind chunkenc.ValueType
			var err error
			if sum, kind, err = newest(s.mappedAt(n - 1)); err != nil {
				return err
			}
			s.open = histogramEncoding(kind)
			rs.d.Shards.of(s).keepLastSum(s.ref, sum)
		}
		s.pendT.Store(s.Maxt())
		s.pendV = sum
		s.notes.setKind(s.open)
	}
	rs.d.Postings().AddAll(func(yield func(uint64, []index.Pair) bool) {
		for s := range rs.d.All() {
			if !yield(s.ref, rs.d.Pairs(s)) {
				return
			}
		}
	})
	return nil
}
