//go:build solaris || aix

package fileutil

import (
	"io"
	"os"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// unlockFile has nothing to do: closing any descriptor of the file gives the lock up.
func unlockFile(*os.File) error { return nil }

// lockFile takes a record lock where flock(2) does not exist. It holds against
// other processes only; a second Open in this one is not refused.
func lockFile(f *os.File) error {
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	err := unix.FcntlFlock(f.Fd(), unix.F_SETLK, &lock)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return ErrLocked
	}
	if err != nil {
		return errors.WithStack(&os.PathError{Op: "fcntl", Path: f.Name(), Err: err})
	}
	return nil
}
