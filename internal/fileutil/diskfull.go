package fileutil

import (
	"syscall"

	"github.com/pkg/errors"
)

// IsDiskFull reports whether an error means that there is no room: the device is
// full, a quota is used up, or the file may not grow. Such an error goes away when
// somebody makes room; others do not.
func IsDiskFull(err error) bool {
	if err == nil {
		return false
	}
	for _, full := range diskFullErrnos {
		if errors.Is(err, full) {
			return true
		}
	}
	return false
}

// diskFullPortable are errnos that Go's syscall package knows everywhere, on
// Windows as inventions of its own that only tests return.
var diskFullPortable = []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG}
