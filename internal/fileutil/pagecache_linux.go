package fileutil

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// DropCache: see the function of this name.
func (f *osFile) DropCache() error {
	return control(f.File, "fadvise", func(fd uintptr) error {
		return unix.Fadvise(int(fd), 0, 0, unix.FADV_DONTNEED)
	})
}

// IsCached asks for a byte that must be there without waiting for a disk (preadv2(2), RWF_NOWAIT). Not
// every file system knows that: overlayfs does not, nor does tmpfs of older kernels.
func (f *osFile) IsCached(off int64) (cached bool, err error) {
	err = control(f.File, "preadv2", func(fd uintptr) error {
		var b [1]byte
		n, err := unix.Preadv2(int(fd), [][]byte{b[:]}, off, unix.RWF_NOWAIT)
		switch err {
		case syscall.EAGAIN:
			return nil
		case syscall.EOPNOTSUPP, syscall.ENOSYS:
			return ErrUnsupported
		}
		cached = n == 1
		return err
	})
	return cached, err
}
