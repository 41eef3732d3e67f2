package late

import (
	"math"
	"sort"
	"unsafe"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/reftable"
	"github.com/seed347100a3/tsdb/internal/samplemerge"
	"github.com/seed347100a3/tsdb/internal/tombstones"
)

// series is what came late of one series.
//
// A sample is recent at first: it is kept as it came, with its commit, so a snapshot can tell
// whether it sees it. When every snapshot does, recent ones are sealed: they become chunks, merged
// with those that were there. So only recent samples, and recent deletes, have a past.
//
// Invariant: what is sealed came before each delete in the list.
type series struct {
	recent  recent
	chunks  []Chunk    // by time, without overlap; each time once
	deleted []deletion // in the order of their commits
	sealAt  int        // so many recent samples are tried to be sealed; 0: recentLen
	steady  Steady     // what is known of the samples in order
}

// Chunk is a chunk of late samples. Its bytes are not changed any more.
type Chunk struct {
	MinT, MaxT int64 // of the first and the last sample, milliseconds
	Num        int   // samples
	Encoding   chunkenc.Encoding
	Data       []byte
}

// deletion is a delete of which some snapshot may not know.
type deletion struct {
	tombstones.Interval
	seq uint64
}

// recentLen is how many recent samples a series gathers before they are sealed.
const recentLen = 32

const (
	chunkBytes    = int64(unsafe.Sizeof(Chunk{}))
	deletionBytes = int64(unsafe.Sizeof(deletion{}))
	seriesBytes   = int64(unsafe.Sizeof(series{})) + reftable.EntryBytes
)

// bytes is the memory that it takes.
//
//go:noinline
func (s *series) bytes() int64 {
	n := seriesBytes + s.recent.bytes() + int64(cap(s.chunks))*chunkBytes + int64(cap(s.deleted))*deletionBytes
	for i := range s.chunks {
		n += int64(cap(s.chunks[i].Data))
	}
	return n
}

// chunkAt returns the chunk that reaches over a time; nil if none does.
func (s *series) chunkAt(t int64) *Chunk {
	i := sort.Search(len(s.chunks), func(i int) bool { return s.chunks[i].MaxT >= t })
	if i == len(s.chunks) || s.chunks[i].MinT > t {
		return nil
	}
	return &s.chunks[i]
}

// isDeleted reports whether a delete that came behind a commit, and not behind a snapshot, covers
// a time.
func (s *series) isDeleted(t int64, seq, snapshot uint64) bool {
	for _, d := range s.deleted {
		if d.seq > seq && d.seq <= snapshot && d.Contains(t) {
			return true
		}
	}
	return false
}

// find returns the sum of the newest sample of one time that is not deleted.
func (s *series) find(t int64, f *Finder) (sum uint64, found bool, err error) {
	if r := s.recent.last(t); r != nil {
		return r.sum, !s.isDeleted(t, r.seq, math.MaxUint64), nil
	}
	c := s.chunkAt(t)
	if c == nil || s.isDeleted(t, 0, math.MaxUint64) {
		return 0, false, nil
	}
	return f.Find(c.Encoding, c.Data, t)
}

// undo takes the samples of a commit out.
func (s *series) undo(seq uint64) {
	s.recent.keep(func(of uint64) bool { return of != seq })
}

// removeDeleted forgets the deletes of some commits. This is not of package slices: instances for
// the types of this package would be 25 kB of a small program.
//
//go:noinline
func (s *series) removeDeleted(of func(seq uint64) bool) {
	kept := s.deleted[:0]
	for _, d := range s.deleted {
		if !of(d.seq) {
			kept = append(kept, d)
		}
	}
	s.deleted = kept
}

// replaceChunks puts chunks in the place of others, [from, to).
func (s *series) replaceChunks(from, to int, by []Chunk) {
	old := len(s.chunks)
	n := old - (to - from) + len(by)
	s.chunks = append(s.chunks, make([]Chunk, max(0, n-old))...)
	copy(s.chunks[from+len(by):], s.chunks[to:old])
	copy(s.chunks[from:], by)
	clear(s.chunks[n:])
	s.chunks = s.chunks[:n]
}

// isEmpty reports whether nothing is left of the series, no delete that matters included.
func (s *series) isEmpty() bool { return s.recent.n == 0 && len(s.chunks) == 0 }

