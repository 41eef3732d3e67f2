//go:build unix && !solaris && !aix

package fileutil

import (
	"os"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// unlockFile gives the lock up at once. Closing the file alone would leave it to a
// process that was forked meanwhile, until that has called exec.
func unlockFile(f *os.File) error {
	return control(f, "flock", func(fd uintptr) error { return unix.Flock(int(fd), unix.LOCK_UN) })
}

// lockFile takes flock(2), as the reference does: a lock of fcntl would not keep
// it out. The lock belongs to the open file, so it holds against our own process too.
func lockFile(f *os.File) error {
	err := control(f, "flock", func(fd uintptr) error {
		return unix.Flock(int(fd), unix.LOCK_EX|unix.LOCK_NB)
	})
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrLocked
	}
	return err
}
