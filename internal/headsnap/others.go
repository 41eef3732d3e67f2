package headsnap

import (
	stderrors "errors"
	"path/filepath"

	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/wal"
)

// others returns all snapshots but that of a segment; 0: all.
func others(fsys fileutil.FS, dataDir string, keep int) (list []Found, err error) {
	all, err := List(fsys, dataDir)
	for _, f := range all {
		if f.Segment != keep {
			list = append(list, f)
		}
	}
	return list, err
}

// RemoveOthers removes all snapshots but that of a segment; 0: all.
func RemoveOthers(fsys fileutil.FS, dataDir string, keep int) error {
	list, err := others(fsys, dataDir, keep)
	errs := []error{err}
	for _, f := range list {
		errs = append(errs, Remove(fsys, f))
	}
	return stderrors.Join(errs...)
}

// SetAsideOthers moves all snapshots but that of a segment, 0 for all, into a directory of the same
// file system: of a log that has lost something they may have the only copy. wal.ErrPoisoned: a
// sync failed.
func SetAsideOthers(fsys fileutil.FS, dataDir, quarantine string, keep int) error {
	list, err := others(fsys, dataDir, keep)
	if err != nil {
		return err
	}
	for _, f := range list {
		_, synced, err := fileutil.MoveInto(fsys, f.Path, quarantine, filepath.Base(f.Path))
		if err != nil && !synced {
			return wal.Poisoned(err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
