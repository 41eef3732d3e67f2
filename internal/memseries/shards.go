package memseries

import (
	"math"
	"math/bits"

	"github.com/seed347100a3/tsdb/internal/foreground"
)

// Shards are all series in partitions, with a lock each, and the turns in which commits apply
// to them.
type Shards struct {
	all        [NumShards]Shard
	pages      *pageTable
	chunkBytes *pieceArena
}

func (ss *Shards) init(pages *pageTable, cutting Cutting, arena *pieceArena, shelf *Shelf) {
	ss.pages, ss.chunkBytes = pages, arena
	for i := range ss.all {
		ss.all[i].init(cutting, arena, shelf)
	}
}

// of returns the shard of a series.
func (ss *Shards) of(s *Series) *Shard { return &ss.all[ShardOf(s.ref)] }

// ofPage returns the shard of all series of a page.
func (ss *Shards) ofPage(n int) *Shard { return &ss.all[n>>(shardBits-pageBits)%NumShards] }

// Lock locks all shards of a set, in order.
func (ss *Shards) Lock(set ShardSet) {
	for ; set != 0; set &= set - 1 {
		ss.all[bits.TrailingZeros64(uint64(set))].mu.Lock()
	}
}

// Unlock unlocks them.
func (ss *Shards) Unlock(set ShardSet) {
	for ; set != 0; set &= set - 1 {
		ss.all[bits.TrailingZeros64(uint64(set))].mu.Unlock()
	}
}

// Turns holds a commit's place in the queue of each shard it touches.
type Turns [NumShards]uint64

// TakeTurnsLocked gives a commit its place behind all that reserved before. It is
// called with the shards of the set locked, by the lock section that reserves.
func (ss *Shards) TakeTurnsLocked(set ShardSet, turns *Turns) {
	for ; set != 0; set &= set - 1 {
		i := bits.TrailingZeros64(uint64(set))
		turns[i] = ss.all[i].mu.nextTurn
		ss.all[i].mu.nextTurn++
	}
}

// LockInTurn waits until every earlier commit on these shards is over and returns
// with them locked. Nothing is held while it waits, so the oldest commit always gets
// through.
func (ss *Shards) LockInTurn(set ShardSet, turns *Turns) {
	ss.Lock(set)
	for {
		i, behind := ss.notTheirTurnLocked(set, turns)
		if !behind {
			return
		}
		ss.Unlock(set &^ (1 << i))
		sh := &ss.all[i]
		for sh.mu.turn != turns[i] {
			sh.mu.queued++
			sh.mu.turned.Wait()
			sh.mu.queued--
		}
		sh.mu.Unlock()
		ss.Lock(set)
	}
}

func (ss *Shards) notTheirTurnLocked(set ShardSet, turns *Turns) (int, bool) {
	for ; set != 0; set &= set - 1 {
		i := bits.TrailingZeros64(uint64(set))
		if ss.all[i].mu.turn != turns[i] {
			return i, true
		}
	}
	return 0, false
}

// EndTurn lets the next commit of each shard go on and unlocks the shards.
func (ss *Shards) EndTurn(set ShardSet) {
	for ; set != 0; set &= set - 1 {
		sh := &ss.all[bits.TrailingZeros64(uint64(set))]
		sh.mu.turn++
		if sh.mu.queued > 0 {
			sh.mu.turned.Broadcast()
		}
		sh.mu.Unlock()
	}
}

// Barrier returns when every commit that had its turns before the call is applied or
// undone. It keeps no commit waiting.
func (ss *Shards) Barrier() {
	var last Turns
	for i := range ss.all {
		sh := &ss.all[i]
		sh.mu.Lock()
		last[i] = sh.mu.nextTurn
		sh.mu.Unlock()
	}
	for i := range ss.all {
		sh := &ss.all[i]
		sh.mu.Lock()
		for sh.mu.turn < last[i] {
			sh.mu.queued++
			sh.mu.turned.Wait()
			sh.mu.queued--
		}
		sh.mu.Unlock()
	}
}

// lockedLen is how many series are handled while a shard is locked: some hundred
// microseconds when the open chunk of each is split, and much less otherwise.
const lockedLen = 32

// eachLocked calls fn for every series with its shard locked. Series that are created
// meanwhile may be left out.
func (ss *Shards) eachLocked(fn func(sh *Shard, s *Series)) {
	pages := *ss.pages.pages.Load()
	for i := range pages {
		pg := pages[i].Load()
		for from := 0; pg != nil && from < pageLen; from += lockedLen {
			ss.ofPage(i).eachLocked(pg.series[from:from+lockedLen], fn)
		}
		foreground.MakeWay()
	}
	for _, s := range ss.pages.farSorted() {
		ss.of(s).oneLocked(s, fn)
	}
}

// Chunks returns how many chunks all series have, open ones included, and how many were begun since
// recovery.
func (ss *Shards) Chunks() (n int, begun uint64) {
	for i := range ss.all {
		sh := &ss.all[i]
		sh.mu.Lock()
		n += int(sh.mu.mapped.chunks + sh.mu.openLeft)
		begun += sh.mu.begun
		sh.mu.Unlock()
	}
	return n, begun
}

// ExcerptLocked fills e with the chunk of s that reaches over a time, of all that is applied. The
// shard of s is locked.
func (ss *Shards) ExcerptLocked(s *Series, t int64, e *Excerpt) {
	if ss.of(s).excerptLocked(s, math.MaxUint64, t, t, e) {
		e.data = s.bytes.appendTo(e.data, ss.chunkBytes)
		e.finish(s)
	}
}

// sizeBytes returns the memory that the shards hold beside the series and the bytes of chunks.
func (ss *Shards) sizeBytes() (n int64) {
	for i := range ss.all {
		n += ss.all[i].sizeBytes()
	}
	return n
}
