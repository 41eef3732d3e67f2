package tsdb

import (
	"path/filepath"

	"github.com/seed347100a3/tsdb/internal/datadir"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/headsnap"
	"github.com/seed347100a3/tsdb/internal/logreach"
	"github.com/seed347100a3/tsdb/wal"
)

// holdAgainstLog compares the full chunks of the files with what the log says, before
// FinishRestore: some are left over from before the log was truncated, others show that
// it was cut.
func (h *Head) holdAgainstLog(r *replay, log *wal.ReplayReport, reach *logreach.Reach) {
	s := logreach.StateOf(log, reach)
	if !s.Noted || s.Lost {
		behind, unreached := h.dir.BeyondLog()
		if s.IsCut(behind) && !s.Lost {
			s.Lost = true
			r.report.Damages = append(r.report.Damages, Damage{File: walDirName, Reason: logreach.ReasonCut})
		}
		if s.Lost {
			r.report.ChunksBeyondLog = behind + unreached
		}
	}
	if s.MayLackSeries(log) {
		for _, ms := range r.loaded {
			r.report.ChunksUnknown += len(ms)
		}
	}
	h.truncated = logreach.NeverTruncated
	if s.Noted {
		h.truncated = reach.Mark
	}
	if t := s.Stale(h.truncated); t > logreach.NeverTruncated {
		if dropped, newest := h.dir.DropStale(t); dropped > 0 {
			h.truncated = max(h.truncated, newest+1)
		}
	}
	h.logLost = s.Lost
}

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
		_, synced, err := fileutil.MoveInto(h.opts.FS, f.Path, filepath.Join(dir, datadir.QuarantineDir), filepath.Base(f.Path))
		if err != nil && !synced {
			return wal.Poisoned(err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
