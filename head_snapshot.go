package tsdb

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/internal/diskspace"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/headsnap"
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/wal"
)

// A head snapshot is what the head was when a log segment began, give or take samples that the log
// has behind it, too. Series are copied one after the other beside commits. Replay leaves out what
// is not newer than the copy. It saves the next Open the log before that segment, and the
// head-chunk files that were there (docs/design/head-snapshots.md).

// headSnapshots takes snapshots of a head, and removes them. Its owner holds the database's
// flushing lock, or is alone.
type headSnapshots struct {
	h      *head
	newest headSnapshot
	looked looked

	taken, failed atomic.Uint64
}

// headSnapshot is what is known of the newest one.
type headSnapshot struct {
	segment int   // that it continues with; 0: there is none
	bytes   int64 // its size
	nextSeq uint64
}

// looked is what was found when the log was listed last.
type looked struct {
	segment int    // that the newest snapshot continued with
	written uint64 // bytes, by the log
	lacking int64  // bytes until another one is due
}

// snapshotTask takes a snapshot of the head when the log behind the last one is long.
type snapshotTask struct {
	db       *DB
	notNow   time.Time // one failed, and is tried again then
	backoff  time.Duration
	unmended bool // damaged chunks could not be set aside, and it was told
}

// maxSnapshotBackoff is how long a snapshot that failed waits at most, having failed before.
const maxSnapshotBackoff = 10 * time.Minute

func (t *snapshotTask) step() {
	db, now := t.db, t.db.opts.Clock.Now()
	h := db.head
	waiting := now.Before(t.notNow) && t.notNow.Sub(now) <= maxSnapshotBackoff && !h.queries.mender.Damaged()
	if waiting || h.log.Load() == nil {
		return
	}
	db.flushing.Lock()
	defer db.flushing.Unlock()
	t.mend()
	due, err := h.snapshots.due()
	if err == nil && due {
		err = h.snapshots.take(db.ctx, db.headStart)
	}
	switch {
	case err == nil:
		t.backoff = 0
	case db.ctx.Err() == nil:
		// Each try begins a log segment, and may write much in vain.
		t.backoff = min(max(2*t.backoff, flushBackoff), maxSnapshotBackoff)
		t.notNow = now.Add(t.backoff)
		h.snapshots.failed.Add(1)
		h.opts.Logger.Warn("snapshot of the head", "error", logged(err))
	}
}

// mend sets chunks aside that readers found damaged. A failure is told once, and tried again.
func (t *snapshotTask) mend() {
	db := t.db
	_, err := db.head.mend(db.ctx, db.blocks.Current().Start)
	if err != nil && !t.unmended && db.ctx.Err() == nil {
		db.opts.Logger.Warn("set aside damaged head chunks", "error", logged(err))
	}
	t.unmended = err != nil
}

// headStart is where the head begins by the blocks alone: what a snapshot of it builds on.
func (db *DB) headStart() int64 { return db.blocks.Current().StartWithout(nil) }

// due reports whether so much log stands behind the last snapshot that the next Open
// is worth another one: more than the threshold, and so much that snapshots stay a part of
// what is written.
func (hs *headSnapshots) due() (bool, error) {
	h := hs.h
	if h.queries.mender.Damaged() {
		if hs.newest.segment == 0 {
			return false, nil
		}
		return false, hs.drop()
	}
	if h.opts.Blocks.Manual || h.opts.Head.SnapshotThreshold < 0 || len(h.recovery.unread) > 0 {
		return false, nil
	}
	log := h.log.Load()
	written, l := log.Stats().Bytes, &hs.looked
	if l.segment == hs.newest.segment && l.lacking > 0 && written-l.written < uint64(l.lacking) {
		return false, nil // whatever was removed since
	}
	list, err := wal.List(h.opts.FS, h.walDir())
	if err != nil {
		return false, err
	}
	*l = looked{hs.newest.segment, written, max(h.opts.Head.SnapshotThreshold, 2*hs.newest.bytes) - list.BytesFrom(hs.newest.segment) + 1}
	return l.lacking <= 0, nil
}

// take writes a snapshot of the head and removes those before it. The caller holds
// flushing, so no series and no chunk is forgotten meanwhile; commits, queries and deletes go
// on. headStart returns where the head begins by the blocks. A failure costs the time of the next
// Open; a failed sync poisons the log, as any does.
func (hs *headSnapshots) take(ctx context.Context, headStart func() int64) (err error) {
	h := hs.h
	begun := h.opts.Clock.Now()
	bytes := hs.estimate()
	if err := diskspace.Check(h.opts.FS, h.path, snapshotPurpose, bytes); err != nil {
		return err
	}
	meta, err := hs.write(ctx, headStart)
	if errors.Is(err, ErrPoisoned) {
		err = h.log.Load().Poison(err)
	}
	if err != nil {
		return diskspace.WhileWriting(h.opts.FS, h.path, snapshotPurpose, bytes, err)
	}
	hs.newest = headSnapshot{segment: meta.Start.Segment, bytes: meta.Sum.Bytes, nextSeq: meta.Start.NextSeq}
	hs.taken.Add(1)
	h.opts.Logger.Info("snapshot of the head", "segment", meta.Start.Segment, "series", meta.Series, "bytes", meta.Sum.Bytes,
		"duration", h.opts.Clock.Now().Sub(begun))
	return hs.remove()
}

// snapshotPurpose is what errors of a full disk call a snapshot.
const snapshotPurpose = "snapshot of the head"

// estimate is about what the next snapshot takes: as much as the head does in memory,
// less if the log is compressed, or as much as the one before. Where the disk may have no room
// for it, none is begun: commits need the room more.
func (hs *headSnapshots) estimate() int64 {
	bytes := hs.h.series.SizeBytes()
	if hs.newest.bytes > 0 {
		bytes = min(bytes, 2*hs.newest.bytes)
	}
	return bytes
}

