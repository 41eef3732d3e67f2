package memseries

import (
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/seed347100a3/tsdb/internal/prefetch"
	"github.com/seed347100a3/tsdb/internal/xorchunk"
)

// Bytes of open chunks live in pieces of one cache line, linked by number. A chunk
// grows by a piece at a time, so it is never copied and wastes half a piece on
// average, whatever its size; buffers that double would waste a quarter, and leave
// the smaller ones behind when all series grow in step, as scraped series do.
const (
	pieceBytes    = 64
	piecePayload  = pieceBytes - 8 // whole words; the number of the next piece takes half a word
	pieceBlockLen = 1 << 8         // pieces in a block: 16 KiB
	pieceFirstRun = 8              // pieces that an owner takes the first time; then twice as many
)

// piece is a part of a chunk. Owned by a series, or linked into a free list.
type piece struct {
	data [piecePayload]byte
	next uint32 // number of the next piece; 0: none
	_    uint32
}

type pieceBlock [pieceBlockLen]piece

// pieceArena is where all pieces come from. Numbers start at 1 and are resolved
// without a lock: a list of blocks is never changed, and a block only leaves the newest
// list when nobody has a piece of it (pieces_trim.go).
type pieceArena struct {
	blocks atomic.Pointer[[]*pieceBlock]
	mu     struct {
		sync.Mutex
		next, left uint32 // pieces that no owner has taken: the first, and how many there are
		gone       []int  // places in the list without a block
	}
}

func newPieceArena() *pieceArena {
	a := &pieceArena{}
	a.blocks.Store(new([]*pieceBlock))
	return a
}

func (a *pieceArena) at(n uint32) *piece {
	return &(*a.blocks.Load())[n/pieceBlockLen][n%pieceBlockLen]
}

// take gives out up to n pieces with consecutive numbers from first on.
func (a *pieceArena) take(n uint32) (first, got uint32) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.mu.left == 0 {
		a.addBlockLocked()
	}
	first, got = a.mu.next, min(n, a.mu.left)
	a.mu.next += got
	a.mu.left -= got
	return first, got
}

// addBlockLocked makes a block, in the place of one that is gone if there is one.
func (a *pieceArena) addBlockLocked() {
	blocks := *a.blocks.Load()
	at := len(blocks)
	if n := len(a.mu.gone); n > 0 {
		at = a.mu.gone[n-1]
		a.mu.gone = a.mu.gone[:n-1]
		blocks = slices.Clone(blocks)
		blocks[at] = new(pieceBlock)
	} else {
		blocks = append(blocks, new(pieceBlock)) // holders of the old list see a prefix
	}
	a.blocks.Store(&blocks)
	a.mu.next, a.mu.left = uint32(at)*pieceBlockLen, pieceBlockLen
	if at == 0 {
		a.mu.next, a.mu.left = 1, pieceBlockLen-1 // there is no piece 0
	}
}

func (a *pieceArena) sizeBytes() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	blocks := *a.blocks.Load()
	return int64(len(blocks)-len(a.mu.gone))*int64(unsafe.Sizeof(pieceBlock{})) + int64(cap(blocks))*8
}

// pieces is one owner's share of the arena: a shard (under its lock) or a recovery
// worker. Pieces may be freed by another owner than the one that took them.
type pieces struct {
	arena     *pieceArena
	free      uint32    // list of free pieces, linked by next
	recycled  *recycled // more free pieces, of recovery; nil elsewhere
	fresh     uint32    // pieces taken and never used begin here
	freshLeft uint32
	run       uint32 // how many to take the next time
}

// get returns an unlinked piece.
func (p *pieces) get() (uint32, *piece) {
	if p.recycled != nil {
		if n := p.recycled.get(p.arena); n != 0 {
			pc := p.arena.at(n)
			pc.next = 0
			return n, pc
		}
	}
	if n := p.free; n != 0 {
		pc := p.arena.at(n)
		p.free, pc.next = pc.next, 0
		if p.free != 0 { // the next call reads in it which one is behind it
			prefetch.Line(p.arena.at(p.free))
		}
		return n, pc
	}
	if p.freshLeft == 0 {
		p.run = min(max(pieceFirstRun, 2*p.run), pieceBlockLen)
		p.fresh, p.freshLeft = p.arena.take(p.run)
	}
	n := p.fresh
	p.fresh++
	p.freshLeft--
	return n, p.arena.at(n)
}

// put frees all pieces of a chunk: those from first to last, linked.
func (p *pieces) put(first, last uint32) {
	p.arena.at(last).next = p.free
	p.free = first
}

// absorb takes over what another owner has free.
func (p *pieces) absorb(o *pieces) {
	if o.recycled != nil {
		o.recycled.linkTo(p)
	}
	for ; o.freshLeft > 0; o.freshLeft-- {
		p.put(o.fresh, o.fresh)
		o.fresh++
	}
	if o.free == 0 {
		return
	}
	last := o.free
	for n := p.arena.at(last).next; n != 0; n = p.arena.at(last).next {
		last = n
	}
	p.put(o.free, last)
	o.free = 0
}

// chunkBytes is where the bytes of an open chunk are. The zero value has none.
type chunkBytes struct {
	first, last uint32 // pieces
	size        uint32 // bytes in all of them
}

// add appends a sample's bytes, at most a few words, or a whole chunk. The common case is
// one word that fits the last piece: it is stored without a call (BenchmarkAppend).
func (c *chunkBytes) add(p *pieces, b []byte) {
	tail := int(c.size) % piecePayload
	if len(b) == wordBytes && tail > 0 && tail <= piecePayload-wordBytes {
		pc := p.arena.at(c.last)
		*(*[wordBytes]byte)(pc.data[tail:]) = [wordBytes]byte(b)
		c.size += wordBytes
		return
	}
	c.addAny(p, b)
}

func (c *chunkBytes) addAny(p *pieces, b []byte) {
	if c.size == 0 {
		c.first, _ = p.get()
		c.last = c.first
	}
	tail := int(c.size) % piecePayload
	if tail == 0 && c.size > 0 {
		tail = piecePayload
	}
	c.size += uint32(len(b))
	pc := p.arena.at(c.last)
	n := copy(pc.data[tail:], b)
	for n < len(b) {
		number, next := p.get()
		pc.next, c.last = number, number
		pc = next
		n += copy(pc.data[:], b[n:])
	}
}

// appendTo appends all bytes to dst.
//
//go:noinline
func (c *chunkBytes) appendTo(dst []byte, a *pieceArena) []byte {
	left := int(c.size)
	for n := c.first; left > 0; {
		pc := a.at(n)
		m := min(left, piecePayload)
		dst = append(dst, pc.data[:m]...)
		left -= m
		n = pc.next
	}
	return dst
}

// finish adds what the encoder has kept back, but for the number of samples (fullChunk).
func (c *chunkBytes) finish(p *pieces, enc *xorchunk.State) {
	const countBytes = 2 // a chunk begins with its number of samples
	var buf [countBytes + wordBytes]byte
	whole := enc.Finish(buf[:countBytes])
	c.add(p, whole[countBytes:])
}

// drop gives the pieces back.
//
//go:noinline
func (c *chunkBytes) drop(p *pieces) {
	if c.size > 0 {
		p.put(c.first, c.last)
	}
	*c = chunkBytes{}
}
