package blockdir

import (
	"context"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// Look finds out whether the block is in order: each series entry is read, unless the sidecar says
// that the block is. It is called before the Dir is shared. Damage is no error here: who reads the
// entry meets it. An error is the context's.
func (d *Dir) Look(ctx context.Context) error {
	if d.side.inOrder {
		return nil
	}
	shape, err := d.index.Shape(ctx)
	if err != nil {
		return err
	}
	d.SetShape(&shape)
	return nil
}

// SetShape is Look where somebody knows what it would find. It is called before the Dir is shared.
func (d *Dir) SetShape(s *index.Shape) { d.shape = s }

// Shape returns what Look has found; nil: the block is in order, or nobody has looked.
func (d *Dir) Shape() *index.Shape { return d.shape }

// Disordered reports whether labels, series or chunks are not in order, as far as Look has found:
// index.Reader.Sorted and index.Lanes read such a block.
func (d *Dir) Disordered() bool { return d.shape != nil && d.shape.Disorder != nil }

// Reach returns half-open bounds of all chunks: those of the meta file, wider where chunks that
// Look has found lie outside of them.
func (d *Dir) Reach() (mint, maxt int64) {
	m := d.Meta()
	if s := d.shape; s != nil && s.MinT <= s.MaxT {
		return min(m.MinTime, s.MinT), max(m.MaxTime, behind(s.MaxT))
	}
	return m.MinTime, m.MaxTime
}

// Listed reports whether each series has chunks, as far as Look has found: then lists of labels may
// be taken from the index alone.
func (d *Dir) Listed() bool { return d.shape == nil || !d.shape.Empty }

// Proven reports whether Look has found the block in order and in its bounds, all of it, and chunks
// of each series: then the sidecar may say so.
func (d *Dir) Proven() bool {
	if d.side.inOrder {
		return true
	}
	m, s := d.Meta(), d.shape
	return s != nil && s.Disorder == nil && !s.Damaged && !s.Empty && (s.MinT > s.MaxT || s.MinT >= m.MinTime && s.MaxT < m.MaxTime)
}

// IsDamage tells damage of what is stored from a device that cannot be read, which may pass.
func IsDamage(err error) bool {
	return errors.Is(err, encbuf.ErrCorrupt) && !errors.Is(err, fileutil.ErrMemoryFault)
}
