package wal

import (
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// RemoveBefore removes the segments of an out-of-order log (OutOfOrderDir) before one, oldest
// first, so that a crash leaves no hole. It may be called beside commits to that one, or to later
// ones.
func RemoveBefore(fsys fileutil.FS, dir string, segment int) error {
	l, err := List(fsys, dir)
	if err != nil {
		return err
	}
	removed := false
	for _, s := range l.Segments {
		if s.Number >= segment {
			break
		}
		if err := fsys.Remove(s.Path); err != nil {
			return errors.WithMessage(err, "remove segment of the out-of-order log")
		}
		removed = true
	}
	if !removed {
		return nil
	}
	return errors.WithMessage(fsys.SyncDir(dir), "sync out-of-order log")
}
