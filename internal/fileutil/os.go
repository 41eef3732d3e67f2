package fileutil

import (
	"io"
	"io/fs"
	"os"
	"sort"
	"syscall"

	"github.com/pkg/errors"
)

// OS is the file system of the operating system. Its errors are those of package
// os, with a stack: callers need not wrap them again.
var OS FS = &osFS{}

// Permissions before the umask.
const (
	filePerm fs.FileMode = 0o666
	dirPerm  fs.FileMode = 0o777
)

type osFS struct{}

func (*osFS) Create(name string) (File, error) {
	return openFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL)
}

func (*osFS) Open(name string) (File, error) {
	return openFile(name, os.O_RDONLY)
}

func (*osFS) OpenWrite(name string) (File, error) {
	f, err := openFile(name, os.O_RDWR)
	if err != nil {
		return nil, err
	}
	if f.off, err = f.Size(); err != nil {
		_ = f.Close() // nothing was written; the first error is the one that counts
		return nil, err
	}
	return f, nil
}

func (*osFS) ReadDir(name string) ([]fs.DirEntry, error) {
	dir, err := os.Open(name)
	if err != nil {
		return nil, errors.WithStack(err)
	}
	entries, err := dir.ReadDir(-1)
	_ = dir.Close() // it was only read
	// Not by os.ReadDir: its generic sort is 14 kB of the least program.
	sort.Slice(entries, func(i, k int) bool { return entries[i].Name() < entries[k].Name() })
	return entries, errors.WithStack(err)
}

func (*osFS) Stat(name string) (fs.FileInfo, error) {
	info, err := os.Stat(name)
	return info, errors.WithStack(err)
}

func (*osFS) Rename(oldname, newname string) error {
	return errors.WithStack(os.Rename(oldname, newname))
}

func (*osFS) Link(oldname, newname string) error {
	return errors.WithStack(os.Link(oldname, newname))
}

func (*osFS) Remove(name string) error {
	return errors.WithStack(os.Remove(name))
}

func (*osFS) MkdirAll(name string) error {
	return errors.WithStack(os.MkdirAll(name, dirPerm))
}

func (*osFS) SyncDir(name string) error {
	return syncDir(name)
}

func (*osFS) LockDir(dir, owner string) (DirLock, error) {
	return lockDir(dir, owner)
}

// osFile keeps its own write offset and writes with pwrite: append mode would
// forbid Truncate on Windows.
type osFile struct {
	*os.File
	off int64 // where the next Write goes
}

func openFile(name string, flag int) (*osFile, error) {
	f, err := os.OpenFile(name, flag, filePerm)
	if err != nil {
		return nil, errors.WithStack(err)
	}
	return &osFile{File: f}, nil
}

func (f *osFile) Write(p []byte) (int, error) {
	n, err := f.File.WriteAt(p, f.off)
	f.off += int64(n)
	return n, errors.WithStack(err)
}

// ReadAt returns io.EOF bare, as io.ReaderAt asks for.
func (f *osFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	if err == nil || errors.Is(err, io.EOF) {
		return n, err
	}
	return n, errors.WithStack(err)
}

func (f *osFile) Size() (int64, error) {
	info, err := f.File.Stat()
	if err != nil {
		return 0, errors.WithStack(err)
	}
	return info.Size(), nil
}

func (f *osFile) Truncate(size int64) error {
	if err := f.File.Truncate(size); err != nil {
		return errors.WithStack(err)
	}
	f.off = size
	return nil
}

func (f *osFile) Sync() error {
	return syncFile(f.File)
}

// Close: an interrupted close has closed the file, and says nothing of what was written.
func (f *osFile) Close() error {
	if err := f.File.Close(); !errors.Is(err, syscall.EINTR) {
		return errors.WithStack(err)
	}
	return nil
}

func (f *osFile) Mmap(length int64) (Mapping, error) {
	return mapFile(f.File, length)
}
