package tsdb

import (
	"context"
	"math"

	"github.com/oklog/ulid/v2"
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/blockset"
	"github.com/seed347100a3/tsdb/internal/diskspace"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/headblock"
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/wal"
)

// Flush writes the whole head into blocks, one for each block range that it touches, late samples
// into blocks of their own, and lets go of what they hold. It returns when that is done. From its
// begin on samples that are not newer than all that the head had are out of bounds.
//
// Late samples that came behind an earlier flush of such stay while a Querier is open that was
// opened before that.
//
// Errors: ErrClosed, ErrReadOnly, ErrDiskFull, the error of the context; an *UnreadError while the
// log has samples of another engine that this version does not read. After an error everything is
// still there, in the head or in a block, and Flush can be called again.
func (db *DB) Flush(ctx context.Context) (err error) {
	ctx, done, err := db.begin(ctx)
	if err != nil {
		return err
	}
	defer done(&err)
	db.flushing.Lock()
	defer db.flushing.Unlock()
	if present, ok := db.head.bounds.leaves(); ok {
		return diskspace.Full(db.leaveFuture(ctx, present))
	}
	maxt := db.head.bounds.maxT.Load()
	if db.head.bounds.minT.Load() <= maxt && maxt < math.MaxInt64 {
		err = db.flushTo(ctx, maxt+1, true)
	}
	return diskspace.Full(fileutil.JoinErrors(err, flushLate(ctx, db)))
}

// due returns where the part of the head ends that is to become blocks: it is more than
// one and a half block ranges long, so the range it begins in is over for long enough.
func (b *bounds) due() (end int64, ok bool) {
	mint, maxt, r := b.minT.Load(), b.maxT.Load(), b.opts.Blocks.Range.Milliseconds()
	if mint > maxt || uint64(maxt)-uint64(mint) <= uint64(r+r/2) {
		return 0, false
	}
	// The last border that is one and a half ranges before the newest sample, or the first
	// one behind that; ranges around 0 end up to two of them behind their first sample.
	end = max(memseries.RangeEnd(mint, r), memseries.CeilTo(maxt-(r+r/2), r))
	return end, end <= maxt && uint64(maxt)-uint64(end) >= uint64(r/2)
}

// early decides about flushing before a block range is over, because the head takes more memory
// than Options.Head.FlushBytes, or is near its budget and that helps. The end is chosen first, just
// ahead of the newest sample, and chunks are cut there as they come; it is flushed to when the
// newest sample is further than the margin, so that late ones of all series are still taken.
type early struct {
	end int64
	set bool
}

// due returns where to flush to. ended: series that ended are in the way. There are at most eight
// such blocks in a block range: series and labels stay in memory, and more blocks would not make it
// less.
func (e *early) due(h *head, ended bool) (end int64, ok bool) {
	mint, maxt := h.bounds.minT.Load(), h.bounds.maxT.Load()
	limit, r, late := h.opts.Head.FlushBytes, h.opts.Blocks.Range.Milliseconds(), h.opts.Head.MaxLateness.Milliseconds()
	if mint > maxt || maxt == math.MaxInt64 {
		return 0, false
	}
	if !e.set && uint64(maxt)-uint64(mint) >= uint64(r/8) &&
		(limit > 0 && h.series.SizeBytes() > limit || h.series.Budget.FlushHelps() || ended) {
		e.end, e.set = maxt+1, true
		h.series.Truncation.CutAt(e.end)
	}
	if !e.set || maxt < e.end || uint64(maxt)-uint64(e.end) < uint64(late) {
		return 0, false
	}
	e.set = false
	return e.end, true
}

// flushTo makes blocks of all that the head has before end, one for each block range, and truncates
// head and log. whole says that nothing is left in the head then. The caller holds flushing.
func (db *DB) flushTo(ctx context.Context, end int64, whole bool) error {
	if err := db.maintenance.common.flushes.Take(ctx); err != nil {
		return err
	}
	defer db.maintenance.common.flushes.Give()
	if err := db.flushRanges(ctx, end, end); err != nil {
		return err
	}
	late := db.head.late.flushAll(ctx, db) // or the log cannot be shortened, if the out-of-order log is incomplete
	return fileutil.JoinErrors(late, errors.WithMessage(db.truncate(ctx, end, whole), "truncate head"))
}

// flushRanges makes blocks of all that the head has before end, one for each block range. No
// block has samples from both sides of cut; those of after it say that they lie beside the head.
func (db *DB) flushRanges(ctx context.Context, end, cut int64) error {
	db.finishRecovery() // there may be room again since it was tried last
	if _, err := db.head.flushableLog(); err != nil {
		return err
	}
	if err := db.head.seal(end); err != nil {
		return err
	}
	r := db.opts.Blocks.Range.Milliseconds()
	for {
		mint, ok := db.head.series.Truncation.OldestFrom(db.blocks.Current().Start)
		if !ok || mint >= end {
			return nil
		}
		maxt := min(memseries.RangeEnd(mint, r), end)
		if mint < cut {
			maxt = min(maxt, cut)
		}
		err := db.maintenance.background.Run(ctx, func(ctx context.Context) error {
			return db.flushRange(ctx, mint, maxt, mint >= cut)
		})
		if errors.Is(err, ErrCorrupt) {
			n, mendErr := db.head.mend(ctx, db.blocks.Current().Start)
			if n > 0 {
				continue // with what took the place of the damage
			}
			err = fileutil.JoinErrors(err, mendErr)
		}
		if err != nil {
			return diskspace.WhileWriting(db.opts.FS, db.dir, "flush head", db.head.series.SizeBytes(), err)
		}
	}
}

