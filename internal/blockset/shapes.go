package blockset

import (
	"context"
	"sync"

	"github.com/oklog/ulid/v2"

	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/datadir"
)

// Blocks of other writers may have labels, series or chunks that are not in order or repeat, and
// chunks outside of their bounds. Such a block is read and merged by index.Reader.Sorted and
// index.Lanes (internal/read/block_disordered.go, internal/blockmerge). Which blocks are, is found
// out when they are opened, from their series entries; of those that this library wrote, or has
// found in order once, the sidecar says that they are.

// look finds out whether a block is in order, and tells when it is not.
func (o *opener) look(dir *blockdir.Dir) error {
	id := dir.Meta().ULID
	if shape := o.Shapes.of(id); shape != nil {
		dir.SetShape(shape)
		return nil
	}
	if err := dir.Look(context.Background()); err != nil {
		return err
	}
	o.Shapes.keep(id, dir.Shape())
	if dir.Disordered() {
		o.Logger.Warn("block is not in order, and is read with more memory until it is merged or repaired",
			"block", id, "reason", dir.Shape().Disorder)
	}
	return nil
}

// disorderOf says which of the blocks are not in order. Nothing is lost.
func disorderOf(blocks []Block) (damages []datadir.Damage) {
	for i := range blocks {
		if b := &blocks[i]; b.dir.Disordered() {
			d := datadir.DamageOf(b.Meta.ULID, b.dir.Shape().Disorder)
			d.Harmless = true
			damages = append(damages, d)
		}
	}
	return damages
}

// Shapes remembers what was found of blocks, for a Reader that opens them again and again and may
// write nothing down. A nil one remembers nothing.
type Shapes struct {
	sync.Mutex
	shapes map[ulid.ULID]*index.Shape
}

func (l *Shapes) of(id ulid.ULID) *index.Shape {
	if l == nil {
		return nil
	}
	l.Lock()
	defer l.Unlock()
	return l.shapes[id]
}

func (l *Shapes) keep(id ulid.ULID, shape *index.Shape) {
	if l == nil || shape == nil {
		return
	}
	l.Lock()
	defer l.Unlock()
	if l.shapes == nil {
		l.shapes = map[ulid.ULID]*index.Shape{}
	}
	l.shapes[id] = shape
}