// visible appends the recent samples that a snapshot sees in a closed range, one of each time, and
// returns the intervals that are deleted of the chunks.
func (s *series) visible(dst []sample, snapshot uint64, mint, maxt int64) ([]sample, tombstones.Intervals) {
	for r := range s.recent.from(mint) {
		if r.t > maxt {
			break
		}
		if r.seq > snapshot || s.isDeleted(r.t, r.seq, snapshot) {
			continue
		}
		if n := len(dst); n > 0 && dst[n-1].t == r.t {
			dst[n-1] = *r // the newer one
			continue
		}
		dst = append(dst, *r)
	}
	var hidden tombstones.Intervals
	for _, d := range s.deleted {
		if d.seq <= snapshot {
			hidden = hidden.Add(d.Interval)
		}
	}
	return dst, hidden
}

// seal makes chunks of what every snapshot from limit on sees.
func (s *series) seal(limit uint64, w *weaver) error {
	w.ripe = w.ripe[:0]
	left := 0
	for r := range s.recent.from(math.MinInt64) {
		switch {
		case r.seq > limit:
			left++
		case s.isDeleted(r.t, r.seq, limit):
		case len(w.ripe) > 0 && w.ripe[len(w.ripe)-1].t == r.t:
			w.ripe[len(w.ripe)-1] = *r
		default:
			w.ripe = append(w.ripe, *r)
		}
	}
	if left == s.recent.n { // some reader has been there for long
		s.sealAt = 2 * left
		return nil
	}
	var hidden tombstones.Intervals
	for _, d := range s.deleted {
		if d.seq <= limit {
			hidden = hidden.Add(d.Interval)
		}
	}
	s.removeDeleted(func(seq uint64) bool { return seq <= limit })
	from, to := s.touched(w.ripe, hidden, w.encoder.cutting.Samples/2)
	woven, err := w.weave(w.woven[:0], s.chunks[from:to], hidden, w.ripe, true)
	if err != nil {
		return err
	}
	s.replaceChunks(from, to, woven)
	s.sealAt = 0
	clear(woven)
	w.woven = woven
	s.recent.keep(func(seq uint64) bool { return seq > limit })
	clear(w.ripe)
	return nil
}

// touched returns the chunks, [from, to), that samples or deletes reach into, and those before and
// behind them if they have few samples.
func (s *series) touched(ripe []sample, hidden tombstones.Intervals, few int) (from, to int) {
	if len(hidden) > 0 || len(ripe) == 0 {
		return 0, len(s.chunks)
	}
	first, last := ripe[0].t, ripe[len(ripe)-1].t
	from = sort.Search(len(s.chunks), func(i int) bool { return s.chunks[i].MaxT >= first })
	to = from + sort.Search(len(s.chunks)-from, func(i int) bool { return s.chunks[from+i].MinT > last })
	if from > 0 && s.chunks[from-1].Num < few {
		from--
	}
	if to < len(s.chunks) && s.chunks[to].Num < few {
		to++
	}
	return from, to
}

// drop forgets what came with commits up to seq. Nothing newer is sealed.
func (s *series) drop(seq uint64) {
	s.chunks = nil
	s.recent.keep(func(of uint64) bool { return of > seq })
	s.removeDeleted(func(of uint64) bool { return of <= seq })
	s.sealAt = 0
}

// weaver merges recent samples into chunks. It keeps its memory from series to series.
type weaver struct {
	encoder encoder
	merger  samplemerge.Merger
	batch   chunkenc.Batch
	fresh   []Chunk // of recent samples
	woven   []Chunk // of seal, as the others
	ripe    []sample
}

