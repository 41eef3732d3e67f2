package tsdb

import (
	"bytes"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/blocklist"
	"github.com/seed347100a3/tsdb/wal"
)

// The data directory has a list of the blocks that there should be (docs/design/blocks.md).
// What it has and the directory has not was taken away by somebody. It must never cry wolf, so
// a block that is about to go for good leaves the list before, and one that comes
// stands in the directory before. A block that went into others is known by these.
const blockListName = blocklist.FileName

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
		if m.vanished && m.maxt >= lastGone {
			list = append(list, blocklist.Block{ULID: m.id, MinTime: m.mint, MaxTime: m.maxt + 1, Sources: m.sources})
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

// vanishedBlocks returns the blocks of the list that are not in the directory and went into no
// other one. Some directories that are called after blocks are none.
func vanishedBlocks(fsys FS, dataDir string, list []blocklist.Block, have *lineage, none []ulid.ULID) ([]missingBlock, error) {
	if len(list) == 0 {
		return nil, nil
	}
	there, err := blocksByName(fsys, dataDir)
	if err != nil {
		return nil, err
	}
	for _, id := range none {
		delete(there, id)
	}
	gone := absent(list, there, have)
	if len(gone) == 0 {
		return nil, nil
	}
	// Another engine that had the directory meanwhile removes the oldest blocks, as its
	// retention says, and tells nobody.
	foreign, err := wal.EndsForeign(fsys, filepath.Join(dataDir, walDirName))
	if err != nil {
		foreign = false // recovery says what is wrong with the log
	}
	if foreign {
		gone = slices.DeleteFunc(gone, func(m missingBlock) bool { return m.maxt < have.mint })
	}
	// A writer beside us may have removed some since the list was read.
	now, _, err := blocklist.Read(fsys, dataDir)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(gone, func(m missingBlock) bool {
		return !slices.ContainsFunc(now, func(b blocklist.Block) bool { return b.ULID == m.id })
	}), nil
}

// absent returns the blocks of the list whose names are not there, and which are not in others.
func absent(list []blocklist.Block, there map[ulid.ULID]bool, have *lineage) (gone []missingBlock) {
	for _, b := range list {
		m := missingBlock{id: b.ULID, name: b.ULID.String(), mint: b.MinTime, maxt: b.MaxTime - 1, sources: b.Sources, vanished: true}
		if !there[b.ULID] && !have.has(m) {
			gone = append(gone, m)
		}
	}
	return gone
}

// blocksByName returns the blocks that a directory is called after, in any spelling, at the top or
// in quarantine: whatever is in it, another rule tells of it.
func blocksByName(fsys FS, dataDir string) (map[ulid.ULID]bool, error) {
	entries, err := fsys.ReadDir(dataDir)
	if err != nil {
		return nil, err
	}
	there := map[ulid.ULID]bool{}
	for _, e := range entries {
		if id, err := ulid.ParseStrict(e.Name()); err == nil && e.IsDir() {
			there[id] = true
		}
	}
	set, err := quarantineIDs(fsys, dataDir)
	for _, id := range set {
		there[id] = true
	}
	return there, err
}

// reportVanished tells of blocks that are gone.
func (bs *blockSet) reportVanished(gone []missingBlock, report *OpenReport) {
	for _, m := range gone {
		report.Damages = append(report.Damages, Damage{File: m.name, Reason: "the block is not there any more: " + m.times()})
		report.BlocksVanished++
		bs.opts.Logger.Error("block has vanished", "block", m.name, "mint", m.mint, "maxt", m.maxt)
	}
}

// times says what a block had.
func (m *missingBlock) times() string {
	if m.mint == math.MinInt64 && m.maxt == math.MaxInt64 {
		return "nobody knows of which times it had samples"
	}
	return fmt.Sprintf("it had samples from %s to %s", time.UnixMilli(m.mint).UTC().Format(time.RFC3339), time.UnixMilli(m.maxt).UTC().Format(time.RFC3339))
}
