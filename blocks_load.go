package tsdb

import (
	stderrors "errors"
	"io/fs"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"

	"github.com/oklog/ulid/v2"
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/blockdir"
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
// files may be open, a newer version) is an error.
func (bs *blockSet) load(report *OpenReport) error {
	bs.change.Lock()
	defer bs.change.Unlock()
	var damaged []missingBlock
	added, err := bs.openNewLocked(func(id ulid.ULID, damage error) error {
		report.Damages = append(report.Damages, damageOf(id, damage))
		if bs.readOnly {
			damaged = append(damaged, missingAt(bs.opts.FS, bs.dir, id.String(), id))
			return nil
		}
		moved, err := bs.setAside(id)
		if err != nil {
			return err
		}
		report.BlocksSetAside++
		report.Quarantined = append(report.Quarantined, moved)
		bs.opts.Logger.Error("block is damaged and was set aside", "block", id, "to", moved, "error", damage)
		return nil
	})
	var missing []missingBlock
	if err == nil {
		missing, err = bs.missing(added, report)
	}
	if err != nil {
		for _, b := range added {
			b.release()
		}
		return err
	}
	v := &view{blocks: added, missing: append(missing, damaged...)}
	v.start = v.startWithout(nil)
	bs.set(v)
	report.Blocks = len(added)
	return nil
}

// openNewLocked opens all directories that the view does not have, several at a time.
// damaged decides about those that are damaged. What could be opened is returned beside an
// error.
func (bs *blockSet) openNewLocked(damaged func(id ulid.ULID, damage error) error) (added []viewBlock, err error) {
	ids, err := blockdir.List(bs.opts.FS, bs.dir)
	if err != nil {
		return nil, errors.WithMessage(err, "list blocks")
	}
	ids = slices.DeleteFunc(ids, func(id ulid.ULID) bool { return bs.current().has(id) || slices.Contains(bs.change.leaving, id) })
	results := bs.openAll(ids)
	var errs []error
	for _, r := range results {
		switch {
		case r.err == nil:
			added = append(added, bs.open(r.dir))
		case errors.Is(r.err, ErrCorrupt) && !errors.Is(r.err, fileutil.ErrMemoryFault): // a fault may pass
			errs = append(errs, damaged(r.id, r.err))
		case errors.Is(r.err, blockdir.ErrUnsupportedVersion):
			errs = append(errs, &refusal{ErrUnsupported, errors.WithMessagef(r.err, "open block %s", r.id)})
		default:
			errs = append(errs, errors.WithMessagef(r.err, "open block %s", r.id))
		}
	}
	return bs.removeReplacedLocked(added), stderrors.Join(errs...)
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
	if bs.readOnly {
		return blockdir.OpenReadOnly(bs.opts.FS, path)
	}
	dir, err := blockdir.Open(bs.opts.FS, path)
	if err == nil {
		bs.renewSidecar(dir)
	}
	return dir, err
}

// renewSidecar writes the checksum of a meta file that somebody else has written. Without
// it the block is as good, so a failure is only told.
func (bs *blockSet) renewSidecar(dir *blockdir.Dir) {
	if !dir.NeedsSidecar() {
		return
	}
	if err := blockdir.RenewSidecar(bs.opts.FS, dir.Path(), dir.Meta()); err != nil {
		bs.opts.Logger.Warn("write checksum of meta file", "block", dir.Path(), "error", err)
	}
}

// startWithout returns where the head begins by the blocks, if some were not there.
func (v *view) startWithout(ids []ulid.ULID) int64 {
	start := int64(memseries.NoTime + 1)
	for _, b := range v.blocks {
		if !besideHead(b.meta) && !slices.Contains(ids, b.meta.ULID) {
			start = max(start, b.meta.MaxTime)
		}
	}
	return start
}

// besideHead reports whether a block may hold a part of the samples of its times only, so
// that the log still counts there.
func besideHead(m BlockMeta) bool {
	return m.HasHint(blockdir.HintFromOutOfOrder) || m.HasHint(blockdir.HintFromStaleSeries) || m.HasHint(blockdir.HintFromSelectedSeries)
}

// removeReplacedLocked removes the blocks that others, which could be opened, were made
// of: what a crash left. One that cannot be removed is not read.
func (bs *blockSet) removeReplacedLocked(added []viewBlock) (kept []viewBlock) {
	var sized []sizedBlock
	for _, b := range append(slices.Clone(added), bs.current().blocks...) {
		sized = append(sized, sizedBlock{Meta: b.meta})
	}
	replaced := replacedBlocks(sized)
	for _, b := range added {
		if replaced[b.meta.ULID] == 0 {
			kept = append(kept, b)
			continue
		}
		bs.change.leaving = append(bs.change.leaving, b.meta.ULID)
		b.release()
		if bs.readOnly {
			continue
		}
		if err := blockdir.Remove(bs.opts.FS, bs.dir, b.meta.ULID); err != nil {
			bs.opts.Logger.Warn("remove block", "block", b.dir.Path(), "error", err)
		}
	}
	return kept
}

// setAside moves a damaged block into quarantine/ and returns where it is now, relative
// to the data directory.
func (bs *blockSet) setAside(id ulid.ULID) (string, error) {
	fsys, quarantine := bs.opts.FS, filepath.Join(bs.dir, quarantineDirName)
	if err := fileutil.MkdirSync(fsys, quarantine); err != nil {
		return "", err
	}
	name := id.String()
	for i := 1; ; i++ {
		_, err := fsys.Stat(filepath.Join(quarantine, name))
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return "", err
		}
		name = id.String() + "." + strconv.Itoa(i)
	}
	if err := fsys.Rename(blockdir.Path(bs.dir, id), filepath.Join(quarantine, name)); err != nil {
		return "", err
	}
	if err := fsys.SyncDir(quarantine); err != nil {
		return "", err
	}
	return filepath.Join(quarantineDirName, name), fsys.SyncDir(bs.dir)
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
	added, err := bs.openNewLocked(func(id ulid.ULID, damage error) error {
		return errors.WithMessagef(damage, "open block %s", id)
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
		bs.set(&view{missing: cur.missing, start: cur.start, blocks: append(kept, cur.blocks...)})
	}
	return stderrors.Join(errs...)
}

// besideHeadLocked sees to it that a block from somewhere else, which reaches into the time
// of the head, says that the log counts there, too: without the hint the next start would
// take the head's samples before its end for samples of blocks.
func (bs *blockSet) besideHeadLocked(b viewBlock, start int64) (viewBlock, error) {
	if b.meta.MaxTime <= start || besideHead(b.meta) {
		return b, nil
	}
	meta := b.meta
	meta.Compaction.Hints = append(slices.Clone(meta.Compaction.Hints), blockdir.HintFromOutOfOrder)
	slices.Sort(meta.Compaction.Hints)
	b.release()
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