// remove removes all snapshots but the head's newest one.
//
//go:noinline
func (hs *headSnapshots) remove() error {
	return headsnap.RemoveOthers(hs.h.opts.FS, hs.h.path, hs.newest.segment)
}

// pass removes a snapshot that continues with a segment of the log which is gone: nobody can
// use it any more. How large it was says how large the next one gets.
func (hs *headSnapshots) pass(upTo int) error {
	if hs.newest.segment == 0 || hs.newest.segment > upTo {
		return nil
	}
	hs.newest.segment = 0
	return hs.remove()
}

// drop makes the next Open read the whole log, as a chunk file is damaged.
func (hs *headSnapshots) drop() error {
	hs.newest = headSnapshot{}
	return hs.remove()
}

// write writes a snapshot and gives it its name, behind everything that it builds on.
func (hs *headSnapshots) write(ctx context.Context, headStart func() int64) (meta headsnap.Meta, err error) {
	h := hs.h
	log, err := h.writable()
	if err != nil {
		return meta, err
	}
	start, err := log.BeginSnapshot()
	if err != nil {
		return meta, err
	}
	// From here on every commit before the segment is applied, deletes too, and what it filled is
	// in files: of each series the first chunk that is in none has all that is left of them.
	h.series.Shards.Barrier()
	h.iso.WaitPublished(start.NextSeq - 1)
	if err := h.late.sync(h); err != nil {
		return meta, err
	}
	if err := h.writer.StoreAll(log.SyncTo); err != nil {
		return meta, poisoned(err)
	}
	// What comes into files from here on is not in the extents: recovery looks at it again, as
	// the copies of the series may be older. Nobody has put a chunk into a file and not told its
	// series: recovery would store it twice, as the extents have it and its series has not.
	h.writer.Lock()
	extents, err := h.chunks.SyncExtents()
	h.writer.Unlock()
	if err != nil {
		return meta, poisoned(err)
	}
	w, err := headsnap.Create(h.opts.FS, h.path, headsnap.Options{Start: start, HeadStart: headStart(), Compression: h.opts.WAL.Compression.wal()})
	if err != nil {
		return meta, diskspace.Full(err)
	}
	defer func() {
		if err != nil {
			err = diskspace.Full(fileutil.JoinErrors(err, w.Abort()))
		}
	}()
	c := seriesCopier{ctx: ctx, series: h.series, w: w}
	if err := h.series.Capture(h.recovery.restored, c.add); err != nil {
		return meta, err
	}
	if err := h.commits.metadata.Records(w.Metadata); err != nil {
		return meta, err
	}
	h.commits.exemplars.Settle(start.NextSeq - 1)
	if err := w.Exemplars(h.commits.exemplars.Before(start.NextSeq - 1)); err != nil {
		return meta, err
	}
	// Samples, and deletes, that came while it was written are in the snapshot. The log has
	// them on stable storage before it counts.
	base := func() (uint64, []chunks.HeadExtent, error) {
		if err := h.chunks.Sync(); err != nil {
			return 0, nil, poisoned(err)
		}
		seq := log.LastSeq()
		return seq, extents, log.SyncTo(seq)
	}
	if meta, err = w.Finish(h.deleted.set.Load(), h.trunc.gone.List(), base); err != nil {
		return meta, err
	}
	return meta, w.Publish(ctx)
}

// closeShare is which part of the threshold is enough for a snapshot when the database is
// closed: there nobody waits behind it, and what is less is read in some milliseconds.
const closeShare = 64

// atClose takes a last snapshot, if there is much log that the newest one does not
// have. Commits that had begun may still come.
func (hs *headSnapshots) atClose(headStart int64) {
	h := hs.h
	log := h.log.Load()
	if log != nil && h.queries.mender.Damaged() {
		if err := hs.drop(); err != nil {
			h.opts.Logger.Warn("remove snapshots of the head", "error", logged(err))
		}
		return
	}
	if h.opts.Blocks.Manual || h.opts.Head.SnapshotThreshold < 0 || len(h.recovery.unread) > 0 || log == nil || log.Err() != nil || h.series.Len() == 0 {
		return
	}
	if hs.newest.segment > 0 && hs.newest.nextSeq == log.LastSeq()+1 {
		return
	}
	list, err := wal.List(h.opts.FS, h.walDir())
	if err != nil || list.BytesFrom(hs.newest.segment) < h.opts.Head.SnapshotThreshold/closeShare {
		return
	}
	if err := hs.take(context.Background(), func() int64 { return headStart }); err != nil {
		hs.failed.Add(1)
		h.opts.Logger.Warn("snapshot of the head", "error", logged(err))
	}
}

// seriesCopier puts series into a snapshot.
type seriesCopier struct {
	ctx    context.Context
	series *memseries.Directory
	w      *headsnap.Writer
	seen   int
}

func (c *seriesCopier) add(s *memseries.Captured) error {
	const pollEvery = 1024 // series between two looks at the context
	if c.seen++; c.seen%pollEvery == 0 && c.ctx.Err() != nil {
		return c.ctx.Err()
	}
	c.w.BeginSeries(s.Ref, len(s.Pairs))
	for _, p := range s.Pairs {
		c.w.Label(c.series.Postings().Label(p))
	}
	chunk := headsnap.Chunk{Encoding: s.Encoding, Data: s.Chunk, MinT: s.MinT, MaxT: s.MaxT, LastSum: s.LastSum}
	return c.w.EndSeries(s.Ref, s.Mapped, &chunk)
}
