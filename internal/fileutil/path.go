package fileutil

import (
	"os"
	"path/filepath"

	"github.com/pkg/errors"
)

// Abs returns a path that means the same whatever becomes of the process's working directory.
// A file system that has no working directory returns the path as it is.
func Abs(fsys FS, path string) (string, error) {
	if a, ok := fsys.(interface {
		Abs(path string) (string, error)
	}); ok {
		return a.Abs(path)
	}
	return path, nil
}

// Abs is what the function of that name looks for.
func (*osFS) Abs(path string) (string, error) {
	abs, err := filepath.Abs(path)
	return abs, errors.WithStack(err)
}

// IsLink reports whether a name is that of a symbolic link. A file system that has none, and
// a name that does not exist, say no.
func IsLink(fsys FS, name string) (bool, error) {
	if l, ok := fsys.(interface {
		IsLink(name string) (bool, error)
	}); ok {
		return l.IsLink(name)
	}
	return false, nil
}

// IsLink is what the function of that name looks for.
func (*osFS) IsLink(name string) (bool, error) {
	info, err := os.Lstat(name)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, errors.WithStack(err)
	}
	return info.Mode()&os.ModeSymlink != 0, nil
}
