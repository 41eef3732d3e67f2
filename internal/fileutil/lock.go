package fileutil

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pkg/errors"
)

// Names in the data directory. LockName is shared with the reference
// implementation, which removes it on a clean close; so do we. OwnerName is ours
// alone and never removed: it keeps a second process of ours out even if somebody
// removed LockName, and its content names the holder.
const (
	LockName  = "lock"
	OwnerName = "lock.owner"
)

// maxOwner bounds what is read from OwnerName for an error text.
const maxOwner = 1 << 10

// lockedError says who holds dir. The owner text is missing when the holder is
// another program, and stale when one of ours died and another program followed.
func lockedError(dir, owner string) error {
	owner = strings.TrimSpace(owner)
	if owner == "" {
		return errors.Wrapf(ErrLocked, "lock %s: held by another program", dir)
	}
	return errors.Wrapf(ErrLocked, "lock %s: last taken by %q", dir, owner)
}

func lockPaths(dir string) (lock, owner string) {
	return filepath.Join(dir, LockName), filepath.Join(dir, OwnerName)
}

// OwnerText describes this process for LockDir: its number, its program, and now.
func OwnerText(now time.Time) string {
	program := "unknown program"
	if len(os.Args) > 0 { // a host without arguments is possible
		program = filepath.Base(os.Args[0])
	}
	return fmt.Sprintf("pid %d, %s, %s", os.Getpid(), program, now.UTC().Format(time.RFC3339))
}
