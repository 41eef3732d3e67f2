package wal

import (
	"context"
	"path/filepath"

	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// A checkpoint gets its name when it is whole, and only then does what it replaces go. One that
// is not whole beside what it should have replaced was not made so, or was damaged since: it is not
// believed, and nothing goes on its word.

// doubted is a checkpoint that is not believed.
type doubted struct {
	dir    string
	number int
	reason string
	moved  bool // by Repair, to quarantine
}

// readable lists a log directory as it is read: behind the highest checkpoint that is whole, where
// all that a higher one should have replaced is still there. If it is not, the highest
// checkpoint is read for what it has. Only where there is a choice are checkpoints read for this.
func readable(ctx context.Context, fsys fileutil.FS, dir string) (*Listing, error) {
	l, err := list(fsys, dir)
	if err != nil {
		return nil, err
	}
	var doubts []doubted
	for low := l; low.Checkpoint >= 0; {
		next, err := low.without(fsys, dir)
		if err != nil {
			return nil, err
		}
		complete := len(next.Segments) > 0 && contiguous(next.Segments, next.Checkpoint+1, dir) == nil
		if !complete && low == l {
			break // nothing to choose from
		}
		reason, err := low.checkpointDamage(ctx, fsys)
		if err != nil {
			return nil, err
		}
		if reason == "" {
			l = low
			l.doubted = doubts
			break
		}
		doubts = append(doubts, doubted{dir: low.CheckpointDir, number: low.Checkpoint, reason: reason})
		if !complete {
			break
		}
		if next.Checkpoint < 0 {
			l = next
			l.doubted = doubts
		}
		low = next
	}
	if err := contiguous(l.Segments, l.Checkpoint+1, dir); err != nil {
		return nil, err
	}
	return l, contiguous(l.CheckpointSegments, 0, l.CheckpointDir)
}

// without is the listing that there would be without its checkpoint.
func (l *Listing) without(fsys fileutil.FS, dir string) (*Listing, error) {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	next := &Listing{Checkpoint: -1}
	for _, e := range entries {
		if n, ok := checkpointNumber(e); ok && n > next.Checkpoint && n < l.Checkpoint {
			next.Checkpoint, next.CheckpointDir = n, filepath.Join(dir, e.Name())
		}
	}
	next.split(append(append([]SegmentFile(nil), l.Covered...), l.Segments...))
	return next, next.listCheckpoint(fsys)
}

// checkpointDamage says why a checkpoint is not whole; an empty reason means that it is. Of
// one by somebody else only damage shows, and that it has nothing.
func (l *Listing) checkpointDamage(ctx context.Context, fsys fileutil.FS) (reason string, err error) {
	if len(l.CheckpointSegments) == 0 {
		return "it has no files", nil
	}
	if contiguous(l.CheckpointSegments, 0, l.CheckpointDir) != nil {
		return "files of it are missing", nil
	}
	alone := &Listing{Checkpoint: l.Checkpoint, CheckpointDir: l.CheckpointDir, CheckpointSegments: l.CheckpointSegments}
	p := newPipeline(ctx, ReplayOptions{FS: fsys, Decoders: 1}, newReport(alone))
	p.behind = 1 // nothing is asked of the commits that follow
	if err := p.run(); err != nil {
		return "", err
	}
	switch r := p.report; {
	case len(r.Damages) > 0:
		return r.Damages[0].Reason, nil
	case r.cpHeader == nil && r.cpTrailer:
		return "it has no header", nil
	case r.cpHeader == nil && r.Records == 0:
		return "it has no records", nil
	default:
		return "", nil
	}
}

// doubt notes checkpoints that are not believed. Nothing is lost with them.
func (r *ReplayReport) doubt() {
	for _, d := range r.listing.doubted {
		r.Damages = append(r.Damages, Damage{File: d.dir, Segment: d.number, Checkpoint: true, Harmless: true,
			Reason: "checkpoint is not whole, and what it should have replaced is read: " + d.reason})
	}
}
