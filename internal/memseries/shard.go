package memseries

import (
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/seed347100a3/tsdb/chunks"
)

// NumShards is how many locks partition the series. A set of shards is a bit mask in
// one word; with 64 of them two writers of ten pages each rarely meet.
const NumShards = 64

// Shards is a set of shards, a bit each.
type Shards uint64

// Shard is a lock partition of the directory: all series of one page are in one
// shard, so the targets of one scrape, created together, touch few locks.
type Shard struct {
	mu struct {
		sync.Mutex
		appender
		waiting waiting
		marks   map[uint64][]mark // by ref: the past that open queriers may still need
		lastSum map[uint64]uint64 // by ref: of the newest sample of a restored series without an open chunk
		// Commits apply in the order in which they reserved: nextTurn is handed out
		// while reserving, turn is who may apply now.
		nextTurn, turn uint64
		turned         sync.Cond
		queued         int // commits that wait for turned
	}
	_ [64]byte // keeps neighbours' locks off this cache line
}

func (sh *Shard) init(cutting Cutting, arena *pieceArena, fullBytes *atomic.Int64) {
	sh.mu.turned.L = &sh.mu.Mutex
	sh.mu.cutting, sh.mu.limit = cutting, NoTime
	sh.mu.pieces.arena = arena
	sh.mu.marks = map[uint64][]mark{}
	sh.mu.onFull = func(f fullChunk) chunks.Ref {
		fullBytes.Add(int64(f.bytes.size))
		return sh.mu.waiting.add(f)
	}
}

// shardIndex is the shard of a ref.
func shardIndex(ref uint64) int { return int(ref>>pageBits) % NumShards }

// ShardOf returns the shard of a series.
func (d *Directory) ShardOf(s *Series) *Shard { return &d.shards[shardIndex(s.ref)] }

// Bit returns the set that holds the shard of s only.
func Bit(s *Series) Shards { return 1 << shardIndex(s.ref) }

// Lock locks all shards of a set, in order.
func (d *Directory) Lock(set Shards) {
	for ; set != 0; set &= set - 1 {
		d.shards[bits.TrailingZeros64(uint64(set))].mu.Lock()
	}
}

// Unlock unlocks them.
func (d *Directory) Unlock(set Shards) {
	for ; set != 0; set &= set - 1 {
		d.shards[bits.TrailingZeros64(uint64(set))].mu.Unlock()
	}
}

// Turns holds a commit's place in the queue of each shard it touches.
type Turns [NumShards]uint64

// TakeTurnsLocked gives a commit its place behind all that reserved before. It is
// called with the shards of the set locked, by the lock section that reserves.
func (d *Directory) TakeTurnsLocked(set Shards, turns *Turns) {
	for ; set != 0; set &= set - 1 {
		i := bits.TrailingZeros64(uint64(set))
		turns[i] = d.shards[i].mu.nextTurn
		d.shards[i].mu.nextTurn++
	}
}

// LockInTurn waits until every earlier commit on these shards is over and returns
// with them locked. Nothing is held while it waits, so the oldest commit always gets
// through.
func (d *Directory) LockInTurn(set Shards, turns *Turns) {
	d.Lock(set)
	for {
		i, behind := d.notTheirTurnLocked(set, turns)
		if !behind {
			return
		}
		d.Unlock(set &^ (1 << i))
		sh := &d.shards[i]
		for sh.mu.turn != turns[i] {
			sh.mu.queued++
			sh.mu.turned.Wait()
			sh.mu.queued--
		}
		sh.mu.Unlock()
		d.Lock(set)
	}
}

func (d *Directory) notTheirTurnLocked(set Shards, turns *Turns) (int, bool) {
	for ; set != 0; set &= set - 1 {
		i := bits.TrailingZeros64(uint64(set))
		if d.shards[i].mu.turn != turns[i] {
			return i, true
		}
	}
	return 0, false
}

// EndTurn lets the next commit of each shard go on and unlocks the shards.
func (d *Directory) EndTurn(set Shards) {
	for ; set != 0; set &= set - 1 {
		sh := &d.shards[bits.TrailingZeros64(uint64(set))]
		sh.mu.turn++
		if sh.mu.queued > 0 {
			sh.mu.turned.Broadcast()
		}
		sh.mu.Unlock()
	}
}
