//go:build unix && !solaris && !aix

package fileutil

import (
	"os"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// lockFile takes flock(2), as the reference does: a lock of fcntl would not keep
// it out. The lock belongs to the open file, so it holds against our own process too.
func lockFile(f *os.File) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return errors.WithStack(err)
	}
	var lockErr error
	err = conn.Control(func(fd uintptr) {
		lockErr = unix.Flock(int(fd), unix.LOCK_EX|unix.LOCK_NB)
	})
	if err != nil {
		return errors.WithStack(err)
	}
	if errors.Is(lockErr, unix.EWOULDBLOCK) {
		return ErrLocked
	}
	if lockErr != nil {
		return errors.WithStack(&os.PathError{Op: "flock", Path: f.Name(), Err: lockErr})
	}
	return nil
}
