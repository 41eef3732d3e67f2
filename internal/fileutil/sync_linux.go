package fileutil

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncFile flushes the data and the size, not the times. A failure is final: the
// kernel marks the pages clean, so a second try would lie. Interrupted (EINTR) is not failed:
// the pages are still dirty, and the sync is repeated.
func syncFile(f *os.File) error {
	return control(f, "fdatasync", func(fd uintptr) error { return unix.Fdatasync(int(fd)) })
}
