package memseries

import (
	"math"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/chunks"
)

// Truncation forgets what a block has. The root raises the least time that it takes,
// waits with Shards.Barrier until nothing older is on its way, cuts chunks there with CutAt,
// writes the block, and then drops what is before. All of this runs beside commits
// and readers, and holds a shard for a few series at a time.
type Truncation struct {
	shards *Shards
	shelf  *Shelf
	arena  *pieceArena
}

// DropBefore forgets, of all series, the chunks that end before t, and returns the
// smallest ref of a file that a chunk still has, the greatest possible ref if there is
// none. A chunk that reaches over t stays as it is.
//
// The newest time and value of a series stay reserved, so what comes next is judged by
// them even if no sample is left. Only when a later commit fails does an empty series fall
// back to none (UnreserveLocked). That is harmless if nothing before t is taken any more,
// repeats included, which the caller sees to before; t is not above that least time, and
// Barrier has been passed since.
//
// A snapshot does not see what is dropped: the caller waits for readers that have it
// from nowhere else. Refs that Written gives meanwhile may be missed in the result: those
// are not below what the files' End was before the call.
func (tr *Truncation) DropBefore(t int64) (lowest chunks.Ref) {
	lowest = math.MaxUint64
	tr.shards.eachLocked(func(sh *Shard, s *Series) {
		tr.dropBeforeLocked(sh, s, t)
		for _, m := range s.mapped() {
			if inFile(m) {
				lowest = min(lowest, m.Ref)
			}
		}
	})
	tr.shrink()
	return lowest
}

// shrink gives memory back that is of no use any more.
func (tr *Truncation) shrink() {
	for i := range tr.shards.all {
		tr.shards.all[i].shrink()
	}
	tr.trimPieces()
}

func (tr *Truncation) dropBeforeLocked(sh *Shard, s *Series, t int64) {
	n := 0
	for ; n < int(s.numMapped) && s.mappedMaxt(n) < t; n++ {
		if m := s.mappedAt(n); !inFile(m) {
			tr.shelf.dropLocked(sh, sh.mu.waiting.of(m))
		}
	}
	if n > 0 {
		sh.mu.mapped.drop(s, n)
	}
	if s.enc.Len() > 0 && s.enc.LastT() < t {
		sh.mu.dropOpen(s)
		s.enc.Reset()
		s.cutAt = NoTime
	}
	if s.Maxt() == NoTime {
		delete(sh.mu.lastSum, s.ref)
		s.open = chunkenc.EncXOR
	}
}

// ForgetNewest forgets the newest times of series that have no sample any more: they take samples
// of any time again. Nothing is taken or on its way meanwhile, which the caller sees to.
func (tr *Truncation) ForgetNewest() {
	tr.shards.eachLocked(func(_ *Shard, s *Series) {
		if s.Maxt() == NoTime {
			s.pendT.Store(NoTime)
		}
	})
}

// OldestFrom returns the oldest time from t on that a series may have a sample at,
// as far as chunk bounds tell, and false if there is none. What is appended meanwhile
// may be missed.
func (tr *Truncation) OldestFrom(t int64) (oldest int64, ok bool) {
	oldest = math.MaxInt64
	tr.shards.eachLocked(func(_ *Shard, s *Series) {
		for _, m := range s.mapped() {
			if m.MaxT >= t {
				oldest, ok = min(oldest, max(t, m.MinT)), true
				return
			}
		}
		if s.enc.Len() > 0 && s.enc.LastT() >= t {
			oldest, ok = min(oldest, max(t, s.enc.FirstT())), true
		}
	})
	return oldest, ok
}
