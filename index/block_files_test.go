package index_test

import (
	"io"
	"math"

	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// sparseFS has one file, in memory, of which only what was written takes any. It counts
// syncs and fails when told to.
type sparseFS struct {
	fileutil.FS
	file    sparseFile
	removed bool
}

const sparsePage = 4 << 10

type sparseFile struct {
	pages  map[int64]*[sparsePage]byte
	size   int64
	writes int
	syncs  int
	closes int
	fail   func(op string) error // nil: never
	mapped []byte                // what Mmap gave
}

func newSparseFS(data []byte) *sparseFS {
	s := &sparseFS{file: sparseFile{pages: make(map[int64]*[sparsePage]byte)}}
	s.file.put(data)
	return s
}

func (s *sparseFS) Create(string) (fileutil.File, error) { return &s.file, nil }
func (s *sparseFS) Open(string) (fileutil.File, error)   { return &s.file, nil }

func (s *sparseFS) Remove(string) error {
	s.removed = true
	return s.file.try("remove")
}

func (f *sparseFile) try(op string) error {
	if f.fail == nil {
		return nil
	}
	return f.fail(op)
}

func (f *sparseFile) Write(p []byte) (int, error) {
	if err := f.try("write"); err != nil {
		return 0, err
	}
	f.writes++
	f.put(p)
	return len(p), nil
}

func (f *sparseFile) put(p []byte) {
	for len(p) > 0 {
		page := f.pages[f.size/sparsePage]
		if page == nil {
			page = new([sparsePage]byte)
			f.pages[f.size/sparsePage] = page
		}
		n := copy(page[f.size%sparsePage:], p)
		f.size += int64(n)
		p = p[n:]
	}
}

func (f *sparseFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.try("read"); err != nil {
		return 0, err
	}
	n := 0
	for n < len(p) && off < f.size {
		page := f.pages[off/sparsePage]
		if page == nil {
			page = new([sparsePage]byte)
		}
		in := off % sparsePage
		c := copy(p[n:], page[in:min(sparsePage, in+f.size-off)])
		n += c
		off += int64(c)
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *sparseFile) bytes() []byte {
	b := make([]byte, f.size)
	_, _ = f.ReadAt(b, 0)
	return b
}

func (f *sparseFile) Truncate(size int64) error { f.size = size; return f.try("truncate") }
func (f *sparseFile) Sync() error               { f.syncs++; return f.try("sync") }
func (f *sparseFile) Close() error              { f.closes++; return f.try("close") }
func (f *sparseFile) Name() string              { return "index" }
func (f *sparseFile) Size() (int64, error)      { return f.size, f.try("size") }

// Mmap is a copy.
func (f *sparseFile) Mmap(length int64) (fileutil.Mapping, error) {
	if err := f.try("mmap"); err != nil {
		return nil, err
	}
	if length > math.MaxInt32 {
		return nil, fileutil.ErrOutOfRange
	}
	f.mapped = f.bytes()
	return bytesMapping(f.mapped), nil
}

type bytesMapping []byte

func (m bytesMapping) At(off int64, n int) ([]byte, error) { return m[off : off+int64(n)], nil }
func (m bytesMapping) Close() error                        { return nil }
