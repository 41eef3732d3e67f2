package blockset

import (
	"context"
	"sync/atomic"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/read"
	"github.com/seed347100a3/tsdb/internal/tombstones"
)

// opened is one immutable directory, open for reading. Whoever reads it holds a pin; the
// view holds one, too. The last release closes the files. A retired block is
// removed from the directory at once where open files can be, and by the last release
// otherwise.
type opened struct {
	dir     *blockdir.Dir
	place   read.PlaceID
	reach   read.Reach
	pins    atomic.Int64
	copied  atomic.Int64 // copies of its files that are being made
	retired atomic.Bool  // other blocks have its samples, or nobody wants them, and its directory may be there
	empty   atomic.Bool  // all of it is deleted
	leavers *leavers
}

// newOpened returns a block with one pin. leavers see it off after the last release.
func newOpened(dir *blockdir.Dir, leavers *leavers) *opened {
	b := &opened{dir: dir, place: read.NewPlaceID(), leavers: leavers}
	b.reach.Early, b.reach.Late = dir.Reach() // of a foreign block this may be more than its meta file says
	b.pins.Store(1)
	return b
}

// Pin is called by who knows of another pin that outlasts the call.
func (b *opened) Pin() { b.pins.Add(1) }

// Release gives a pin back.
func (b *opened) Release() {
	if b.pins.Add(-1) == 0 {
		b.leavers.last(b)
	}
}

// PinForCopy is Pin for who copies the files of the block, which stay where they are until
// ReleaseCopy.
func (b *opened) PinForCopy() {
	b.Pin()
	b.copied.Add(1)
}

// ReleaseCopy ends what PinForCopy began.
func (b *opened) ReleaseCopy() {
	b.copied.Add(-1)
	b.Release()
}

// Dir returns the directory. Whoever reads it holds a pin.
func (b *opened) Dir() *blockdir.Dir { return b.dir }

// Place returns the number that the block has among the places of a query.
func (b *opened) Place() read.PlaceID { return b.place }

// Block is a block as it is at one moment: what is deleted of it may grow later.
type Block struct {
	*opened
	Meta    *blockdir.Meta  // not changed any more
	Size    int64           // bytes of its files when it was opened
	Deleted *tombstones.Set // not changed any more
}

// Overlaps reports whether the block can have samples in the closed range.
func (b *Block) Overlaps(mint, maxt int64) bool {
	return b.reach.Overlaps(mint, maxt)
}

// Readable is what a query reads. Whoever has it holds a pin.
func (b *Block) Readable() read.Block {
	return read.Block{Dir: b.dir, Place: b.place, Deleted: b.Deleted, Reach: b.reach}
}

func releaseBlocks(blocks []Block) {
	for i := range blocks {
		blocks[i].Release()
	}
}

// Ambiguity warns of a block in which a series has two values of one label: one of them is read.
func (b *Block) Ambiguity() (ws []error) {
	if s := b.dir.Shape(); s != nil && s.Ambiguous != nil {
		ws = append(ws, errors.WithMessagef(s.Ambiguous, "block %s", b.Meta.ULID))
	}
	return ws
}

// IsEmpty reports whether nothing is left of a block, as far as can be told without a look at its
// samples.
func (b *Block) IsEmpty() bool { return b.empty.Load() }

// noteDeleted looks at what is deleted of a block: IsEmpty is true if that is all.
func (b *Block) noteDeleted(ctx context.Context) {
	if b.Deleted.Len() == 0 || b.Meta.Stats.NumTombstones < b.Meta.Stats.NumSeries {
		return
	}
	ids, err := b.dir.Index().Select(ctx)
	if err != nil {
		return // it cannot be told
	}
	var metas []index.ChunkMeta
	for _, id := range ids {
		if _, metas, err = b.dir.Index().Series(id, nil, metas[:0]); err != nil {
			return
		}
		deleted := b.Deleted.Of(id)
		for _, m := range metas {
			if !deleted.CoversRange(m.MinT, m.MaxT) {
				return
			}
		}
	}
	b.empty.Store(true)
}
