package blockdir

import (
	"bytes"
	"path/filepath"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/diskspace"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/tombstones"
)

// SetTombstones makes set what is deleted of the block: it holds all that was deleted
// before, too, and belongs to the block from then on. When SetTombstones returns nil, set
// is on stable storage and visible. After a crash at any time at least what was deleted
// before is deleted. On an error the samples may be deleted or not; to call it again
// is safe. A set without anything in the place of one with something is ErrInvalid:
// nothing is ever undeleted.
func (d *Dir) SetTombstones(set *tombstones.Set) error {
	d.change.Lock()
	defer d.change.Unlock()
	if set.Len() == 0 && d.stones.Load().Len() > 0 {
		return errors.WithMessage(ErrInvalid, "deleted samples cannot come back")
	}
	// The tombstones first: what the meta file counts is there then, whatever a crash
	// keeps.
	path := filepath.Join(d.path, tombstones.FileName)
	data := tombstones.Encode(set)
	if err := fileutil.WriteFileAtomic(d.fs, path+tmpSuffix, path, data); err != nil {
		return diskspace.WhileWriting(d.fs, d.path, "write tombstones", int64(len(data)), err)
	}
	d.stones.Store(set)
	return d.setMetaLocked(func(m *Meta) { m.Stats.NumTombstones = uint64(set.Len()) })
}

// SetMeta writes the meta file with what change made of it: Deletable, Failed and the
// unknown fields may change, everything else is ErrInvalid. Slices and maps must be
// replaced, not changed. On an error the old or the new meta file may be there, and
// Meta returns the old one.
func (d *Dir) SetMeta(change func(m *Meta)) error {
	d.change.Lock()
	defer d.change.Unlock()
	tombstones := d.meta.Load().Stats.NumTombstones
	return d.setMetaLocked(func(m *Meta) {
		change(m)
		m.Stats.NumTombstones = tombstones
	})
}

func (d *Dir) setMetaLocked(change func(m *Meta)) error {
	old := d.meta.Load()
	m := *old
	change(&m)
	if !bytes.Equal(encodeSidecar(old, false), encodeSidecar(&m, false)) || m.Version != old.Version {
		return errors.WithMessage(ErrInvalid, "a field of the meta file that never changes")
	}
	if err := WriteMeta(d.fs, d.path, m); err != nil {
		return err
	}
	d.meta.Store(&m)
	return nil
}
