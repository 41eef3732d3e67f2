package tsdb

import (
	"bytes"
	"math"
	"slices"

	"github.com/oklog/ulid/v2"
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/blocklist"
	"github.com/seed347100a3/tsdb/internal/datadir"
)

// The data directory has a list of the blocks that there should be (docs/design/blocks.md).
// What it has and the directory has not was taken away by somebody. It must never cry wolf, so
// a block that is about to go for good leaves the list before, and one that comes
// stands in the directory before. A block that went into others is known by these.

// blockList is the list as a blockSet keeps it. It is guarded by the set's change.
type blockList struct {
	// saved is what the file has; nil: there is none, or nobody knows.
	saved []byte
	// stale: the last try to write it failed, or the file is damaged.
	stale bool
}

// wantedBlocks returns what the list should have of a view without some of its blocks: those
// that are open, and those that vanished, until somebody brings them back or Repair forgets them.
func (v *view) wantedBlocks(without []ulid.ULID) (list []blocklist.Block) {
	lastGone := int64(math.MinInt64) // what retention would have taken by now is not waited for
	for _, b := range v.blocks {
		m := b.meta
		if slices.Contains(without, m.ULID) {
			lastGone = max(lastGone, m.MaxTime)
			continue
		}
		w := blocklist.Block{ULID: m.ULID, MinTime: m.MinTime, MaxTime: m.MaxTime}
		if !slices.Equal(m.Compaction.Sources, []ulid.ULID{m.ULID}) {
			w.Sources = m.Compaction.Sources
		}
		list = append(list, w)
	}
	for _, m := range v.missing {
		if m.Vanished && m.Maxt >= lastGone {
			list = append(list, blocklist.Block{ULID: m.ID, MinTime: m.Mint, MaxTime: m.Maxt + 1, Sources: m.Sources})
		}
	}
	return list
}

// saveList writes the list that belongs to the view. What goes wrong is only told: without the
// list a block may vanish unnoticed, and nothing else happens.
func (bs *blockSet) saveList() {
	bs.change.Lock()
	defer bs.change.Unlock()
	bs.noteListLocked()
}

func (bs *blockSet) noteListLocked() {
	if bs.readOnly || bs.change.closed {
		return
	}
	wasStale := bs.change.list.stale
	if err := bs.writeListLocked(nil); err != nil && !wasStale {
		bs.opts.Logger.Warn("write list of blocks", "error", logged(err))
	}
}

// writeListLocked writes the list without some blocks of the view, unless the file has it
// already.
func (bs *blockSet) writeListLocked(without []ulid.ULID) error {
	l := &bs.change.list
	blocks := bs.current().wantedBlocks(without)
	if data := blocklist.Encode(blocks); !bytes.Equal(data, l.saved) {
		if len(blocks) == 0 && l.saved == nil && !l.stale {
			return nil // a directory without blocks needs no list
		}
		l.saved, l.stale = nil, true
		if err := blocklist.Write(bs.opts.FS, bs.dir, blocks); err != nil {
			return err
		}
		l.saved = data
	}
	l.stale = false
	return nil
}

// leaveListLocked takes blocks from the list that are about to be removed for good. Where there
// is no room for a shorter list there is none from now on: that is never wrong.
func (bs *blockSet) leaveListLocked(ids []ulid.ULID) error {
	err := bs.writeListLocked(ids)
	if err == nil || errors.Is(err, ErrPoisoned) {
		return err
	}
	if removed := blocklist.Remove(bs.opts.FS, bs.dir); removed != nil {
		return errors.WithMessage(err, "take blocks from their list before they go")
	}
	bs.opts.Logger.Warn("list of blocks was removed, there is no room for another one", "error", logged(err))
	return nil
}

// readListLocked returns what the list has.
func (bs *blockSet) readListLocked() ([]blocklist.Block, error) {
	blocks, state, err := blocklist.Read(bs.opts.FS, bs.dir)
	bs.change.list = blockList{stale: state == blocklist.Damaged}
	if state == blocklist.Good {
		bs.change.list.saved = blocklist.Encode(blocks)
	}
	return blocks, err
}

// reportVanished tells of blocks that are gone.
func (bs *blockSet) reportVanished(gone []datadir.Missing, report *OpenReport) {
	for _, m := range gone {
		report.Damages = append(report.Damages, Damage{File: m.Name, Reason: "the block is not there any more: " + m.Times()})
		report.BlocksVanished++
		bs.opts.Logger.Error("block has vanished", "block", m.Name, "mint", m.Mint, "maxt", m.Maxt)
	}
}