// weave appends chunks that have the samples of chunks, but what is hidden of them, and recent
// ones, which count where both have one time. A chunk that nothing touches is taken as it is, but
// one with few samples if pack is set: then it takes more.
func (w *weaver) weave(out, chunks []Chunk, hidden tombstones.Intervals, recent []sample, pack bool) ([]Chunk, error) {
	w.encoder.begin(w.fresh[:0])
	for i := range recent {
		if err := w.encoder.addSample(&recent[i]); err != nil {
			return nil, err
		}
	}
	w.fresh = w.encoder.done()
	if len(chunks) == 0 {
		return append(out, w.fresh...), nil
	}
	defer clear(w.fresh)
	defer w.merger.Reset()
	for _, src := range []chunkList{{chunks: w.fresh}, {chunks: chunks, hidden: hidden}} {
		if err := w.merger.Add(&src); err != nil {
			return nil, err
		}
	}
	if cap(w.batch.T) == 0 {
		w.batch = *chunkenc.NewBatch(0)
	}
	w.encoder.begin(out)
	for {
		w.batch.Cut(0)
		stop, err := w.merger.Step(&w.batch)
		if err != nil {
			return nil, err
		}
		for i, t := range w.batch.T {
			if err := w.encoder.addFloat(t, w.batch.V[i], w.batch.StartOf(i)); err != nil {
				return nil, err
			}
		}
		switch {
		case stop == samplemerge.AtChunk:
			err = w.chunk(pack)
		case stop == samplemerge.AtOther:
			err = w.encoder.addOther(w.merger.Other())
			w.merger.Take()
		case w.batch.Len() == 0:
			return w.encoder.done(), nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// chunk takes the chunk that is due as it is, if nothing else reaches into it.
func (w *weaver) chunk(pack bool) error {
	c, alone := w.merger.Due()
	n := c.Encoding.NumSamples(c.Data)
	if !alone || !c.Whole() || pack && n < w.encoder.cutting.Samples/2 {
		return w.merger.Open()
	}
	w.encoder.pass(Chunk{MinT: c.MinT, MaxT: c.MaxT, Num: n, Encoding: c.Encoding, Data: c.Data})
	w.merger.Pass()
	return nil
}

// chunkList is chunks as a source of a merger.
type chunkList struct {
	chunks []Chunk
	hidden tombstones.Intervals
}

// Next implements samplemerge.Source.
func (l *chunkList) Next(from int64, out *samplemerge.Chunk) (bool, error) {
	for len(l.chunks) > 0 && l.chunks[0].MaxT < from {
		l.chunks = l.chunks[1:]
	}
	if len(l.chunks) == 0 {
		return false, nil
	}
	c := &l.chunks[0]
	l.chunks = l.chunks[1:]
	*out = samplemerge.Chunk{Encoding: c.Encoding, Data: c.Data, MinT: c.MinT, MaxT: c.MaxT, Bounds: samplemerge.Everything()}
	out.Deleted = l.hidden
	return true, nil
}

// Place implements samplemerge.Source: nobody has these bytes but the memory.
func (l *chunkList) Place(err error) error { return errors.WithMessage(err, "late samples in memory") }

// overlaps reports whether there are samples in a closed range, deleted or not.
func (s *series) overlaps(mint, maxt int64) bool {
	for r := range s.recent.from(mint) {
		if r.t > maxt {
			break
		}
		return true
	}
	i := sort.Search(len(s.chunks), func(i int) bool { return s.chunks[i].MaxT >= mint })
	return i < len(s.chunks) && s.chunks[i].MinT <= maxt
}

// len returns how many samples are kept.
//
//go:noinline
func (s *series) len() int {
	n := s.recent.n
	for i := range s.chunks {
		n += s.chunks[i].Num
	}
	return n
}

// newest returns the newest time of its samples, deleted or not; memseries.NoTime if it has none.
func (s *series) newest() int64 {
	t := int64(math.MinInt64)
	if s.recent.n > 0 {
		t = s.recent.newest().t
	}
	if n := len(s.chunks); n > 0 {
		t = max(t, s.chunks[n-1].MaxT)
	}
	return t
}

// oldestFrom is Store.OldestFrom for one series. The oldest time in a chunk that reaches over from
// is not known: from stands for it.
func (s *series) oldestFrom(from int64, seq uint64) (oldest int64, ok bool) {
	for r := range s.recent.from(from) {
		if r.seq <= seq {
			oldest, ok = r.t, true
			break
		}
	}
	i := sort.Search(len(s.chunks), func(i int) bool { return s.chunks[i].MaxT >= from })
	if i < len(s.chunks) {
		if t := max(from, s.chunks[i].MinT); !ok || t < oldest {
			oldest, ok = t, true
		}
	}
	return oldest, ok
}
