package fileutil

import (
	"io"
	"io/fs"
	"os"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

const (
	// directBytes is what one read reads: so much that waiting for the device does not count.
	directBytes = 1 << 20
	// directAlign is what reads begin at a multiple of; a device that wants more is not read
	// directly.
	directAlign = 64 << 10
)

// directFile reads whole blocks into memory that begins with a page, as O_DIRECT asks for. What it
// has read is copied once more, into the memory of who reads: a fiftieth of what a merge takes.
type directFile struct {
	f    *os.File
	size int64
	off  int64  // up to where it was read
	buf  []byte // memory of its own, outside of the heap
	rest []byte // of buf, read and not given out yet
}

// OpenDirect: see the function of this name. It goes by what the kernel says of the file (statx(2),
// STATX_DIOALIGN): ext4, xfs and f2fs do since Linux 6.1. Many others take the flag and read
// through the page cache all the same, or some of their files, those that are compressed for
// example. If the first read fails in whatever way it is tried through the page cache.
func (*osFS) OpenDirect(name string) (io.ReadCloser, int64, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_DIRECT, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission):
		return nil, 0, errors.WithStack(err)
	case err != nil:
		return nil, 0, ErrUnsupported
	}
	d := &directFile{f: f}
	if d.begin() != nil {
		return nil, 0, JoinErrors(ErrUnsupported, d.Close())
	}
	return d, d.size, nil
}

func (d *directFile) begin() error {
	var stat unix.Statx_t
	err := control(d.f, "statx", func(fd uintptr) error {
		return unix.Statx(int(fd), "", unix.AT_EMPTY_PATH, unix.STATX_SIZE|unix.STATX_DIOALIGN, &stat)
	})
	if err != nil {
		return err
	}
	if !isDirect(&stat) {
		return ErrUnsupported
	}
	d.size = int64(stat.Size)
	if d.buf, err = unix.Mmap(-1, 0, directBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON); err != nil {
		return errors.WithStack(err)
	}
	if err := d.fill(); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// isDirect tells whether a file can be read past the page cache, the way directFile does it.
func isDirect(stat *unix.Statx_t) bool {
	return stat.Mask&unix.STATX_DIOALIGN != 0 &&
		stat.Dio_offset_align > 0 && directAlign%stat.Dio_offset_align == 0 &&
		stat.Dio_mem_align > 0 && uint32(os.Getpagesize())%stat.Dio_mem_align == 0
}

// fill reads the next blocks. Behind the end it does not ask; where a read before ended early it
// asks for the whole of the last block again.
func (d *directFile) fill() error {
	if d.off >= d.size {
		return io.EOF
	}
	again := d.off % directAlign
	if again > 0 {
		if _, err := d.f.Seek(d.off-again, io.SeekStart); err != nil {
			return err
		}
	}
	n, err := d.f.Read(d.buf)
	if int64(n) <= again {
		if err == nil {
			err = io.EOF
		}
		return err
	}
	d.rest = d.buf[again:n]
	d.off += int64(len(d.rest))
	return nil
}

func (d *directFile) Read(p []byte) (int, error) {
	if len(d.rest) == 0 {
		if err := d.fill(); errors.Is(err, io.EOF) {
			return 0, io.EOF
		} else if err != nil {
			return 0, errors.WithStack(err)
		}
	}
	n := copy(p, d.rest)
	d.rest = d.rest[n:]
	return n, nil
}

// Close gives the memory back, too. A second Close is os.ErrClosed.
func (d *directFile) Close() error {
	err := d.f.Close()
	if d.buf != nil {
		err = JoinErrors(err, os.NewSyscallError("munmap", unix.Munmap(d.buf)))
		d.buf, d.rest = nil, nil
	}
	return errors.WithStack(err)
}
