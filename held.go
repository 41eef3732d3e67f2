package tsdb

import (
	"log/slog"
	"sync/atomic"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// holding is a data directory that is locked. Whoever renames it, or puts another one in its
// place, leaves us with a path that leads elsewhere: to the directory of another process,
// maybe, with files of the same names. So before each operation on a name it is asked
// whether the lock is still where it was. Files that are open are not asked: they went with
// the directory.
type holding struct {
	dir    string // absolute, if the file system has a working directory
	lock   fileutil.DirLock
	logger *slog.Logger

	given  atomic.Bool                          // up: nobody asks any more
	lost   atomic.Pointer[error]                // why nothing is done by name any more; it stays
	onLost atomic.Pointer[func(poisoned error)] // told once; nil: nobody is
}

// hold locks a data directory. The options' file system is from then on one that refuses
// when the directory is not the one that was locked.
func hold(dir string, o *Options) (*holding, error) {
	lock, err := o.FS.LockDir(dir, owner())
	if err != nil {
		return nil, err
	}
	h := &holding{dir: dir, lock: lock, logger: o.Logger}
	o.FS = fileutil.Held(o.FS, h.check)
	return h, nil
}

// check returns ErrPoisoned once the lock is not where it was.
func (h *holding) check() error {
	if h.given.Load() {
		return nil // a Querier that outlives the database reads on
	}
	if err := h.err(); err != nil {
		return err
	}
	err := h.lock.Check()
	if h.given.Load() {
		return nil
	}
	if !errors.Is(err, fileutil.ErrLockLost) {
		return err
	}
	err = &refusal{ErrPoisoned, errors.WithMessagef(err, "data directory %s was moved or replaced, or its lock file was removed: close the database, and open it where it is now", h.dir)}
	if !h.lost.CompareAndSwap(nil, &err) {
		return h.err()
	}
	h.logger.Error("data directory is lost", "dir", h.dir, "error", logged(err))
	if tell := h.onLost.Load(); tell != nil {
		(*tell)(err)
	}
	return err
}

// release gives the lock up.
func (h *holding) release() error {
	h.given.Store(true)
	return h.lock.Release()
}

// err returns nil, or why the directory is lost.
func (h *holding) err() error {
	if err := h.lost.Load(); err != nil {
		return *err
	}
	return nil
}

// tell has fn called when the directory is lost, at once if it is already.
func (h *holding) tell(fn func(poisoned error)) {
	h.onLost.Store(&fn)
	if err := h.err(); err != nil {
		fn(err)
	}
}
