package blockset

import (
	"context"
	"math"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/tombstones"
	"github.com/seed347100a3/tsdb/labels"
)

// Deletion is what one Delete asks for.
type Deletion struct {
	Mint, Maxt int64 // closed
	Matchers   []*labels.Matcher
}

// From is what is left of the deletion at t and later.
func (d Deletion) From(t int64) Deletion {
	d.Mint = max(d.Mint, t)
	return d
}

// ofBlocks deletes from every block that overlaps, one after the other, and returns the
// view with what was done, also when it ends with an error. damaged tells of series that could
// not be deleted from, as their entries are damaged; it is no reason to end.
func (d Deletion) ofBlocks(ctx context.Context, cur *View) (_ *View, damaged, err error) {
	next := *cur
	next.Blocks = append([]Block(nil), cur.Blocks...)
	for i := range next.Blocks {
		b := &next.Blocks[i]
		if !b.Overlaps(d.Mint, d.Maxt) {
			continue
		}
		set, broken, err := d.of(ctx, *b)
		if err != nil {
			return &next, damaged, err
		}
		if damaged == nil {
			damaged = broken
		}
		meta := b.dir.Meta()
		b.Deleted, b.Meta = set, &meta
		b.noteDeleted(ctx)
	}
	return &next, damaged, nil
}

// of deletes from one block, on stable storage, and returns what is deleted of it now. damaged is
// of the first series whose entry is.
func (d Deletion) of(ctx context.Context, b Block) (_ *tombstones.Set, damaged, err error) {
	ids, err := b.dir.Index().Select(ctx, d.Matchers...)
	if err != nil {
		return nil, nil, err
	}
	set := b.Deleted
	var metas []index.ChunkMeta
	for _, id := range ids {
		if _, metas, err = b.dir.Index().Series(id, nil, metas[:0]); err != nil {
			if !blockdir.IsDamage(err) {
				return nil, nil, err
			}
			if damaged == nil {
				damaged = errors.WithMessagef(err, "a series of block %s", b.Meta.ULID)
			}
			continue
		}
		iv, ok := d.within(metas)
		if !ok || b.Deleted.Of(id).CoversRange(iv.Mint, iv.Maxt) {
			continue
		}
		if set == b.Deleted {
			set = b.Deleted.Clone()
		}
		set.Add(id, iv)
	}
	if set == b.Deleted {
		return set, damaged, nil
	}
	return set, damaged, errors.WithMessagef(b.dir.SetTombstones(set), "block %s", b.Meta.ULID)
}

// within clamps the range to the chunks of a series; ok is false when it touches none.
func (d Deletion) within(metas []index.ChunkMeta) (iv tombstones.Interval, ok bool) {
	iv = tombstones.Interval{Mint: math.MaxInt64, Maxt: math.MinInt64}
	for _, m := range metas { // of a foreign block not in order
		ok = ok || m.MinT <= d.Maxt && m.MaxT >= d.Mint
		iv.Mint, iv.Maxt = min(iv.Mint, m.MinT), max(iv.Maxt, m.MaxT)
	}
	iv.Mint, iv.Maxt = max(d.Mint, iv.Mint), min(d.Maxt, iv.Maxt)
	return iv, ok
}