// seal ends what the head takes before end: when it returns every such sample is applied,
// published and in the log on stable storage, and no chunk holds samples from both sides.
// A flush that fails leaves it so: late samples are refused, as they would be after it.
func (h *head) seal(end int64) error {
	log, err := h.writable()
	if err != nil {
		return err
	}
	for old := h.bounds.minValid.Load(); old < end && !h.bounds.minValid.CompareAndSwap(old, end); {
		old = h.bounds.minValid.Load()
	}
	h.series.Shards.Barrier()
	h.series.Truncation.CutAt(end)
	// A block must not outrun the log: after a power failure it would show a part of
	// commits that are lost. The barrier has seen all of them written.
	seq := log.LastSeq()
	if err := log.SyncTo(seq); err != nil {
		return err
	}
	h.iso.WaitPublished(seq)
	return nil
}

// flushRange writes the samples of [mint, maxt) into a block and makes the head begin
// behind it; beside: not for the next Open, too.
func (db *DB) flushRange(ctx context.Context, mint, maxt int64, beside bool) error {
	bd := db.blocks.BeginBuild(nil)
	defer db.blocks.EndBuild(bd)
	b := newBlock{mint: mint, maxt: maxt, start: maxt}
	if beside {
		b.hint = blockdir.HintFromOutOfOrder
	}
	err := db.writeBlock(ctx, bd, b, db.head.writeBlock)
	if errors.Is(err, blockdir.ErrEmpty) {
		db.blocks.SkipTo(maxt)
		return nil
	}
	return err
}

// newBlock is a block that is made of a part of the head: of the samples of [mint, maxt).
type newBlock struct {
	mint, maxt int64
	hint       string // why it lies beside the head, not for the next Open, too; empty: it does not
	late       bool   // others beside the head may have other samples of its times, and are older
	start      int64  // where the head begins behind it
}

// writeBlock makes a block of what write puts into it. blockdir.ErrEmpty: that was nothing.
func (db *DB) writeBlock(ctx context.Context, bd *blockset.Build, b newBlock, write func(ctx context.Context, w *blockdir.Writer, mint, maxt int64) error) (err error) {
	mint, maxt := b.mint, b.maxt
	id := blockdir.NewOwnULID(db.opts.Clock.Now(), maxt)
	if b.late {
		id = blockdir.NewLateULID(db.opts.Clock.Now(), maxt, db.Blocks())
	}
	w, err := blockdir.Create(db.opts.FS, db.dir, id, blockdir.WriterOptions{Warm: true})
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.WithMessagef(fileutil.JoinErrors(err, w.Abort()), "block %s", id)
		}
	}()
	begun := db.opts.Clock.Now()
	if err := write(ctx, w, mint, maxt-1); err != nil {
		return err
	}
	meta := BlockMeta{ULID: id, MinTime: mint, MaxTime: maxt, Version: 1,
		Compaction: blockdir.Compaction{Level: 1, Sources: []ulid.ULID{id}}}
	if b.hint != "" {
		meta.Compaction.Hints = []string{b.hint}
	}
	if meta, err = w.Finish(ctx, meta); err != nil {
		return err
	}
	if _, err := db.blocks.Publish(bd, w, nil, b.start); err != nil { // nothing is replaced
		return err
	}
	db.maintenance.flushes.Add(1)
	db.opts.Logger.Info("head flushed", "block", id, "mint", mint, "maxt", maxt, "series", meta.Stats.NumSeries,
		"samples", meta.Stats.NumSamples, "duration", db.opts.Clock.Now().Sub(begun))
	return nil
}

// writeBlock writes symbols and series of the closed range [mint, maxt], which no commit
// changes any more. Deletes are applied.
func (h *head) writeBlock(ctx context.Context, w *blockdir.Writer, mint, maxt int64) (err error) {
	return h.writePart(ctx, w, mint, maxt, math.MaxUint64, nil)
}

// writePart is writeBlock of some series, nil: of all of them, as of a commit.
func (h *head) writePart(ctx context.Context, w *blockdir.Writer, mint, maxt int64, seq uint64, some func(s *memseries.Series) bool) (err error) {
	pin, err := h.chunks.Acquire()
	if err != nil {
		return ErrClosed
	}
	defer func() { err = fileutil.JoinErrors(err, pin.Release()) }()
	src := h.readable(pin, seq, mint, h.queries.mender.Losses())
	part := headblock.Of(&src, mint, maxt)
	if has := part.Has; some != nil {
		part.Has = func(s *memseries.Series) bool { return some(s) && has(s) }
	}
	return headblock.Write(ctx, w, part)
}

// flushable returns nil, or why the head must not be made into blocks.
//
//go:noinline
func (h *head) flushable() error {
	if len(h.recovery.unread) > 0 {
		return &UnreadError{Records: h.recovery.unread.Names()}
	}
	return nil
}

// flushableLog returns the log, or why the head is not made into blocks now.
func (h *head) flushableLog() (*wal.Log, error) {
	log, err := h.writable()
	if err == nil {
		err = h.retry(log)
	}
	if err == nil {
		err = h.flushable()
	}
	return log, err
}
