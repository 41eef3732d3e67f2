package memseries

import (
	"math"
	"slices"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/internal/xorchunk"
)

// Restorer appends what the log says to the series of one recovery worker. Nothing
// is locked: a series belongs to exactly one worker, and nobody reads before
// recovery is over. While it runs, three fields of a series mean something else.
//
//	prevMaxt  the newest time seen in the log
//	lastSeq   the index of the full chunk that the log has reached
//	pendV     how many attached chunks end before the first sample in the log; notReached: none seen
//
// Pages of such places beside the records, only for series with attached chunks, were tried: they
// cost 2.1% of the instructions of BenchmarkOpenSnapshot with a long tail, 0.9% of BenchmarkReplay.
type Restorer struct {
	d *Directory
	filler
	full      []fullChunk
	fullBytes int // of them
	encoded   [runCap]byte
	aside     aside            // samples that came before the record of their series
	decoded   decodedHistogram // of the sample that is being appended

	// MinValid is the time from which on samples are wanted. It is set before the first
	// Append; a new Restorer wants all.
	MinValid int64

	Samples uint64 // appended to open chunks
	Covered uint64 // found in a full chunk from a head-chunk file
	Old     uint64 // before MinValid, of whatever series
	Late    uint64 // not newer than the newest: duplicates, and what was refused when it was appended
	Unknown uint64 // without a series; complete after Close
	MaxRef  uint64 // highest ref of those, and of samples before MinValid
	Holes   uint64 // series whose chunk files did not cover the log; they were rebuilt
}

// minFullRoom is how many full chunks the list of a worker has room for when it is new.
const minFullRoom = 64

// notReached is what pendV is while the log has shown no sample of a series with attached
// chunks.
const notReached = math.MaxUint64

// EncodingOf has the encoding of a full chunk in a file told by a function: what a stale marker
// becomes depends on the sample before it. It is set before the first Append.
func (r *Restorer) EncodingOf(of func(Mapped) chunkenc.Encoding) { r.encodingOf = of }

// Run is samples of one ref, in the order of the log.
type Run struct {
	Ref     uint64
	Samples []xorchunk.Sample
	Wide    []WideAt // which of them are wide, in their order; none as a rule
}

// WideAt says of sample number At of a run that it is wide. Its T stands there, too. A histogram is
// in its Body.
type WideAt struct {
	At     int
	Sample WideSample
}

// Append replays runs, up to GroupLen of them, of refs of this worker's. None of their samples
// is of a commit behind seq.
func (r *Restorer) Append(runs []Run, seq uint64) {
	r.seq = seq
	var series [GroupLen]*Series
	for i := range runs {
		series[i] = r.d.ByRef(runs[i].Ref)
	}
	r.endsAhead(series[:len(runs)])
	for i := range runs {
		r.appendRef(series[i], &runs[i])
	}
}

// AppendOne is Append for a single run, of few samples.
func (r *Restorer) AppendOne(run *Run, seq uint64) {
	r.seq = seq
	r.appendRef(r.d.ByRef(run.Ref), run)
}

// appendRef replays the run of a series, nil if there is none with the ref, behind what is set
// aside of it.
func (r *Restorer) appendRef(s *Series, of *Run) {
	if r.aside.n > 0 && s != nil {
		if early := r.aside.take(of.Ref); len(early.Samples) > 0 {
			r.appendRef(s, &early)
		}
	}
	run, wide := of.Samples, of.Wide
	for at, n := 0, 1; at < len(run); at, n = at+n, 1 {
		var w *WideSample
		if len(wide) > 0 && wide[0].At == at {
			w, wide = &wide[0].Sample, wide[1:]
		}
		t := run[at].T
		switch {
		case t < r.MinValid:
			r.Old++
			r.MaxRef = max(r.MaxRef, of.Ref) // its series may be gone, and its ref must not come back
		case s == nil:
			if !r.aside.setAside(of.Ref, run[at], w) {
				r.Unknown++
			}
			r.MaxRef = max(r.MaxRef, of.Ref)
		case t <= s.prevMaxt:
			r.Late++
		case s.lastSeq < uint64(s.numMapped) && r.covered(s, t):
			s.prevMaxt = t
			r.Covered++
		case w != nil:
			s.prevMaxt = t
			w.decode(&r.decoded)
			r.appendAny(s, w)
			r.Samples++
		default:
			n = ascending(run[at:plainEnd(len(run), wide)])
			s.prevMaxt = run[at+n-1].T
			r.appendRun(s, run[at:at+n], r.encoded[:])
			r.Samples += uint64(n)
		}
	}
}

