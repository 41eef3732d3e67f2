// Package backfill sorts samples of any age for blocks, in bounded memory: series and
// samples come in any order, and what does not fit is spilled to disk in sorted runs of
// encoded chunks. A Merge reads the runs together: for
// each range of time the symbols, then the series in the order of labels with their
// chunks. Flush makes blocks of that and moves them beside those that a data directory has. It
// knows what a head there takes a block for, and not what a block looks like inside.
//
// A Store, its Merge and its Flush are for one goroutine. Runs are scratch files of one process:
// docs/design/backfill.md describes them.
package backfill

import (
	"math"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/labels"
)

// What a series costs in memory beside the bytes of its labels: its record, its place in
// the map with the slack of both, and its share of what a spill needs to sort it.
const (
	seriesBytes = 240
	// seriesShare of the memory may be series when a spill begins; with more, the
	// spill forgets them, so that there is room for samples again.
	seriesShareNum, seriesShareDen = 1, 2
	// minSlabs is how many slabs there may be in any case.
	minSlabs = 4
)

// Options of a Store.
type Options struct {
	Range       int64 // milliseconds; runs are sorted by aligned windows of this width first
	MemoryBytes int64 // of series and samples together
	Duplicates  Duplicates
	// Check is asked about the labels of each series that is new; its error is that of
	// the sample. Nil: all are fine.
	Check func(labels.Labels) error
	// Spilled is told of each run that went to disk, and its bytes. Nil: nobody is.
	Spilled func(bytes int64)
}

// Store takes samples.
type Store struct {
	fsys fileutil.FS
	dir  string
	opts Options

	generation uint64 // of refs; goes up when the series are forgotten
	series     []series
	byLabels   map[labels.Labels]uint32
	labelBytes int64
	arena      arena
	pages      pages

	runs       []*spilled
	files      int // runs so far, for names
	num        int64
	minT, maxT int64

	sorter sorter
}

// series is one series since it was last forgotten.
type series struct {
	ls    labels.Labels
	lastT int64              // newest time; math.MinInt64: no sample yet
	last  uint64             // its sum, as in memseries.Sample
	kind  chunkenc.ValueType // what it is
	run   run
}

// NewStore returns an empty store that spills into dir, which is there and its own.
func NewStore(fsys fileutil.FS, dir string, opts Options) *Store {
	s := &Store{fsys: fsys, dir: dir, opts: opts, minT: math.MaxInt64, maxT: math.MinInt64}
	s.sorter.rule = opts.Duplicates
	s.forget()
	return s
}

// forget drops all series; refs are not valid any more.
func (s *Store) forget() {
	s.generation++
	s.series = nil
	s.byLabels = make(map[labels.Labels]uint32)
	s.labelBytes = 0
}

// Append adds a float to the series of a ref, or, if the ref is 0 or not known any
// more, to that of the labels. It returns the ref for the next time. t
// is not the least or the greatest number there is. An exact repeat of a sample is
// dropped, now or when samples are sorted.
//
// ErrDuplicate, ErrNotFound and what Check returns are of the sample alone. ErrDuplicate
// comes only if the newest sample of the series has this time; Merge and Block find the rest.
// Any other error is of the disk, and the store is of no use any more.
func (s *Store) Append(ref uint64, ls labels.Labels, t int64, v float64) (uint64, error) {
	i := uint32(ref) - 1
	if ref>>32 != s.generation || uint64(i) >= uint64(len(s.series)) {
		var err error
		if i, err = s.find(ls); err != nil {
			return 0, err
		}
	}
	sr := &s.series[i]
	if t > sr.lastT && sr.run.fill < sr.run.size && !sr.run.wide && sr.kind == chunkenc.ValFloat {
		sr.run.add(&s.arena, t, v) // the usual case of add
		sr.lastT, sr.last = t, math.Float64bits(v)
		s.num++
		s.minT, s.maxT = min(s.minT, t), max(s.maxT, t)
		return s.ref(i), nil
	}
	w := floatOf(t, v)
	return s.add(i, &w)
}

