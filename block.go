package tsdb

import (
	"sync/atomic"

	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/read"
	"github.com/seed347100a3/tsdb/internal/tombstones"
)

// block is one immutable directory, open for reading. Whoever reads it holds a pin; the
// list of blocks holds one, too. The last release closes the files. A retired block is
// removed from the directory at once where open files can be, and by the last release
// otherwise.
type block struct {
	dir     *blockdir.Dir
	place   read.PlaceID
	reach   read.Reach
	pins    atomic.Int64
	copied  atomic.Int64 // copies of its files that are being made
	retired atomic.Bool  // other blocks have its samples, or nobody wants them, and its directory may be there
	last    func(*block)
}

// newBlock returns a block with one pin. last is called by the last release.
func newBlock(dir *blockdir.Dir, last func(*block)) *block {
	b := &block{dir: dir, place: read.NewPlaceID(), last: last}
	b.reach.Early, b.reach.Late = dir.Reach() // of a foreign block this may be more than its meta file says
	b.pins.Store(1)
	return b
}

// pin is called by who knows of another pin that outlasts the call.
func (b *block) pin() { b.pins.Add(1) }

func (b *block) release() {
	if b.pins.Add(-1) == 0 {
		b.last(b)
	}
}

// viewBlock is a block as it is at one moment: what is deleted of it may grow later.
type viewBlock struct {
	*block
	meta    BlockMeta
	size    int64           // bytes of its files when it was opened
	deleted *tombstones.Set // not changed any more
}

// overlaps reports whether the block can have samples in the closed range.
func (b *viewBlock) overlaps(mint, maxt int64) bool {
	return b.reach.Overlaps(mint, maxt)
}

// readable is what a query reads. Whoever has it holds a pin.
func (b *viewBlock) readable() read.Block {
	return read.Block{Dir: b.dir, Place: b.place, Deleted: b.deleted, Reach: b.reach}
}
