//go:build unix

package fileutil

import (
	"io/fs"
	"math"
	"os"
	"runtime"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// mmapping is a shared read-only mapping. The pages beyond the end of the file
// come to life when the file grows over them; until then touching them faults.
type mmapping struct {
	data   []byte
	length int64
}

func mapFile(f *os.File, length int64) (Mapping, error) {
	if length < 0 || length > math.MaxInt {
		return nil, errors.Wrapf(ErrOutOfRange, "map %d bytes of %s", length, f.Name())
	}
	if length == 0 { // mmap(2) refuses it; there is nothing to read anyway
		return &mmapping{}, nil
	}
	m := &mmapping{length: length}
	err := control(f, "mmap", func(fd uintptr) (err error) {
		m.data, err = unix.Mmap(int(fd), 0, int(length), unix.PROT_READ, unix.MAP_SHARED)
		return err
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

func (m *mmapping) At(off int64, n int) ([]byte, error) {
	if off < 0 || n < 0 || off > int64(len(m.data))-int64(n) {
		return nil, m.rangeError()
	}
	return m.data[off : off+int64(n) : off+int64(n)], nil
}

func (m *mmapping) rangeError() error {
	if m.data == nil && m.length > 0 {
		return fs.ErrClosed
	}
	return ErrOutOfRange
}

const (
	closeStep = 1 << 20                // bytes of a mapping that are given back at a time
	closeLong = 100 * time.Microsecond // after which others run
)

// Close must not run beside At. A second Close does nothing. Pages that were read are given back
// piece by piece where the system can do that (Forget): in one call those of a large file take so
// long that who waits for the processor notices.
func (m *mmapping) Close() error {
	if m.data == nil {
		return nil
	}
	last := time.Now()
	for off := int64(0); off < int64(len(m.data)); off += closeStep {
		Forget(m, off, closeStep)
		if time.Since(last) > closeLong {
			runtime.Gosched()
			last = time.Now()
		}
	}
	data := m.data
	m.data = nil
	return errors.Wrap(unix.Munmap(data), "unmap file")
}
