package fileutil

import (
	"io"
	"os"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// directBytes is what one read reads: a multiple of the blocks of every device, and so much that
// waiting for the device does not count.
const directBytes = 1 << 20

// directFile reads whole blocks into memory that begins with a page, as O_DIRECT asks for.
type directFile struct {
	f    *os.File
	size int64
	off  int64  // of what is read next, at the begin of a block until the file's end
	buf  []byte // memory of its own, outside of the heap
	rest []byte // of buf, read and not given out yet
}

// OpenDirect: see the function of this name. Whether a file system has direct I/O shows in the first
// read of a file at the latest, so that is done here. ErrUnsupported if not: tmpfs of older kernels
// and some that are mounted over a network or by a process.
func (osFS) OpenDirect(name string) (DiskReader, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_DIRECT, 0)
	if err != nil {
		return nil, directError(err)
	}
	d := &directFile{f: f}
	if err := d.begin(); err != nil {
		return nil, directError(JoinErrors(err, d.Close()))
	}
	return d, nil
}

func directError(err error) error {
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) {
		return ErrUnsupported
	}
	return errors.WithStack(err)
}

func (d *directFile) begin() error {
	info, err := d.f.Stat()
	if err != nil {
		return err
	}
	d.size = info.Size()
	if d.buf, err = unix.Mmap(-1, 0, directBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON); err != nil {
		return os.NewSyscallError("mmap", err)
	}
	if err := d.fill(); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// fill reads the next blocks. Behind the end it does not ask: the place is not one of a block.
func (d *directFile) fill() error {
	if d.off >= d.size {
		return io.EOF
	}
	n, err := d.f.Read(d.buf)
	d.off += int64(n)
	d.rest = d.buf[:n]
	return err
}

func (d *directFile) Size() int64 { return d.size }

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

// Close gives the memory back, too. A second Close is an error of package os.
func (d *directFile) Close() error {
	err := d.f.Close()
	if d.buf != nil {
		err = JoinErrors(err, os.NewSyscallError("munmap", unix.Munmap(d.buf)))
		d.buf, d.rest = nil, nil
	}
	return errors.WithStack(err)
}
