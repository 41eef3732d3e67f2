package tsdb

import (
	"context"
	stderrors "errors"
	"io/fs"
	"math"
	"path/filepath"
	"slices"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/internal/backfill"
	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/datadir"
)

// progressSeries is after how many series of a block Progress is told.
const progressSeries = 1 << 10

// noBorder is the border of a directory without a head: nothing lies beyond it.
const noBorder = math.MaxInt64

// Flush turns all samples that were appended since the last Flush into blocks, moves
// them into the data directory and returns what they are, oldest first. The blocks are on
// stable storage then. Without samples there is nothing to do. Samples may be appended
// afterwards; they become blocks of their own, which may overlap those before them.
//
// First all blocks are written aside, then all of them are moved; so after an error, a
// cancelled context among them, there are none, unless moving them failed, when those
// that had been moved are returned. ErrDuplicateSample names a series and a time with
// different values, unless OnDuplicate chooses between them. ErrClosed, ErrDiskFull. After
// any error the writer can only be closed.
func (w *BlockWriter) Flush(ctx context.Context) ([]BlockMeta, error) {
	if err := checkContext(ctx); err != nil {
		return nil, err
	}
	if w.err != nil {
		return nil, w.err
	}
	metas, err := w.flush(ctx)
	if err != nil {
		return metas, w.rejectedAll(err)
	}
	w.report()
	w.progress, w.duplicates = BlockWriterProgress{}, w.store.Duplicates()
	return metas, nil
}

// rejectedAll is rejected for an error that ends the writer in any case.
func (w *BlockWriter) rejectedAll(err error) error {
	if errors.Is(err, backfill.ErrDuplicate) {
		err = &refusal{ErrDuplicateSample, err}
	}
	return w.fail(err)
}

func (w *BlockWriter) flush(ctx context.Context) ([]BlockMeta, error) {
	mint, maxt, ok := w.store.Bounds()
	if !ok {
		return nil, nil
	}
	m, err := w.store.Merge()
	if err != nil {
		return nil, err
	}
	border, err := headBorder(w.opts.FS, w.dir)
	if err != nil {
		return nil, stderrors.Join(err, m.Close())
	}
	wide := w.ranges[len(w.ranges)-1]
	edges := backfillEdges{head: border, now: w.opts.Clock.Now().UnixMilli()}
	plan := planBackfill(m.Windows(), wide, widest(w.ranges, mint, maxt), w.ranges[0], mint, maxt, edges)
	metas, err := w.writeBlocks(ctx, m, plan)
	if err := stderrors.Join(err, m.Close()); err != nil {
		return nil, err
	}
	if err := w.store.Drop(); err != nil {
		return nil, err
	}
	return w.publish(metas)
}

// widest is the longest of ranges that is not longer than the data, or the first.
func widest(ranges []int64, mint, maxt int64) int64 {
	span := uint64(maxt) - uint64(mint)
	for i := len(ranges) - 1; i > 0; i-- {
		if uint64(ranges[i])-1 <= span {
			return ranges[i]
		}
	}
	return ranges[0]
}

// backfillBlock is one block to write: a part of a window of the store, closed.
type backfillBlock struct {
	window     int64
	mint, maxt int64
}

// backfillEdges are the times at which blocks are cut.
type backfillEdges struct {
	// head is from when on the samples of a head count: noBorder without a head.
	head int64
	// now is the clock's. What lies beyond both is of the future of the head: blocks have the least
	// width there, or they would overlap all that the head is written to for a long time.
	now int64
}

// width returns how wide a block is that begins at t, and the first edge behind t.
func (e backfillEdges) width(t, narrow, least int64) (width, edge int64) {
	ahead := max(e.head, e.now)
	switch {
	case t < e.head:
		return narrow, e.head
	case t < ahead:
		return narrow, ahead
	default:
		return least, noBorder
	}
}

// planBackfill cuts windows of width wide, which have samples from mint to maxt, into
// blocks of width narrow, and at the edges. Beyond them they have the least width.
func planBackfill(windows []int64, wide, narrow, least, mint, maxt int64, edges backfillEdges) []backfillBlock {
	var plan []backfillBlock
	for _, window := range windows {
		end := min(backfill.LastOf(window, wide), maxt)
		for t := max(backfill.FirstOf(window, wide), mint); ; {
			width, edge := edges.width(t, narrow, least)
			last := min(backfill.LastOf(backfill.WindowOf(t, width), width), end)
			if t < edge && edge <= last {
				last = edge - 1
			}
			plan = append(plan, backfillBlock{window, t, last})
			if last == end {
				break
			}
			t = last + 1
		}
	}
	return plan
}

// headBorder is from when on the samples of a head count: the highest end of a block
// that says how far the head was written. Blocks that reach beyond it must not say so,
// or whoever opens the directory takes the samples in the log for written, and drops
// them. Without a log there is no head, and no border.
func headBorder(fsys FS, dir string) (int64, error) {
	log, err := fsys.ReadDir(filepath.Join(dir, walDirName))
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
		if m, err := blockdir.ReadMeta(fsys, blockdir.Path(dir, id)); err == nil && !blockdir.BesideHead(m) {
			border = max(border, m.MaxTime)
		}
	}
	return border, nil
}

