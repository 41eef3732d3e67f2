package memseries

import (
	"math"

	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/internal/foreground"
)

// Truncation forgets what a block has. The root raises the least time that it takes,
// waits with Barrier until nothing older is on its way, cuts chunks there with CutAt,
// writes the block, and then drops what is before. Everything here runs beside commits
// and readers, and holds a shard for a few series at a time.

// lockRun is how many series are handled while a shard is locked: some hundred
// microseconds when the open chunk of each is split, and much less otherwise.
const lockRun = 32

// eachLocked calls fn for every series with its shard locked. Series that are created
// meanwhile may be left out.
func (d *Directory) eachLocked(fn func(sh *Shard, s *Series)) {
	pages := *d.pages.Load()
	for i := range pages {
		pg := pages[i].Load()
		for from := 0; pg != nil && from < pageLen; from += lockRun {
			d.runLocked(&d.shards[i%NumShards], pg.series[from:from+lockRun], fn)
		}
		foreground.MakeWay()
	}
	for _, s := range d.farSorted() {
		sh := d.ShardOf(s)
		sh.mu.Lock()
		if s.slot.Load() == slotLive {
			fn(sh, s)
		}
		sh.mu.Unlock()
	}
}

func (d *Directory) runLocked(sh *Shard, run []Series, fn func(sh *Shard, s *Series)) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for j := range run {
		if s := &run[j]; s.slot.Load() == slotLive {
			fn(sh, s)
		}
	}
}

// Barrier returns when every commit that had its turns before the call is applied or
// undone. It keeps no commit waiting.
func (d *Directory) Barrier() {
	var last Turns
	for i := range d.shards {
		sh := &d.shards[i]
		sh.mu.Lock()
		last[i] = sh.mu.nextTurn
		sh.mu.Unlock()
	}
	for i := range d.shards {
		sh := &d.shards[i]
		sh.mu.Lock()
		for sh.mu.turn < last[i] {
			sh.mu.queued++
			sh.mu.turned.Wait()
			sh.mu.queued--
		}
		sh.mu.Unlock()
	}
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
func (d *Directory) DropBefore(t int64) (lowest chunks.Ref) {
	lowest = math.MaxUint64
	d.eachLocked(func(sh *Shard, s *Series) {
		d.dropBeforeLocked(sh, s, t)
		for _, m := range s.mapped() {
			if m.inFile() {
				lowest = min(lowest, m.Ref)
			}
		}
	})
	for i := range d.shards {
		d.shards[i].shrink()
	}
	d.trimPieces()
	return lowest
}

func (d *Directory) dropBeforeLocked(sh *Shard, s *Series, t int64) {
	n := 0
	for ; n < int(s.numMapped) && s.mappedMaxt(n) < t; n++ {
		if m := s.mappedAt(n); !m.inFile() {
			d.dropFullLocked(sh, sh.mu.waiting.of(m))
		}
	}
	if n > 0 {
		sh.mu.dropMapped(s, n)
	}
	if s.enc.Len() > 0 && s.enc.LastT() < t {
		sh.mu.dropOpen(s)
		s.enc.Reset()
		s.cutAt = NoTime
	}
	if s.Maxt() == NoTime {
		delete(sh.mu.lastSum, s.ref)
	}
}

// dropFullLocked forgets a full chunk that no file has. One that is on its way to a file
// keeps its pieces until Written.
func (d *Directory) dropFullLocked(sh *Shard, f *fullChunk) {
	bytes, taken := f.bytes, f.taken
	d.forgetFullLocked(sh, f)
	if !taken {
		bytes.drop(&sh.mu.pieces)
	}
}

// shrink gives memory back that the shard has for more full chunks than there are.
func (sh *Shard) shrink() {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.mu.waiting.shrink()
}

// ForgetNewest forgets the newest times of series that have no sample any more: they take samples
// of any time again. Nothing is taken or on its way meanwhile, which the caller sees to.
func (d *Directory) ForgetNewest() {
	d.eachLocked(func(_ *Shard, s *Series) {
		if s.Maxt() == NoTime {
			s.pendT.Store(NoTime)
		}
	})
}
