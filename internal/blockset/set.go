package blockset

import (
	"context"
	"slices"
	"sort"
	"sync"

	"github.com/oklog/ulid/v2"
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// Set is the blocks of a data directory. What queriers see of it is one immutable
// view that is replaced as a whole.
//
// Lock order: change, then view. change is held across syncs: whoever adds, retires or
// deletes from blocks holds it. view is held for a moment only.
type Set struct {
	cfg     Config
	dirs    opener
	leavers leavers
	// Announcer tells the program of new blocks.
	Announcer announcer

	change struct {
		sync.Mutex
		builds []*Build // blocks that are being written
		list   blockList
		look   dirLook
	}
	view struct {
		sync.RWMutex
		cur *View
	}
}

// Build is a block that is being written from others, or from the head. Deletes that
// come meanwhile reach its sources and are kept here for the block itself.
type Build struct{ missed []Deletion }

// New returns a Set without blocks.
func New(cfg Config) *Set {
	s := &Set{cfg: cfg}
	s.leavers = leavers{cfg: &s.cfg, change: &s.change.Mutex}
	s.dirs = opener{&s.cfg, &s.leavers}
	s.Announcer.fn = cfg.OnBlock
	s.view.cur = &View{}
	return s
}

// WaitFor makes those who read be waited for, for a while, before files are closed. It is called
// before anybody reads.
func (s *Set) WaitFor(r Readers) { s.leavers.readers = r }

// HoldView returns the view, and keeps it from being replaced until LetViewGo.
func (s *Set) HoldView() *View {
	s.view.RLock()
	return s.view.cur
}

// LetViewGo ends what HoldView began.
func (s *Set) LetViewGo() { s.view.RUnlock() }

// Current returns the view of now. Its blocks may be read only by who pins them while
// holding the view, or holds change.
func (s *Set) Current() *View {
	s.view.RLock()
	defer s.view.RUnlock()
	return s.view.cur
}

// set replaces the view. The caller holds change.
func (s *Set) set(v *View) {
	// Not by package slices: its sort is made anew for each type, 17 KiB for a large one, and
	// these are few. So it is wherever nothing is hot (TestSmallestProgram).
	sort.Slice(v.Blocks, func(i, k int) bool { return blockdir.CompareStart(v.Blocks[i].Meta, v.Blocks[k].Meta) < 0 })
	for i := range v.Blocks {
		if m := v.Blocks[i].Meta; m.HasHint(blockdir.HintFromOutOfOrder) {
			v.late = append(v.late, m)
		}
	}
	s.view.Lock()
	defer s.view.Unlock()
	s.view.cur = v
}

// SkipTo makes the head begin later: there is nothing before.
func (s *Set) SkipTo(start int64) {
	s.change.Lock()
	defer s.change.Unlock()
	s.replaceLocked(nil, nil, start)
}

// RemoveLeft tries again to remove what could not be removed.
func (s *Set) RemoveLeft() error { return s.leavers.removeLeft() }

// BeginBuild notes that a block is being written. What is deleted from here on is noted for it:
// Publish deletes it there, too. At the same moment it calls at, if that is not nil.
func (s *Set) BeginBuild(at func()) *Build {
	s.change.Lock()
	defer s.change.Unlock()
	if at != nil {
		at()
	}
	bd := &Build{}
	s.change.builds = append(s.change.builds, bd)
	return bd
}

// EndBuild forgets a build, published or not.
func (s *Set) EndBuild(bd *Build) {
	s.change.Lock()
	defer s.change.Unlock()
	if i := slices.Index(s.change.builds, bd); i >= 0 {
		last := len(s.change.builds) - 1
		copy(s.change.builds[i:], s.change.builds[i+1:])
		s.change.builds[last] = nil // or it would be kept
		s.change.builds = s.change.builds[:last]
	}
}

// Publish gives a block that was written its name and puts it into the view in the place of
// others; start is where the head begins now. What was deleted while it was written is
// deleted of it before: no crash brings it back. On an error err the view is as it was, and
// there is no new block. left says which of the replaced blocks could not be removed; they are
// in the view no more.
func (s *Set) Publish(bd *Build, w *blockdir.Writer, replaced []ulid.ULID, start int64) (left, err error) {
	s.change.Lock()
	old, err := s.publishLocked(bd, w, replaced, start)
	s.change.Unlock()
	return s.leavers.retire(old), err
}

func (s *Set) publishLocked(bd *Build, w *blockdir.Writer, replaced []ulid.ULID, start int64) ([]Block, error) {
	if len(bd.missed) > 0 {
		if err := w.Revise(bd.deleteFrom); err != nil {
			return nil, errors.WithMessagef(err, "delete from new block %s", w.ULID())
		}
	}
	if err := w.Publish(); err != nil {
		return nil, err
	}
	dir, err := blockdir.Open(s.cfg.FS, blockdir.Path(s.cfg.Dir, w.ULID()))
	if err != nil {
		// It must not be found later: what is deleted from now on is not deleted of it.
		s.leavers.leaving = append(s.leavers.leaving, w.ULID())
		err = fileutil.JoinErrors(err, blockdir.Remove(s.cfg.FS, s.cfg.Dir, w.ULID()))
		return nil, errors.WithMessagef(err, "open new block %s", w.ULID())
	}
	old := s.replaceLocked([]Block{s.dirs.block(dir)}, replaced, start)
	s.NoteListLocked()
	s.Announcer.add(dir.Meta())
	return old, nil
}

// deleteFrom deletes from a block what was deleted while it was written.
func (bd *Build) deleteFrom(d *blockdir.Dir) error {
	for _, missed := range bd.missed {
		meta := d.Meta()
		b := Block{opened: &opened{dir: d}, Meta: &meta, Deleted: d.Tombstones()}
		if _, damaged, err := missed.of(context.Background(), b); err != nil || damaged != nil {
			return fileutil.JoinErrors(err, damaged)
		}
	}
	return nil
}

// replaceLocked takes blocks out of the view and puts others in; it returns those that
// went, for leavers.retire.
func (s *Set) replaceLocked(added []Block, replaced []ulid.ULID, start int64) (old []Block) {
	cur := s.Current()
	next := &View{Missing: cur.Missing, Start: max(start, cur.Start), Blocks: slices.Clone(added)}
	for i := range cur.Blocks {
		list := &next.Blocks
		if slices.Contains(replaced, cur.Blocks[i].Meta.ULID) {
			list = &old
		}
		*list = append(*list, cur.Blocks[i])
	}
	s.set(next)
	for i := range old {
		s.leavers.leaving = append(s.leavers.leaving, old[i].Meta.ULID)
	}
	return old
}

// Drop retires blocks that nothing replaces, and returns how many left the view: all of them or,
// with an error, none. With an error and all of them, some could not be removed.
func (s *Set) Drop(ids []ulid.ULID) (n int, err error) {
	s.change.Lock()
	if err := s.change.list.leave(&s.cfg, s.Current().wantedBlocks(ids)); err != nil {
		s.change.Unlock()
		return 0, err
	}
	old := s.replaceLocked(nil, ids, s.Current().Start)
	s.change.Unlock()
	return len(old), s.leavers.retire(old)
}

// Lock keeps blocks from being added, retired or deleted from until Unlock: whoever asks for that
// waits, also across syncs. Methods with Locked in their names are for who holds it.
func (s *Set) Lock() { s.change.Lock() }

// Unlock ends what Lock began.
func (s *Set) Unlock() { s.change.Unlock() }

// DeleteLocked deletes from all blocks that overlap, on stable storage, and from those that are
// being written, when they are published. It returns the view with what was done, also with an
// error, for ShowLocked. damaged tells of series that could not be deleted from, as their entries
// are damaged; everything else is deleted then.
func (s *Set) DeleteLocked(ctx context.Context, d Deletion) (next *View, damaged, err error) {
	// What is being written now was read before: Publish deletes from it.
	for _, bd := range s.change.builds {
		bd.missed = append(bd.missed, d)
	}
	return d.ofBlocks(ctx, s.Current())
}

// ShowLocked replaces the view. What beside does changes for new queriers at the same moment; it
// must be quick.
func (s *Set) ShowLocked(next *View, beside func()) {
	s.view.Lock()
	defer s.view.Unlock()
	s.view.cur = next
	beside()
}

// MarkBeside marks blocks as lying beside the head, and makes the head begin at the end of the
// others, which it returns. Nothing that the log has lies before where it began.
func (s *Set) MarkBeside(ids []ulid.ULID) (start int64, err error) {
	s.change.Lock()
	defer s.change.Unlock()
	cur := s.Current()
	next := &View{Missing: cur.Missing}
	var old, marked []Block
	for _, b := range cur.Blocks {
		if !slices.Contains(ids, b.Meta.ULID) {
			next.Blocks = append(next.Blocks, b)
			continue
		}
		m, err := s.dirs.markBeside(b)
		if err != nil {
			releaseBlocks(marked)
			return 0, err
		}
		old, marked = append(old, b), append(marked, m)
	}
	next.Blocks = append(next.Blocks, marked...)
	next.Start = next.StartWithout(nil)
	s.set(next)
	releaseBlocks(old)
	return next.Start, nil
}

// Pinned returns blocks by name, pinned, in the order of the view; nil if one of them is
// not there any more.
func (s *Set) Pinned(ids []ulid.ULID) []Block {
	s.view.RLock()
	defer s.view.RUnlock()
	var found []Block
	for _, b := range s.view.cur.Blocks {
		if slices.Contains(ids, b.Meta.ULID) {
			found = append(found, b)
		}
	}
	if len(found) != len(ids) {
		return nil
	}
	for i := range found {
		found[i].Pin()
	}
	return found
}

// SaveList writes the list that belongs to the view. What goes wrong is only told: without the
// list a block may vanish unnoticed, and nothing else happens.
func (s *Set) SaveList() {
	s.change.Lock()
	defer s.change.Unlock()
	s.NoteListLocked()
}

// NoteListLocked is SaveList for who has locked the set.
func (s *Set) NoteListLocked() {
	if s.cfg.ReadOnly || s.leavers.closed {
		return
	}
	l := &s.change.list
	wasStale := l.stale
	if err := l.write(&s.cfg, s.Current().wantedBlocks(nil)); err != nil && !wasStale {
		s.cfg.Logger.Warn("write list of blocks", "error", fileutil.Logged(err))
	}
}

// Close lets go of all blocks. Queriers keep what they have pinned.
func (s *Set) Close() {
	s.change.Lock()
	s.leavers.closed = true
	old := s.Current().Blocks
	s.set(&View{})
	s.change.Unlock()
	releaseBlocks(old)
}
