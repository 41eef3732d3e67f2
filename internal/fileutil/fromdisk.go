package fileutil

import (
	"io"

	"github.com/pkg/errors"
)

// OpenFromDisk opens a file that is read once, front to back, by one goroutine, to see that the
// disk has what was written and synced, as far as the system can tell that from what the page cache
// has: with OpenDirect where that is supported. Elsewhere the file is dropped from the page cache
// and read through it; what was read stays there if it is to be kept, and is dropped as well, in
// pieces, if not. Of a mapped file the system drops nothing that was touched.
//
// The size is that of now, in bytes. Read returns io.EOF bare. Errors: of the file system.
func OpenFromDisk(fsys FS, name string, keepCached bool) (r io.ReadCloser, size int64, err error) {
	r, size, err = OpenDirect(fsys, name)
	if errors.Is(err, ErrUnsupported) {
		return openDropped(fsys, name, keepCached)
	}
	return r, size, err
}

// OpenDirect opens a file like OpenFromDisk, for reading past the page cache (open(2), O_DIRECT),
// which is neither asked nor changed. A system, or a file system, that cannot do that for this
// file, or does not say that it can, is ErrUnsupported.
func OpenDirect(fsys FS, name string) (r io.ReadCloser, size int64, err error) {
	if d, ok := fsys.(interface {
		OpenDirect(name string) (io.ReadCloser, int64, error)
	}); ok {
		return d.OpenDirect(name)
	}
	return nil, 0, ErrUnsupported
}

// HasDirect tells whether OpenDirect can open a file.
func HasDirect(fsys FS, name string) bool {
	r, _, err := OpenDirect(fsys, name)
	return err == nil && r.Close() == nil
}

// dropBytes is how much is read through the page cache before it is dropped.
const dropBytes = 8 << 20

// droppedFile reads through the page cache what was dropped from there before.
type droppedFile struct {
	f     File
	keep  bool
	off   int64
	fresh int64 // bytes read since the cache was dropped
}

func openDropped(fsys FS, name string, keepCached bool) (io.ReadCloser, int64, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, 0, err
	}
	size, err := f.Size()
	if err != nil {
		return nil, 0, JoinErrors(err, f.Close())
	}
	_ = DropCache(f) // advice, here and below
	return &droppedFile{f: f, keep: keepCached}, size, nil
}

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
