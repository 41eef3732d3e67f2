package blockset

import (
	"bytes"
	"math"
	"slices"

	"github.com/oklog/ulid/v2"
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/blocklist"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/wal"
)

// The data directory has a list of the blocks that there should be (docs/design/blocks.md).
// What it has and the directory has not was taken away by somebody. It must never cry wolf, so
// a block that is about to go for good leaves the list before, and one that comes
// stands in the directory before. A block that went into others is known by these.

// blockList is the list as a Set keeps it. It is guarded by the set's change.
type blockList struct {
	// saved is what the file has; nil: there is none, or nobody knows.
	saved []byte
	// stale: the last try to write it failed, or the file is damaged.
	stale bool
}

// wantedBlocks returns what the list should have of a view without some of its blocks: those
// that are open, and those that vanished, until somebody brings them back or Repair forgets them.
func (v *View) wantedBlocks(without []ulid.ULID) (list []blocklist.Block) {
	lastGone := int64(math.MinInt64) // what retention would have taken by now is not waited for
	for i := range v.Blocks {
		m := v.Blocks[i].Meta
		if slices.Contains(without, m.ULID) {
			lastGone = max(lastGone, m.MaxTime)
			continue
		}
		w := blocklist.Block{ULID: m.ULID, MinTime: m.MinTime, MaxTime: m.MaxTime, Empty: v.Blocks[i].IsEmpty()}
		if !slices.Equal(m.Compaction.Sources, []ulid.ULID{m.ULID}) {
			w.Sources = m.Compaction.Sources
		}
		list = append(list, w)
	}
	for _, m := range v.Missing {
		if m.Vanished && m.Maxt >= lastGone {
			list = append(list, blocklist.Block{ULID: m.ID, MinTime: m.Mint, MaxTime: m.Maxt + 1, Sources: m.Sources})
		}
	}
	return list
}

// leave writes the list without blocks that are about to be removed for good. Where there
// is no room for a shorter list there is none from now on: that is never wrong.
func (l *blockList) leave(cfg *Config, blocks []blocklist.Block) error {
	err := l.write(cfg, blocks)
	if err == nil || errors.Is(err, wal.ErrPoisoned) {
		return err
	}
	if removed := blocklist.Remove(cfg.FS, cfg.Dir); removed != nil {
		return errors.WithMessage(err, "take blocks from their list before they go")
	}
	cfg.Logger.Warn("list of blocks was removed, there is no room for another one", "error", fileutil.Logged(err))
	return nil
}

// write writes the list, unless the file has it already.
func (l *blockList) write(cfg *Config, blocks []blocklist.Block) error {
	if data := blocklist.Encode(blocks); !bytes.Equal(data, l.saved) {
		if len(blocks) == 0 && l.saved == nil && !l.stale {
			return nil // a directory without blocks needs no list
		}
		l.saved, l.stale = nil, true
		if err := blocklist.Write(cfg.FS, cfg.Dir, blocks); err != nil {
			return err
		}
		l.saved = data
	}
	l.stale = false
	return nil
}

// read returns what the list has.
func (l *blockList) read(cfg *Config) ([]blocklist.Block, error) {
	blocks, state, err := blocklist.Read(cfg.FS, cfg.Dir)
	*l = blockList{stale: state == blocklist.Damaged}
	if state == blocklist.Good {
		l.saved = blocklist.Encode(blocks)
	}
	return blocks, err
}
