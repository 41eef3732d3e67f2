package blockset

import (
	"math"
	"slices"

	"github.com/oklog/ulid/v2"
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/blockplan"
	"github.com/seed347100a3/tsdb/internal/clock"
	"github.com/seed347100a3/tsdb/internal/datadir"
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/internal/read"
)

// View is what a Querier finds at one moment. It does not change.
type View struct {
	Blocks  []Block           // ascending by MinTime
	Missing []datadir.Missing // what is in quarantine, not read, or gone
	// Start is where the head begins: what the head has before it, blocks have, too.
	Start int64

	late []*blockdir.Meta // of blocks of late samples; a delete does not change their times
}

// Metas returns what the blocks say of themselves, in order.
func (v *View) Metas() []blockdir.Meta {
	metas := make([]blockdir.Meta, len(v.Blocks))
	for i := range v.Blocks {
		metas[i] = *v.Blocks[i].Meta
	}
	return metas
}

// Bytes returns the size of all blocks.
func (v *View) Bytes() (n int64) {
	for i := range v.Blocks {
		n += v.Blocks[i].Size
	}
	return n
}

// Newest returns the time of the newest sample that a block may have, math.MinInt64 if there
// is no block.
//
//go:noinline
func (v *View) Newest() int64 {
	newest := int64(math.MinInt64)
	for i := range v.Blocks {
		newest = max(newest, v.Blocks[i].Meta.MaxTime-1)
	}
	return newest
}

// HasLate reports whether the time of a block of late samples has t in it.
func (v *View) HasLate(t int64) bool {
	for _, m := range v.late {
		if m.MinTime <= t && t < m.MaxTime {
			return true
		}
	}
	return false
}

// Warnings names the missing blocks that a query of the closed range would touch.
func (v *View) Warnings(mint, maxt int64) (ws []error) {
	for _, m := range v.Missing {
		if m.Mint <= maxt && m.Maxt >= mint {
			what := "block "
			if m.Vanished {
				what = "vanished block "
			}
			ws = append(ws, errors.WithMessage(read.ErrMissing, what+m.Name))
		}
	}
	return ws
}

// LatestStart bounds where a head begins that its log says to begin behind the blocks, as one is
// gone. If a block is missing something may be left of it, so the head begins behind the blocks. It
// does not begin in the future.
func (v *View) LatestStart(c clock.Clock) int64 {
	for _, m := range v.Missing {
		if m.Maxt >= v.Start {
			return v.Start
		}
	}
	return clock.UnixMilli(c) + 1
}

// StartWithout returns where the head begins by the blocks, if some were not there.
func (v *View) StartWithout(ids []ulid.ULID) int64 {
	start := int64(memseries.NoTime + 1)
	for i := range v.Blocks {
		if b := &v.Blocks[i]; !blockdir.BesideHead(b.Meta) && !slices.Contains(ids, b.Meta.ULID) {
			start = max(start, b.Meta.MaxTime)
		}
	}
	return start
}

// SplitByStart splits blocks that are to go into those without which the head begins where it
// does by the others, and the rest.
func (v *View) SplitByStart(ids []ulid.ULID) (free, last []ulid.ULID) {
	start := v.StartWithout(nil)
	if v.StartWithout(ids) == start {
		return ids, nil
	}
	for i := range v.Blocks {
		b := &v.Blocks[i]
		switch {
		case !slices.Contains(ids, b.Meta.ULID):
		case b.Meta.MaxTime == start && !blockdir.BesideHead(b.Meta):
			last = append(last, b.Meta.ULID)
		default:
			free = append(free, b.Meta.ULID)
		}
	}
	return free, last
}

// has reports whether a block is in the view.
func (v *View) has(id ulid.ULID) bool { return v.Find(id) != nil }

// Find returns a block by its name, nil if it is not there.
//
//go:noinline
func (v *View) Find(id ulid.ULID) *Block {
	for i := range v.Blocks {
		if b := &v.Blocks[i]; b.Meta.ULID == id {
			return b
		}
	}
	return nil
}

// Times returns the closed range of the blocks that overlap one, or of only, if it is a name;
// mint > maxt if there is none.
func (v *View) Times(first, last int64, only ulid.ULID) (mint, maxt int64) {
	mint, maxt = math.MaxInt64, math.MinInt64
	for i := range v.Blocks {
		if b := &v.Blocks[i]; b.Overlaps(first, last) && (only == ulid.ULID{} || b.Meta.ULID == only) {
			mint, maxt = min(mint, b.Meta.MinTime), max(maxt, b.Meta.MaxTime-1)
		}
	}
	return mint, maxt
}

// missingBeside returns what is still missing when blocks are added that somebody brought.
func (v *View) missingBeside(added []Block) []datadir.Missing {
	have := datadir.NewLineage()
	for _, b := range added {
		have.Add(b.Meta)
	}
	return datadir.Without(slices.Clone(v.Missing), have.Has)
}

// Planned returns the blocks of a view as plans see them.
func (v *View) Planned() []blockplan.Block {
	blocks := make([]blockplan.Block, len(v.Blocks))
	for i := range v.Blocks {
		b := &v.Blocks[i]
		written := b.dir.Meta()
		blocks[i] = blockplan.Block{Meta: *b.Meta, Unmarked: blockdir.BesideHead(b.Meta) && !blockdir.BesideHead(&written)}
	}
	return blocks
}

// AppendPinned pins the blocks that overlap a closed range, until Unpin for the same range. They
// come in the order in which they count: so many of late samples last.
func (v *View) AppendPinned(dst []read.Block, mint, maxt int64) (_ []read.Block, late int) {
	from, ended := len(dst), 0
	var at [8]int
	order := at[:0]
	for i := range v.Blocks {
		if b := &v.Blocks[i]; b.Overlaps(mint, maxt) {
			b.Pin()
			dst, order = append(dst, b.Readable()), append(order, i)
			if b.Meta.HasHint(blockdir.HintFromStaleSeries) {
				ended++
			} else if b.Meta.HasHint(blockdir.HintFromOutOfOrder) {
				late++
			}
		}
	}
	if late+ended > 0 {
		blockdir.SortByAge(len(order), func(i int) *blockdir.Meta { return v.Blocks[order[i]].Meta }, func(i, k int) {
			order[i], order[k] = order[k], order[i]
			dst[from+i], dst[from+k] = dst[from+k], dst[from+i]
		})
	}
	return dst, late
}

// Unpin gives back the pins of AppendPinned.
func (v *View) Unpin(mint, maxt int64) {
	for i := range v.Blocks {
		if b := &v.Blocks[i]; b.Overlaps(mint, maxt) {
			b.Release()
		}
	}
}
