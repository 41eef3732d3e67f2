package tsdb

import (
	"context"
	stderrors "errors"
	"math"
	"slices"
	"sort"
	"sync"

	"github.com/oklog/ulid/v2"
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/datadir"
)

// blockSet is the blocks of a data directory. What queriers see of it is one immutable
// view that is replaced as a whole.
//
// Lock order: change, then view. change is held across syncs: whoever adds, retires or
// deletes from blocks holds it. view is held for a moment only.
type blockSet struct {
	opts *Options
	dir  string
	// readOnly: nothing is moved, removed or written, whatever is found.
	readOnly bool
	// busy: somebody brought blocks into the directory when it was opened, and may be changing
	// them.
	busy   bool
	looked *lookedAt // nil: nothing is remembered
	// settle waits for a while for those who read; nil: nobody does.
	settle func()

	change struct {
		sync.Mutex
		builds []*build // blocks that are being written
		// leaving has the blocks that left the view and may still be in the directory, left
		// those of them that could not be removed.
		leaving, left []ulid.ULID
		list          blockList
		closed        bool // nothing is removed from the directory any more
	}
	view struct {
		sync.RWMutex
		cur *view
	}
}

// view is what a Querier finds at one moment.
type view struct {
	blocks  []viewBlock       // ascending by MinTime
	missing []datadir.Missing // what is in quarantine, not read, or gone
	// start is where the head begins: what the head has before it, blocks have, too.
	start int64
}

// build is a block that is being written from others, or from the head. Deletes that
// come meanwhile reach its sources and are kept here for the block itself.
type build struct{ missed []deletion }

func newBlockSet(opts *Options, dir string) *blockSet {
	bs := &blockSet{opts: opts, dir: dir}
	bs.view.cur = &view{}
	return bs
}

// current returns the view of now. Its blocks may be read only by who pins them while
// holding the view, or holds change.
func (bs *blockSet) current() *view {
	bs.view.RLock()
	defer bs.view.RUnlock()
	return bs.view.cur
}

// set replaces the view. The caller holds change.
func (bs *blockSet) set(v *view) {
	// Not by package slices: its sort is made anew for each type, 17 KiB for a large one, and
	// these are few. So it is wherever nothing is hot (TestSmallestProgram).
	sort.Slice(v.blocks, func(i, k int) bool { return blockdir.CompareStart(v.blocks[i].meta, v.blocks[k].meta) < 0 })
	bs.view.Lock()
	defer bs.view.Unlock()
	bs.view.cur = v
}

// metas returns what the blocks say of themselves, in order.
func (bs *blockSet) metas() []BlockMeta {
	v := bs.current()
	metas := make([]BlockMeta, len(v.blocks))
	for i, b := range v.blocks {
		metas[i] = b.meta
	}
	return metas
}

// bytes returns the size of all blocks.
func (v *view) bytes() (n int64) {
	for _, b := range v.blocks {
		n += b.size
	}
	return n
}

// newest returns the time of the newest sample that a block may have, math.MinInt64 if there
// is no block.
func (v *view) newest() int64 {
	newest := int64(math.MinInt64)
	for _, b := range v.blocks {
		newest = max(newest, b.meta.MaxTime-1)
	}
	return newest
}

// warnings names the missing blocks that a query of the closed range would touch.
func (v *view) warnings(mint, maxt int64) (ws Warnings) {
	for _, m := range v.missing {
		if m.Mint <= maxt && m.Maxt >= mint {
			what := "block "
			if m.Vanished {
				what = "vanished block "
			}
			ws = append(ws, errors.WithMessage(ErrMissing, what+m.Name))
		}
	}
	return ws
}

// skipTo makes the head begin later: there is nothing before.
func (bs *blockSet) skipTo(start int64) {
	bs.change.Lock()
	defer bs.change.Unlock()
	bs.replaceLocked(nil, nil, start)
}

