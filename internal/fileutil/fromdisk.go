package fileutil

import (
	"io"

	"github.com/pkg/errors"
)

// DiskReader is a file that is read once, front to back, by one goroutine, as the disk has it. Read
// returns io.EOF bare.
type DiskReader interface {
	io.Reader
	io.Closer
	// Size is that of the file when it was opened, in bytes.
	Size() int64
}

// OpenFromDisk opens a file to see that the disk has what was written and synced, whatever the page
// cache has: with OpenDirect where that is supported. Elsewhere the file is dropped from the page cache
// and read through it; what was read stays there if it is to be kept, and is dropped as well, in pieces,
// if not.
func OpenFromDisk(fsys FS, name string, keepCached bool) (DiskReader, error) {
	f, err := OpenDirect(fsys, name)
	if errors.Is(err, ErrUnsupported) {
		return openDropped(fsys, name, keepCached)
	}
	return f, err
}

// OpenDirect opens a file for reading past the page cache (open(2), O_DIRECT), which is neither asked
// nor changed. A system, or a file system, that cannot do that is ErrUnsupported.
func OpenDirect(fsys FS, name string) (DiskReader, error) {
	if d, ok := fsys.(interface {
		OpenDirect(name string) (DiskReader, error)
	}); ok {
		return d.OpenDirect(name)
	}
	return nil, ErrUnsupported
}

// dropBytes is how much is read through the page cache before it is dropped.
const dropBytes = 8 << 20

// droppedFile reads through a page cache that had nothing of the file.
type droppedFile struct {
	f     File
	keep  bool
	size  int64
	off   int64
	fresh int64 // bytes read since the cache was dropped
}

func openDropped(fsys FS, name string, keepCached bool) (DiskReader, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	size, err := f.Size()
	if err != nil {
		return nil, JoinErrors(err, f.Close())
	}
	_ = DropCache(f) // advice, here and below
	return &droppedFile{f: f, keep: keepCached, size: size}, nil
}

func (d *droppedFile) Size() int64 { return d.size }

func (d *droppedFile) Read(p []byte) (int, error) {
	n, err := d.f.ReadAt(p, d.off)
	d.off += int64(n)
	d.fresh += int64(n)
	if d.fresh >= dropBytes {
		d.drop()
	}
	return n, err
}

func (d *droppedFile) drop() {
	if !d.keep {
		_ = DropCache(d.f)
	}
	d.fresh = 0
}

func (d *droppedFile) Close() error {
	d.drop()
	return d.f.Close()
}
