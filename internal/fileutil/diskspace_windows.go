package fileutil

import (
	"os"

	"github.com/pkg/errors"
	"golang.org/x/sys/windows"
)

// DiskSpace: see the function of this name.
func (*osFS) DiskSpace(dir string) (free, total int64, err error) {
	name, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, 0, errors.WithStack(err)
	}
	var avail, size, unused uint64
	if err := windows.GetDiskFreeSpaceEx(name, &avail, &size, &unused); err != nil {
		return 0, 0, errors.WithStack(&os.PathError{Op: "disk space", Path: dir, Err: err})
	}
	return int64(avail), int64(size), nil
}
