package wal

import (
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// RemoveBefore removes the segments of an out-of-order log (OutOfOrderDir) before one, oldest
// first, so that a crash leaves no hole: a power cut may undo any removal that is not synced yet,
// whether or not it undoes those behind it. It may be called beside commits to that one, or to
// later ones.
func RemoveBefore(fsys fileutil.FS, dir string, segment int) error {
	l, err := List(fsys, dir)
	if err != nil {
		return err
	}
	for _, s := range l.Segments {
		if s.Number >= segment {
			break
		}
		if err := fsys.Remove(s.Path); err != nil {
			return errors.WithMessage(err, "remove segment of the out-of-order log")
		}
		if err := fsys.SyncDir(dir); err != nil {
			return errors.WithMessage(err, "sync out-of-order log")
		}
	}
	return nil
}
