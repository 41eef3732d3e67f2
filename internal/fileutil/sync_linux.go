package fileutil

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncFile flushes the data and the size, not the times. A failure is final: the
// kernel marks the pages clean, so a second try would lie.
func syncFile(f *os.File) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var syncErr error
	if err := conn.Control(func(fd uintptr) { syncErr = fdatasync(int(fd)) }); err != nil {
		return err
	}
	if syncErr != nil {
		return &os.PathError{Op: "fdatasync", Path: f.Name(), Err: syncErr}
	}
	return nil
}

// fdatasync repeats only an interrupted call, which has not failed.
func fdatasync(fd int) error {
	for {
		if err := unix.Fdatasync(fd); err != unix.EINTR {
			return err
		}
	}
}
