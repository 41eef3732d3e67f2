package tsdb

import (
	"context"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"sync/atomic"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/internal/background"
	"github.com/seed347100a3/tsdb/internal/checkpoint"
	"github.com/seed347100a3/tsdb/internal/datadir"
	"github.com/seed347100a3/tsdb/internal/diskspace"
	"github.com/seed347100a3/tsdb/internal/exemplars"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/wal"
)

// truncation forgets what blocks have, and remembers what it has forgotten. Its owner holds the
// database's flushing lock.
type truncation struct {
	h    *head
	done int64       // what is before is gone from memory
	idle atomic.Bool // nothing was committed for long: no series is in use
	// background is the DB's; nil if the head is only read.
	background *background.Runner
	gone       checkpoint.Gone // refs of the log that no series of the head has

	checkpoints, failed atomic.Uint64
	damages             atomic.Uint64 // places of the log that a checkpoint found damaged
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
	// Where no block says how far the head was flushed, as everything was deleted, the log
	// must not have it any more either.
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
	if t <= h.trunc.done || log == nil {
		return nil
	}
	lowest := h.trunc.dropBefore(t)
	removed := h.series.RemoveIdle(h.trunc.idleBefore(t), nil)
	if h.trunc.gone.Remember(log.Segment(), removed...); t > h.recovery.maxt {
		h.trunc.gone.ForgetDuplicates(log.Segment())
	}
	h.commits.seriesRemoved.Add(uint64(len(removed)))
	db.forgetDeleted(t, removed)
	h.trunc.done = t
	h.series.Budget.Flushed()
	return errors.WithMessage(h.trunc.removeChunks(lowest), "truncate head chunks")
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
		return min(t, h.endedBefore(maxt))
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
// needed of it: two thirds of the segments, as then little is copied more than once; with
// whole, all of them.
func (tr *truncation) checkpoint(ctx context.Context, mint int64, whole bool) (err error) {
	h := tr.h
	defer func() {
		if err != nil && ctx.Err() == nil {
			tr.failed.Add(1)
		}
	}()
	log, err := h.writable()
	if err != nil {
		return err
	}
	listing, err := wal.List(h.opts.FS, h.walDir())
	if err != nil {
		return err
	}
	// What a commit waits for while the log goes on to the next segment is little then.
	if err := log.Sync(); err != nil {
		return errors.WithMessage(err, "sync the log")
	}
	current, err := log.Rotate()
	if err != nil {
		return errors.WithMessage(err, "begin a log segment")
	}
	// What it leaves out of late samples the out-of-order log has.
	if err := h.late.sync(h); err != nil {
		return err
	}
	first, upTo := listing.Segments[0].Number, current-1
	if !whole {
		upTo = first + (upTo-first)*2/3
	}
	if upTo < first || !whole && upTo == first {
		return nil
	}
	// What a file of chunks still has from before is not to be taken for what the log has lost.
	if err := log.SetMark(mint); err != nil {
		return err
	}
	gone := tr.gone
	for ref, segment := range gone {
		if segment <= upTo { // metadata goes with the record of its series: a snapshot may bring both back until then
			h.commits.metadata.Remove(ref)
		}
	}
	var rep wal.CheckpointReport
	err = tr.background.Run(ctx, func(ctx context.Context) (err error) {
		var kept []exemplars.Entry
		var dear map[uint64]bool // refs that they are logged under
		filter := checkpoint.NewFilter(mint, func(ref uint64) bool { return h.series.ByRef(ref) != nil || gone[ref] > upTo || dear[ref] })
		begin := func(nextSeq uint64) {
			h.iso.WaitPublished(nextSeq - 1) // written is not applied yet, maybe
			h.commits.exemplars.Settle(nextSeq - 1)
			kept, dear = h.commits.exemplars.Logged(nextSeq - 1)
		}
		tail := func(emit func(rec []byte) error) error { return tr.logBeside(kept, emit) }
		rep, err = log.Checkpoint(ctx, wal.CheckpointOptions{
			UpTo: upTo, TmpDir: h.path, QuarantineDir: filepath.Join(h.path, datadir.QuarantineDir),
			Begin: begin, Keep: filter.Keep, Tail: tail, Expired: func(newest int64) bool { return newest < mint },
		})
		return err
	})
	if err != nil {
		return diskspace.WhileWriting(h.opts.FS, h.path, fmt.Sprintf("checkpoint log up to segment %d", upTo), listing.Bytes(), err)
	}
	tr.damages.Add(uint64(len(rep.Damages)))
	for _, d := range rep.Damages {
		h.opts.Logger.Error("damage in the log was found by a checkpoint; a copy is in quarantine", "file", d.File, "offset", d.Offset, "reason", d.Reason)
	}
	if len(rep.Damages) > 0 {
		if err := tr.relog(ctx); err != nil {
			return err
		}
	}
	tr.checkpoints.Add(1)
	maps.DeleteFunc(gone, func(_ uint64, segment int) bool { return segment <= upTo })
	return errors.WithMessage(h.snapshots.Pass(upTo), "remove snapshot of the head")
}

// logBeside adds, at the end of a checkpoint, the metadata of all series, and exemplars.
func (tr *truncation) logBeside(kept []exemplars.Entry, emit func(rec []byte) error) error {
	if err := tr.h.commits.metadata.Records(emit); err != nil {
		return err
	}
	if err := logExemplars(kept, emit); err != nil {
		return err
	}
	// Metadata may come of commits behind the checkpoint, and these have taken the place of
	// exemplars that are not here: they must not be lost any more.
	log := tr.h.log.Load()
	return log.SyncTo(log.LastSeq())
}

// relog makes the next commit of each series that the log has no record of any more write one:
// without, the log would be worth nothing for it.
func (tr *truncation) relog(ctx context.Context) error {
	h := tr.h
	seen, lastSeq, err := checkpoint.Logged(ctx, h.opts.FS, h.walDir())
	if err != nil {
		return errors.WithMessage(err, "look for series records")
	}
	if n := h.series.Unlog(h.recovery.restored, lastSeq, func(ref uint64) bool { return seen[ref] }); n > 0 {
		h.opts.Logger.Warn("series without a record in the log get a new one", "series", n)
	}
	return nil
}