// AppendAny is Append for a sample of any kind, which is copied. A stale marker that is a float
// becomes a histogram if the newest sample of its series is one, and older than it.
func (s *Store) AppendAny(ref uint64, ls labels.Labels, w *memseries.WideSample) (uint64, error) {
	i := uint32(ref) - 1
	if ref>>32 != s.generation || uint64(i) >= uint64(len(s.series)) {
		var err error
		if i, err = s.find(ls); err != nil {
			return 0, err
		}
	}
	return s.add(i, w)
}

// add adds a sample to a series.
func (s *Store) add(i uint32, w *memseries.WideSample) (uint64, error) {
	sr := &s.series[i]
	if w.T <= sr.lastT {
		if keep, err := s.sorter.late(sr, w); !keep {
			return s.ref(i), err
		}
		if s.tooLongToSort(&sr.run) { // what is there goes before it has to be sorted with this one
			return s.appendSpilled(sr.ls, w)
		}
		sr.run.unordered = true
	}
	if w.Encoding != chunkenc.EncXOR || sr.run.wide || sr.kind > chunkenc.ValFloat {
		return s.appendBeside(i, w)
	}
	if size, full := sr.run.full(); full {
		if s.wantsSpill(size) || sr.run.unordered && s.tooLongToSort(&sr.run) {
			return s.appendSpilled(sr.ls, w)
		}
		sr.run.grow(&s.arena, size)
	}
	return s.put(i, w, math.Float64frombits(w.Sum)), nil
}

// put adds what the arena has of a sample to a series that has a block for it.
func (s *Store) put(i uint32, w *memseries.WideSample, v float64) uint64 {
	sr := &s.series[i]
	sr.run.add(&s.arena, w.T, v)
	if w.T >= sr.lastT {
		sr.lastT, sr.last, sr.kind = w.T, w.Sum, w.Encoding.Kind()
	}
	s.num++
	s.minT, s.maxT = min(s.minT, w.T), max(s.maxT, w.T)
	return s.ref(i)
}

// appendBeside adds a sample to a series that has, or will have, others than floats.
func (s *Store) appendBeside(i uint32, w *memseries.WideSample) (uint64, error) {
	sr := &s.series[i]
	if sr.kind > chunkenc.ValFloat && w.T > sr.lastT && w.Sum == histogram.StaleNaN && w.Encoding.Kind() == chunkenc.ValFloat {
		stale := memseries.StaleHistogram(*w, sr.kind)
		stale.Encode(nil)
		w = &stale
	}
	ls := sr.ls
	if spilled, err := s.roomBeside(&sr.run, w); spilled || err != nil {
		if err != nil {
			return 0, err
		}
		return s.AppendAny(0, ls, w)
	}
	if size, full := sr.run.full(); full {
		if s.wantsSpill(size) || sr.run.unordered && s.tooLongToSort(&sr.run) {
			return s.appendSpilled(ls, w)
		}
		sr.run.grow(&s.arena, size)
	}
	s.putBeside(&sr.run)
	return s.put(i, w, s.pages.add(w)), nil
}

// roomBeside makes room for a sample of a series beside the arena, and for those that the series
// has. It reports whether all went to disk for that.
func (s *Store) roomBeside(r *run, w *memseries.WideSample) (spilled bool, err error) {
	n := 1
	if !r.wide {
		n += int(r.num)
	}
	room := int64(max(pageBytes, n*overhead+len(w.Body)))
	over := s.sizeBytes() + room - s.opts.MemoryBytes
	if s.pages.fits(n, len(w.Body)) || over <= 0 {
		return false, nil
	}
	slabs := over/slabBytes + 1
	if s.arena.release(slabs); s.arena.next == 0 || s.sizeBytes()+room <= s.opts.MemoryBytes {
		return false, nil
	}
	err = s.Spill()
	s.arena.release(slabs)
	return true, err
}

// putBeside moves what a series has beside the arena.
func (s *Store) putBeside(r *run) {
	if r.wide {
		return
	}
	for c := r.cursor(); c.left > 0; c.skip() {
		x := c.slot(&s.arena)
		w := floatOf(x.t, x.v)
		x.v = s.pages.add(&w)
	}
	r.wide = true
}

