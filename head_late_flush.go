package tsdb

import (
	"context"
	"sync/atomic"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/diskspace"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/headblock"
	"github.com/seed347100a3/tsdb/internal/late"
	"github.com/seed347100a3/tsdb/internal/memseries"
)

// lateFlushBytes is how much memory late samples may take before they become blocks without waiting
// for a part of the head that does; lateFlushShare is the part of Options.Head.MaxBytes, if that is
// less.
const (
	lateFlushBytes = 32 << 20
	lateFlushShare = 8
)

// lateFlush is a flush of late samples whose blocks are there, and which are still in memory: a
// Querier may be open that has not seen the blocks.
type lateFlush struct {
	// Guarded by DB.flushing.
	waits     bool
	snapshots uint64 // that were opened by then

	done atomic.Uint64 // how often
}

// flushDue reports whether late samples are to become blocks at once.
func (hl *headLate) flushDue(budget int64) bool {
	limit := int64(lateFlushBytes)
	if budget > 0 {
		limit = min(limit, budget/lateFlushShare)
	}
	return hl.log.IsIncomplete() || hl.store.SizeBytes() > limit
}

// flushAll makes blocks of all late samples, one for each block range, and lets go of them. They
// lie beside the head and are merged with what they overlap. The caller holds flushing.
func (hl *headLate) flushAll(ctx context.Context, db *DB) (err error) {
	h := db.head
	if hl.drop(h); hl.flush.waits {
		return nil // a Querier has been open for long
	}
	if series, _ := hl.store.Len(); series == 0 && !hl.log.IsIncomplete() {
		return nil
	}
	log, err := h.writable()
	if err == nil {
		err = h.retry(log)
	}
	if err != nil {
		return err
	}
	bd := db.blocks.BeginBuild() // before it is decided what is written: deletes from here on it notes
	defer db.blocks.EndBuild(bd)
	hl.log.Keep()
	h.series.Shards.Barrier()
	seq := log.LastSeq()
	hl.store.BeginFlush(seq)
	defer func() {
		if err != nil {
			hl.log.LetGo()
			hl.store.EndFlush()
			err = errors.WithMessage(err, "flush late samples")
		}
	}()
	// As in seal: a block must not outrun the log.
	if err := log.SyncTo(seq); err != nil {
		return err
	}
	h.iso.WaitPublished(seq)
	for oldest, ok := hl.store.OldestFrom(memseries.NoTime, seq); ok; {
		_, newest := hl.store.Bounds()
		mint, end := late.BlockRange(oldest, db.blocks.Current().Start, newest, h.opts.Blocks.Range.Milliseconds())
		err := db.maintenance.background.Run(ctx, func(ctx context.Context) error {
			return db.writeBlock(ctx, bd, newBlock{mint, end, true, true, db.blocks.Current().Start}, hl.writer(h, seq))
		})
		if err != nil && !errors.Is(err, blockdir.ErrEmpty) {
			return diskspace.WhileWriting(db.opts.FS, db.dir, "flush late samples", hl.store.SizeBytes(), err)
		}
		oldest, ok = hl.store.OldestFrom(end, seq)
	}
	if err := hl.log.Truncate(seq); err != nil {
		if errors.Is(err, ErrPoisoned) {
			h.poison(err)
		}
		return err
	}
	hl.flush.waits, hl.flush.snapshots = true, h.iso.Opened()
	hl.flush.done.Add(1)
	hl.drop(h)
	return nil
}

// writer returns what writes the late samples of a closed range into a block, as of a commit.
func (hl *headLate) writer(h *head, seq uint64) func(ctx context.Context, w *blockdir.Writer, mint, maxt int64) error {
	return func(ctx context.Context, w *blockdir.Writer, mint, maxt int64) error {
		src := hl.readable(h, seq)
		return headblock.Write(ctx, w, headblock.OfLate(&src, mint, maxt))
	}
}

// drop forgets late samples that blocks have, when no Querier is open that has not seen these. The
// caller holds flushing.
func (hl *headLate) drop(h *head) {
	if hl.flush.waits && h.iso.AllClosed(hl.flush.snapshots) {
		hl.store.Drop()
		hl.flush.waits = false
	}
}

// flushIfDue is flushAll where that cannot wait for a part of the head.
func (hl *headLate) flushIfDue(ctx context.Context, db *DB, err error) error {
	hl.drop(db.head)
	if !hl.flushDue(db.opts.Head.MaxBytes) {
		return err
	}
	return fileutil.JoinErrors(err, hl.flushAll(ctx, db))
}
