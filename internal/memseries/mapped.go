package memseries

import (
	"iter"
	"slices"
	"sort"
	"unsafe"

	"github.com/seed347100a3/tsdb/chunks"
)

// Mapped is a full chunk of a series. Ref is 0 until the chunk is in a head-chunk
// file; until then the shard keeps its bytes.
type Mapped struct {
	Ref        chunks.Ref
	MinT, MaxT int64 // closed
	Num        uint16
}

// mappedBlockLen is how many full chunks of a series stand in one block.
const mappedBlockLen = 8

// mappedBlock is a run of full chunks, field by field, so that it has no gaps: 208 bytes,
// which is what the heap gives for it. A list of blocks grows without being copied, and wastes
// half a block; lists that grow by half, as they were before, had a third more than they needed
// and left as much garbage behind again (BenchmarkCut; peak memory of recovery).
type mappedBlock struct {
	refs  [mappedBlockLen]chunks.Ref
	mints [mappedBlockLen]int64
	maxts [mappedBlockLen]int64
	nums  [mappedBlockLen]uint16
}

// mappedAt returns full chunk i, the oldest of which is 0.
func (s *Series) mappedAt(i int) Mapped {
	b, j := s.blocks[i/mappedBlockLen], i%mappedBlockLen
	return Mapped{Ref: b.refs[j], MinT: b.mints[j], MaxT: b.maxts[j], Num: b.nums[j]}
}

func (s *Series) setMapped(i int, m Mapped) {
	b, j := s.blocks[i/mappedBlockLen], i%mappedBlockLen
	b.refs[j], b.mints[j], b.maxts[j], b.nums[j] = m.Ref, m.MinT, m.MaxT, m.Num
}

// mapped yields the full chunks, oldest first. They are not changed meanwhile.
func (s *Series) mapped() iter.Seq2[int, Mapped] {
	return func(yield func(int, Mapped) bool) {
		for i := range int(s.numMapped) {
			if !yield(i, s.mappedAt(i)) {
				return
			}
		}
	}
}

// mappedMaxt returns the end of full chunk i.
func (s *Series) mappedMaxt(i int) int64 { return s.blocks[i/mappedBlockLen].maxts[i%mappedBlockLen] }

// mappedFrom returns the first full chunk that ends at t or later, or their number.
func (s *Series) mappedFrom(t int64) int {
	return sort.Search(int(s.numMapped), func(i int) bool { return s.mappedMaxt(i) >= t })
}

// addMapped appends a full chunk.
func (a *appender) addMapped(s *Series, m Mapped) {
	if int(s.numMapped) == len(s.blocks)*mappedBlockLen {
		before := cap(s.blocks)
		s.blocks = append(a.slabs.roomForOne(s.blocks), a.slabs.block())
		a.mappedBytes += mappedBlockBytes + int64(cap(s.blocks)-before)*pointerBytes
	}
	s.numMapped++
	s.setMapped(int(s.numMapped)-1, m)
}

// insertMapped puts a full chunk before number i.
func (a *appender) insertMapped(s *Series, i int, m Mapped) {
	a.addMapped(s, Mapped{})
	for j := int(s.numMapped) - 1; j > i; j-- {
		s.setMapped(j, s.mappedAt(j-1))
	}
	s.setMapped(i, m)
}

// dropMapped forgets the first n full chunks of a series.
func (a *appender) dropMapped(s *Series, n int) {
	for i := n; i < int(s.numMapped); i++ {
		s.setMapped(i-n, s.mappedAt(i))
	}
	a.cutMapped(s, int(s.numMapped)-n)
}

// cutMapped forgets all full chunks but the first n. Blocks without any go, and the list of
// blocks if none is left.
func (a *appender) cutMapped(s *Series, n int) {
	before := s.mappedBytes()
	s.numMapped = uint32(n)
	blocks := (n + mappedBlockLen - 1) / mappedBlockLen
	clear(s.blocks[blocks:])
	s.blocks = s.blocks[:blocks]
	if blocks < cap(s.blocks)/2 {
		kept := slices.Clone(s.blocks)
		clear(s.blocks)
		s.blocks = kept
	}
	if blocks == 0 {
		s.blocks = nil
	}
	a.mappedBytes += s.mappedBytes() - before
}

const (
	pointerBytes     = int64(unsafe.Sizeof((*mappedBlock)(nil)))
	mappedBlockBytes = int64(unsafe.Sizeof(mappedBlock{}))
)

// mappedBytes returns the memory of the list.
func (s *Series) mappedBytes() int64 {
	return int64(len(s.blocks))*mappedBlockBytes + int64(cap(s.blocks))*pointerBytes
}

const (
	maxMappedSlab = 16  // blocks; with fewer the first time
	listSlab      = 128 // pointers
	longList      = 8   // pointers: what is longer is allocated by itself
)

// mappedSlabs gives out blocks and short lists of them that are allocated many at a time: all
// series of a scrape need them within some commits (BenchmarkAppendCommit). What is given
// back is garbage when all of its slab is. Nothing that is given back leads anywhere.
type mappedSlabs struct {
	blocks []mappedBlock
	run    int // length of the newest slab of blocks
	lists  []*mappedBlock
}

func (m *mappedSlabs) block() *mappedBlock {
	if len(m.blocks) == 0 {
		m.run = min(max(1, 2*m.run), maxMappedSlab)
		m.blocks = make([]mappedBlock, m.run)
	}
	b := &m.blocks[0]
	m.blocks = m.blocks[1:]
	return b
}

// roomForOne returns a list with room for one more.
func (m *mappedSlabs) roomForOne(list []*mappedBlock) []*mappedBlock {
	if len(list) < cap(list) {
		return list
	}
	n := max(1, 2*len(list))
	var longer []*mappedBlock
	if n > longList {
		longer = slices.Grow(list, 1)
	} else {
		if len(m.lists) < n {
			m.lists = make([]*mappedBlock, listSlab)
		}
		longer = append(m.lists[:0:n], list...)
		m.lists = m.lists[n:]
	}
	clear(list)
	return longer
}
