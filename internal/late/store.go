package late

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/internal/reftable"
	"github.com/seed347100a3/tsdb/internal/tombstones"
)

// Store has the late samples of all series. It is safe for concurrent use.
type Store struct {
	cutting Cutting
	shards  shards

	bytes   atomic.Int64
	series  atomic.Int64
	era     atomic.Uint64 // of what is known of samples in order
	flushed atomic.Uint64 // nothing newer is sealed, as a flush takes what is up to it; 0: none runs
	// minT and maxT are closed bounds of the times; there are none while minT > maxT.
	minT, maxT atomic.Int64
}

// shard is a lock partition: the series of one shard of the directory.
type shard struct {
	mu struct {
		sync.Mutex
		series  reftable.Table[*series]
		samples int64 // that are kept, those of one time and those deleted counted
		*tools        // made for the first series: a database at rest should be small
	}
}

// tools are memory that is used from series to series.
type tools struct {
	weaver weaver
	finder Finder
}

// NewStore returns an empty Store.
func NewStore(cutting Cutting) *Store {
	st := &Store{cutting: cutting}
	st.noTimes()
	return st
}

func (st *Store) noTimes() {
	st.minT.Store(math.MaxInt64)
	st.maxT.Store(math.MinInt64)
}

// Bounds returns closed bounds of the times of all samples; mint > maxt: there are none.
func (st *Store) Bounds() (mint, maxt int64) { return st.minT.Load(), st.maxT.Load() }

// SizeBytes returns the memory that samples take.
func (st *Store) SizeBytes() int64 { return st.bytes.Load() }

// Len returns how many series have late samples, and how many they have.
func (st *Store) Len() (series, samples int64) {
	for i := range st.shards {
		sh := &st.shards[i]
		sh.mu.Lock()
		samples += sh.mu.samples
		sh.mu.Unlock()
	}
	return st.series.Load(), samples
}

// of returns what a series has, nil if it has nothing.
//
//go:noinline
func (sh *shard) of(ref uint64) *series { return sh.mu.series.Find(ref) }

// add makes room for a series that has nothing.
func (sh *shard) add(ref uint64) *series {
	if sh.mu.tools == nil {
		sh.mu.tools = new(tools)
	}
	s := &series{}
	sh.mu.series.Add(ref, s)
	return s
}

// shards are all series.
type shards [memseries.NumShards]shard

func (sh *shards) of(ref uint64) *shard { return &sh[memseries.ShardOf(ref)] }

// widen makes the bounds cover a time.
//
//go:noinline
func (st *Store) widen(t int64) {
	for old := st.minT.Load(); t < old && !st.minT.CompareAndSwap(old, t); {
		old = st.minT.Load()
	}
	for old := st.maxT.Load(); t > old && !st.maxT.CompareAndSwap(old, t); {
		old = st.maxT.Load()
	}
}

// lock returns the shard of a series, locked.
//
//go:noinline
func (st *Store) lock(ref uint64) *shard {
	sh := st.shards.of(ref)
	sh.mu.Lock()
	return sh
}

// Find returns the sum of the sample that a series has at a time, of whatever commit; false if it
// has none, or it is deleted. lacks: it has none in order at this time either, as NoteSteady said.
func (st *Store) Find(ref uint64, t int64) (sum uint64, found, lacks bool, err error) {
	if st.series.Load() == 0 {
		return 0, false, false, nil
	}
	sh := st.lock(ref)
	defer sh.mu.Unlock()
	s := sh.of(ref)
	if s == nil {
		return 0, false, false, nil
	}
	sum, found, err = s.find(t, &sh.mu.finder)
	return sum, found, s.steady.lacks(t), err
}

// Era returns how often ForgetSteady was called. Who looks at samples asks for it before, and gives
// it to NoteSteady.
func (st *Store) Era() uint64 { return st.era.Load() }

