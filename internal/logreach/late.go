package logreach

import (
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/wal"
)

// Late holds an out-of-order log against what a checkpoint, or a snapshot of the head, says of it:
// so far it reached, by wal.Log.Bounds, when late samples of the log were left out there.
type Late struct {
	Noted  *wal.Reach // nil: nothing is known
	Marked bool       // a segment says that those before it may be gone; the reader of the log sets it
	Oldest int        // segment, by List; -1: there is none

	dir string
}

// List finds out where the log in a directory begins.
func (l *Late) List(fsys fileutil.FS, dir string) error {
	list, err := wal.List(fsys, dir)
	if l.dir, l.Oldest = dir, -1; err == nil && len(list.Segments) > 0 {
		l.Oldest = list.Segments[0].Number
	}
	return err
}

// ForReplay is what wal.Replay is told of the end of the log. What is behind all that was noted
// knows more: blocks have what was there.
func (l *Late) ForReplay() *wal.Reach {
	if l.Noted != nil && l.Oldest > l.Noted.Segment {
		return nil
	}
	return l.Noted
}

// BeginsElsewhere reports whether the log begins with another segment than was noted, or with none,
// and does not say itself that it may.
func (l *Late) BeginsElsewhere() bool {
	return l.Noted != nil && !l.Marked && int64(l.Oldest) != l.Noted.Mark
}

// Weigh adds to what was read of the log the damage that it cannot show itself: its beginning is
// missing. Other engines remove segments, too, and leave none of ours then.
func (l *Late) Weigh(r *wal.ReplayReport) {
	if l.BeginsElsewhere() && l.Oldest >= 0 && r.Foreign == 0 && r.LastSeq > 0 {
		r.Damages = append(r.Damages, wal.Damage{File: l.dir, Reason: "segments are missing at the beginning of the log"})
	}
}
