// Package diskspace knows how much room a disk has, and how much of it stays for the log when other
// work is begun. It writes nothing. What is not begun then, and when it is tried again, is for who
// asks. Anybody may call it at any time.
package diskspace

import (
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/wal"
)

const (
	// maxReserveBytes stay free beside what a merge, a snapshot or a repair writes, so that
	// such work never takes the last of the disk from the log.
	maxReserveBytes = 64 << 20
	// reserveShare bounds the reserve to a twentieth of the disk: on a small one, 64 MiB would
	// be more than there ever is.
	reserveShare = 20
)

// ReserveBytes returns how much stays free for the log on a disk of some bytes.
func ReserveBytes(diskBytes int64) int64 {
	return min(maxReserveBytes, max(0, diskBytes/reserveShare))
}

// Check returns a wal.ErrDiskFull with the numbers if so many bytes in a directory would not leave
// the reserve of its disk free, as it is now. purpose begins the text: what they are for.
func Check(fsys fileutil.FS, dir, purpose string, bytes int64) error {
	r, err := in(fsys, dir)
	if err != nil {
		return err
	}
	return r.check(purpose, bytes)
}

// room is what a disk has, in bytes.
type room struct {
	free, total int64
	known       bool // false: the file system does not tell
}

// in asks a file system for the room in a directory.
func in(fsys fileutil.FS, dir string) (room, error) {
	free, total, err := fileutil.DiskSpace(fsys, dir)
	switch {
	case errors.Is(err, fileutil.ErrUnsupported):
		return room{}, nil
	case err != nil:
		return room{}, errors.WithMessage(err, "ask for disk space")
	}
	return room{free: free, total: total, known: true}, nil
}

// check is Check for what a disk has.
func (r room) check(purpose string, bytes int64) error {
	reserve := ReserveBytes(r.total)
	if !r.known || r.free-reserve >= bytes {
		return nil
	}
	return errors.WithMessagef(wal.ErrDiskFull, "%s: %d bytes are wanted and %d kept for the log, %d are free", purpose, bytes, reserve, r.free)
}

// WhileWriting says in an error what was being written. If the disk filled up it becomes a
// wal.ErrDiskFull, which says, too, about how many bytes that takes altogether, and how many are
// free now. bytes is 0 where nobody knows it. nil stays nil.
func WhileWriting(fsys fileutil.FS, dir, purpose string, bytes int64, err error) error {
	if !fileutil.IsDiskFull(err) {
		return errors.WithMessage(err, purpose)
	}
	err = Full(err)
	if facts := fileutil.Room(fsys, dir, bytes); facts != "" {
		purpose += ": " + facts
	}
	return errors.WithMessage(err, purpose)
}

// Full gives an error of a full disk the sentinel that callers know; others stay as they are.
func Full(err error) error {
	if fileutil.IsDiskFull(err) && !errors.Is(err, wal.ErrDiskFull) {
		return fileutil.Meaning(wal.ErrDiskFull, err)
	}
	return err
}
