package tsdb

import (
	stderrors "errors"
	"path/filepath"
	"runtime"
	"slices"
	"sync"

	"github.com/oklog/ulid/v2"
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/blocklist"
	"github.com/seed347100a3/tsdb/internal/blockplan"
	"github.com/seed347100a3/tsdb/internal/datadir"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/memseries"
)

// loaded is what came of opening one directory.
type loaded struct {
	id  ulid.ULID
	dir *blockdir.Dir
	err error
}

// load opens the blocks of the directory. Damaged ones are set aside, those that others
// were made of are removed. What cannot be opened for another reason than damage (no more
// files may be open, a newer version) is an error, and then nothing is moved. Who only reads goes
// on without a block of a newer version.
func (bs *blockSet) load(report *OpenReport) error {
	bs.change.Lock()
	defer bs.change.Unlock()
	// The list is read before the directory: what is added meanwhile is not missed in it.
	listed, err := bs.readListLocked()
	if err != nil {
		return err
	}
	l := blockLoad{bs: bs, report: report}
	added, err := bs.openNewLocked(l.refused)
	v := &view{blocks: added}
	if err == nil {
		v.missing, err = l.missing(added, listed)
	}
	if err != nil {
		releaseBlocks(added)
		return err
	}
	for i := range added {
		added[i] = bs.foreignFutureLocked(added[i])
	}
	report.Damages = append(report.Damages, disorderOf(added)...)
	v.start = v.startWithout(nil)
	bs.set(v)
	report.Blocks = len(added)
	return nil
}

// blockLoad is one load under way: what is told of blocks that are not opened.
type blockLoad struct {
	bs     *blockSet
	report *OpenReport
	unread []datadir.Missing
	none   []ulid.ULID // directories that are called after blocks and are none
}

// refused decides about a directory that is damaged, or no block that can be read.
func (l *blockLoad) refused(id ulid.ULID, why error) error {
	bs, d := l.bs, damageOf(id, why)
	switch {
	case errors.Is(why, datadir.ErrNotBlock):
		d.Harmless = true
		l.none = append(l.none, id)
		bs.opts.Logger.Warn("database inside a data directory", "dir", id)
	case bs.readOnly:
		l.unread = append(l.unread, datadir.MissingAt(bs.opts.FS, bs.dir, id.String(), id))
	default:
		moved, err := datadir.MoveToQuarantine(bs.opts.FS, bs.dir, id.String())
		if err != nil {
			return err
		}
		l.report.BlocksSetAside++
		l.report.Quarantined = append(l.report.Quarantined, moved)
		bs.opts.Logger.Error("block is damaged and was set aside", "block", id, "to", moved, "error", logged(why))
	}
	l.report.Damages = append(l.report.Damages, d)
	return nil
}

// missing returns the blocks that there should be and that are not read, each once.
func (l *blockLoad) missing(added []viewBlock, listed []blocklist.Block) ([]datadir.Missing, error) {
	bs, have := l.bs, datadir.NewLineage()
	for _, b := range added {
		have.Add(b.meta)
	}
	found, err := bs.missing(have, l.report)
	if err != nil {
		return nil, err
	}
	gone, err := datadir.Vanished(bs.opts.FS, bs.dir, listed, have, l.none)
	if err != nil {
		return nil, err
	}
	bs.reportVanished(gone, l.report)
	found = slices.DeleteFunc(found, func(m datadir.Missing) bool { // a link in the place of a block
		return slices.ContainsFunc(gone, func(g datadir.Missing) bool { return g.ID == m.ID })
	})
	return slices.Concat(found, l.unread, gone), nil
}

// openNewLocked opens all directories that the view does not have, several at a time.
// refused decides about those that are damaged, or no blocks; it is not asked about any if one could not be
// opened for another reason. What could be opened is returned beside an error.
func (bs *blockSet) openNewLocked(refused func(id ulid.ULID, why error) error) (added []viewBlock, err error) {
	ids, err := blockdir.List(bs.opts.FS, bs.dir)
	if err != nil {
		return nil, errors.WithMessage(err, "list blocks")
	}
	ids = slices.DeleteFunc(ids, func(id ulid.ULID) bool { return bs.current().has(id) || slices.Contains(bs.change.leaving, id) })
	var errs []error
	var odd []loaded
	for _, r := range bs.openAll(ids) {
		switch {
		case r.err == nil:
			added = append(added, bs.open(r.dir))
		case errors.Is(r.err, ErrCorrupt) && !errors.Is(r.err, fileutil.ErrMemoryFault): // a fault may pass
			odd = append(odd, r)
		case errors.Is(r.err, blockdir.ErrUnsupportedVersion) && bs.readOnly:
			odd = append(odd, r)
		case errors.Is(r.err, blockdir.ErrUnsupportedVersion):
			errs = append(errs, &refusal{ErrUnsupported, errors.WithMessagef(r.err, "open block %s", r.id)})
		default:
			errs = append(errs, errors.WithMessagef(r.err, "open block %s", r.id))
		}
	}
	if len(errs) == 0 {
		for _, r := range odd {
			errs = append(errs, bs.refuse(r, refused))
		}
	}
	return bs.removeReplacedLocked(added), stderrors.Join(errs...)
}

