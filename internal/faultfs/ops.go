package faultfs

import (
	"io/fs"
	"syscall"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// Create is the operation of the wrapped file system, or a fault; so are the rest.
func (f *FS) Create(name string) (fileutil.File, error) {
	return f.open(tsdbtest.OpCreate, name, f.inner.Create)
}

func (f *FS) Open(name string) (fileutil.File, error) {
	return f.open(tsdbtest.OpOpen, name, f.inner.Open)
}

func (f *FS) OpenWrite(name string) (fileutil.File, error) {
	return f.open(tsdbtest.OpOpenWrite, name, f.inner.OpenWrite)
}

func (f *FS) open(kind tsdbtest.OpKind, name string, open func(string) (fileutil.File, error)) (fileutil.File, error) {
	if err := f.fail(kind, name, ""); err != nil {
		return nil, err
	}
	inner, err := open(name)
	if err != nil {
		return nil, err
	}
	return &file{File: inner, fs: f}, nil
}

func (f *FS) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := f.fail(tsdbtest.OpReadDir, name, ""); err != nil {
		return nil, err
	}
	return f.inner.ReadDir(name)
}

func (f *FS) Stat(name string) (fs.FileInfo, error) {
	if err := f.fail(tsdbtest.OpStat, name, ""); err != nil {
		return nil, err
	}
	return f.inner.Stat(name)
}

func (f *FS) Rename(oldname, newname string) error {
	if err := f.fail(tsdbtest.OpRename, oldname, newname); err != nil {
		return err
	}
	return f.inner.Rename(oldname, newname)
}

func (f *FS) Link(oldname, newname string) error {
	if err := f.fail(tsdbtest.OpLink, oldname, newname); err != nil {
		return err
	}
	return f.inner.Link(oldname, newname)
}

func (f *FS) Remove(name string) error {
	if err := f.fail(tsdbtest.OpRemove, name, ""); err != nil {
		return err
	}
	return f.inner.Remove(name)
}

func (f *FS) MkdirAll(name string) error {
	if err := f.fail(tsdbtest.OpMkdirAll, name, ""); err != nil {
		return err
	}
	return f.inner.MkdirAll(name)
}

func (f *FS) SyncDir(name string) error {
	err := f.fail(tsdbtest.OpSyncDir, name, "")
	if err == nil {
		return f.inner.SyncDir(name)
	}
	if isShortage(err) {
		return fileutil.NotTried(err)
	}
	if m, ok := f.inner.(interface{ FailSync(name string) error }); ok {
		_ = m.FailSync(name) // err is the failure that is wanted
	}
	return err
}

// isShortage: a directory could not be opened to be synced.
func isShortage(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}

func (f *FS) LockDir(dir, owner string) (fileutil.DirLock, error) {
	if err := f.fail(tsdbtest.OpLockDir, dir, ""); err != nil {
		return nil, err
	}
	inner, err := f.inner.LockDir(dir, owner)
	if err != nil {
		return nil, err
	}
	return &dirLock{DirLock: inner, fs: f, dir: dir}, nil
}

// DiskSpace is not counted and never fails on purpose.
func (f *FS) DiskSpace(dir string) (free, total int64, err error) {
	return fileutil.DiskSpace(f.inner, dir)
}

// Abs is not counted and never fails on purpose.
func (f *FS) Abs(path string) (string, error) { return fileutil.Abs(f.inner, path) }

// IsLink is not counted and never fails on purpose.
func (f *FS) IsLink(name string) (bool, error) { return fileutil.IsLink(f.inner, name) }

type dirLock struct {
	fileutil.DirLock
	fs  *FS
	dir string
}

func (l *dirLock) Release() error {
	fault := l.fs.fail(tsdbtest.OpUnlockDir, l.dir, "")
	if err := l.DirLock.Release(); fault == nil {
		return err
	}
	return fault
}

type file struct {
	fileutil.File
	fs *FS
}

func (f *file) begin(kind tsdbtest.OpKind, bytes int64) *injected {
	return f.fs.begin(tsdbtest.Op{Kind: kind, Name: f.Name(), Bytes: bytes})
}

func (f *file) fail(kind tsdbtest.OpKind, bytes int64) error {
	return f.begin(kind, bytes).at(kind, f.Name())
}

func (f *file) Write(p []byte) (int, error) {
	hit := f.begin(tsdbtest.OpWrite, int64(len(p)))
	if hit == nil {
		return f.File.Write(p)
	}
	fault := hit.at(tsdbtest.OpWrite, f.Name())
	if !hit.Half {
		return 0, fault
	}
	n, _ := f.File.Write(p[:len(p)/2]) // fault is the failure that is wanted
	return n, fault
}

func (f *file) ReadAt(p []byte, off int64) (int, error) {
	if err := f.fail(tsdbtest.OpReadAt, int64(len(p))); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, off)
}

func (f *file) Size() (int64, error) {
	if err := f.fail(tsdbtest.OpSize, 0); err != nil {
		return 0, err
	}
	return f.File.Size()
}

func (f *file) Truncate(size int64) error {
	if err := f.fail(tsdbtest.OpTruncate, size); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

func (f *file) Sync() error {
	err := f.fail(tsdbtest.OpSync, 0)
	if err == nil {
		return f.File.Sync()
	}
	f.markClean()
	return err
}

func (f *file) Close() error {
	fault := f.fail(tsdbtest.OpClose, 0)
	if fault != nil {
		f.markClean()
	}
	if err := f.File.Close(); fault == nil {
		return err
	}
	return fault
}

// markClean loses what is dirty, where the file system inside can.
func (f *file) markClean() {
	if m, ok := f.File.(interface{ FailSync() error }); ok {
		_ = m.FailSync() // the caller has the failure that is wanted
	}
}

// DropCache is not counted and never fails on purpose.
func (f *file) DropCache() error { return fileutil.DropCache(f.File) }

// StartWriteback is not counted.
func (f *file) StartWriteback(off, n int64) { fileutil.StartWriteback(f.File, off, n) }

// CachedBytes is not counted and never fails on purpose.
func (f *file) CachedBytes() (int64, error) { return fileutil.CachedBytes(f.File) }

func (f *file) Mmap(length int64) (fileutil.Mapping, error) {
	if err := f.fail(tsdbtest.OpMmap, length); err != nil {
		return nil, err
	}
	inner, err := f.File.Mmap(length)
	if err != nil {
		return nil, err
	}
	return &mapping{Mapping: inner, fs: f.fs, name: f.Name()}, nil
}

type mapping struct {
	fileutil.Mapping
	fs   *FS
	name string
}

func (m *mapping) At(off int64, n int) ([]byte, error) {
	hit := m.fs.begin(tsdbtest.Op{Kind: tsdbtest.OpMapRead, Name: m.name, Bytes: int64(n)})
	if err := hit.at(tsdbtest.OpMapRead, m.name); err != nil {
		return nil, err
	}
	return m.Mapping.At(off, n)
}
