package bench

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"unsafe"

	"github.com/pkg/errors"
)

// mappedFiles are mappings of files that only look at what the page cache has of them.
// They stay until the process ends, and the files too, when somebody removes them.
type mappedFiles [][]byte

// mapFiles maps all files of some directories, without reading them.
func mapFiles(dirs []string) (m mappedFiles, err error) {
	err = eachFile(dirs, func(f *os.File, size int64) error {
		b, err := syscall.Mmap(int(f.Fd()), 0, int(size), syscall.PROT_READ, syscall.MAP_SHARED)
		if err == nil {
			m = append(m, b)
		}
		return errors.Wrap(err, "map file")
	})
	return m, err
}

// cacheFiles reads all files of some directories, so that the page cache has them as if
// queries had, and maps them.
func cacheFiles(dirs []string) (mappedFiles, error) {
	err := eachFile(dirs, func(f *os.File, _ int64) error {
		_, err := io.Copy(io.Discard, f)
		return errors.Wrap(err, "read file")
	})
	if err != nil {
		return nil, err
	}
	return mapFiles(dirs)
}

// eachFile opens each file that is not empty.
func eachFile(dirs []string, fn func(f *os.File, size int64) error) error {
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			f, err := os.Open(path)
			if err != nil {
				return err
			}
			defer f.Close()
			info, err := f.Stat()
			if err != nil || info.Size() == 0 {
				return err
			}
			return fn(f, info.Size())
		})
		if err != nil {
			return errors.Wrap(err, "walk block")
		}
	}
	return nil
}

// bytes returns the size of the files.
func (m mappedFiles) bytes() (n float64) {
	for _, b := range m {
		n += float64(len(b))
	}
	return n
}

// resident returns how many bytes of the files the page cache has.
func (m mappedFiles) resident() (n float64, err error) {
	page := os.Getpagesize()
	for _, b := range m {
		// The system call wants the address of the mapping; the syscall package has no
		// safe form of it.
		present := make([]byte, (len(b)+page-1)/page)
		_, _, code := syscall.Syscall(syscall.SYS_MINCORE, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), uintptr(unsafe.Pointer(&present[0])))
		if code != 0 {
			return 0, errors.Wrap(code, "ask for pages in memory")
		}
		for i, p := range present {
			if p&1 == 1 {
				n += float64(min(page, len(b)-i*page))
			}
		}
	}
	return n, nil
}