// refuse asks what becomes of a directory that cannot be opened as a block.
func (bs *blockSet) refuse(r loaded, refused func(id ulid.ULID, why error) error) error {
	other, err := datadir.IsNested(bs.opts.FS, blockdir.Path(bs.dir, r.id))
	if err != nil {
		return err
	}
	if other {
		return refused(r.id, datadir.ErrNotBlock)
	}
	return refused(r.id, r.err)
}

// openAll opens directories, one per CPU at a time.
func (bs *blockSet) openAll(ids []ulid.ULID) []loaded {
	results := make([]loaded, len(ids))
	work := make(chan int, len(ids))
	for i := range ids {
		work <- i
	}
	close(work)
	var wg sync.WaitGroup
	for range min(len(ids), runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			for i := range work {
				dir, err := bs.openDir(ids[i])
				results[i] = loaded{ids[i], dir, err}
			}
		})
	}
	wg.Wait()
	return results
}

func (bs *blockSet) openDir(id ulid.ULID) (*blockdir.Dir, error) {
	path := blockdir.Path(bs.dir, id)
	open := blockdir.Open
	if bs.readOnly {
		open = blockdir.OpenReadOnly
	}
	dir, err := open(bs.opts.FS, path)
	if err != nil {
		return nil, err
	}
	if err := bs.look(dir); err != nil {
		return nil, stderrors.Join(err, dir.Close())
	}
	if !bs.readOnly {
		bs.renewSidecar(dir)
		bs.tidy(dir)
	}
	return dir, nil
}

// tidy removes what a crash left of changes of a block. It does no harm there, so a failure is
// only told.
func (bs *blockSet) tidy(dir *blockdir.Dir) {
	if bs.busy {
		return // who brings blocks may be changing this one
	}
	if err := blockdir.RemoveTemporary(bs.opts.FS, dir.Path()); err != nil {
		bs.opts.Logger.Warn("remove leftovers in block", "block", dir.Path(), "error", logged(err))
	}
}

// renewSidecar writes the sidecar of a block that somebody else has written, or whose meta file
// somebody has: the checksum of the meta file, and whether the block is in order. Without it the
// block is as good, so a failure is only told.
func (bs *blockSet) renewSidecar(dir *blockdir.Dir) {
	if !dir.NeedsSidecar() && dir.InOrder() == dir.Proven() {
		return
	}
	if err := blockdir.RenewSidecar(bs.opts.FS, dir.Path(), dir.Meta(), dir.Proven()); err != nil {
		bs.opts.Logger.Warn("write checksum of meta file", "block", dir.Path(), "error", logged(err))
	}
}

// startWithout returns where the head begins by the blocks, if some were not there.
func (v *view) startWithout(ids []ulid.ULID) int64 {
	start := int64(memseries.NoTime + 1)
	for _, b := range v.blocks {
		if !blockdir.BesideHead(b.meta) && !slices.Contains(ids, b.meta.ULID) {
			start = max(start, b.meta.MaxTime)
		}
	}
	return start
}

// removeReplacedLocked removes the blocks that others, which could be opened, were made
// of: what a crash left. One that cannot be removed is not read.
func (bs *blockSet) removeReplacedLocked(added []viewBlock) (kept []viewBlock) {
	var metas []BlockMeta
	for _, b := range append(slices.Clone(added), bs.current().blocks...) {
		metas = append(metas, b.meta)
	}
	replaced := blockplan.Replaced(metas)
	for _, b := range added {
		if !replaced[b.meta.ULID] {
			kept = append(kept, b)
			continue
		}
		bs.change.leaving = append(bs.change.leaving, b.meta.ULID)
		b.release()
		if bs.readOnly {
			continue
		}
		if err := blockdir.Remove(bs.opts.FS, bs.dir, b.meta.ULID); err != nil {
			bs.change.left = append(bs.change.left, b.meta.ULID)
			bs.opts.Logger.Warn("remove block", "block", b.dir.Path(), "error", logged(err))
		}
	}
	return kept
}

// has reports whether a block is in the view.
func (v *view) has(id ulid.ULID) bool {
	return slices.ContainsFunc(v.blocks, func(b viewBlock) bool { return b.meta.ULID == id })
}

