package repair

import (
	stderrors "errors"
	"path/filepath"
	"slices"

	"github.com/oklog/ulid/v2"
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/datadir"
	"github.com/seed347100a3/tsdb/internal/diskspace"
	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/wal"
)

// replace puts what can be read of a block in its place. The original moves first:
// whatever happens then, it is there, and the next Repair finds it.
func (r *repairer) replace(d damagedBlock) error {
	b := Block{Original: d.id.String(), Damages: d.damages}
	err := diskspace.Check(r.fs, r.dir, "copy what can be read of block "+b.Original, d.bytes)
	switch {
	case errors.Is(err, wal.ErrDiskFull):
		b.Err = err
		return r.done(&b, nil)
	case err != nil:
		return r.done(&b, err)
	}
	name, err := datadir.MoveToQuarantine(r.fs, r.dir, d.id.String())
	if err != nil {
		return r.done(&b, errors.WithMessage(err, "set block aside"))
	}
	b.Original = name
	m := datadir.MissingAt(r.fs, r.dir, b.Original, d.id)
	if r.have.Has(m) {
		b.Err, b.Elsewhere = errors.New("other blocks have its samples"), true
		return r.done(&b, nil)
	}
	if err = r.save(m, &b, isReadable(d.damages)); err != nil {
		back := r.putBack(d.id, b.Original)
		if back == nil {
			b.Original = d.id.String()
		}
		err = stderrors.Join(err, back)
	}
	return r.done(&b, err)
}

// isReadable reports whether everything of a block could be read when it was verified.
func isReadable(damages []datadir.Damage) bool {
	return !slices.ContainsFunc(damages, func(d datadir.Damage) bool { return !d.Harmless })
}

// putBack takes a block out of quarantine again.
func (r *repairer) putBack(id ulid.ULID, name string) error {
	if err := r.fs.Rename(filepath.Join(r.dir, name), blockdir.Path(r.dir, id)); err != nil {
		return err
	}
	return stderrors.Join(r.fs.SyncDir(r.dir), r.fs.SyncDir(filepath.Join(r.dir, datadir.QuarantineDir)))
}

// save makes a block of what can be read of one in quarantine. That nothing can be read
// is in b; an error is another one. Of one that is known to be readable all is read, or that is an
// error.
func (r *repairer) save(m datadir.Missing, b *Block, readable bool) error {
	id := blockdir.NewULID(r.opts.Clock.Now())
	saved, err := blockdir.Salvage(r.ctx, r.fs, filepath.Join(r.dir, m.Name), r.dir, id, blockdir.SalvageOptions{
		Undelete: r.opts.Undelete,
		Whole:    readable,
		Origin:   func(meta *blockdir.Meta, whole bool) { r.origin(meta, m.ID, whole) },
		NewID:    func() ulid.ULID { return blockdir.NewULID(r.opts.Clock.Now()) },

		SamplesPerChunk: r.opts.SamplesPerChunk,
	})
	if len(b.Damages) == 0 {
		b.Damages = damagesOf(m.Name, saved.Damage)
	}
	switch {
	case err == nil:
	case errors.Is(err, encbuf.ErrCorrupt), errors.Is(err, blockdir.ErrEmpty), errors.Is(err, blockdir.ErrDeletedLost):
		b.Err = err
		return nil
	default:
		return errors.WithMessagef(err, "save block %s", m.Name)
	}
	b.Saved, b.Beside, b.Repeated = &saved.Meta, saved.Beside, saved.Repeated
	b.LostSeries, b.LostChunks, b.LostSamples = saved.LostSeries, saved.LostChunks, saved.LostSamples
	b.MetaLost, b.DeletedLost = saved.MetaLost, saved.DeletedLost
	r.keep(saved.Meta)
	for _, m := range saved.Beside {
		r.have.Add(&m)
	}
	return nil
}

// origin says where a saved block comes from: from what the original was made of, so that
// everybody knows that the original is not needed. It has no parents. A block with parents
// makes them go, and those of the original, should they still be there, are better than
// what was saved; so is the original itself, when somebody brings it back from a backup.
//
// One that reaches further than all good blocks may hold a part of the samples of its times
// only, so it must not tell the head that the log is not needed there. One of which everything
// could be read tells what the original told.
func (r *repairer) origin(m *blockdir.Meta, original ulid.ULID, whole bool) {
	m.Compaction.Parents = nil
	if len(m.Compaction.Sources) == 0 {
		m.Compaction.Sources = []ulid.ULID{original}
	}
	if !whole && m.MaxTime > r.start && !blockdir.BesideHead(m) {
		hints := append(slices.Clone(m.Compaction.Hints), blockdir.HintFromOutOfOrder)
		slices.Sort(hints)
		m.Compaction.Hints = hints
	}
}
