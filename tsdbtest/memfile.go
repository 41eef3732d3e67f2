package tsdbtest

import (
	"io"
	"io/fs"
	"syscall"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// memPage is the granularity of mappings: behind the end of the file, zeros up to
// the end of its last page can be read, and nothing else.
const memPage = 4096

// memFile is an open file; fs.mu guards its fields.
type memFile struct {
	fs     *MemFS
	name   string
	node   *node
	write  bool
	off    int64 // where the next Write goes
	closed bool
}

func (m *MemFS) openLocked(name string, n *node, write bool) *memFile {
	f := &memFile{fs: m, name: name, node: n, write: write, off: n.file.size()}
	n.opens++
	m.mu.handles[f] = name
	return f
}

func (m *MemFS) closeLocked(handle any, n *node) {
	delete(m.mu.handles, handle)
	n.opens--
	m.freeLocked(n)
}

// begin counts the operation, asks the hook and locks, in this order. Without an
// error the caller unlocks.
func (f *memFile) begin(kind OpKind, bytes int64) error {
	if err := f.fs.begin(Op{Kind: kind, Name: f.name, Bytes: bytes}); err != nil {
		return err
	}
	return f.lock(kind)
}

func (f *memFile) lock(kind OpKind) error {
	f.fs.mu.Lock()
	if f.closed {
		f.fs.mu.Unlock()
		return pathError(kind.String(), f.name, fs.ErrClosed)
	}
	return nil
}

func (f *memFile) Name() string { return f.name }

func (f *memFile) Write(p []byte) (int, error) {
	hookErr := f.fs.begin(Op{Kind: OpWrite, Name: f.name, Bytes: int64(len(p))})
	var short *ShortWriteError
	if errors.As(hookErr, &short) {
		p = p[:min(len(p), short.Written)]
	} else if hookErr != nil {
		return 0, hookErr
	}
	if err := f.lock(OpWrite); err != nil {
		return 0, err
	}
	defer f.fs.mu.Unlock()
	n, err := f.writeLocked(p)
	if hookErr != nil {
		return n, hookErr
	}
	return n, err
}

func (f *memFile) writeLocked(p []byte) (int, error) {
	if !f.write {
		return 0, pathError("write", f.name, syscall.EBADF)
	}
	var err error
	if room := f.fs.roomLocked(f.node, f.off); int64(len(p)) > room {
		p, err = p[:room], pathError("write", f.name, syscall.ENOSPC)
	}
	if len(p) > 0 {
		f.fs.changeLocked(f.node, func(c *content) { c.write(f.off, p) })
		f.off += int64(len(p))
	}
	return len(p), err
}

// roomLocked returns how many bytes fit at off of n.
func (m *MemFS) roomLocked(n *node, off int64) int64 {
	if m.mu.capacity == 0 {
		return 1 << 62
	}
	grow := max(0, m.mu.capacity-m.mu.used)
	return max(0, n.file.size()+grow-off)
}

// changeLocked changes a file and keeps count of the space.
func (m *MemFS) changeLocked(n *node, change func(*content)) {
	before := n.file.size()
	change(&n.file)
	m.mu.used += n.file.size() - before
	n.modified = m.mu.ops
}

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.begin(OpReadAt, int64(len(p))); err != nil {
		return 0, err
	}
	defer f.fs.mu.Unlock()
	if off < 0 {
		return 0, pathError("read", f.name, syscall.EINVAL)
	}
	if len(p) == 0 {
		return 0, nil
	}
	n := copy(p, f.node.file.data[min(off, f.node.file.size()):])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) Size() (int64, error) {
	if err := f.begin(OpSize, 0); err != nil {
		return 0, err
	}
	defer f.fs.mu.Unlock()
	return f.node.file.size(), nil
}

func (f *memFile) Truncate(size int64) error {
	if err := f.begin(OpTruncate, size); err != nil {
		return err
	}
	defer f.fs.mu.Unlock()
	if !f.write || size < 0 {
		return pathError("truncate", f.name, syscall.EINVAL)
	}
	if f.fs.roomLocked(f.node, size) == 0 && size > f.node.file.size() {
		return pathError("truncate", f.name, syscall.ENOSPC)
	}
	f.fs.changeLocked(f.node, func(c *content) { c.truncate(size) })
	f.off = size
	return nil
}

func (f *memFile) Sync() error {
	if err := f.begin(OpSync, 0); err != nil {
		return err
	}
	defer f.fs.mu.Unlock()
	f.node.file.sync()
	return nil
}

// FailSync is MemFS.FailSync for this file, whatever its name is by now.
func (f *memFile) FailSync() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.fs.failSyncLocked(f.node)
	return nil
}

// Close closes even if the hook fails it, as close(2) does.
func (f *memFile) Close() error {
	hookErr := f.fs.begin(Op{Kind: OpClose, Name: f.name})
	if err := f.lock(OpClose); err != nil {
		return err
	}
	defer f.fs.mu.Unlock()
	f.closed = true
	f.fs.closeLocked(f, f.node)
	return hookErr
}

func (f *memFile) Mmap(length int64) (fileutil.Mapping, error) {
	if err := f.begin(OpMmap, length); err != nil {
		return nil, err
	}
	defer f.fs.mu.Unlock()
	if length < 0 {
		return nil, pathError("mmap", f.name, fileutil.ErrOutOfRange)
	}
	mp := &memMapping{fs: f.fs, name: f.name, node: f.node, length: length}
	f.node.opens++
	f.fs.mu.handles[mp] = f.name + " (mapping)"
	return mp, nil
}

// memMapping is a view of a file. The bytes that At returns are those of this
// moment: they do not change when the file is cut, and a fault is an error of At.
type memMapping struct {
	fs     *MemFS
	name   string
	node   *node
	length int64
	closed bool // guarded by fs.mu
}

func (mp *memMapping) At(off int64, n int) ([]byte, error) {
	if err := mp.fs.begin(Op{Kind: OpMapRead, Name: mp.name, Bytes: int64(n)}); err != nil {
		return nil, err
	}
	mp.fs.mu.Lock()
	defer mp.fs.mu.Unlock()
	end := off + int64(n)
	switch {
	case mp.closed:
		return nil, fs.ErrClosed
	case off < 0 || n < 0 || off > mp.length-int64(n):
		return nil, fileutil.ErrOutOfRange
	}
	data := mp.node.file.data
	size := int64(len(data))
	if end <= size {
		return data[off:end:end], nil
	}
	if lastPage := (size + memPage - 1) / memPage * memPage; end > lastPage {
		return nil, fileutil.ErrMemoryFault
	}
	b := make([]byte, n)
	copy(b, data[min(off, size):])
	return b, nil
}

// Close unmaps. A second Close does nothing.
func (mp *memMapping) Close() error {
	mp.fs.mu.Lock()
	defer mp.fs.mu.Unlock()
	if !mp.closed {
		mp.closed = true
		mp.fs.closeLocked(mp, mp.node)
	}
	return nil
}
