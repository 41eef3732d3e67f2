package fileutil

import (
	stderrors "errors"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/pkg/errors"
)

// copyBuffer is how much CopyFile moves at a time, in bytes.
const copyBuffer = 256 << 10

// WriteFileAtomic makes final hold data: after a crash it has its old content (or
// does not exist) or all of data. It writes tmp, syncs it, renames it to final and
// syncs the directory of final. A leftover tmp is replaced. On an error tmp is
// removed again, and final may have either content only if the last step failed.
func WriteFileAtomic(fsys FS, tmp, final string, data []byte) error {
	if err := removeIfExists(fsys, tmp); err != nil {
		return err
	}
	if err := writeFile(fsys, tmp, data); err != nil {
		return JoinErrors(err, removeIfExists(fsys, tmp))
	}
	if err := fsys.Rename(tmp, final); err != nil {
		return JoinErrors(err, removeIfExists(fsys, tmp))
	}
	return fsys.SyncDir(filepath.Dir(final))
}

func writeFile(fsys FS, name string, data []byte) error {
	f, err := fsys.Create(name)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	return JoinErrors(err, f.Close())
}

// ReadFile returns the content of a file. It refuses one longer than limit bytes.
func ReadFile(fsys FS, name string, limit int64) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	data, err := readAll(f, limit)
	if err := JoinErrors(err, f.Close()); err != nil {
		return nil, err
	}
	return data, nil
}

func readAll(f File, limit int64) ([]byte, error) {
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > limit {
		return nil, errors.Errorf("read %s: %d bytes exceed the limit of %d", f.Name(), size, limit)
	}
	data := make([]byte, size)
	n, err := f.ReadAt(data, 0)
	if n == len(data) || errors.Is(err, io.EOF) { // a file that shrinks meanwhile reads short
		return data[:n], nil
	}
	return nil, err
}

// CopyFile copies src to dst, which must not exist, and syncs the content. The
// name is durable after SyncDir of its directory. On an error dst is removed.
func CopyFile(fsys FS, src, dst string) error {
	from, err := fsys.Open(src)
	if err != nil {
		return err
	}
	to, err := fsys.Create(dst)
	if err != nil {
		return JoinErrors(err, from.Close())
	}
	err = copyContent(to, from)
	if err = JoinErrors(err, to.Close(), from.Close()); err != nil {
		return JoinErrors(err, removeIfExists(fsys, dst))
	}
	return nil
}

func copyContent(to, from File) error {
	buf := make([]byte, copyBuffer)
	for off := int64(0); ; {
		n, readErr := from.ReadAt(buf, off)
		if _, err := to.Write(buf[:n]); err != nil {
			return err
		}
		off += int64(n)
		switch {
		case errors.Is(readErr, io.EOF):
			return to.Sync()
		case readErr != nil:
			return readErr
		}
	}
}

// RemoveAll removes a file, or a directory with all that is in it. What does not exist is fine.
// Of a symbolic link the link goes, and nothing that it leads to. It goes on after an error and
// returns all of them. The removal is durable after SyncDir of the parent; a crash may leave any
// part of the tree.
func RemoveAll(fsys FS, name string) error {
	link, err := IsLink(fsys, name)
	if err != nil {
		return err
	}
	if link {
		return removeIfExists(fsys, name)
	}
	info, err := fsys.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || !info.IsDir() {
		return JoinErrors(err, removeIfExists(fsys, name))
	}
	entries, err := fsys.ReadDir(name)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		path := filepath.Join(name, e.Name())
		if e.IsDir() {
			errs = append(errs, RemoveAll(fsys, path))
		} else {
			errs = append(errs, removeIfExists(fsys, path))
		}
	}
	return JoinErrors(append(errs, removeIfExists(fsys, name))...)
}

// MkdirSync makes dir and its missing parents, all of them durable on return, one after
// the other: each gets its name synced before there is one below it. Thus only the
// innermost directory that exists may be left from a call that was cut short, and its
// name is synced, too, unless nobody may read the directory that it is in.
func MkdirSync(fsys FS, dir string) error {
	missing, err := missingDirs(fsys, dir)
	if err != nil {
		return err
	}
	there := filepath.Clean(dir)
	if n := len(missing); n > 0 {
		there = filepath.Dir(missing[n-1])
	}
	if err := fsys.SyncDir(filepath.Dir(there)); err != nil && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	if len(missing) == 0 {
		return fsys.MkdirAll(dir) // says so if it is no directory
	}
	for i := len(missing) - 1; i >= 0; i-- {
		if err := fsys.MkdirAll(missing[i]); err != nil {
			return err
		}
		if err := fsys.SyncDir(filepath.Dir(missing[i])); err != nil {
			return err
		}
	}
	return nil
}

// missingDirs lists dir and those of its parents that do not exist, innermost first.
func missingDirs(fsys FS, dir string) ([]string, error) {
	var missing []string
	for dir = filepath.Clean(dir); ; dir = filepath.Dir(dir) {
		_, err := fsys.Stat(dir)
		if err == nil {
			return missing, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		missing = append(missing, dir)
		if dir == filepath.Dir(dir) {
			return missing, nil
		}
	}
}

func removeIfExists(fsys FS, name string) error {
	if err := fsys.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// JoinErrors returns nil, the only error as it is, or all of them as one: what paths that
// close several things end with.
func JoinErrors(errs ...error) error {
	var only error
	for _, err := range errs {
		if err == nil {
			continue
		}
		if only != nil {
			return stderrors.Join(errs...)
		}
		only = err
	}
	return only
}

// TreeSize adds up the files below a directory; one that goes meanwhile counts nothing.
func TreeSize(fsys FS, dir string) (n int64, err error) {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return 0, IgnoreNotExist(err)
	}
	for _, e := range entries {
		if e.IsDir() {
			size, err := TreeSize(fsys, filepath.Join(dir, e.Name()))
			if err != nil {
				return 0, err
			}
			n += size
			continue
		}
		size, err := EntrySize(e)
		if IgnoreNotExist(err) != nil {
			return 0, err
		}
		n += size
	}
	return n, nil
}

// EntrySize returns the size of a file that a directory was listed with.
func EntrySize(e fs.DirEntry) (int64, error) {
	info, err := e.Info()
	if err != nil {
		return 0, errors.Wrapf(err, "stat %s", e.Name())
	}
	return info.Size(), nil
}

// IgnoreNotExist returns an error unless it says that something is not there.
//
//go:noinline
func IgnoreNotExist(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
