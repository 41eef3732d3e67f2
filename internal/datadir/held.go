package datadir

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/wal"
)

// Held is a data directory that is locked. Whoever renames it, or puts another one in its
// place, leaves us with a path that leads elsewhere: to the directory of another process,
// maybe, with files of the same names. So before each operation on a name it is asked
// whether the lock is still where it was. Files that are open are not asked: they went with
// the directory.
type Held struct {
	dir    string // absolute, if the file system has a working directory
	lock   fileutil.DirLock
	logger *slog.Logger

	given  atomic.Bool                          // up: nobody asks any more
	lost   atomic.Pointer[error]                // why nothing is done by name any more; it stays
	onLost atomic.Pointer[func(poisoned error)] // told once; nil: nobody is
}

// Hold locks a data directory. The file system that it returns refuses when the directory is not
// the one that was locked. ErrLocked of package fileutil.
func Hold(fsys fileutil.FS, dir string, logger *slog.Logger) (*Held, fileutil.FS, error) {
	lock, err := fsys.LockDir(dir, Owner())
	if err != nil {
		return nil, nil, err
	}
	h := &Held{dir: dir, lock: lock, logger: logger}
	return h, fileutil.Held(fsys, h.check), nil
}

// Owner is what a second one who wants the lock is told.
func Owner() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return fmt.Sprintf("pid %d of %s on %s", os.Getpid(), filepath.Base(os.Args[0]), host)
}

// check returns wal.ErrPoisoned once the lock is not where it was.
func (h *Held) check() error {
	if h.given.Load() {
		return nil // a Querier that outlives the database reads on
	}
	if err := h.Err(); err != nil {
		return err
	}
	err := h.lock.Check()
	if h.given.Load() {
		return nil
	}
	if !errors.Is(err, fileutil.ErrLockLost) {
		return err
	}
	err = fileutil.Meaning(wal.ErrPoisoned, errors.WithMessagef(err, "data directory %s was moved or replaced, or its lock file was removed: close the database, and open it where it is now", h.dir))
	if !h.lost.CompareAndSwap(nil, &err) {
		return h.Err()
	}
	h.logger.Error("data directory is lost", "dir", h.dir, "error", fileutil.Logged(err))
	if tell := h.onLost.Load(); tell != nil {
		(*tell)(err)
	}
	return err
}

// Lock returns the lock.
func (h *Held) Lock() fileutil.DirLock { return h.lock }

// Release gives the lock up.
func (h *Held) Release() error {
	h.given.Store(true)
	return h.lock.Release()
}

// Err returns nil, or why the directory is lost: a wal.ErrPoisoned.
func (h *Held) Err() error {
	if err := h.lost.Load(); err != nil {
		return *err
	}
	return nil
}

// Tell has fn called when the directory is lost, at once if it is already.
func (h *Held) Tell(fn func(poisoned error)) {
	h.onLost.Store(&fn)
	if err := h.Err(); err != nil {
		fn(err)
	}
}
