package tsdb

import (
	stderrors "errors"
	"path/filepath"
	"slices"

	"github.com/oklog/ulid/v2"
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// repairReserveBytes is what has to be free beside the copy of a block, so that the log can
// still be repaired.
const repairReserveBytes = 64 << 20

// replace puts what can be read of a damaged block in its place. The original moves first:
// whatever happens then, it is there, and the next Repair finds it.
func (r *repairer) replace(d damagedBlock) error {
	b := BlockRepair{Original: d.id.String(), Damages: d.damages}
	full, err := r.full(d.bytes)
	if err != nil {
		return err
	}
	if full {
		b.Err = errors.WithMessagef(ErrDiskFull, "no room for a copy of %d bytes", d.bytes)
		r.report.Blocks = append(r.report.Blocks, b)
		return nil
	}
	if b.Original, err = r.blocks.setAside(d.id); err != nil {
		return errors.WithMessagef(err, "set block %s aside", d.id)
	}
	m := missingAt(r.fs, r.dir, b.Original, d.id)
	if r.have.has(m) {
		b.Err = errors.New("other blocks have its samples")
		r.report.Blocks = append(r.report.Blocks, b)
		return nil
	}
	if err := r.save(m, &b); err != nil {
		return stderrors.Join(err, r.putBack(d.id, b.Original))
	}
	r.report.Blocks = append(r.report.Blocks, b)
	return nil
}

// full reports whether there is no room for a copy of so many bytes, as far as the file
// system knows.
func (r *repairer) full(bytes int64) (bool, error) {
	free, _, err := fileutil.DiskSpace(r.fs, r.dir)
	if errors.Is(err, fileutil.ErrUnsupported) {
		return false, nil
	}
	return free < bytes+repairReserveBytes, err
}

// putBack undoes setAside.
func (r *repairer) putBack(id ulid.ULID, name string) error {
	if err := r.fs.Rename(filepath.Join(r.dir, name), blockdir.Path(r.dir, id)); err != nil {
		return err
	}
	return stderrors.Join(r.fs.SyncDir(r.dir), r.fs.SyncDir(filepath.Join(r.dir, quarantineDirName)))
}

// save makes a block of what can be read of one in quarantine. That nothing can be read
// is in b; an error is another one.
func (r *repairer) save(m missingBlock, b *BlockRepair) error {
	id := newULID(r.db.Clock.Now())
	saved, err := blockdir.Salvage(r.ctx, r.fs, filepath.Join(r.dir, m.name), r.dir, id, blockdir.SalvageOptions{
		Undelete: r.opts.Undelete,
		Origin:   func(meta *BlockMeta) { r.origin(meta, m.id) },
	})
	if len(b.Damages) == 0 {
		b.Damages = damagesOf(m.name, saved.Damage)
	}
	switch {
	case err == nil:
	case errors.Is(err, ErrCorrupt), errors.Is(err, blockdir.ErrEmpty), errors.Is(err, blockdir.ErrDeletedLost):
		b.Err = err
		return nil
	default:
		return errors.WithMessagef(err, "save block %s", m.name)
	}
	b.Saved = &saved.Meta
	b.LostSeries, b.LostChunks, b.LostSamples = saved.LostSeries, saved.LostChunks, saved.LostSamples
	b.MetaLost, b.DeletedLost = saved.MetaLost, saved.DeletedLost
	r.have.add(saved.Meta)
	return nil
}

// origin says where a saved block comes from: from what the original was made of, so that
// everybody knows that the original is not needed. It has no parents. A block with parents
// makes them go, and those of the original, should they still be there, are better than
// what was saved; so is the original itself, when somebody brings it back from a backup.
//
// One that reaches further than all good blocks may hold a part of the samples of its times
// only, so it must not tell the head that the log is not needed there.
func (r *repairer) origin(m *BlockMeta, original ulid.ULID) {
	m.Compaction.Parents = nil
	if len(m.Compaction.Sources) == 0 {
		m.Compaction.Sources = []ulid.ULID{original}
	}
	if m.MaxTime > r.start && !besideHead(*m) {
		hints := append(slices.Clone(m.Compaction.Hints), blockdir.HintFromOutOfOrder)
		slices.Sort(hints)
		m.Compaction.Hints = hints
	}
}
