package read

import (
	"context"
	"math"
	"sync/atomic"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/internal/samplemerge"
	"github.com/seed347100a3/tsdb/internal/tombstones"
	"github.com/seed347100a3/tsdb/labels"
)

// Block is what there is to read of a block at one moment.
type Block struct {
	Dir     *blockdir.Dir
	Place   PlaceID
	Deleted *tombstones.Set // of it; not changed any more
	Reach
}

// Reach is half-open bounds of all chunks of a block, in milliseconds.
type Reach struct{ Early, Late int64 }

// Overlaps reports whether the block can have samples in the closed range.
func (r *Reach) Overlaps(mint, maxt int64) bool {
	return r.Early <= maxt && r.Late > mint
}

// blockReader reads one block in a snapshot.
type blockReader struct {
	Block
	mint, maxt int64
	whole      bool                   // chunks in the range may be seen beyond it
	failure    *atomic.Pointer[error] // of the Query
	symbols    *symbolCache           // shared by all sets of the Query
	ownSymbols symbolCache            // what symbols is, but for narrowed ones
}

// narrow implements source.
func (r *blockReader) narrow(mint, maxt int64, whole bool) source {
	if mint > maxt || !r.Overlaps(mint, maxt) {
		return nil
	}
	return &blockReader{Block: r.Block, mint: mint, maxt: maxt, whole: whole, failure: r.failure, symbols: r.symbols}
}

// visible returns what may be seen of the chunks of a series that are in the range.
func (r *blockReader) visible(id uint64) samplemerge.Bounds {
	in := samplemerge.Bounds{From: r.mint, To: r.maxt, Deleted: r.Deleted.Of(id)}
	if r.whole {
		in.From, in.To = math.MinInt64, math.MaxInt64
	}
	return in
}

// fewSeries is up to how many series a query makes no table and no slabs for, which would
// be most of its cost (BenchmarkSelectBlock/one).
const fewSeries = 16

// symbol returns a string of the symbol table. It belongs to the caller for ever.
func (r *blockReader) symbol(n uint32) (string, error) { return r.symbols.symbol(r.Dir.Index(), n) }

// selectSeries returns the series that match and have chunks in the range. Their ids
// ascend as their labels do, so nothing is sorted, and an entry is read when the cursor
// comes to it.
func (r *blockReader) selectSeries(ctx context.Context, ms []*labels.Matcher, transient bool, passed *[]error) (seriesCursor, error) {
	ids, err := r.Dir.Index().SelectIDs(ctx, ms...)
	if err != nil {
		return nil, err
	}
	if r.Dir.Disordered() {
		return r.selectDisordered(ctx, ids, passed)
	}
	c := &blockCursor{r: r, ids: ids, transient: transient, passed: passed}
	if n := ids.Len(); n > fewSeries {
		r.symbols.expect(n)
		c.symbols.slots = symbolSlots(n)
	}
	return c, nil
}

// anySeries implements source.
func (r *blockReader) anySeries(ctx context.Context, ms []*labels.Matcher, passed *[]error) (seriesCursor, error) {
	return r.selectSeries(ctx, ms, true, passed)
}

// reach implements source.
func (r *blockReader) reach() (mint, maxt int64) { return max(r.mint, r.Early), min(r.maxt, r.Late-1) }

// inRange cuts a list of chunks, which are in order, to those that overlap the range.
//
//go:noinline
func (r *blockReader) inRange(metas []index.ChunkMeta) []index.ChunkMeta {
	for len(metas) > 0 && metas[0].MaxT < r.mint {
		metas = metas[1:]
	}
	n := len(metas)
	for n > 0 && metas[n-1].MinT > r.maxt {
		n--
	}
	return metas[:n]
}

// presence tells what the bounds of a series' chunks, and what is deleted, say of samples that may
// be seen. The ends of a chunk are samples.
func (r *blockReader) presence(id uint64, metas []index.ChunkMeta) memseries.Presence {
	in := samplemerge.Bounds{From: r.mint, To: r.maxt, Deleted: r.Deleted.Of(id)}
	found := memseries.Absent
	for i := range metas {
		m := &metas[i]
		if in.Shows(m.MaxT) || in.Shows(m.MinT) {
			return memseries.Present
		}
		if !in.Hides(m.MinT, m.MaxT) {
			found = memseries.Possible
		}
	}
	return found
}

// all reports whether the range covers the block, nothing of it is deleted, and no series is
// without chunks, so that every series of the index is visible.
func (r *blockReader) all() bool {
	return r.Dir.Listed() && r.mint <= r.Early && r.maxt >= r.Late-1 && r.Deleted.Len() == 0
}

// maxPassedBy is how many damaged entries a result has warnings of.
const maxPassedBy = 16

// passBy leaves a damaged entry of the index out, with a warning that names block and place: what
// it says is lost, and the others are as good. A device that cannot be read is another matter.
func (r *blockReader) passBy(err error, passed *[]error) error {
	if !blockdir.IsDamage(err) {
		return err
	}
	if len(*passed) < maxPassedBy {
		*passed = append(*passed, &missing{errors.WithMessagef(err, "a series of block %s", r.Dir.Meta().ULID)})
	}
	return nil
}

// fail ends all series sets of the Query with an error.
func (r *blockReader) fail(err error) { r.failure.CompareAndSwap(nil, &err) }
