package fileutil

import (
	"io/fs"
	"path/filepath"
	"strconv"

	"github.com/pkg/errors"
)

// FreeName returns name, or name with a number behind it, so that it does not exist.
func FreeName(fsys FS, name string) (string, error) {
	const tries = 1000
	for i := range tries {
		try := name
		if i > 0 {
			try += "." + strconv.Itoa(i)
		}
		_, err := fsys.Stat(try)
		if errors.Is(err, fs.ErrNotExist) {
			return try, nil
		}
		if err != nil {
			return "", err
		}
	}
	return "", errors.Errorf("find a free name for %s: %d names are taken", name, tries)
}

// MoveInto moves a file or directory into a directory of the same file system, which it makes if
// needed, under a name like base that is free, and returns its new path. It is on stable storage on
// return. synced is false if a sync behind the move failed, and true with the error of one that
// could not be tried.
func MoveInto(fsys FS, path, dir, base string) (to string, synced bool, err error) {
	if err := MkdirSync(fsys, dir); err != nil {
		return "", true, err
	}
	if to, err = FreeName(fsys, filepath.Join(dir, base)); err != nil {
		return "", true, err
	}
	if err := fsys.Rename(path, to); err != nil {
		return "", true, err
	}
	there, from := fsys.SyncDir(dir), fsys.SyncDir(filepath.Dir(path))
	return to, notFailed(there) && notFailed(from), JoinErrors(there, from)
}

// notFailed reports whether nothing is in doubt behind a SyncDir.
func notFailed(err error) bool { return err == nil || errors.Is(err, ErrNotTried) }
