package fileutil

import (
	"os"

	"golang.org/x/sys/unix"
)

// Forget: see the function of this name. Pages that are only partly in the range stay.
func (m *mmapping) Forget(off, n int64) {
	page := int64(os.Getpagesize())
	from := (max(off, 0) + page - 1) / page * page
	to := min(off+n, int64(len(m.data)))
	if to < int64(len(m.data)) {
		to = to / page * page
	}
	if from < to {
		_ = unix.Madvise(m.data[from:to], unix.MADV_DONTNEED)
	}
}
