package tsdb

import (
	"path/filepath"

	"github.com/seed347100a3/tsdb/internal/datadir"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/headsnap"
	"github.com/seed347100a3/tsdb/wal"
)

// quarantineSnapshots moves the snapshots that were not used out of the way: of a log that has lost
// something they may have the only copy.
func (h *Head) quarantineSnapshots() error {
	list, err := headsnap.List(h.opts.FS, h.path)
	if err != nil {
		return err
	}
	for _, f := range list {
		if f.Segment == h.snap.segment {
			continue
		}
		_, synced, err := fileutil.MoveInto(h.opts.FS, f.Path, filepath.Join(h.path, datadir.QuarantineDir), filepath.Base(f.Path))
		if err != nil && !synced {
			return wal.Poisoned(err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
