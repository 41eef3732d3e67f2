package tsdb

import (
	"context"
	"math"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/blockset"
	"github.com/seed347100a3/tsdb/internal/clock"
	"github.com/seed347100a3/tsdb/internal/memseries"
)

// A clock that was ahead, or samples with times of another unit, leave the head with samples of
// the future, or closed up to there: nothing of the present would be taken until then. When the
// clock knows better, the whole head becomes blocks, those of the future are marked as lying
// beside the head, and the head begins where the present does.

// usualFuture is Limits.MaxFuture by default, and what counts as the future behind a delete where
// that is off or longer.
const usualFuture = time.Hour

// futureWait is how long the clock must say so before it is believed: a machine that is started
// may show 1970 for a while.
const futureWait = time.Minute

// present returns the newest time that counts as the present.
func (o *Options) present() int64 {
	future := o.Limits.MaxFuture
	if future < 0 || future > usualFuture {
		future = usualFuture
	}
	return clock.UnixMilli(o.Clock) + future.Milliseconds()
}

// ahead decides when the head leaves the future by itself.
type ahead struct {
	since clock.Passed // the clock says so; the zero value: it does not
}

// due reports whether the head is ahead of the clock, and whether it has been for long enough.
func (a *ahead) due(h *head) (is, due bool) {
	if _, is = h.bounds.leaves(); !is {
		a.since = clock.Passed{}
		return false, false
	}
	now := clock.PassedBy(h.opts.Clock)
	waited, ok := now.After(a.since)
	if !ok {
		a.since = now
	}
	return true, waited >= futureWait
}

// leaveFuture makes the head take samples of the present again. What it holds becomes blocks, as
// by Flush; those of after present lie beside the head. While a Querier reads what would be let
// go, or a block is being merged, the rest is left to the next call. The caller holds flushing.
func (db *DB) leaveFuture(ctx context.Context, present int64) error {
	h := db.head
	if !h.bounds.isAhead(present) {
		h.bounds.leaving.Store(false)
		return nil
	}
	last, err := newestUpTo(ctx, h, present)
	if err != nil {
		return err
	}
	border := max(h.bounds.minValid.Load(), h.bounds.maxT.Load()+1)
	if err := db.flushRanges(ctx, border, last+1); err != nil {
		return err
	}
	if err := db.head.late.flushAll(ctx, db); err != nil {
		return err
	}
	db.blocks.SkipTo(border)
	h.trunc.done = math.MinInt64 // series without samples keep their newest times until now
	if err := db.truncate(ctx, border, true); err != nil {
		return errors.WithMessage(err, "truncate head")
	}
	return db.beginAgain(border)
}

// beginAgain makes the head begin where the blocks of the past end, if it is empty, else at border.
// No sample is taken meanwhile: one that was staged when the clock was ahead might be.
func (db *DB) beginAgain(border int64) error {
	h, start := db.head, border
	h.bounds.minValid.Store(math.MaxInt64)
	defer func() { h.bounds.minValid.Store(start) }()
	h.series.Shards.Barrier()
	if _, some := h.series.Truncation.OldestFrom(math.MinInt64); some {
		return nil // it came behind the flush, or a Querier has it from nowhere else
	}
	present, ok, err := db.markAhead(clock.UnixMilli(db.opts.Clock) + 1)
	if err != nil || !ok {
		return err
	}
	start = present
	h.series.Truncation.ForgetNewest()
	h.late.store.ForgetSteady()
	h.late.within.RaiseNewest()
	h.trunc.done = start
	h.bounds.empty()
	h.bounds.leaving.Store(false)
	db.time.Back()
	db.opts.Logger.Warn("the head was ahead of the clock and is not any more", "was", border, "is", start)
	return nil
}

// newestUpTo returns the time of the newest sample up to t, math.MinInt64 if there is none.
func newestUpTo(ctx context.Context, h *head, t int64) (int64, error) {
	q, err := newQuerier(h, &blockset.View{Start: memseries.NoTime + 1}, math.MinInt64, t)
	if err != nil {
		return 0, err
	}
	defer q.Close()
	newest := int64(math.MinInt64)
	for cs, err := range q.SelectChunks(ctx, nil).All() {
		if err != nil {
			return 0, err
		}
		var it *ChunkIterator
		for it = cs.Chunks(it); it.Next(); {
			newest = max(newest, it.At().MaxT)
		}
		if err := it.Err(); err != nil {
			return 0, errors.WithMessage(err, "read head chunk")
		}
	}
	return newest, nil
}

// markAhead marks blocks that end after now as lying beside the head, and makes the head begin at
// the end of the others, which it returns. Among them may be one with samples of the present: it
// ends with its block range. ok is false while one of them is being merged: who merges may wait for
// the caller.
func (db *DB) markAhead(now int64) (start int64, ok bool, err error) {
	var ids []ulid.ULID
	for _, m := range db.Blocks() {
		if m.MaxTime > now && !blockdir.BesideHead(&m) {
			ids = append(ids, m.ULID)
		}
	}
	if len(ids) > 0 && !db.busy.Take(ids) {
		return 0, false, nil
	}
	defer db.busy.Give(ids)
	start, err = db.blocks.MarkBeside(ids)
	return start, err == nil, err
}
