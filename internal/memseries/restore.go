package memseries

import (
	"cmp"
	"math"
	"slices"

	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/index"
)

// Restorer appends what the log says to the series of one recovery worker. Nothing
// is locked: a series belongs to exactly one worker, and nobody reads before
// recovery is over. While it runs, three fields of a series mean something else:
// prevMaxt is the newest time seen in the log, lastSeq the index of the full chunk
// that the log has reached, and pendV how many of the attached chunks end before the first
// sample in the log, notReached while there was none.
type Restorer struct {
	d *Directory
	appender
	full    []Full
	buffers fullBuffers

	// MinValid is the time from which on samples are wanted. It is set before the first
	// Append; a new Restorer wants all.
	MinValid int64

	Samples uint64 // appended to open chunks
	Covered uint64 // found in a full chunk from a head-chunk file
	Old     uint64 // before MinValid, of whatever series
	Late    uint64 // not newer than the newest: duplicates, and what was refused when it was appended
	Unknown uint64 // without a series
	MaxRef  uint64 // highest ref of those, and of samples before MinValid
	Holes   uint64 // series whose chunk files did not cover the log; they were rebuilt
}

// notReached is what pendV is while the log has shown no sample of a series with attached
// chunks.
const notReached = math.MaxUint64

// NewRestorer returns a worker's share of recovery.
func (d *Directory) NewRestorer() *Restorer {
	r := &Restorer{d: d, MinValid: NoTime}
	r.cutting, r.limit, r.pieces.arena = d.shards[0].mu.cutting, NoTime, d.chunkBytes
	r.onFull = r.keepFull
	return r
}

// Append replays one sample of commit seq. Its ref is this worker's.
func (r *Restorer) Append(ref uint64, t int64, v float64, seq uint64) {
	if t < r.MinValid {
		r.Old++
		r.MaxRef = max(r.MaxRef, ref) // its series may be gone, and its ref must not come back
		return
	}
	s := r.d.ByRef(ref)
	if s == nil {
		r.Unknown++
		r.MaxRef = max(r.MaxRef, ref)
		return
	}
	if t <= s.prevMaxt {
		r.Late++
		return
	}
	s.prevMaxt = t
	if int(s.lastSeq) < len(s.mapped) && r.covered(s, t) {
		r.Covered++
		return
	}
	r.seq = seq
	r.append(s, t, v)
	r.Samples++
}

// covered reports whether a full chunk has the sample. The log and the chunk files
// tell the same story from the start; where a chunk is missing in between, it and
// all later ones are not used, and the log rebuilds them.
func (r *Restorer) covered(s *Series, t int64) bool {
	i := int(s.lastSeq)
	for i < len(s.mapped) && t > s.mapped[i].MaxT {
		i++
	}
	s.lastSeq = uint64(i)
	if s.pendV == notReached {
		s.pendV = uint64(i)
	}
	if i == len(s.mapped) {
		return false
	}
	if t < s.mapped[i].MinT {
		r.Holes++
		s.mapped = s.mapped[:i]
		return false
	}
	return true
}

// keepFull copies a full chunk out of its pieces: another goroutine will read it.
func (r *Restorer) keepFull(f fullChunk) {
	out := f.given()
	out.Data = f.bytes.appendTo(r.buffers.get(int(f.bytes.size)), r.pieces.arena)
	f.bytes.drop(&r.pieces)
	r.full = append(r.full, out)
}

// TakeFull returns the full chunks cut since the last call.
func (r *Restorer) TakeFull() []Full {
	full := r.full
	r.full = nil
	return full
}

// GiveFull takes full chunks back that could not be written.
func (r *Restorer) GiveFull(fulls []Full) { r.full = append(r.full, fulls...) }

// FullBytes returns how many bytes those cut since the last TakeFull have.
func (r *Restorer) FullBytes() (n int) {
	for _, f := range r.full {
		n += len(f.Data)
	}
	return n
}

// Written says where full chunks of this worker are now.
func (r *Restorer) Written(fulls []Full, refs []chunks.Ref) {
	for i, f := range fulls {
		setMappedRef(f.Series, f.MinT, refs[i])
		r.buffers.put(f.Data)
	}
}