// writeBlocks writes blocks aside.
func (w *BlockWriter) writeBlocks(ctx context.Context, m *backfill.Merge, plan []backfillBlock) ([]BlockMeta, error) {
	staging := filepath.Join(w.tmp, datadir.StagingDir)
	if err := w.opts.FS.MkdirAll(staging); err != nil {
		return nil, err
	}
	var metas []BlockMeta
	for _, p := range plan {
		meta, err := w.writeBlock(ctx, m, staging, p)
		if errors.Is(err, blockdir.ErrEmpty) {
			continue
		}
		if err != nil {
			return nil, err
		}
		metas = append(metas, meta)
		w.report()
	}
	return metas, nil
}

func (w *BlockWriter) writeBlock(ctx context.Context, m *backfill.Merge, staging string, p backfillBlock) (BlockMeta, error) {
	bw, err := blockdir.Create(w.opts.FS, staging, blockdir.NewULID(w.opts.Clock.Now()), blockdir.WriterOptions{})
	if err != nil {
		return BlockMeta{}, err
	}
	out := &backfillOutput{w: w, block: bw, mint: math.MaxInt64, maxt: math.MinInt64}
	if err := m.Block(ctx, p.window, p.mint, p.maxt, out); err != nil {
		return BlockMeta{}, stderrors.Join(err, bw.Abort())
	}
	meta := BlockMeta{MinTime: out.mint, MaxTime: out.maxt + 1}
	if out.mint > out.maxt {
		return BlockMeta{}, stderrors.Join(blockdir.ErrEmpty, bw.Abort())
	}
	if w.opts.OutOfOrder {
		meta.Compaction.Hints = []string{blockdir.HintFromOutOfOrder}
	}
	if meta, err = bw.Commit(ctx, meta); err != nil {
		return BlockMeta{}, stderrors.Join(err, bw.Abort())
	}
	w.progress.BlockBytes += bw.Size()
	return meta, nil
}

// backfillOutput gives a block what the merge has, and looks at its bounds.
type backfillOutput struct {
	w          *BlockWriter
	block      *blockdir.Writer
	mint, maxt int64
	series     int
}

func (o *backfillOutput) AddSymbol(s string) error { return o.block.AddSymbol(s) }

func (o *backfillOutput) AddChunk(c backfill.Chunk) error {
	o.mint, o.maxt = min(o.mint, c.MinT), max(o.maxt, c.MaxT)
	o.w.progress.Written += int64(c.Num)
	return o.block.AddChunk(blockdir.Chunk{MinT: c.MinT, MaxT: c.MaxT, Num: c.Num, Encoding: backfill.Encoding, Data: c.Data})
}

func (o *backfillOutput) AddSeries(ls []index.SymbolPair) error {
	if o.series++; o.series%progressSeries == 0 {
		o.w.report()
	}
	return o.block.AddSeries(ls)
}

// publish moves the blocks into the data directory. The mark is decided at the last
// moment: a database may have been opened, or have written blocks of its own.
func (w *BlockWriter) publish(metas []BlockMeta) ([]BlockMeta, error) {
	staging, fsys := filepath.Join(w.tmp, datadir.StagingDir), w.opts.FS
	border, err := headBorder(fsys, w.dir)
	if err != nil {
		return nil, err
	}
	if err := w.mark(staging, metas, border); err != nil {
		return nil, err
	}
	for i := range metas {
		id := metas[i].ULID
		if err := fsys.Rename(blockdir.Path(staging, id), blockdir.Path(w.dir, id)); err != nil {
			return metas[:i], stderrors.Join(err, fsys.SyncDir(staging), fsys.SyncDir(w.dir))
		}
	}
	// Where they came from first: should a crash undo one half of a move, the block is gone,
	// and not to be found under two names of which Close or Open removes one.
	for _, dir := range []string{staging, w.dir} {
		if err := fsys.SyncDir(dir); err != nil {
			return metas, err
		}
	}
	if border == noBorder { // a database may have been created since
		now, err := headBorder(fsys, w.dir)
		if err != nil || now == noBorder {
			return metas, err
		}
		return metas, w.mark(w.dir, metas, math.MinInt64)
	}
	return metas, nil
}

// mark gives the mark to those of the blocks in dir that reach beyond the border.
func (w *BlockWriter) mark(dir string, metas []BlockMeta, border int64) error {
	for i := range metas {
		m := &metas[i]
		if m.MaxTime <= border || blockdir.BesideHead(*m) {
			continue
		}
		m.Compaction.Hints = append(slices.Clone(m.Compaction.Hints), blockdir.HintFromOutOfOrder)
		if err := blockdir.WriteMeta(w.opts.FS, blockdir.Path(dir, m.ULID), *m); err != nil {
			return err
		}
	}
	return nil
}

var _ backfill.Output = (*backfillOutput)(nil)
