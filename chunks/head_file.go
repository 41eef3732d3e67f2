package chunks

import (
	"encoding/binary"
	"sync"
	"sync/atomic"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// headFile is one head-chunk file for its readers. It is mapped on first use and
// unmapped when refs falls to zero.
type headFile struct {
	fs     fileutil.FS
	path   string
	number uint32
	mapLen int64 // bytes to map: what the file may grow to
	// trusted is what Load takes for granted; nothing if its size is 0.
	trusted HeadExtent

	// size is how far readers may go, a record's end. The writer moves it after the
	// bytes are in the file; Load moves it back to where damage begins.
	size atomic.Int64
	refs atomic.Int32 // the table's, and one for each read that is under way

	mapping atomic.Pointer[fileutil.Mapping] // set once, under mu
	mu      struct {
		sync.Mutex
		handle fileutil.File // the writer's, while it has the file open
	}
}

func newHeadFile(fs fileutil.FS, path string, number uint32, size, mapLen int64) *headFile {
	f := &headFile{fs: fs, path: path, number: number, mapLen: mapLen}
	f.size.Store(size)
	f.refs.Store(1)
	return f
}

// release gives one reference up.
func (f *headFile) release() error {
	if f.refs.Add(-1) > 0 {
		return nil
	}
	if m := f.mapping.Load(); m != nil {
		return (*m).Close()
	}
	return nil
}

// open returns the mapping, which is valid as long as the caller's reference.
func (f *headFile) open() (fileutil.Mapping, error) {
	if m := f.mapping.Load(); m != nil {
		return *m, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if m := f.mapping.Load(); m != nil {
		return *m, nil
	}
	m, err := f.mapLocked()
	if err != nil {
		return nil, err
	}
	f.mapping.Store(&m)
	return m, nil
}

func (f *headFile) mapLocked() (fileutil.Mapping, error) {
	if f.mu.handle != nil {
		return f.mu.handle.Mmap(f.mapLen)
	}
	handle, err := f.fs.Open(f.path)
	if err != nil {
		return nil, err
	}
	m, err := handle.Mmap(f.mapLen)
	if closeErr := handle.Close(); closeErr != nil && err == nil {
		return nil, fileutil.JoinErrors(closeErr, m.Close())
	}
	return m, err
}

// setHandle says which handle is open for writing, nil when it is about to be closed.
func (f *headFile) setHandle(handle fileutil.File) {
	f.mu.Lock()
	f.mu.handle = handle
	f.mu.Unlock()
}

// read copies the data of the chunk at off to dst[:0].
func (f *headFile) read(off int64, dst []byte) (chunkenc.Encoding, []byte, error) {
	size := f.size.Load()
	if off < headHeaderSize || off >= size {
		return 0, dst[:0], ErrUnknownRef
	}
	m, err := f.open()
	if err != nil {
		return 0, dst[:0], err
	}
	b, err := m.At(off, int(size-off))
	if err != nil {
		return 0, dst[:0], err
	}
	var enc chunkenc.Encoding
	var damage *encbuf.CorruptError
	err = fileutil.GuardFaults(func() error {
		enc, dst, damage = copyChunk(b, dst)
		return nil
	})
	if err == nil && damage == nil {
		return enc, dst, nil
	}
	if damage == nil {
		damage = encbuf.Corrupt(0, err.Error())
	}
	return 0, dst[:0], damage.At(f.path, off)
}

// copyChunk copies the data of the record that b begins with to dst[:0] and verifies the
// checksum over the copy: what is returned is what was checked.
func copyChunk(b, dst []byte) (chunkenc.Encoding, []byte, *encbuf.CorruptError) {
	r, damage := parseRecord(b)
	if damage != nil {
		return 0, dst[:0], damage
	}
	dst = append(dst[:0], b[r.dataStart:r.dataEnd]...)
	crc := encbuf.UpdateChecksum(encbuf.Checksum(b[:r.dataStart]), dst)
	if crc != binary.BigEndian.Uint32(b[r.dataEnd:]) {
		return 0, dst[:0], encbuf.Corrupt(0, "record has a wrong checksum")
	}
	return r.encoding(), dst, nil
}
