package fileutil

import (
	"os"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// syncFile flushes the data and the size, not the times. A failure is final: the
// kernel marks the pages clean, so a second try would lie.
func syncFile(f *os.File) error {
	return control(f, "fdatasync", func(fd uintptr) error {
		for {
			err := unix.Fdatasync(int(fd))
			if !errors.Is(err, unix.EINTR) { // interrupted is not failed
				return err
			}
		}
	})
}
