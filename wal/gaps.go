package wal

import (
	"path/filepath"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// maxFilled bounds how many segments FillGaps makes: more were never lost one by one.
const maxFilled = 10_000

// FillGaps puts empty segments into a log directory where numbers are missing, in the
// checkpoint as well, so that Replay goes on behind the holes; it returns their paths. What
// the missing ones held is lost: Replay tells which commits, as far as the log has
// numbers of its commits. Everything is synced on return; a crash leaves a directory that a
// second call completes.
//
// What else may be wrong with the names is left to List. ErrSegments: there are too many to
// be missing.
func FillGaps(fsys fileutil.FS, dir string) (created []string, err error) {
	l, err := list(fsys, dir)
	if err != nil {
		return nil, err
	}
	first := l.Checkpoint + 1
	if filepath.Base(dir) == OutOfOrderDir && len(l.Segments) > 0 { // it begins anywhere
		first = l.Segments[0].Number
	}
	for _, part := range []struct {
		dir      string
		first    int
		segments []SegmentFile
	}{{l.CheckpointDir, 0, l.CheckpointSegments}, {dir, first, l.Segments}} {
		made, err := fillGaps(fsys, part.dir, part.first, part.segments)
		created = append(created, made...)
		if err != nil {
			return created, err
		}
	}
	return created, nil
}

func fillGaps(fsys fileutil.FS, dir string, first int, segments []SegmentFile) (created []string, err error) {
	next := first
	for _, s := range segments {
		if s.Number-next > maxFilled-len(created) {
			return created, segmentsError("%d segments before %s are missing", s.Number-next, s.Path)
		}
		for ; next < s.Number; next++ {
			path := filepath.Join(dir, segmentName(next))
			if err := createEmpty(fsys, path); err != nil {
				return created, errors.WithMessage(err, "make log segment")
			}
			created = append(created, path)
		}
		next = s.Number + 1
	}
	if len(created) == 0 {
		return nil, nil
	}
	return created, fsys.SyncDir(dir)
}

func createEmpty(fsys fileutil.FS, path string) error {
	f, err := fsys.Create(path)
	if err != nil {
		return err
	}
	return fileutil.JoinErrors(f.Sync(), f.Close())
}
