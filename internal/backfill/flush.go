package backfill

import (
	"context"
	stderrors "errors"
	"math"
	"path/filepath"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/clock"
	"github.com/seed347100a3/tsdb/internal/datadir"
)

// progressSeries is after how many series of a block Progress is told.
const progressSeries = 1 << 10

// Target is what the blocks of a store are for.
type Target struct {
	Dir    string      // data directory
	Ranges []int64     // widths of blocks in milliseconds, ascending; the last one is Options.Range
	Clock  clock.Clock // for names of blocks, and for what is in the future
	// OutOfOrder marks every block as one that says nothing about the head.
	OutOfOrder bool
	// Progress is told now and then how many samples, and bytes of whole blocks, this flush has
	// written.
	Progress func(samples, bytes int64)
}

// flush makes blocks of all that a store has.
type flush struct {
	Target
	store   *Store
	staging string // where blocks are until all of them are there

	samples, bytes int64 // written, for Progress
}

// Flush turns all samples of a store into blocks, moves them into the data directory and returns
// what they are, oldest first. They are on stable storage then, and the store is empty.
//
// After an error there are no blocks, unless moving them failed, when those that had been moved are
// returned; the store is of no use any more. ErrDuplicate, as for Merge and Block.
func Flush(ctx context.Context, s *Store, t Target) ([]blockdir.Meta, error) {
	mint, maxt, ok := s.Bounds()
	if !ok {
		return nil, nil
	}
	m, err := s.Merge()
	if err != nil {
		return nil, err
	}
	border, err := headBorder(s.fsys, t.Dir)
	if err != nil {
		return nil, stderrors.Join(err, m.Close())
	}
	f := &flush{Target: t, store: s, staging: filepath.Join(s.dir, datadir.StagingDir)}
	c := cuts{
		wide:   s.opts.Range,
		narrow: widest(t.Ranges, mint, maxt),
		least:  t.Ranges[0],
		edges:  edges{head: border, now: clock.UnixMilli(t.Clock)},
	}
	metas, err := f.writeBlocks(ctx, m, c.plan(m.Windows(), mint, maxt))
	if err := stderrors.Join(err, m.Close()); err != nil {
		return nil, err
	}
	if err := s.Drop(); err != nil {
		return nil, err
	}
	return f.publish(metas)
}

// writeBlocks writes blocks aside.
func (f *flush) writeBlocks(ctx context.Context, m *Merge, plan []part) ([]blockdir.Meta, error) {
	if err := f.store.fsys.MkdirAll(f.staging); err != nil {
		return nil, err
	}
	var metas []blockdir.Meta
	for _, p := range plan {
		meta, err := f.writeBlock(ctx, m, p)
		if errors.Is(err, blockdir.ErrEmpty) {
			continue
		}
		if err != nil {
			return nil, err
		}
		metas = append(metas, meta)
		f.Progress(f.samples, f.bytes)
	}
	return metas, nil
}

func (f *flush) writeBlock(ctx context.Context, m *Merge, p part) (blockdir.Meta, error) {
	w, err := blockdir.Create(f.store.fsys, f.staging, blockdir.NewULID(f.Clock.Now()), blockdir.WriterOptions{})
	if err != nil {
		return blockdir.Meta{}, err
	}
	out := &block{f: f, w: w, mint: math.MaxInt64, maxt: math.MinInt64}
	if err := m.Block(ctx, p.window, p.mint, p.maxt, out); err != nil {
		return blockdir.Meta{}, stderrors.Join(err, w.Abort())
	}
	meta := blockdir.Meta{MinTime: out.mint, MaxTime: out.maxt + 1}
	if out.mint > out.maxt {
		return blockdir.Meta{}, stderrors.Join(blockdir.ErrEmpty, w.Abort())
	}
	if f.OutOfOrder {
		meta.Compaction.Hints = []string{blockdir.HintFromOutOfOrder}
	}
	if meta, err = w.Commit(ctx, meta); err != nil {
		return blockdir.Meta{}, stderrors.Join(err, w.Abort())
	}
	f.bytes += w.Size()
	return meta, nil
}

// block takes what a merge gives, and looks at its bounds.
type block struct {
	f          *flush
	w          *blockdir.Writer
	mint, maxt int64
	series     int
}

// AddSymbol, AddChunk and AddSeries implement Output.
func (b *block) AddSymbol(s string) error { return b.w.AddSymbol(s) }

func (b *block) AddChunk(c Chunk) error {
	b.mint, b.maxt = min(b.mint, c.MinT), max(b.maxt, c.MaxT)
	b.f.samples += int64(c.Num)
	return b.w.AddChunk(blockdir.Chunk{MinT: c.MinT, MaxT: c.MaxT, Num: c.Num, Encoding: c.Encoding, Data: c.Data})
}

func (b *block) AddSeries(ls []index.SymbolPair) error {
	if b.series++; b.series%progressSeries == 0 {
		b.f.Progress(b.f.samples, b.f.bytes)
	}
	return b.w.AddSeries(ls)
}
