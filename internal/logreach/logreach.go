// Package logreach knows what tells that a log has lost something, beside the log itself: a note
// of how far it reached, and full chunks of the head, which never outrun it
// (docs/design/recovery.md, "The end of the log").
//
// It reads the note and weighs what others have read of the log and of the chunks; it reads
// neither. What to do about a loss is for who opens the directory. Nothing is shared: everything
// here may be called at once.
package logreach

import (
	"math"

	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/wal"
)

// FileName is the file of a data directory in which the log notes how far it reached.
const FileName = "log_reach"

// NeverTruncated is the mark of a log that nothing is known to be truncated of.
const NeverTruncated = math.MinInt64

// ReasonCut is damage that the log itself does not show.
const ReasonCut = "full chunks have samples that the log has not: its end is lost"

// Reach is what is known beside the log of how far it reached, so that a log whose end is
// missing is not taken for a whole one. The mark of its own note is the time up to which the log
// was truncated: a full chunk from there on must be in it.
type Reach struct {
	wal.Reach
	Found bool // a note, or a snapshot of the head that knows
	Noted bool // it is the log's own note, and has the mark
}

// Read reads the log's own note. It is called before the log is read: who writes meanwhile only
// makes it longer.
func Read(fsys fileutil.FS, path string) (r Reach, err error) {
	r.Reach, r.Noted, err = wal.ReadReach(fsys, path)
	r.Found = r.Noted
	return r, err
}

// ForReplay is what wal.Replay is told: nil if nothing is known.
func (r *Reach) ForReplay() *wal.Reach {
	if !r.Found {
		return nil
	}
	return &r.Reach
}

// State is what is known of a log when it was read, held against full chunks of the head.
type State struct {
	Lost    bool // something that was promised
	Foreign bool // other engines wrote a part of it
	Noted   bool // it reached as far as its own note says, which knows where it was truncated
}

// StateOf weighs what was read of a log.
func StateOf(r *wal.ReplayReport, reach *Reach) State {
	s := State{Lost: r.OmittedDamages > 0, Foreign: r.Foreign > 0 || r.ForeignCheckpoint, Noted: r.Reached && reach.Noted}
	for _, d := range r.Damages {
		s.Lost = s.Lost || !d.Tail && !d.Harmless
	}
	return s
}

// IsCut reports whether full chunks show that the log has lost its end: behind are those that it
// has not. Chunk files never outrun the log. Where its own note says that it is whole, it is: what
// was lost before was told then.
func (s State) IsCut(behind int) bool { return !s.Noted && behind > 0 }

// Stale returns up to when full chunks that the log has nothing of are left over from before it
// was truncated. Other engines do not ask, and use such chunks.
func (s State) Stale(truncated int64) int64 {
	switch {
	case s.Lost || s.Foreign:
		return NeverTruncated
	case s.Noted:
		return truncated
	default:
		return math.MaxInt64
	}
}

// MayLackSeries reports whether chunks of unknown series show a loss. Otherwise they are of series
// that were removed.
func (s State) MayLackSeries(r *wal.ReplayReport) bool {
	return s.Lost || s.Foreign || r.Records == 0 && r.Checkpoint < 0 && !s.Noted
}

// IsWhole reports whether the log has all that was ever in it and not truncated: it may
// have the torn end of a crash, ahead of which no chunk file of ours ever is.
func IsWhole(r *wal.ReplayReport) bool {
	for _, d := range r.Damages {
		torn := d.Tail && r.Foreign == 0 && !r.ForeignCheckpoint
		if !d.Harmless && !torn {
			return false
		}
	}
	return r.OmittedDamages == 0
}