// damageOf says what is wrong with a block.
func damageOf(id ulid.ULID, err error) Damage {
	d := Damage{File: id.String(), Reason: err.Error()}
	if c := (*CorruptError)(nil); errors.As(err, &c) {
		d.File, d.Offset, d.Reason = filepath.Join(id.String(), filepath.Base(c.File)), c.Offset, c.Reason
	}
	return d
}

// reload takes up blocks that somebody has put into the directory since, and says which
// could not be.
func (bs *blockSet) reload() error {
	bs.change.Lock()
	defer bs.change.Unlock()
	if bs.change.closed {
		return nil
	}
	added, err := bs.openNewLocked(func(id ulid.ULID, why error) error {
		return errors.WithMessagef(why, "open block %s", id)
	})
	cur := bs.current()
	errs := []error{err}
	kept := added[:0]
	for _, b := range added {
		b, err := bs.besideHeadLocked(b, cur.start)
		errs = append(errs, err)
		if err == nil {
			kept = append(kept, b)
		}
	}
	if len(kept) > 0 {
		bs.set(&view{missing: cur.missingBeside(kept), start: cur.start, blocks: append(kept, cur.blocks...)})
	}
	if len(kept) > 0 || bs.change.list.stale {
		bs.noteListLocked()
	}
	return stderrors.Join(errs...)
}

// missingBeside returns what is still missing when blocks are added that somebody brought.
func (v *view) missingBeside(added []viewBlock) []datadir.Missing {
	have := datadir.NewLineage()
	for _, b := range added {
		have.Add(b.meta)
	}
	return slices.DeleteFunc(slices.Clone(v.missing), have.Has)
}

// besideHeadLocked sees to it that a block from somewhere else, which reaches into the time
// of the head, says that the log counts there, too: without the hint the next start would
// take the head's samples before its end for samples of blocks.
func (bs *blockSet) besideHeadLocked(b viewBlock, start int64) (viewBlock, error) {
	if b.meta.MaxTime <= start || blockdir.BesideHead(b.meta) {
		return b, nil
	}
	defer b.release()
	return bs.markBesideLocked(b)
}

// foreignFutureLocked sees to it that a block of the future does not close the head. Where its
// hint cannot be written, it counts as if it had it.
func (bs *blockSet) foreignFutureLocked(b viewBlock) viewBlock {
	if !blockdir.FromFuture(b.meta, bs.opts.Clock, bs.opts.Limits.MaxFuture) {
		return b
	}
	if !bs.readOnly {
		bs.opts.Logger.Warn("a block of the future does not close the head", "block", b.meta.ULID, "mint", b.meta.MinTime)
		if marked, err := bs.markBesideLocked(b); err == nil {
			b.release()
			return marked
		}
	}
	b.meta = withHint(b.meta)
	return b
}

// withHint says of a block that it lies beside the head.
func withHint(m BlockMeta) BlockMeta {
	m.Compaction.Hints = append(slices.Clone(m.Compaction.Hints), blockdir.HintFromOutOfOrder)
	slices.Sort(m.Compaction.Hints)
	return m
}

// markBeside marks blocks as lying beside the head, and makes the head begin at the end of the
// others, which it returns. Nothing that the log has lies before where it began.
func (bs *blockSet) markBeside(ids []ulid.ULID) (start int64, err error) {
	bs.change.Lock()
	defer bs.change.Unlock()
	cur := bs.current()
	next := &view{missing: cur.missing}
	var old, marked []viewBlock
	for _, b := range cur.blocks {
		if !slices.Contains(ids, b.meta.ULID) {
			next.blocks = append(next.blocks, b)
			continue
		}
		m, err := bs.markBesideLocked(b)
		if err != nil {
			releaseBlocks(marked)
			return 0, err
		}
		old, marked = append(old, b), append(marked, m)
	}
	next.blocks = append(next.blocks, marked...)
	next.start = next.startWithout(nil)
	bs.set(next)
	releaseBlocks(old)
	return next.start, nil
}

func releaseBlocks(bs []viewBlock) {
	for _, b := range bs {
		b.release()
	}
}

// markBesideLocked writes the hint of a block and opens it once more. The caller lets go of the
// block as it was.
func (bs *blockSet) markBesideLocked(b viewBlock) (viewBlock, error) {
	meta := withHint(b.meta)
	err := blockdir.WriteMeta(bs.opts.FS, blockdir.Path(bs.dir, meta.ULID), meta)
	if err != nil {
		return b, errors.WithMessagef(err, "mark block %s, which reaches into the head", meta.ULID)
	}
	dir, err := bs.openDir(meta.ULID)
	if err != nil {
		return b, errors.WithMessagef(err, "open block %s", meta.ULID)
	}
	return bs.open(dir), nil
}
