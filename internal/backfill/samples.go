package backfill

// Samples in memory lie in slabs, which are taken and emptied together. A series has a
// list of blocks in them; its blocks double in size, so that many series with a sample
// each waste little and few series with many jump seldom.
const (
	slabBits    = 12
	slabSamples = 1 << slabBits
	sampleBytes = 16
	slabBytes   = slabSamples * sampleBytes
	firstBlock  = 4  // samples of a series' first block
	maxBlock    = 64 // and of its longest ones
)

type sample struct {
	t int64
	v float64
}

type slab [slabSamples]sample

// position is where a block begins: number of the slab and place in it. 0 is nowhere.
type position uint32

// arena hands out blocks. The first slot of a block is its head: where the next one is
// (0: nowhere), in the place of the time.
type arena struct {
	slabs []*slab
	next  position // free from here on
}

// at returns the slot at a position.
func (a *arena) at(p position) *sample { return &a.slabs[p>>slabBits][p&(slabSamples-1)] }

// fits says whether a block with room for n samples needs no further slab.
func (a *arena) fits(n int) bool {
	return int(a.next>>slabBits) < len(a.slabs) && int(a.next&(slabSamples-1))+n < slabSamples ||
		int(a.next>>slabBits)+1 < len(a.slabs)
}

// block takes a block with room for n samples, and a further slab if it must.
func (a *arena) block(n int) position {
	if int(a.next&(slabSamples-1))+n >= slabSamples {
		a.next = (a.next>>slabBits + 1) << slabBits
	}
	for int(a.next>>slabBits) >= len(a.slabs) {
		a.slabs = append(a.slabs, new(slab))
	}
	p := max(a.next, 1)
	a.next = p + position(n) + 1
	a.at(p).t = 0
	return p
}

// release lets go of n slabs that nothing is in, or of as many as there are.
func (a *arena) release(n int64) {
	used := (int(a.next) + slabSamples - 1) >> slabBits
	keep := max(int64(len(a.slabs))-n, int64(used))
	clear(a.slabs[keep:])
	a.slabs = a.slabs[:keep]
}

// reset empties the arena and keeps its memory.
func (a *arena) reset() { a.next = 0 }

func (a *arena) sizeBytes() int64 { return int64(len(a.slabs)) * slabBytes }

// run is the samples of one series in the arena.
type run struct {
	first, tail position
	fill, size  uint16 // samples in the tail, and how many it has room for
	num         uint32
	unordered   bool // samples are not in the order of time, or one has the time of another
	wide        bool // samples lie beside, and those in the arena are their places
}

// full says whether the next sample needs a new block, and of what size.
func (r *run) full() (size int, full bool) {
	if r.fill < r.size {
		return 0, false
	}
	return min(max(2*int(r.size), firstBlock), maxBlock), true
}

// grow adds a block with room for n samples.
func (r *run) grow(a *arena, n int) {
	p := a.block(n)
	if r.num == 0 {
		r.first = p
	} else {
		a.at(r.tail).t = int64(p)
	}
	r.tail, r.fill, r.size = p, 0, uint16(n)
}

// add appends a sample to a run that is not full.
func (r *run) add(a *arena, t int64, v float64) {
	r.fill++
	r.num++
	*a.at(r.tail + position(r.fill)) = sample{t, v}
}

// cursor reads a run from its beginning.
type cursor struct {
	block position
	at    uint16 // the next sample in it, from 0
	size  uint16 // samples that the block has room for
	left  uint32
}

func (r *run) cursor() cursor {
	return cursor{block: r.first, size: firstBlock, left: r.num}
}

// peek returns the next sample; there must be one.
func (c *cursor) peek(a *arena) sample { return *c.slot(a) }

// slot is where the next sample lies.
func (c *cursor) slot(a *arena) *sample {
	if c.at == c.size {
		c.block, c.at = position(a.at(c.block).t), 0
		c.size = min(2*c.size, maxBlock)
	}
	return a.at(c.block + 1 + position(c.at))
}

// skip goes on to the one after the sample that peek has returned.
func (c *cursor) skip() { c.at, c.left = c.at+1, c.left-1 }
