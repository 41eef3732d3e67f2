package fileutil

import (
	"io"
	"io/fs"
	"os"
	"sync/atomic"

	"github.com/pkg/errors"
	"golang.org/x/sys/windows"
)

// readMapping serves At by reading. A real mapping on Windows cannot be longer
// than the file without making the file longer, and it would forbid to cut and to
// remove the file. The bytes are copies, so they outlive Close and never fault;
// what is not written yet is ErrMemoryFault at once.
type readMapping struct {
	f      *os.File
	length int64
	closed atomic.Bool
}

// mapFile reads through a handle of its own, as a mapping outlives its File.
func mapFile(f *os.File, length int64) (Mapping, error) {
	if length < 0 {
		return nil, errors.Wrapf(ErrOutOfRange, "map %d bytes of %s", length, f.Name())
	}
	self := windows.CurrentProcess()
	var dup windows.Handle
	err := control(f, "duplicate handle", func(h uintptr) error {
		return windows.DuplicateHandle(self, windows.Handle(h), self, &dup, 0, false, windows.DUPLICATE_SAME_ACCESS)
	})
	if err != nil {
		return nil, err
	}
	return &readMapping{f: os.NewFile(uintptr(dup), f.Name()), length: length}, nil
}

func (m *readMapping) At(off int64, n int) ([]byte, error) {
	if m.closed.Load() {
		return nil, fs.ErrClosed
	}
	if off < 0 || n < 0 || off > m.length-int64(n) {
		return nil, ErrOutOfRange
	}
	b := make([]byte, n)
	_, err := m.f.ReadAt(b, off)
	if errors.Is(err, io.EOF) {
		return nil, ErrMemoryFault
	}
	return b, errors.WithStack(err)
}

func (m *readMapping) Close() error {
	if m.closed.Swap(true) {
		return nil
	}
	return errors.WithStack(m.f.Close())
}