// Close gives what is left to the directory: free buffers, and full chunks that are
// not written yet. All workers are done.
func (r *Restorer) Close() {
	for _, f := range r.full {
		kept := fullChunk{series: f.Series, minT: f.MinT, maxT: f.MaxT, num: f.Num, seq: f.Seq}
		kept.bytes.add(&r.pieces, f.Data)
		r.d.ShardOf(f.Series).mu.onFull(kept)
	}
	r.d.shards[0].mu.pieces.absorb(&r.pieces)
	r.d.shards[0].mu.mappedBytes += r.mappedBytes
	r.d.RaiseNextRef(r.MaxRef + 1)
	r.full = nil
}

// Attach gives a restored series the full chunks that its files have, oldest first
// and without overlap.
func (d *Directory) Attach(s *Series, ms []Mapped) {
	s.mapped, s.pendV = ms, notReached
	d.ShardOf(s).mu.mappedBytes += int64(cap(ms)) * mappedBytes
}

// AttachKnown is Attach for a series of a snapshot: the log from there on is behind the
// first known chunks, and what it repeats of them is not looked at.
func (d *Directory) AttachKnown(s *Series, ms []Mapped, known int) {
	d.Attach(s, ms)
	s.pendV, s.lastSeq = 0, uint64(known)
	if known > 0 {
		s.prevMaxt = ms[known-1].MaxT
	}
}

// AttachMore adds full chunks that were written under another ref of the series, in
// the order of time. Those that overlap what the series has are left out, and all of
// them if the log has already put samples into its open chunk. Its worker is at rest.
func (d *Directory) AttachMore(s *Series, ms []Mapped) {
	if s.enc.Len() > 0 {
		return
	}
	before := cap(s.mapped)
	all := slices.Concat(s.mapped, ms)
	slices.SortStableFunc(all, func(a, b Mapped) int { return cmp.Compare(a.MinT, b.MinT) })
	kept := all[:0]
	for _, m := range all {
		if n := len(kept); n == 0 || m.MinT > kept[n-1].MaxT {
			kept = append(kept, m)
		}
	}
	s.mapped = kept
	s.lastSeq = 0 // the worker finds its place again
	if s.pendV = notReached; s.prevMaxt != NoTime {
		s.pendV = 0 // which of them the log has is not known any more
	}
	d.ShardOf(s).mu.mappedBytes += int64(cap(kept)-before) * mappedBytes
}

// DropStale takes full chunks from series that end before the first sample that the log has
// of the series, or of which the log has none at all, and returns how many there were. The
// log has everything from where it was truncated last, so these are left over from before:
// of a file that had newer chunks, too. They are in a block, or were deleted. It is called
// before FinishRestore, if nothing of the log was lost.
func (d *Directory) DropStale() (dropped int) {
	for s := range d.All() {
		n := int(min(s.pendV, uint64(len(s.mapped))))
		if n > 0 {
			d.ShardOf(s).mu.dropMapped(s, n)
			dropped += n
		}
	}
	return dropped
}

func (sh *Shard) keepLastV(ref uint64, v float64) {
	if sh.mu.lastV == nil {
		sh.mu.lastV = map[uint64]uint64{}
	}
	sh.mu.lastV[ref] = math.Float64bits(v)
}

// FinishRestore makes the restored series ordinary ones, all as of commit seq, and
// indexes their labels. lastValue reads the last value of a full chunk.
func (d *Directory) FinishRestore(seq uint64, lastValue func(Mapped) (float64, error)) error {
	for s := range d.All() {
		s.lastSeq, s.prevMaxt = seq, NoTime
		s.logged = true
		v := s.enc.LastV()
		if n := len(s.mapped); s.enc.Len() == 0 && n > 0 {
			var err error
			if v, err = lastValue(s.mapped[n-1]); err != nil {
				return err
			}
			d.ShardOf(s).keepLastV(s.ref, v)
		}
		s.pendT.Store(s.Maxt())
		s.pendV = math.Float64bits(v)
	}
	d.postings.AddAll(func(yield func(uint64, []index.Pair) bool) {
		for s := range d.All() {
			if !yield(s.ref, d.Pairs(s)) {
				return
			}
		}
	})
	return nil
}
