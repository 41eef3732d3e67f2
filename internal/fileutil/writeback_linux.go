package fileutil

import "golang.org/x/sys/unix"

// StartWriteback: see the function of this name. An error of the disk is kept by the system
// for the next Sync.
func (f *osFile) StartWriteback(off, n int64) {
	_ = control(f.File, "sync_file_range", func(fd uintptr) error {
		return unix.SyncFileRange(int(fd), off, n, unix.SYNC_FILE_RANGE_WRITE)
	})
}