// NoteSteady notes what is known of the samples in order of a series, for as long as it has late
// ones, unless ForgetSteady has been called since the era.
func (st *Store) NoteSteady(ref uint64, known Steady, era uint64) {
	sh := st.lock(ref)
	if s := sh.of(ref); s != nil && era == st.era.Load() {
		s.steady = known
	}
	sh.mu.Unlock()
}

// ForgetSteady forgets what NoteSteady was told: samples in order may come that are not newer than
// those which were there.
func (st *Store) ForgetSteady() {
	era := st.era.Add(1)
	for _, ref := range st.Refs() {
		st.NoteSteady(ref, Steady{}, era)
	}
}

// Newest returns the newest sample of a series that is not deleted: its time, what tells it from
// others, and the encoding of its chunk.
func (st *Store) Newest(ref uint64) (s Sample, ok bool) {
	var e Excerpt
	if err := e.Take(st, ref, math.MaxUint64, math.MinInt64, math.MaxInt64); err != nil || len(e.Chunks) == 0 {
		return s, false
	}
	c := &e.Chunks[len(e.Chunks)-1]
	sum, ok, err := e.finder.Find(c.Encoding, c.Data, c.MaxT)
	return Sample{T: c.MaxT, Sum: sum, Encoding: c.Encoding}, ok && err == nil
}

// Add adds a sample of commit seq, and reports whether it did: the same sample may be there. Where
// another one of its time is there it takes its place if wins is set, and is ErrDuplicate
// otherwise. It is seen by snapshots from seq on. floor is a commit that every snapshot sees.
func (st *Store) Add(ref uint64, smp *Sample, seq, floor uint64, wins bool) (bool, error) {
	sh := st.lock(ref)
	defer sh.mu.Unlock()
	s := sh.of(ref)
	if s == nil {
		s = sh.add(ref)
		st.series.Add(1)
		st.bytes.Add(s.bytes())
	} else if sum, found, err := s.find(smp.T, &sh.mu.finder); found || err != nil {
		if err != nil || sum == smp.Sum {
			return false, err
		}
		if !wins {
			return false, ErrDuplicate
		}
	}
	if more := s.recent.insert(newSample(smp, seq)); more != 0 {
		st.bytes.Add(more)
	}
	sh.mu.samples++
	st.widen(smp.T)
	if s.recent.n >= max(recentLen, s.sealAt) {
		st.sealLocked(sh, s, floor)
	}
	return true, nil
}

// sealLocked makes chunks of what all snapshots see. If memory is damaged samples stay as they
// came, and readers get the error.
func (st *Store) sealLocked(sh *shard, s *series, floor uint64) {
	if upTo := st.flushed.Load(); upTo > 0 {
		floor = min(floor, upTo)
	}
	sh.mu.weaver.encoder.cutting = st.cutting
	before, had := s.bytes(), s.len()
	if err := s.seal(floor, &sh.mu.weaver); err != nil {
		s.sealAt = 2 * s.recent.n
	}
	sh.mu.samples += int64(s.len() - had) // without those that count no more
	st.bytes.Add(s.bytes() - before)
}

// Undo takes the samples of a series back that came with a commit which was not written.
func (st *Store) Undo(ref, seq uint64) {
	sh := st.lock(ref)
	defer sh.mu.Unlock()
	if s := sh.of(ref); s != nil {
		before, had := s.bytes(), s.recent.n
		s.undo(seq)
		sh.mu.samples += int64(s.recent.n - had)
		st.bytes.Add(s.bytes() - before)
		if !st.stays(s) {
			sh.mu.series.Remove(ref)
		}
	}
}

// stays reports whether anything is left of a series. One that does not stay counts no more.
func (st *Store) stays(s *series) bool {
	if !s.isEmpty() {
		return true
	}
	st.series.Add(-1)
	st.bytes.Add(-s.bytes())
	return false
}

