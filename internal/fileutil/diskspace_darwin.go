package fileutil

import (
	"os"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// DiskSpace: see the function of this name.
func (*osFS) DiskSpace(dir string) (free, total int64, err error) {
	var st unix.Statfs_t
	err = unix.EINTR
	for errors.Is(err, unix.EINTR) {
		err = unix.Statfs(dir, &st)
	}
	if err != nil {
		return 0, 0, errors.WithStack(&os.PathError{Op: "statfs", Path: dir, Err: err})
	}
	size := int64(st.Bsize)
	return int64(st.Bavail) * size, int64(st.Blocks) * size, nil
}