// plainEnd returns where the next wide sample of a run is, or its end.
func plainEnd(n int, wide []WideAt) int {
	if len(wide) > 0 {
		return wide[0].At
	}
	return n
}

// ascending returns how many samples of a run there are before one that is not newer than
// the one before it.
func ascending(run []xorchunk.Sample) int {
	for i := 1; i < len(run); i++ {
		if run[i].T <= run[i-1].T {
			return i
		}
	}
	return len(run)
}

// covered reports whether a full chunk has the sample. The log and the chunk files
// tell the same story from the start; where a chunk is missing in between, it and
// all later ones are not used, and the log rebuilds them.
func (r *Restorer) covered(s *Series, t int64) bool {
	i := int(s.lastSeq)
	for i < int(s.numMapped) && t > s.mappedMaxt(i) {
		i++
	}
	s.lastSeq = uint64(i)
	if s.pendV == notReached {
		s.pendV = uint64(i)
	}
	if i == int(s.numMapped) {
		return false
	}
	if t < s.mappedAt(i).MinT {
		r.Holes++
		r.mapped.cut(s, i)
		return false
	}
	return true
}

// keepFull leaves a full chunk in the pieces in which it grew: they do not change until
// Written, so that another goroutine may read them (AppendData).
func (r *Restorer) keepFull(f fullChunk) chunks.Ref {
	if len(r.full) == cap(r.full) {
		r.full = slices.Grow(r.full, max(minFullRoom, len(r.full)))
	}
	r.full = append(r.full, f)
	r.fullBytes += int(f.bytes.size)
	return 0
}

// TakeFull moves full chunks to dst, those that were cut first, as long as all their commits are
// up to synced: as many as have at most most bytes, or one, and none if these have less than
// least. They have no Data yet.
func (r *Restorer) TakeFull(dst []Full, synced uint64, least, most int) []Full {
	n, bytes := 0, 0
	for ; n < len(r.full) && r.full[n].seq <= synced; n++ {
		size := int(r.full[n].bytes.size)
		if n > 0 && bytes+size > most {
			break
		}
		bytes += size
	}
	if bytes < least {
		return dst
	}
	dst = slices.Grow(dst, n)
	for i := range r.full[:n] {
		dst = append(dst, r.full[i].given())
	}
	r.full = slices.Delete(r.full, 0, n)
	r.fullBytes -= bytes
	return dst
}

// GiveFull takes those back that were taken last and could not be written.
func (r *Restorer) GiveFull(fulls []Full) {
	if len(fulls) == 0 {
		return
	}
	back := make([]fullChunk, len(fulls))
	for i := range fulls {
		back[i] = fulls[i].kept()
		r.fullBytes += fulls[i].Size()
	}
	r.full = append(back, r.full...)
}

// FullBytes returns how many bytes the full chunks have that were cut and not taken.
func (r *Restorer) FullBytes() int { return r.fullBytes }

// Written says where full chunks of this worker are now. Their pieces go back.
func (r *Restorer) Written(fulls []Full, refs []chunks.Ref) {
	for i := range refs {
		f := &fulls[i]
		r.mapped.setRef(f.Series, f.MinT, refs[i])
		r.pieces.recycled.put(f.bytes)
	}
}

// Close appends what is set aside, and gives what is left to the directory: free pieces, and
// full chunks that are not written yet. All workers are done.
func (r *Restorer) Close() {
	r.endAside()
	for _, f := range r.full {
		r.mapped.setRef(f.series, f.minT, r.d.Shards.of(f.series).mu.onFull(f))
	}
	for ref, w := range r.wide.open.All() {
		if s := r.d.ByRef(ref); s != nil && s.isWide() { // or it was dropped
			r.d.Shards.of(s).mu.wide.put(ref, w)
		}
	}
	first := &r.d.Shards.all[0]
	first.mu.pieces.absorb(&r.pieces)
	first.mu.mapped.bytes += r.mapped.bytes
	first.mu.mapped.chunks += r.mapped.chunks
	first.mu.openLeft += r.openLeft
	r.d.RaiseNextRef(r.MaxRef + 1)
	r.full = nil
}