func (s *Store) ref(i uint32) uint64 { return s.generation<<32 | uint64(i+1) }

// find looks a series up by its labels, or makes it.
func (s *Store) find(ls labels.Labels) (uint32, error) {
	if ls.IsEmpty() {
		return 0, ErrNotFound
	}
	if i, ok := s.byLabels[ls]; ok {
		return i, nil
	}
	if s.opts.Check != nil {
		if err := s.opts.Check(ls); err != nil {
			return 0, err
		}
	}
	if over := s.sizeBytes() + seriesBytes - s.opts.MemoryBytes; over > 0 {
		if err := s.makeRoom(over); err != nil {
			return 0, err
		}
	}
	i := uint32(len(s.series))
	s.series = append(s.series, series{ls: ls, lastT: math.MinInt64})
	s.byLabels[ls] = i
	s.labelBytes += int64(ls.SizeBytes())
	return i, nil
}

// makeRoom lets go of slabs that are empty, and empties them if that is not enough.
func (s *Store) makeRoom(over int64) error {
	slabs := over/slabBytes + 1
	if s.arena.release(slabs); s.sizeBytes() < s.opts.MemoryBytes || s.arena.next == 0 {
		return nil
	}
	err := s.Spill()
	s.arena.release(slabs)
	return err
}

// tooLongToSort says whether a series has as many samples in memory as may be sorted.
func (s *Store) tooLongToSort(r *run) bool {
	return int64(r.num)*sampleBytes*unorderedShare >= s.opts.MemoryBytes && r.num >= slabSamples
}

// wantsSpill says whether a block of n samples would take more memory than there may be.
func (s *Store) wantsSpill(n int) bool {
	return !s.arena.fits(n) && len(s.arena.slabs) >= minSlabs && s.sizeBytes()+slabBytes > s.opts.MemoryBytes
}

// appendSpilled makes room and appends again. The series may have been forgotten.
func (s *Store) appendSpilled(ls labels.Labels, w *memseries.WideSample) (uint64, error) {
	if err := s.Spill(); err != nil {
		return 0, err
	}
	return s.AppendAny(0, ls, w)
}

// sizeBytes is what series and samples take.
func (s *Store) sizeBytes() int64 { return s.arena.sizeBytes() + s.pages.size + s.seriesSize() }

func (s *Store) seriesSize() int64 { return s.labelBytes + int64(len(s.series))*seriesBytes }

// Samples returns how many samples there are, in memory and in runs.
func (s *Store) Samples() int64 { return s.num }

// Duplicates returns how many samples went because another one of the series has their
// time and a different value, Drop or not. It is complete when all blocks of a Merge were read.
func (s *Store) Duplicates() int64 { return s.sorter.dropped }

// Bounds returns the times of the oldest and the newest sample; ok is false if there is
// none.
func (s *Store) Bounds() (mint, maxt int64, ok bool) { return s.minT, s.maxT, s.num > 0 }

// Spill writes what is in memory as a run. Without samples there is nothing to do.
func (s *Store) Spill() error {
	if s.arena.next == 0 {
		return nil
	}
	s.files++
	r, err := s.writeRun(s.files)
	if err != nil {
		return err
	}
	s.runs = append(s.runs, r)
	s.arena.reset()
	s.pages.reset()
	for i := range s.series {
		s.series[i].run = run{}
	}
	if s.seriesSize()*seriesShareDen > s.opts.MemoryBytes*seriesShareNum {
		s.forget()
	}
	if s.opts.Spilled != nil {
		s.opts.Spilled(r.sizeBytes)
	}
	return nil
}

// Drop forgets all samples and removes the runs. An exact repeat of the newest sample of
// a series is still noticed.
func (s *Store) Drop() error {
	s.arena.reset()
	s.pages.reset()
	for i := range s.series {
		s.series[i].run = run{}
	}
	runs := s.runs
	s.runs, s.num = nil, 0
	s.minT, s.maxT = math.MaxInt64, math.MinInt64
	return removeRuns(s.fsys, runs)
}
