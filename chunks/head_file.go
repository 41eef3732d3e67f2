package chunks

import (
	"sync"
	"sync/atomic"

	"github.com/pkg/errors"

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
	// synced is how far its bytes are known to be on stable storage. A process that was killed may
	// have left a file that it never synced. It belongs to whoever holds HeadFiles.w.
	synced int64

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

//go:noinline
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

// read copies the record at off to dst[:0] and returns the copy, and the data of its chunk in
// there.
func (f *headFile) read(off int64, dst []byte) (enc chunkenc.Encoding, record, data []byte, err error) {
	size := f.size.Load()
	if off < headHeaderSize || off >= size {
		return 0, dst[:0], nil, ErrUnknownRef
	}
	m, err := f.open()
	if err != nil {
		return 0, dst[:0], nil, err
	}
	b, err := m.At(off, int(size-off))
	if errors.Is(err, fileutil.ErrMemoryFault) {
		return 0, dst[:0], nil, encbuf.Corrupt(0, err.Error()).At(f.path, off)
	}
	if err != nil {
		return 0, dst[:0], nil, err
	}
	var damage *encbuf.CorruptError
	err = fileutil.GuardFaults(func() error {
		enc, record, data, damage = copyRecord(b, dst)
		return nil
	})
	if err == nil && damage == nil {
		return enc, record, data, nil
	}
	if damage == nil {
		damage = encbuf.Corrupt(0, err.Error())
	}
	return 0, dst[:0], nil, damage.At(f.path, off)
}

// copyRecord copies the record that b begins with to dst[:0] and verifies the checksum of the
// copy: what is returned is what was checked. All of it is copied, as one checksum over header
// and data takes less than one over each (BenchmarkReadHead of package remote).
func copyRecord(b, dst []byte) (enc chunkenc.Encoding, copied, data []byte, _ *encbuf.CorruptError) {
	r, damage := parseRecord(b)
	if damage != nil {
		return 0, dst[:0], nil, damage
	}
	dst = append(dst[:0], b[:r.size()]...)
	if damage := checkRecord(dst, r); damage != nil {
		return 0, dst[:0], nil, damage
	}
	return r.encoding(), dst, dst[r.dataStart:r.dataEnd], nil
}
