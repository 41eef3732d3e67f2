package fileutil

import (
	"os"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// DropCache: see the function of this name.
func (f *osFile) DropCache() error {
	return control(f.File, "fadvise", func(fd uintptr) error {
		return unix.Fadvise(int(fd), 0, 0, unix.FADV_DONTNEED)
	})
}

// CachedBytes: see the function of this name. It asks cachestat(2), which Linux has since 6.5, and
// probes where that is not there. On overlayfs it is 0, as what is cached are files below it.
func (f *osFile) CachedBytes() (int64, error) {
	size, err := f.Size()
	if err != nil || size == 0 {
		return 0, err
	}
	var stat unix.Cachestat_t
	err = control(f.File, "cachestat", func(fd uintptr) error {
		return unix.Cachestat(uint(fd), &unix.CachestatRange{Len: uint64(size)}, &stat, 0)
	})
	if lacksCachestat(err) {
		return estimateCached(size, f.isCached)
	}
	return min(int64(stat.Cache)*int64(os.Getpagesize()), size), err
}

// lacksCachestat tells whether an error of cachestat says that it is not there: the kernel is
// older, a sandbox forbids it, the file system has none.
func lacksCachestat(err error) bool {
	return errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EOPNOTSUPP)
}

// cachedPlaces is how many pages of a file estimateCached asks for.
const cachedPlaces = 64

// estimateCached asks which of some places of a file are cached.
func estimateCached(size int64, isCached func(off int64) (bool, error)) (int64, error) {
	cached := int64(0)
	for i := range int64(cachedPlaces) {
		// In the middle of as many equal parts.
		yes, err := isCached(size * (2*i + 1) / (2 * cachedPlaces))
		if err != nil {
			return 0, err
		}
		if yes {
			cached++
		}
	}
	return size * cached / cachedPlaces, nil
}

// isCached asks for a byte that must be there without waiting for a disk (preadv2(2), RWF_NOWAIT).
// Not every file system knows that: overlayfs does not, nor does tmpfs of older kernels. Kernels
// since 6.12 answer, and begin to read what was asked for; they have cachestat, unless a sandbox
// forbids it.
func (f *osFile) isCached(off int64) (cached bool, err error) {
	err = control(f.File, "preadv2", func(fd uintptr) error {
		var b [1]byte
		n, err := unix.Preadv2(int(fd), [][]byte{b[:]}, off, unix.RWF_NOWAIT)
		switch err {
		case unix.EAGAIN:
			return nil
		case unix.EOPNOTSUPP, unix.ENOSYS:
			return ErrUnsupported
		}
		cached = n == 1
		return err
	})
	return cached, err
}
