package tsdb

import (
	"math"
	"path/filepath"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/headsnap"
	"github.com/seed347100a3/tsdb/wal"
)

// reachFileName is the file in which the log notes how far it reached.
const reachFileName = "log_reach"

// neverTruncated is the mark of a log that nothing is known to be truncated of.
const neverTruncated = math.MinInt64

// logReach is what is known beside the log of how far it reached, so that a log whose end is
// missing is not taken for a whole one. The mark of its own note is the time up to which the log
// was truncated: a full chunk from there on must be in it.
type logReach struct {
	wal.Reach
	found bool // a note, or a snapshot of the head that knows
	noted bool // it is the log's own note, and has the mark
}

// findReach reads the log's note, or what the snapshots of the head know if there is none. It is called before the log is
// read: who writes meanwhile only makes it longer.
func findReach(fsys FS, dir string) (r logReach, err error) {
	if r.Reach, r.noted, err = wal.ReadReach(fsys, filepath.Join(dir, reachFileName)); err != nil {
		return r, err
	}
	if r.found = r.noted; r.found {
		return r, nil // no snapshot knows more: the segment that it begins with is noted before
	}
	list, err := headsnap.List(fsys, dir)
	if err != nil {
		return r, errors.WithMessage(err, "list snapshots of the head")
	}
	for _, f := range list {
		meta, err := headsnap.ReadMeta(fsys, f.Path)
		if err != nil {
			continue // findSnapshot says what is wrong with it
		}
		s := meta.Start
		synced := max(s.Synced, s.NextSeq-1)
		if !r.found || s.Segment > r.Segment || s.Segment == r.Segment && synced > r.Synced {
			r = logReach{found: true, Reach: wal.Reach{Segment: s.Segment, FirstSeq: s.NextSeq, NextRef: s.NextRef, Synced: synced}}
		}
	}
	return r, nil
}

// forReplay is what wal.Replay is told.
func (r *logReach) forReplay() *wal.Reach {
	if !r.found {
		return nil
	}
	return &r.Reach
}

// logState is what is known of a log when it was read, held against full chunks of the head.
type logState struct {
	lost    bool // something that was promised
	foreign bool // other engines wrote a part of it
	noted   bool // it reached as far as its own note says, which knows where it was truncated
}

func stateOfLog(r *wal.ReplayReport, reach *logReach) logState {
	s := logState{lost: r.OmittedDamages > 0, foreign: r.Foreign > 0 || r.ForeignCheckpoint, noted: r.Reached && reach.noted}
	for _, d := range r.Damages {
		s.lost = s.lost || !d.Tail && !d.Harmless
	}
	return s
}

// isCut reports whether full chunks show that the log has lost its end: behind are those that it
// has not. Chunk files never outrun the log. Where its own note says that it is whole, it is: what
// was lost before was told then.
func (s logState) isCut(behind int) bool { return !s.noted && behind > 0 }

// stale returns up to when full chunks that the log has nothing of are left over from before it
// was truncated. Other engines do not ask, and use such chunks.
func (s logState) stale(truncated int64) int64 {
	switch {
	case s.lost || s.foreign:
		return neverTruncated
	case s.noted:
		return truncated
	default:
		return math.MaxInt64
	}
}

// mayLackSeries reports whether chunks of unknown series show a loss. Otherwise they are of series
// that were removed.
func (s logState) mayLackSeries(r *wal.ReplayReport) bool {
	return s.lost || s.foreign || r.Records == 0 && r.Checkpoint < 0 && !s.noted
}

// holdAgainstLog compares the full chunks of the files with what the log says, before
// FinishRestore: some are left over from before the log was truncated, others show that
// it was cut.
func (h *Head) holdAgainstLog(r *replay, log *wal.ReplayReport, reach *logReach) {
	s := stateOfLog(log, reach)
	if !s.noted || s.lost {
		behind, unreached := h.dir.BeyondLog()
		if s.isCut(behind) && !s.lost {
			s.lost = true
			r.report.Damages = append(r.report.Damages, Damage{File: walDirName, Reason: reasonCut})
		}
		if s.lost {
			r.report.ChunksBeyondLog = behind + unreached
		}
	}
	if s.mayLackSeries(log) {
		for _, ms := range r.loaded {
			r.report.ChunksUnknown += len(ms)
		}
	}
	h.truncated = neverTruncated
	if s.noted {
		h.truncated = reach.Mark
	}
	if t := s.stale(h.truncated); t > neverTruncated {
		if dropped, newest := h.dir.DropStale(t); dropped > 0 {
			h.truncated = max(h.truncated, newest+1)
		}
	}
	h.logLost = s.lost
}

// reasonCut is damage that the log itself does not show.
const reasonCut = "full chunks have samples that the log has not: its end is lost"

// quarantineSnapshots moves the snapshots that were not used out of the way: of a log that has lost
// something they may have the only copy.
func (h *Head) quarantineSnapshots(dir string) error {
	list, err := headsnap.List(h.opts.FS, dir)
	if err != nil {
		return err
	}
	for _, f := range list {
		if f.Segment == h.snap.segment {
			continue
		}
		_, synced, err := fileutil.MoveInto(h.opts.FS, f.Path, filepath.Join(dir, quarantineDirName), filepath.Base(f.Path))
		if err != nil && !synced {
			return wal.Poisoned(err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
