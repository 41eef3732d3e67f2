package blockset

import (
	"slices"
	"sync"

	"github.com/oklog/ulid/v2"
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/blockplan"
	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// leavers are the blocks that left the view and whose directories may still be there.
type leavers struct {
	cfg     *Config
	readers Readers // nil: nobody is waited for

	change *sync.Mutex // that of the Set, which guards what follows
	// leaving has all of them, left those that could not be removed.
	leaving, left []ulid.ULID
	closed        bool // nothing is removed from the directory any more
}

// last is called when nobody holds a block any more. One that is still wanted is only
// closed: that is the end of the database.
func (l *leavers) last(b *opened) {
	err := b.dir.Close()
	if b.retired.Load() {
		id := b.dir.Meta().ULID
		removeErr := l.remove(id)
		if removeErr != nil {
			l.keepLeft(id)
		}
		err = fileutil.JoinErrors(err, removeErr)
	}
	l.warnOfRemoval(b, err)
}

func (l *leavers) warnOfRemoval(b *opened, err error) {
	if err != nil {
		l.cfg.Logger.Warn("remove block", "block", b.dir.Path(), "error", fileutil.Logged(err))
	}
}

// remove removes a directory, unless the database has let go of it: then the next one
// to open it does.
func (l *leavers) remove(id ulid.ULID) error {
	l.change.Lock()
	defer l.change.Unlock()
	if l.closed {
		return nil
	}
	if err := blockdir.Remove(l.cfg.FS, l.cfg.Dir, id); err != nil {
		return err // the next one to open the directory tries again
	}
	is := func(gone ulid.ULID) bool { return gone == id }
	l.leaving = slices.DeleteFunc(l.leaving, is)
	l.left = slices.DeleteFunc(l.left, is)
	return nil
}

// removeLeft tries again to remove what could not be removed.
func (l *leavers) removeLeft() error {
	l.change.Lock()
	left := slices.Clone(l.left)
	l.change.Unlock()
	var errs []error
	for _, id := range left {
		if err := l.remove(id); err != nil {
			errs = append(errs, errors.WithMessagef(err, "remove block %s", id))
		}
	}
	return fileutil.JoinErrors(errs...)
}

// keepLeft notes a block that could not be removed, for removeLeft.
func (l *leavers) keepLeft(id ulid.ULID) {
	l.change.Lock()
	defer l.change.Unlock()
	if !slices.Contains(l.left, id) {
		l.left = append(l.left, id)
	}
}

// retire lets go of blocks that are not in the view any more. Readers keep their files open,
// which is enough where those may be removed; then nothing is left that a crash, or an end
// of the database before the last reader's, could bring back. What cannot be removed is an
// error, and removeLeft tries again.
func (l *leavers) retire(old []Block) error {
	var errs []error
	for _, b := range old {
		b.retired.Store(true)
		if b.copied.Load() > 0 {
			continue // the last reader removes it
		}
		err := l.remove(b.Meta.ULID)
		if errors.Is(err, blockdir.ErrNotMoved) && b.pins.Load() > 1 {
			l.warnOfRemoval(b.opened, err) // readers may be in the way: the last one tries again
			continue
		}
		b.retired.Store(false)
		if err != nil {
			l.keepLeft(b.Meta.ULID)
			errs = append(errs, errors.WithMessagef(err, "remove block %s", b.Meta.ULID))
		}
	}
	if l.readers != nil && len(old) > 0 {
		l.readers.Settle()
	}
	releaseBlocks(old)
	return fileutil.JoinErrors(errs...)
}

// removeReplacedLocked removes those of the added blocks that others, which could be opened, were
// made of: what a crash left. there has the blocks of the view. It returns the rest; one that
// cannot be removed is not read.
func (l *leavers) removeReplacedLocked(added, there []Block) (kept []Block) {
	var metas []blockdir.Meta
	for _, b := range append(slices.Clone(added), there...) {
		metas = append(metas, *b.Meta)
	}
	replaced := blockplan.Replaced(metas)
	for _, b := range added {
		if !replaced[b.Meta.ULID] {
			kept = append(kept, b)
			continue
		}
		l.leaving = append(l.leaving, b.Meta.ULID)
		b.Release()
		if l.cfg.ReadOnly {
			continue
		}
		if err := blockdir.Remove(l.cfg.FS, l.cfg.Dir, b.Meta.ULID); err != nil {
			l.left = append(l.left, b.Meta.ULID)
			l.cfg.Logger.Warn("remove block", "block", b.dir.Path(), "error", fileutil.Logged(err))
		}
	}
	return kept
}
