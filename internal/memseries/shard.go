package memseries

import (
	"sync"

	"github.com/seed347100a3/tsdb/chunks"
)

// NumShards is how many locks partition the series. A set of shards is a bit mask in
// one word; with 64 of them two writers of ten pages each rarely meet.
const NumShards = 64

// ShardSet is a set of shards, a bit each.
type ShardSet uint64

// Bit returns the set that holds the shard of s only.
func Bit(s *Series) ShardSet { return 1 << ShardOf(s.ref) }

// shardBits: so many neighbours, two pages of them, are in one shard.
const shardBits = 8

// Shard is a lock partition of the directory: 256 neighbours are in one shard, so the targets of
// one scrape, created together, touch few locks.
type Shard struct {
	mu struct {
		sync.Mutex
		filler
		waiting waiting
		marks   map[uint64][]mark // by ref: the past that open queriers may still need; made for the first
		lastSum map[uint64]uint64 // by ref: of the newest sample of a restored series without an open chunk
		// Commits apply in the order in which they reserved: nextTurn is handed out
		// while reserving, turn is who may apply now.
		nextTurn, turn uint64
		turned         sync.Cond
		queued         int // commits that wait for turned
	}
	_ [64]byte // keeps neighbours' locks off this cache line
}

func (sh *Shard) init(cutting Cutting, arena *pieceArena, shelf *Shelf) {
	sh.mu.turned.L = &sh.mu.Mutex
	sh.mu.cutting, sh.mu.limit = cutting, NoTime
	sh.mu.pieces.arena = arena
	sh.mu.onFull = func(f fullChunk) chunks.Ref {
		shelf.bytes.Add(int64(f.bytes.size))
		return sh.mu.waiting.add(f)
	}
}

// ShardOf returns the number of the shard of a ref.
func ShardOf(ref uint64) int { return int(ref>>shardBits) % NumShards }

// eachLocked calls fn for some neighbours, with their shard locked.
func (sh *Shard) eachLocked(neighbours []Series, fn func(sh *Shard, s *Series)) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for i := range neighbours {
		if s := &neighbours[i]; s.slot.Load() == slotLive {
			fn(sh, s)
		}
	}
}

// oneLocked is eachLocked for one series.
func (sh *Shard) oneLocked(s *Series, fn func(sh *Shard, s *Series)) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if s.slot.Load() == slotLive {
		fn(sh, s)
	}
}

// keepLastSum is called by recovery, which is alone.
func (sh *Shard) keepLastSum(ref, sum uint64) {
	if sh.mu.lastSum == nil {
		sh.mu.lastSum = map[uint64]uint64{}
	}
	sh.mu.lastSum[ref] = sum
}

// shrink gives memory back that the shard has for more full chunks than there are.
func (sh *Shard) shrink() {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.mu.waiting.shrink()
}

const markBytes = 96 // a map entry and a list of few marks

func (sh *Shard) sizeBytes() int64 {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.mu.mapped.bytes + sh.mu.waiting.sizeBytes() + sh.mu.wide.bytes + int64(len(sh.mu.marks))*markBytes
}
