package remote

import (
	"hash/maphash"
	"math"
	"sync"

	"github.com/seed347100a3/tsdb"
)

// knownSeries is what is remembered of a series.
type knownSeries struct {
	ref tsdb.SeriesRef // 0: it is not known
	// meta says which metadata the series was given: of 1.0 the number of the state of all
	// families, of 2.0 a hash of it. 0: none that is stored for certain.
	meta uint32
}

const (
	maxKeyBytes = 4 << 10 // longer labels are not remembered
	knownShards = 32
	firstSlots  = 64

	mostKeyBytes = math.MaxInt32 // of a generation, whose places are numbers of 32 bits
)

// keyOf returns what a series may be known by, nil for what is not remembered.
func keyOf(key []byte) []byte {
	if len(key) < 2 || len(key) > maxKeyBytes {
		return nil
	}
	return key
}

// seriesCache finds the refs of series by their labels as they are sent. It is bounded: a shard
// has two generations, and when the young one is full the old one is forgotten. What is found in
// the old one becomes young. Whatever it says is checked by the database: a ref that is not
// known any more is ErrNotFound there, and refs are never given twice.
//
// Hashes have a seed of their own, so that nobody can send series that collide. Keys are compared
// whole.
type seriesCache struct {
	seed   maphash.Seed
	limit  int // bytes of one generation
	shards [knownShards]knownShard
}

type knownShard struct {
	mu struct {
		sync.Mutex
		young, old generation
	}
	_ [64]byte // shards of different goroutines share no cache line
}

// generation is an open hash table. Invariant: fewer than 3/4 of the slots are used.
type generation struct {
	slots []knownSlot // a power of two
	keys  []byte
	used  int
}

// knownSlot is 24 bytes.
type knownSlot struct {
	series knownSeries
	hash   uint32 // the upper half; the lower one chose the shard
	at     uint32 // of the key in keys, two bytes of length in front; 0: the slot is empty
}

func newSeriesCache(bytes int) *seriesCache {
	return &seriesCache{seed: maphash.MakeSeed(), limit: min(bytes/knownShards/2, mostKeyBytes)}
}

// get returns the hash of a key, and what is known of its series.
func (c *seriesCache) get(key []byte) (hash uint64, series knownSeries) {
	hash = maphash.Bytes(c.seed, key)
	s := &c.shards[hash%knownShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	if slot := s.mu.young.find(hash, key); slot != nil {
		return hash, slot.series
	}
	if slot := s.mu.old.find(hash, key); slot != nil {
		series = slot.series
		s.addLocked(hash, key, series, c.limit)
	}
	return hash, series
}

// put remembers a series, in place of what is known of it.
func (c *seriesCache) put(hash uint64, key []byte, series knownSeries) {
	s := &c.shards[hash%knownShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	if slot := s.mu.young.find(hash, key); slot != nil {
		slot.series = series
		return
	}
	s.addLocked(hash, key, series, c.limit)
}

// putMeta notes which metadata a series has, if it is remembered.
func (c *seriesCache) putMeta(key []byte, series knownSeries) {
	if hash, known := c.get(key); known.ref == series.ref {
		c.put(hash, key, series)
	}
}

// addLocked adds a series that the young generation does not have.
func (s *knownShard) addLocked(hash uint64, key []byte, series knownSeries, limit int) {
	if empty := (&generation{}); empty.sizeWith(key) > limit {
		return
	}
	if s.mu.young.sizeWith(key) > limit {
		s.mu.young, s.mu.old = s.mu.old, s.mu.young
		s.mu.young.clear()
	}
	s.mu.young.add(hash, key, series)
}

// slotBytes is the memory for a slot, and for those that are not used beside it.
const slotBytes = 24 * 2

// sizeWith is about the memory that one more key makes it.
func (g *generation) sizeWith(key []byte) int {
	return (g.used+1)*slotBytes + len(g.keys) + len(key) + 2
}

func (g *generation) clear() {
	clear(g.slots)
	g.keys, g.used = g.keys[:0], 0
}

func (g *generation) find(hash uint64, key []byte) *knownSlot {
	if g.used == 0 {
		return nil
	}
	mask := uint64(len(g.slots) - 1)
	for i := hash >> 32 & mask; ; i = (i + 1) & mask {
		switch slot := &g.slots[i]; {
		case slot.at == 0:
			return nil
		case slot.hash == uint32(hash>>32) && string(g.key(slot)) == string(key):
			return slot
		}
	}
}

func (g *generation) key(slot *knownSlot) []byte {
	size := int(g.keys[slot.at-2]) | int(g.keys[slot.at-1])<<8
	return g.keys[slot.at:][:size]
}

func (g *generation) add(hash uint64, key []byte, series knownSeries) {
	if 4*(g.used+1) > 3*len(g.slots) {
		g.grow()
	}
	g.keys = append(g.keys, byte(len(key)), byte(len(key)>>8))
	at := uint32(len(g.keys))
	g.keys = append(g.keys, key...)
	g.insert(knownSlot{series, uint32(hash >> 32), at})
	g.used++
}

// grow makes room for twice as many.
func (g *generation) grow() {
	slots := g.slots
	g.slots = make([]knownSlot, max(firstSlots, 2*len(slots)))
	for _, slot := range slots {
		if slot.at != 0 {
			g.insert(slot)
		}
	}
}

func (g *generation) insert(slot knownSlot) {
	mask := uint32(len(g.slots) - 1)
	i := slot.hash & mask
	for g.slots[i].at != 0 {
		i = (i + 1) & mask
	}
	g.slots[i] = slot
}