// open wraps a directory that was opened.
func (bs *blockSet) open(dir *blockdir.Dir) viewBlock {
	return viewBlock{block: newBlock(dir, bs.last), meta: dir.Meta(), size: dir.SizeBytes(), deleted: dir.Tombstones()}
}

// last is called when nobody holds a block any more. One that is still wanted is only
// closed: that is the end of the database.
func (bs *blockSet) last(b *block) {
	err := b.dir.Close()
	if b.retired.Load() {
		id := b.dir.Meta().ULID
		removeErr := bs.remove(id)
		if removeErr != nil {
			bs.keepLeft(id)
		}
		err = stderrors.Join(err, removeErr)
	}
	bs.warnOfRemoval(b, err)
}

func (bs *blockSet) warnOfRemoval(b *block, err error) {
	if err != nil {
		bs.opts.Logger.Warn("remove block", "block", b.dir.Path(), "error", logged(err))
	}
}

// remove removes a directory, unless the database has let go of it: then the next one
// to open it does.
func (bs *blockSet) remove(id ulid.ULID) error {
	bs.change.Lock()
	defer bs.change.Unlock()
	if bs.change.closed {
		return nil
	}
	if err := blockdir.Remove(bs.opts.FS, bs.dir, id); err != nil {
		return err // the next one to open the directory tries again
	}
	is := func(gone ulid.ULID) bool { return gone == id }
	bs.change.leaving = slices.DeleteFunc(bs.change.leaving, is)
	bs.change.left = slices.DeleteFunc(bs.change.left, is)
	return nil
}

// removeLeft tries again to remove what could not be removed.
func (bs *blockSet) removeLeft() error {
	bs.change.Lock()
	left := slices.Clone(bs.change.left)
	bs.change.Unlock()
	var errs []error
	for _, id := range left {
		if err := bs.remove(id); err != nil {
			errs = append(errs, errors.WithMessagef(err, "remove block %s", id))
		}
	}
	return stderrors.Join(errs...)
}

// keepLeft notes a block that could not be removed, for removeLeft.
func (bs *blockSet) keepLeft(id ulid.ULID) {
	bs.change.Lock()
	defer bs.change.Unlock()
	if !slices.Contains(bs.change.left, id) {
		bs.change.left = append(bs.change.left, id)
	}
}

// beginBuild notes that a block is being written. What is deleted from here on is
// deleted of it as well, by publish.
func (bs *blockSet) beginBuild() *build {
	bs.change.Lock()
	defer bs.change.Unlock()
	bd := &build{}
	bs.change.builds = append(bs.change.builds, bd)
	return bd
}

// endBuild forgets a build, published or not.
func (bs *blockSet) endBuild(bd *build) {
	bs.change.Lock()
	defer bs.change.Unlock()
	bs.change.builds = slices.DeleteFunc(bs.change.builds, func(b *build) bool { return b == bd })
}

// publish gives a block that was written its name and puts it into the view in the place of
// others; start is where the head begins now. What was deleted while it was written is
// deleted of it before: no crash brings it back. On an error err the view is as it was, and
// there is no new block. left says which of the replaced blocks could not be removed; they are
// in the view no more.
func (bs *blockSet) publish(bd *build, w *blockdir.Writer, replaced []ulid.ULID, start int64) (left, err error) {
	bs.change.Lock()
	old, err := bs.publishLocked(bd, w, replaced, start)
	bs.change.Unlock()
	return bs.retire(old), err
}

func (bs *blockSet) publishLocked(bd *build, w *blockdir.Writer, replaced []ulid.ULID, start int64) ([]viewBlock, error) {
	if len(bd.missed) > 0 {
		if err := w.Revise(bd.deleteFrom); err != nil {
			return nil, errors.WithMessagef(err, "delete from new block %s", w.ULID())
		}
	}
	if err := w.Publish(); err != nil {
		return nil, err
	}
	dir, err := blockdir.Open(bs.opts.FS, blockdir.Path(bs.dir, w.ULID()))
	if err != nil {
		// It must not be found later: what is deleted from now on is not deleted of it.
		bs.change.leaving = append(bs.change.leaving, w.ULID())
		err = stderrors.Join(err, blockdir.Remove(bs.opts.FS, bs.dir, w.ULID()))
		return nil, errors.WithMessagef(err, "open new block %s", w.ULID())
	}
	old := bs.replaceLocked([]viewBlock{bs.open(dir)}, replaced, start)
	bs.noteListLocked()
	return old, nil
}

