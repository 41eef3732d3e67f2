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

// CachedBytes: see the function of this name. It asks cachestat(2), which Linux has since 6.5, and probes
// where that is not there or a sandbox forbids it.
func (f *osFile) CachedBytes() (int64, error) {
	size, err := f.Size()
	if err != nil || size == 0 {
		return 0, err
	}
	var stat unix.Cachestat_t
	err = control(f.File, "cachestat", func(fd uintptr) error {
		return unix.Cachestat(uint(fd), &unix.CachestatRange{Len: uint64(size)}, &stat, 0)
	})
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EOPNOTSUPP) {
		return f.probeCached(size)
	}
	return min(int64(stat.Cache)*int64(os.Getpagesize()), size), err
}

// cachedPlaces is how many pages of a file probeCached asks for.
const cachedPlaces = 64

// probeCached asks for single bytes that must be there without waiting for a disk (preadv2(2), RWF_NOWAIT).
// Not every file system knows that: overlayfs does not, nor does tmpfs of older kernels. Newer kernels
// answer, and begin to read what was asked for; they have cachestat.
func (f *osFile) probeCached(size int64) (int64, error) {
	cached := int64(0)
	for i := range int64(cachedPlaces) {
		// In the middle of as many equal parts.
		switch err := f.probe(size * (2*i + 1) / (2 * cachedPlaces)); {
		case err == nil:
			cached++
		case errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS):
			return 0, ErrUnsupported
		case !errors.Is(err, unix.EAGAIN):
			return 0, err
		}
	}
	return size * cached / cachedPlaces, nil
}

// probe returns nil if the byte at off, which the file has, is in the page cache, and EAGAIN if not.
func (f *osFile) probe(off int64) error {
	return control(f.File, "preadv2", func(fd uintptr) error {
		var b [1]byte
		_, err := unix.Preadv2(int(fd), [][]byte{b[:]}, off, unix.RWF_NOWAIT)
		return err
	})
}
