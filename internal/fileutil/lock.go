package fileutil

import (
	"path/filepath"
	"strings"

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
