package backfill

import (
	stderrors "errors"
	"io/fs"
	"math"
	"path/filepath"
	"slices"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/datadir"
	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// headBorder is from when on the samples of a head count: the highest end of a block
// that says how far the head was written. Blocks that reach beyond it must not say so,
// or whoever opens the directory takes the samples in the log for written, and drops
// them. Without a log there is no head, and no border.
func headBorder(fsys fileutil.FS, dir string) (int64, error) {
	log, err := fsys.ReadDir(filepath.Join(dir, datadir.WALDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	if len(log) == 0 {
		return noBorder, nil
	}
	ids, err := blockdir.List(fsys, dir)
	if err != nil {
		return 0, err
	}
	border := int64(math.MinInt64)
	for _, id := range ids {
		// One that cannot be read, or has gone meanwhile, does not count.
		if m, err := blockdir.ReadMeta(fsys, blockdir.Path(dir, id)); err == nil && !blockdir.BesideHead(&m) {
			border = max(border, m.MaxTime)
		}
	}
	return border, nil
}

// publish moves the blocks into the data directory. The mark is decided at the last
// moment: a database may have been opened, or have written blocks of its own.
func (f *flush) publish(metas []blockdir.Meta) ([]blockdir.Meta, error) {
	fsys := f.store.fsys
	border, err := headBorder(fsys, f.Dir)
	if err != nil {
		return nil, err
	}
	if err := f.mark(f.staging, metas, border); err != nil {
		return nil, err
	}
	for i := range metas {
		id := metas[i].ULID
		if err := fsys.Rename(blockdir.Path(f.staging, id), blockdir.Path(f.Dir, id)); err != nil {
			return metas[:i], stderrors.Join(err, fsys.SyncDir(f.staging), fsys.SyncDir(f.Dir))
		}
	}
	// Where they came from first: should a crash undo one half of a move, the block is gone,
	// and not to be found under two names of which Close or Open removes one.
	for _, dir := range []string{f.staging, f.Dir} {
		if err := fsys.SyncDir(dir); err != nil {
			return metas, err
		}
	}
	if border == noBorder { // a database may have been created since
		now, err := headBorder(fsys, f.Dir)
		if err != nil || now == noBorder {
			return metas, err
		}
		return metas, f.mark(f.Dir, metas, math.MinInt64)
	}
	return metas, nil
}

// mark gives the mark to those of the blocks in dir that reach beyond the border.
func (f *flush) mark(dir string, metas []blockdir.Meta, border int64) error {
	for i := range metas {
		m := &metas[i]
		if m.MaxTime <= border || blockdir.BesideHead(m) {
			continue
		}
		m.Compaction.Hints = append(slices.Clone(m.Compaction.Hints), blockdir.HintFromOutOfOrder)
		if err := blockdir.WriteMeta(f.store.fsys, blockdir.Path(dir, m.ULID), *m); err != nil {
			return err
		}
	}
	return nil
}
