package memseries

import (
	"iter"
	"slices"
	"sort"
	"unsafe"

	"github.com/seed347100a3/tsdb/chunks"
)

// Mapped is a full chunk of a series. Until it is in a head-chunk file, Ref is its place among
// those that wait for one (waiting), or 0 as long as the log is replayed. From Restorer.Close on
// each is in a file, or waits for one.
type Mapped = chunks.Mapped

func inFile(m Mapped) bool { return m.Ref > 0 && m.Ref.File() != waitingFile }

// mappedLists is where the lists of full chunks get their memory from.
type mappedLists struct {
	slabs  *mappedSlabs // nil: no list had a chunk yet
	bytes  int64        // that the lists take
	chunks int64        // that came less those that went; of all mappedLists it is how many there are
}

// mappedAt returns full chunk i, the oldest of which is 0.
func (s *Series) mappedAt(i int) Mapped {
	b, j := s.blocks[i/mappedBlockLen], i%mappedBlockLen
	if b.paired {
		return pairAt(s.pairOf(i))
	}
	return b.at(j)
}

// pairOf returns the two blocks that full chunk i of a series with pairs is in.
func (s *Series) pairOf(i int) (low, high *mappedBlock, at int) {
	k := i / mappedBlockLen * 2
	return s.blocks[k], s.blocks[k+1], i % mappedBlockLen
}

// isPaired reports whether the blocks of the series are in pairs.
func (s *Series) isPaired() bool { return len(s.blocks) > 0 && s.blocks[len(s.blocks)-1].paired }

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
func (s *Series) mappedMaxt(i int) int64 { return s.mappedAt(i).MaxT }

// mappedFrom returns the first full chunk that ends at t or later, or their number.
func (s *Series) mappedFrom(t int64) int {
	return sort.Search(int(s.numMapped), func(i int) bool { return s.mappedMaxt(i) >= t })
}

// mappedTo returns how many full chunks begin at t or before.
func (s *Series) mappedTo(t int64) int {
	return sort.Search(int(s.numMapped), func(i int) bool { return s.mappedAt(i).MinT > t })
}

// set puts another full chunk in the place of number i.
func (l *mappedLists) set(s *Series, i int, m Mapped) {
	b, j := s.blocks[i/mappedBlockLen], i%mappedBlockLen
	if !b.paired && b.put(j, m) {
		return
	}
	if !b.paired {
		l.pairUp(s)
	}
	low, high, at := s.pairOf(i)
	putPair(low, high, at, m)
}

// place is set when the block of number i has nothing behind it that counts.
func (l *mappedLists) place(s *Series, i int, m Mapped) {
	if i%mappedBlockLen == 0 && !s.isPaired() {
		s.blocks[i/mappedBlockLen].begin(m.MinT)
	}
	l.set(s, i, m)
}

// setRef fills in the place of the full chunk that begins at mint, if the series still
// has it.
func (l *mappedLists) setRef(s *Series, mint int64, ref chunks.Ref) {
	i := s.mappedFrom(mint)
	if i == int(s.numMapped) {
		return
	}
	if m := s.mappedAt(i); m.MinT == mint {
		m.Ref = ref
		l.set(s, i, m)
	}
}

// add appends a full chunk.
func (l *mappedLists) add(s *Series, m Mapped) {
	if paired := s.isPaired(); int(s.numMapped) == s.mappedRoom() {
		l.addBlock(s, paired)
		if paired {
			l.addBlock(s, paired)
		}
	}
	s.numMapped++
	l.chunks++
	l.place(s, int(s.numMapped)-1, m)
}

// mappedRoom returns how many full chunks the blocks have places for.
func (s *Series) mappedRoom() int {
	if s.isPaired() {
		return len(s.blocks) / 2 * mappedBlockLen
	}
	return len(s.blocks) * mappedBlockLen
}

func (l *mappedLists) addBlock(s *Series, paired bool) {
	if l.slabs == nil {
		l.slabs = &mappedSlabs{}
	}
	before := cap(s.blocks)
	b := l.slabs.block()
	b.paired = paired
	s.blocks = append(l.slabs.roomForOne(s.blocks), b)
	l.bytes += mappedBlockBytes + int64(cap(s.blocks)-before)*pointerBytes
}

// pairUp puts the chunks of a series into pairs of blocks: what is as long as its chunks, or as far
// apart, is rare.
func (l *mappedLists) pairUp(s *Series) {
	before := s.mappedBytes()
	paired := make([]*mappedBlock, 0, 2*len(s.blocks))
	for _, b := range s.blocks {
		pair := &[2]mappedBlock{{paired: true}, {paired: true}}
		for i := range mappedBlockLen {
			putPair(&pair[0], &pair[1], i, b.at(i))
		}
		paired = append(paired, &pair[0], &pair[1])
	}
	clear(s.blocks)
	s.blocks = paired
	l.bytes += s.mappedBytes() - before
}

// insert puts a full chunk before number i.
func (l *mappedLists) insert(s *Series, i int, m Mapped) {
	behind := make([]Mapped, 0, int(s.numMapped)-i)
	for j := i; j < int(s.numMapped); j++ {
		behind = append(behind, s.mappedAt(j))
	}
	s.numMapped = uint32(i)
	l.chunks -= int64(len(behind)) // they are added again
	l.add(s, m)
	for _, m := range behind {
		l.add(s, m)
	}
}

// drop forgets the first n full chunks of a series. A block is read before it is begun
// again: the others count from its first chunk.
func (l *mappedLists) drop(s *Series, n int) {
	left := int(s.numMapped) - n
	for to := 0; to < left; to += mappedBlockLen {
		var run [mappedBlockLen]Mapped
		some := run[:min(mappedBlockLen, left-to)]
		for i := range some {
			some[i] = s.mappedAt(n + to + i)
		}
		for i, m := range some {
			l.place(s, to+i, m)
		}
	}
	l.cut(s, left)
}

// cut forgets all full chunks but the first n. Blocks without any go, and the list of
// blocks if none is left.
func (l *mappedLists) cut(s *Series, n int) {
	before := s.mappedBytes()
	blocks := (n + mappedBlockLen - 1) / mappedBlockLen
	if s.isPaired() {
		blocks *= 2
	}
	l.chunks -= int64(s.numMapped) - int64(n)
	s.numMapped = uint32(n)
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
	l.bytes += s.mappedBytes() - before
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
