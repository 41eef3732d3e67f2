package blockset

import (
	"slices"
	"sort"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/blocklist"
)

// A block may reach into the time of the head without saying where the head begins: it lies beside
// it. A hint in its meta file says so.

// besideHead sees to it that a block from somewhere else, which reaches into the time
// of the head, says that the log counts there, too: without the hint the next start would
// take the head's samples before its end for samples of blocks.
func (o *opener) besideHead(b Block, start int64) (Block, error) {
	if b.Meta.MaxTime <= start || blockdir.BesideHead(b.Meta) {
		return b, nil
	}
	defer b.Release()
	return o.markBeside(b)
}

// broughtFuture is how far ahead of the clock a block begins at most, which somebody brought, that
// can be what a head has flushed: the limit for samples if none is set, or a longer one.
const broughtFuture = time.Hour

// foreignFuture sees to it that a block of the future does not close the head, also one whose maker
// had a wrong clock, if somebody brought it. Where its hint cannot be written, it counts as if it
// had it.
func (o *opener) foreignFuture(b Block, brought bool) Block {
	m, future := *b.Meta, o.MaxFuture
	if brought {
		m.ULID = ulid.ULID{} // the clock by which it was made does not count
		if future < 0 || future > broughtFuture {
			future = broughtFuture
		}
	}
	if !blockdir.FromFuture(&m, o.Clock, future) {
		return b
	}
	if !o.ReadOnly {
		o.Logger.Warn("a block of the future does not close the head", "block", b.Meta.ULID, "mint", b.Meta.MinTime)
		if marked, err := o.markBeside(b); err == nil {
			b.Release()
			return marked
		}
	}
	b.Meta = withHint(b.Meta)
	return b
}

// isBrought reports whether a block was brought by somebody: the list of blocks has neither it nor
// one that went into it. So seems one that a crash kept from the list. Of that one the log has
// everything, as it is shortened later.
func isBrought(m *blockdir.Meta, listed []blocklist.Block) bool {
	own := func(id ulid.ULID) bool {
		return slices.ContainsFunc(listed, func(l blocklist.Block) bool { return l.ULID == id || slices.Contains(l.Sources, id) })
	}
	return !own(m.ULID) && !slices.ContainsFunc(m.Compaction.Sources, own)
}

// withHint says of a block that it lies beside the head.
func withHint(of *blockdir.Meta) *blockdir.Meta {
	m := *of
	hints := append(slices.Clone(m.Compaction.Hints), blockdir.HintFromOutOfOrder)
	sort.Slice(hints, func(i, k int) bool { return hints[i] < hints[k] }) // not by package slices: 13 kB for strings
	m.Compaction.Hints = hints
	return &m
}

// markBeside writes the hint of a block and opens it once more. The caller lets go of the
// block as it was.
func (o *opener) markBeside(b Block) (Block, error) {
	meta := withHint(b.Meta)
	err := blockdir.WriteMeta(o.FS, blockdir.Path(o.Dir, meta.ULID), *meta)
	if err != nil {
		return b, errors.WithMessagef(err, "mark block %s, which reaches into the head", meta.ULID)
	}
	dir, err := o.open(meta.ULID)
	if err != nil {
		return b, errors.WithMessagef(err, "open block %s", meta.ULID)
	}
	return o.block(dir), nil
}
