package fileutil

import (
	"fmt"
	"strings"
)

// DiskSpace returns the bytes that a process may still write in dir and the bytes
// of the whole device. A file system that does not know is ErrUnsupported.
func DiskSpace(fsys FS, dir string) (free, total int64, err error) {
	if s, ok := fsys.(interface {
		DiskSpace(dir string) (free, total int64, err error)
	}); ok {
		return s.DiskSpace(dir)
	}
	return 0, 0, ErrUnsupported
}

// Room is what the error of a full disk says of numbers: how many bytes were wanted, 0 if nobody
// knows, and how many the disk of a directory has. It is empty if neither is known.
func Room(fsys FS, dir string, wanted int64) string {
	var facts []string
	if wanted > 0 {
		facts = append(facts, fmt.Sprintf("about %d bytes are wanted", wanted))
	}
	if free, _, err := DiskSpace(fsys, dir); err == nil {
		facts = append(facts, fmt.Sprintf("%d bytes are free", free))
	}
	return strings.Join(facts, ", ")
}
