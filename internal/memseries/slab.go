package memseries

import "github.com/seed347100a3/tsdb/chunkenc"

// chunkCap is the capacity of the largest chunk buffer: a float chunk is cut when it
// is longer than maxChunkBytes, so one more sample always fits.
const chunkCap = maxChunkBytes + 2*chunkenc.MaxSampleBytes

// slabClasses are the capacities of chunk buffers, in bytes. Steps of a third to a
// half keep the unused tail of a growing chunk under a quarter of it on average.
var slabClasses = [...]int{48, 64, 96, 128, 192, 256, 384, 512, 768, chunkCap}

const (
	slabFirstCount = 4        // buffers in the first block of a class: a small head stays small
	slabMaxBlock   = 64 << 10 // bytes; larger blocks save nothing measurable
)

// Slab hands out chunk buffers of a few fixed capacities and takes them back. Blocks
// are cut into buffers once and never returned to the runtime while the slab lives,
// so a buffer costs its capacity and no allocation of its own.
//
// A slab has one owner at a time: a shard (under its lock) or a recovery worker.
// Buffers may be given back to another slab than they came from.
type Slab struct {
	free  [len(slabClasses)][][]byte
	block [len(slabClasses)][]byte // what is not cut yet
	count [len(slabClasses)]int    // buffers in the newest block
	bytes int64                    // bytes of all blocks made here
}

// classFor returns the first class that holds n bytes.
func classFor(n int) int {
	for c, size := range slabClasses {
		if n <= size {
			return c
		}
	}
	panic("BUG: chunk buffer larger than a chunk can be")
}

// Get returns an empty buffer with room for at least n bytes.
func (s *Slab) Get(n int) []byte {
	c := classFor(n)
	if l := len(s.free[c]); l > 0 {
		b := s.free[c][l-1]
		s.free[c][l-1] = nil
		s.free[c] = s.free[c][:l-1]
		return b
	}
	size := slabClasses[c]
	if len(s.block[c]) < size {
		s.grow(c)
	}
	b := s.block[c][:0:size]
	s.block[c] = s.block[c][size:]
	return b
}

// grow starts a new block for class c, twice as large as the one before it.
func (s *Slab) grow(c int) {
	size := slabClasses[c]
	count := max(slabFirstCount, 2*s.count[c])
	count = min(count, max(slabFirstCount, slabMaxBlock/size))
	s.count[c] = count
	s.block[c] = make([]byte, count*size)
	s.bytes += int64(count * size)
}

// Put gives a buffer back. Its bytes must not be used any more. A buffer that no
// slab made is left to the garbage collector.
func (s *Slab) Put(b []byte) {
	if cap(b) == 0 || cap(b) > chunkCap {
		return
	}
	c := classFor(cap(b))
	if slabClasses[c] == cap(b) {
		s.free[c] = append(s.free[c], b[:0])
	}
}

// absorb takes over the free buffers and the account of another slab.
func (s *Slab) absorb(o *Slab) {
	for c := range o.free {
		s.free[c] = append(s.free[c], o.free[c]...)
		for size := slabClasses[c]; len(o.block[c]) >= size; {
			s.free[c] = append(s.free[c], o.block[c][:0:size])
			o.block[c] = o.block[c][size:]
		}
	}
	s.bytes += o.bytes
	*o = Slab{}
}

// sizeBytes is the memory of the blocks and the free lists.
func (s *Slab) sizeBytes() int64 {
	n := s.bytes
	for c := range s.free {
		n += int64(cap(s.free[c])) * sliceHeaderBytes
	}
	return n
}

const sliceHeaderBytes = 24