// Delete deletes the samples of a series in an interval that came with commits before seq, for all
// snapshots from seq on. It returns the newest time that it deletes; false if there is nothing to
// delete.
func (st *Store) Delete(ref uint64, iv tombstones.Interval, seq uint64) (newest int64, any bool) {
	sh := st.lock(ref)
	defer sh.mu.Unlock()
	s := sh.of(ref)
	if s == nil || !s.overlaps(iv.Mint, iv.Maxt) {
		return 0, false
	}
	before := int64(cap(s.deleted))
	s.deleted = append(s.deleted, deletion{iv, seq})
	st.bytes.Add((int64(cap(s.deleted)) - before) * deletionBytes)
	return min(iv.Maxt, s.newest()), true
}

// UndoDelete takes a delete back that was not written.
func (st *Store) UndoDelete(ref, seq uint64) {
	sh := st.lock(ref)
	defer sh.mu.Unlock()
	if s := sh.of(ref); s != nil {
		s.removeDeleted(func(of uint64) bool { return of == seq })
	}
}

// Overlaps reports whether a series may have late samples in a closed range.
func (st *Store) Overlaps(ref uint64, mint, maxt int64) bool {
	if st.series.Load() == 0 {
		return false
	}
	sh := st.lock(ref)
	defer sh.mu.Unlock()
	s := sh.of(ref)
	return s != nil && s.overlaps(mint, maxt)
}

// BeginFlush says that what came with commits up to seq, all of which are published, is being
// written into blocks. One flush runs at a time; Drop, or EndFlush, ends it.
func (st *Store) BeginFlush(seq uint64) { st.flushed.Store(max(seq, 1)) }

// EndFlush says that nothing becomes of the flush.
func (st *Store) EndFlush() { st.flushed.Store(0) }

// Drop forgets what the flush has written into blocks. No snapshot is open that was opened before
// they were shown.
func (st *Store) Drop() {
	seq := st.flushed.Load()
	// The bounds never say less than there is: whoever opens a snapshot goes by them.
	for i := range st.shards {
		st.shards[i].mu.Lock()
	}
	mint, maxt := int64(math.MaxInt64), int64(math.MinInt64)
	for i := range st.shards {
		first, last := st.dropOfLocked(&st.shards[i], seq)
		mint, maxt = min(mint, first), max(maxt, last)
	}
	st.minT.Store(mint)
	st.maxT.Store(maxt)
	for i := range st.shards {
		st.shards[i].mu.Unlock()
	}
	st.flushed.Store(0)
}

// dropOfLocked drops what a shard has, and returns bounds of what stays.
func (st *Store) dropOfLocked(sh *shard, seq uint64) (mint, maxt int64) {
	mint, maxt = math.MaxInt64, math.MinInt64
	sh.mu.series.Keep(func(_ uint64, s *series) bool {
		before, had := s.bytes(), s.len()
		s.drop(seq)
		sh.mu.samples += int64(s.len() - had)
		st.bytes.Add(s.bytes() - before)
		if s.recent.n > 0 {
			mint, maxt = min(mint, s.recent.oldest().t), max(maxt, s.recent.newest().t)
		}
		return st.stays(s)
	})
	return mint, maxt
}

// Refs returns the refs of all series in ascending order.
func (st *Store) Refs() []uint64 {
	var refs []uint64
	for i := range st.shards {
		sh := &st.shards[i]
		sh.mu.Lock()
		for ref := range sh.mu.series.All() {
			refs = append(refs, ref)
		}
		sh.mu.Unlock()
	}
	slices.Sort(refs)
	return refs
}

// OldestFrom returns the oldest time from a time on of samples that came with commits up to seq,
// deleted ones counted; false: there is none.
func (st *Store) OldestFrom(from int64, seq uint64) (oldest int64, ok bool) {
	for i := range st.shards {
		sh := &st.shards[i]
		sh.mu.Lock()
		for _, s := range sh.mu.series.All() {
			if t, has := s.oldestFrom(from, seq); has && (!ok || t < oldest) {
				oldest, ok = t, true
			}
		}
		sh.mu.Unlock()
	}
	return oldest, ok
}
