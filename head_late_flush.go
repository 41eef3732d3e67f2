package tsdb

import (
	"context"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/blockset"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/headblock"
	"github.com/seed347100a3/tsdb/internal/headlate"
)

// flushAll makes blocks of all late samples, one for each block range, and lets go of them. They
// lie beside the head and are merged with what they overlap. The caller holds flushing.
func (hl *headLate) flushAll(ctx context.Context, db *DB) error {
	h := db.head
	if !hl.flush.HasWork(&hl.within) {
		return nil
	}
	log, err := h.writable()
	if err == nil {
		err = h.retry(log)
	}
	if err != nil {
		return err
	}
	var bd *blockset.Build
	defer func() { db.blocks.EndBuild(bd) }()
	start := func() int64 { return db.blocks.Current().Start }
	to := headlate.Blocks{FS: db.opts.FS, Dir: db.dir, Range: h.opts.Blocks.Range.Milliseconds(), Start: start}
	to.Begin = func() (seq uint64) { // no delete comes between what is written and what is noted for it
		bd = db.blocks.BeginBuild(func() { seq = log.LastSeq() })
		return seq
	}
	to.Write = func(mint, end int64, seq uint64) error {
		return db.maintenance.background.Run(ctx, func(ctx context.Context) error {
			return db.writeBlock(ctx, bd, newBlock{mint, end, blockdir.HintFromOutOfOrder, true, start()}, hl.writer(h, seq))
		})
	}
	return hl.flush.Run(&hl.within, log, &to)
}

// writer returns what writes the late samples of a closed range into a block, as of a commit.
func (hl *headLate) writer(h *head, seq uint64) func(ctx context.Context, w *blockdir.Writer, mint, maxt int64) error {
	return func(ctx context.Context, w *blockdir.Writer, mint, maxt int64) error {
		src := hl.readable(h, seq)
		return headblock.Write(ctx, w, headblock.OfLate(&src, mint, maxt))
	}
}

// flushIfUrgent is flushAll where that cannot wait for a part of the head.
func (hl *headLate) flushIfUrgent(ctx context.Context, db *DB, err error) error {
	hl.flush.Drop(&hl.within)
	if !hl.within.IsUrgent() {
		return err
	}
	return fileutil.JoinErrors(err, flushLate(ctx, db))
}

// flushLate is flushAll where no part of the head becomes a block: the log is shortened behind it.
func flushLate(ctx context.Context, db *DB) error {
	slots := &db.maintenance.common.flushes
	if err := slots.Take(ctx); err != nil {
		return err
	}
	defer slots.Give()
	hl := &db.head.late
	before := hl.flush.Done()
	if err := hl.flushAll(ctx, db); err != nil || hl.flush.Done() == before {
		return err
	}
	return errors.WithMessage(db.truncate(ctx, db.blocks.Current().Start, false), "truncate log")
}
