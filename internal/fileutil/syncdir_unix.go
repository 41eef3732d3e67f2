//go:build unix

package fileutil

import (
	"os"
	"syscall"

	"github.com/pkg/errors"
)

// syncDir fsyncs a directory. File systems without this operation (some network
// ones) answer EINVAL or ENOTSUP; they make names durable by other means or not at
// all, and nothing can be done about it here. A directory that cannot be opened is
// ErrNotTried.
func syncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return NotTried(errors.WithStack(err))
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		err = nil
	}
	if closeErr := d.Close(); err == nil {
		err = closeErr
	}
	return errors.WithStack(err)
}
