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
	if err != nil {
		return err
	}
	missing, err := bs.missing(added, report)
	if err != nil {
		for _, b := range added {
			b.release()
		}
		return err
	}
	v := &view{blocks: added, missing: append(missing, damaged...), start: memseries.NoTime + 1}
	for _, b := range added {
		if !besideHead(b.meta) {
			v.start = max(v.start, b.meta.MaxTime)
		}
	}
	bs.set(v)
	report.Blocks = len(added)
	return nil
}

// openNewLocked opens all directories that the view does not have, several at a time.
// damaged decides about those that are damaged.
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
	if err := stderrors.Join(errs...); err != nil {
		for _, b := range added {
			b.release()
		}
		return nil, err
	}
	return bs.removeReplacedLocked(added)
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

// besideHead reports whether a block may hold a part of the samples of its times only, so
// that the log still counts there.
func besideHead(m BlockMeta) bool {
	return m.HasHint(blockdir.HintFromOutOfOrder) || m.HasHint(blockdir.HintFromStaleSeries) || m.HasHint(blockdir.HintFromSelectedSeries)
}

// removeReplacedLocked removes the blocks that others, which could be opened, were made
// of, and those that a merge found nothing in: what a crash left.
func (bs *blockSet) removeReplacedLocked(added []viewBlock) ([]viewBlock, error) {
	var sized []sizedBlock
	for _, b := range append(slices.Clone(added), bs.current().blocks...) {
		sized = append(sized, sizedBlock{Meta: b.meta})
	}
	gone := obsoleteBlocks(retentionState{Blocks: sized}, retentionLimits{})
	var kept []viewBlock
	for _, b := range added {
		if gone[b.meta.ULID] == 0 {
			kept = append(kept, b)
			continue
		}
		b.release()
		if bs.readOnly {
			continue
		}
		if err := blockdir.Remove(bs.opts.FS, bs.dir, b.meta.ULID); err != nil {
			return nil, errors.WithMessagef(err, "remove block %s, which another one replaces", b.meta.ULID)
		}
	}
	return kept, nil
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
	if bs.change.closed || len(bs.change.builds) > 0 {
		return nil // what is being written gets its name before it is published
	}
	added, err := bs.openNewLocked(func(id ulid.ULID, damage error) error {
		return errors.WithMessagef(damage, "open block %s", id)
	})
	if err != nil || len(added) == 0 {
		return err
	}
	cur := bs.current()
	bs.set(&view{missing: cur.missing, start: cur.start, blocks: append(added, cur.blocks...)})
	return nil
}