// deleteFrom deletes from a block what was deleted while it was written.
func (bd *build) deleteFrom(d *blockdir.Dir) error {
	for _, missed := range bd.missed {
		b := viewBlock{block: &block{dir: d}, meta: d.Meta(), deleted: d.Tombstones()}
		if _, damaged, err := missed.of(context.Background(), b); err != nil || damaged != nil {
			return stderrors.Join(err, damaged)
		}
	}
	return nil
}

// replaceLocked takes blocks out of the view and puts others in; it returns those that
// went, for retire.
func (bs *blockSet) replaceLocked(added []viewBlock, replaced []ulid.ULID, start int64) (old []viewBlock) {
	cur := bs.current()
	next := &view{missing: cur.missing, start: max(start, cur.start), blocks: slices.Clone(added)}
	for _, b := range cur.blocks {
		if slices.Contains(replaced, b.meta.ULID) {
			old = append(old, b)
		} else {
			next.blocks = append(next.blocks, b)
		}
	}
	bs.set(next)
	for _, b := range old {
		bs.change.leaving = append(bs.change.leaving, b.meta.ULID)
	}
	return old
}

// retire lets go of blocks that are not in the view any more. Readers keep their files open,
// which is enough where those may be removed; then nothing is left that a crash, or an end
// of the database before the last reader's, could bring back. What cannot be removed is an
// error, and removeLeft tries again.
func (bs *blockSet) retire(old []viewBlock) error {
	var errs []error
	for _, b := range old {
		b.retired.Store(true)
		if b.copied.Load() > 0 {
			continue // the last reader removes it
		}
		err := bs.remove(b.meta.ULID)
		if errors.Is(err, blockdir.ErrNotMoved) && b.pins.Load() > 1 {
			bs.warnOfRemoval(b.block, err) // readers may be in the way: the last one tries again
			continue
		}
		b.retired.Store(false)
		if err != nil {
			bs.keepLeft(b.meta.ULID)
			errs = append(errs, errors.WithMessagef(err, "remove block %s", b.meta.ULID))
		}
	}
	if bs.settle != nil && len(old) > 0 {
		bs.settle()
	}
	for _, b := range old {
		b.release()
	}
	return stderrors.Join(errs...)
}

// drop retires blocks that nothing replaces, and returns how many left the view: all of them or,
// with an error, none. With an error and all of them, some could not be removed.
func (bs *blockSet) drop(ids []ulid.ULID) (n int, err error) {
	bs.change.Lock()
	if err := bs.leaveListLocked(ids); err != nil {
		bs.change.Unlock()
		return 0, err
	}
	old := bs.replaceLocked(nil, ids, bs.current().start)
	bs.change.Unlock()
	return len(old), bs.retire(old)
}

// pinned returns blocks by name, pinned, in the order of the view; nil if one of them is
// not there any more.
func (bs *blockSet) pinned(ids []ulid.ULID) []viewBlock {
	bs.view.RLock()
	defer bs.view.RUnlock()
	var found []viewBlock
	for _, b := range bs.view.cur.blocks {
		if slices.Contains(ids, b.meta.ULID) {
			found = append(found, b)
		}
	}
	if len(found) != len(ids) {
		return nil
	}
	for _, b := range found {
		b.pin()
	}
	return found
}

// close lets go of all blocks. Queriers keep what they have pinned.
func (bs *blockSet) close() {
	bs.change.Lock()
	bs.change.closed = true
	old := bs.current().blocks
	bs.set(&view{})
	bs.change.Unlock()
	for _, b := range old {
		b.release()
	}
}
