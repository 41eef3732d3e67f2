package headsnap

import (
	"context"
	"path/filepath"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/logreach"
	"github.com/seed347100a3/tsdb/wal"
)

// Unfit says why a snapshot does not fit its name, the log in walDir, or the blocks, which end at
// start; an empty reason means that it fits.
func (m *Meta) Unfit(ctx context.Context, fsys fileutil.FS, walDir, path string, start int64) (reason string, err error) {
	reason, err = wal.StaleReason(ctx, fsys, walDir, m.Start)
	switch {
	case err != nil || reason != "":
		return reason, err
	case Name(m.Start.Segment) != filepath.Base(path):
		return "its name is that of another one", nil
	case m.HeadStart > start:
		// What it had the log may still have, and the snapshot has not.
		return "a block is gone that it relies on", nil
	}
	return "", nil
}

// FindReach reads the log's note of how far it reached, or what the snapshots of the head know if
// there is none. It is called before the log is read.
func FindReach(fsys fileutil.FS, dataDir string) (logreach.Reach, error) {
	r, err := logreach.Read(fsys, filepath.Join(dataDir, logreach.FileName))
	if err != nil || r.Found {
		return r, err // no snapshot knows more: the segment that it begins with is noted before
	}
	list, err := List(fsys, dataDir)
	if err != nil {
		return r, errors.WithMessage(err, "list snapshots of the head")
	}
	for _, f := range list {
		meta, err := ReadMeta(fsys, f.Path)
		if err != nil {
			continue // who looks for a snapshot says what is wrong with it
		}
		s := meta.Start
		synced := max(s.Synced, s.NextSeq-1)
		if !r.Found || s.Segment > r.Segment || s.Segment == r.Segment && synced > r.Synced {
			r = logreach.Reach{Found: true, Reach: wal.Reach{Segment: s.Segment, FirstSeq: s.NextSeq, NextRef: s.NextRef, Synced: synced}}
		}
	}
	return r, nil
}
