package snapshots

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/headsnap"
	"github.com/seed347100a3/tsdb/internal/logreach"
	"github.com/seed347100a3/tsdb/internal/replay"
)

// Source is how Restore has a head read.
type Source struct {
	Start int64 // where the head begins: the blocks have what is before
	// Read reads chunk files, a snapshot (nil: none) and the log behind it.
	Read func(snap *replay.Snapshot, reach *logreach.Reach) (*replay.Report, error)
	// Forget undoes what a Read that failed has left.
	Forget func() error
}

// Restore has a snapshot read, if there is a good one, and the log behind it, or else all of the
// log. It returns the snapshots that cannot be used, each with the reason; nothing is lost with
// them, as the log has it all.
func (k *Keeper) Restore(ctx context.Context, from Source) (rep *replay.Report, ignored []string, err error) {
	reach, err := headsnap.FindReach(k.FS, k.Dir)
	if err != nil {
		return nil, nil, err
	}
	c := chooser{k: k, start: from.Start}
	for {
		snap, err := c.choose(ctx)
		if err != nil {
			return nil, c.ignored, err
		}
		rep, err := from.Read(snap, &reach)
		if err == nil {
			if snap != nil {
				k.use(&snap.Meta)
			}
			return rep, c.ignored, nil
		}
		if snap == nil || ctx.Err() != nil {
			return nil, c.ignored, err
		}
		// The snapshot, or a file that it builds on, is not as it was. The log has it all.
		c.ignore(snap.Path, err.Error())
		c.tried = append(c.tried, snap.Path)
		if err := from.Forget(); err != nil {
			return nil, c.ignored, err
		}
	}
}

// chooser says which snapshot is read next.
type chooser struct {
	k       *Keeper
	start   int64
	tried   []string // paths
	ignored []string
}

// choose returns the newest snapshot that can be used with the log and was not tried, and nil if
// there is none.
func (c *chooser) choose(ctx context.Context) (*replay.Snapshot, error) {
	k := c.k
	if k.Threshold < 0 {
		return nil, nil
	}
	list, err := headsnap.List(k.FS, k.Dir)
	if err != nil {
		return nil, errors.WithMessage(err, "list snapshots of the head")
	}
	for _, f := range list {
		if slices.Contains(c.tried, f.Path) {
			continue
		}
		reason := ""
		meta, err := headsnap.ReadMeta(k.FS, f.Path)
		if err != nil {
			reason = err.Error()
		} else if reason, err = meta.Unfit(ctx, k.FS, k.WALDir, f.Path, c.start); err != nil {
			return nil, err // of the log, which is read next in any case
		}
		if reason == "" {
			return &replay.Snapshot{Path: f.Path, Meta: meta}, nil
		}
		c.ignore(f.Path, reason)
	}
	return nil, nil
}

// ignore notes that a snapshot is not used, and why.
func (c *chooser) ignore(path, reason string) {
	line := fmt.Sprintf("%s: %s", filepath.Base(path), reason)
	if slices.Contains(c.ignored, line) {
		return // it is asked again, after another one
	}
	c.k.Logger.Warn("snapshot of the head cannot be used", "snapshot", path, "error", fileutil.Logged(errors.New(reason)))
	c.ignored = append(c.ignored, line)
}
