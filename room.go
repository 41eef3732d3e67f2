package tsdb

import (
	"fmt"
	"strings"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/fileutil"
)

const (
	// maxReserveBytes stay free beside what a merge, a snapshot or a repair writes, so that
	// such work never takes the last of the disk from the log.
	maxReserveBytes = 64 << 20
	// reserveShare bounds the reserve to a twentieth of the disk: on a small one, 64 MiB would
	// be more than there ever is.
	reserveShare = 20
)

// reserveBytes returns how much stays free for the log on a disk of some bytes.
func reserveBytes(diskBytes int64) int64 {
	return min(maxReserveBytes, max(0, diskBytes/reserveShare))
}

// room is what a disk has, in bytes.
type room struct {
	free, total int64
	known       bool // false: the file system does not tell
}

// roomIn asks a file system for the room in a directory.
func roomIn(fsys FS, dir string) (room, error) {
	free, total, err := fileutil.DiskSpace(fsys, dir)
	switch {
	case errors.Is(err, fileutil.ErrUnsupported):
		return room{}, nil
	case err != nil:
		return room{}, errors.WithMessage(err, "ask for disk space")
	}
	return room{free: free, total: total, known: true}, nil
}

// check returns an ErrDiskFull with the numbers if so many bytes would not leave the reserve
// free. purpose begins the text: what they are for.
func (r room) check(purpose string, bytes int64) error {
	reserve := reserveBytes(r.total)
	if !r.known || r.free-reserve >= bytes {
		return nil
	}
	return errors.WithMessagef(ErrDiskFull, "%s: %d bytes are wanted and %d kept for the log, %d are free", purpose, bytes, reserve, r.free)
}

// checkRoom is check for the disk of a directory, as it is now.
func checkRoom(fsys FS, dir, purpose string, bytes int64) error {
	r, err := roomIn(fsys, dir)
	if err != nil {
		return err
	}
	return r.check(purpose, bytes)
}

// whileWriting says in an error what was being written. If the disk filled up it becomes an
// ErrDiskFull, which says, too, about how many bytes that takes altogether, and how many are
// free now. bytes is 0 where nobody knows it. nil stays nil.
func whileWriting(fsys FS, dir, purpose string, bytes int64, err error) error {
	if !fileutil.IsDiskFull(err) {
		return errors.WithMessage(err, purpose)
	}
	err = diskFull(err)
	var facts []string
	if bytes > 0 {
		facts = append(facts, fmt.Sprintf("about %d bytes are wanted", bytes))
	}
	if r, askErr := roomIn(fsys, dir); askErr == nil && r.known {
		facts = append(facts, fmt.Sprintf("%d bytes are free", r.free))
	}
	if facts != nil {
		purpose += ": " + strings.Join(facts, ", ")
	}
	return errors.WithMessage(err, purpose)
}
