package tsdb

import (
	"context"
	"math"
	"sync/atomic"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/internal/checkpoint"
	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// truncation forgets what blocks have, and remembers what it has forgotten. Its owner holds the
// database's flushing lock.
type truncation struct {
	h           *head
	opened      int64       // where the head began at Open, if nothing of the log is in blocks
	done        int64       // what is before is gone from memory
	shortened   int64       // what is before is gone from all of the log
	idle        atomic.Bool // nothing was committed for long: no series is in use
	checkpoints checkpoint.Writer
	ended       headEnded
}

// truncate forgets what is before end, which blocks have: in memory, in head-chunk files
// and in the log. The caller holds flushing.
func (db *DB) truncate(ctx context.Context, end int64, whole bool) error {
	h := db.head
	if h.bounds.minT.Load() < end {
		h.bounds.minT.Store(end) // nobody lowers it: every commit from before end is published
	}
	if err := db.maintenance.background.Run(ctx, func(context.Context) error { return db.collect() }); err != nil {
		return err
	}
	// Where no block says how far the head was flushed, the log says it: it must begin there.
	v := db.blocks.Current()
	dear, err := logIsDear(db)
	if err != nil {
		return err
	}
	return h.trunc.checkpoint(ctx, end, whole || dear || v.Start > v.StartWithout(nil))
}

// collect forgets, in memory and in head-chunk files, what blocks have and no Querier
// that is open can only find in the head. What it leaves the next call takes.
func (db *DB) collect() error {
	h := db.head
	start := db.blocks.Current().Start
	t := min(start, h.iso.OldestStart(start))
	log := h.log.Load()
	if log == nil || t < h.trunc.done || t == h.trunc.done && !lateOnlyMayGo(h) {
		return nil
	}
	lowest := h.trunc.dropBefore(t)
	var mayGo func(ref uint64) bool
	if t == h.trunc.opened && t > h.trunc.done && !h.series.Budget.Near() { // no block was made since
		mayGo = func(ref uint64) bool { return h.commits.metadata.Of(ref) == "" }
	}
	removed := h.series.RemoveIdle(h.trunc.idleBefore(t), mayGo)
	if h.trunc.checkpoints.Gone.Remember(log.Segment(), removed...); t > h.recovery.maxt {
		h.trunc.checkpoints.Gone.ForgetDuplicates(log.Segment())
	}
	h.commits.seriesRemoved.Add(uint64(len(removed)))
	db.forgetDeleted(t, removed)
	h.trunc.done = t
	h.series.Budget.Flushed()
	return errors.WithMessage(h.trunc.removeChunks(lowest), "truncate head chunks")
}

// lateOnlyMayGo reports whether series may go that had late samples only, which are in blocks now.
// Nobody reads who may know them.
func lateOnlyMayGo(h *head) bool {
	n, _ := h.iso.Open()
	return n == 0 && h.late.flush.TakeDropped()
}

// dropBefore forgets chunks that end before t in memory and returns a ref below which no chunk
// in a file is wanted any more. Nobody writes full chunks meanwhile: one that is in its file, and
// that its series does not know to be there yet, would be missed. What is written later is not
// below the end of the files.
func (tr *truncation) dropBefore(t int64) chunks.Ref {
	h := tr.h
	h.writer.Lock()
	defer h.writer.Unlock()
	return min(h.chunks.End(), h.series.Truncation.DropBefore(t))
}

// removeChunks removes the head-chunk files that have nothing from a place on.
func (tr *truncation) removeChunks(lowest chunks.Ref) error {
	h := tr.h
	pin, err := h.chunks.Acquire()
	if err != nil {
		return err
	}
	err = poisoned(h.chunks.TruncateBefore(lowest))
	if err == nil {
		h.queries.mender.Forget(lowest) // when no file with damage is left, snapshots hold again
	}
	h.iso.Settle()
	return fileutil.JoinErrors(err, pin.Release())
}

// idleBefore bounds the newest time of series that may go: a series that had a sample
// lately will soon have another one, and keeps its ref, unless others need its place.
func (tr *truncation) idleBefore(t int64) int64 {
	h := tr.h
	maxt, half := h.bounds.maxT.Load(), h.opts.Blocks.Range.Milliseconds()/2
	switch {
	case tr.idle.Load() || maxt < math.MinInt64+half:
		return t
	case h.series.Budget.Near():
		return min(t, endedBefore(h, maxt))
	default:
		return min(t, maxt-half)
	}
}

// forgetDeleted forgets deleted intervals before t, and those of removed series.
func (db *DB) forgetDeleted(t int64, removed []uint64) {
	db.blocks.Lock()
	defer db.blocks.Unlock()
	old := db.head.deleted.set.Load()
	if old.Len() == 0 {
		return
	}
	set := old.Clone()
	set.TruncateBefore(t)
	for _, ref := range removed {
		set.Remove(ref)
	}
	db.blocks.ShowLocked(db.blocks.Current(), func() { db.head.deleted.set.Store(set) })
}

// checkpoint replaces the older part of the log by a checkpoint with what is still
// needed of it; with whole, all of it.
func (tr *truncation) checkpoint(ctx context.Context, mint int64, whole bool) error {
	h := tr.h
	err := tr.checkpoints.Write(ctx, &checkpoint.Head{
		Log: h.writable, Series: h.series, Commits: h.iso, Metadata: h.commits.metadata, Exemplars: h.commits.exemplars,
		Restored: h.recovery.restored, SyncLate: func() ([]byte, error) { return h.late.sync(h) }, Passed: h.snapshots.Pass,
	}, mint, whole)
	if err == nil && whole {
		tr.shortened = mint
	}
	return err
}

// shortenLog takes what blocks have out of the log, and reports whether it may have had some of it.
func shortenLog(ctx context.Context, db *DB) (wasLonger bool, err error) {
	db.flushing.Lock()
	defer db.flushing.Unlock()
	if start := db.blocks.Current().Start; db.head.trunc.shortened < start {
		return true, db.truncate(ctx, start, true)
	}
	return false, nil
}
