package snapshots

import (
	"context"
	"sync/atomic"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/internal/checkpoint"
	"github.com/seed347100a3/tsdb/internal/diskspace"
	"github.com/seed347100a3/tsdb/internal/exemplars"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/headchunks"
	"github.com/seed347100a3/tsdb/internal/headsnap"
	"github.com/seed347100a3/tsdb/internal/isolation"
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/internal/metadata"
	"github.com/seed347100a3/tsdb/internal/tombstones"
	"github.com/seed347100a3/tsdb/wal"
)

// Head is what a snapshot is taken of. No series and no chunk of it is forgotten meanwhile;
// commits, queries and deletes go on.
type Head struct {
	Log       *wal.Log
	Series    *memseries.Directory
	Chunks    *chunks.HeadFiles
	Writer    *headchunks.Writer
	Commits   *isolation.Commits
	Metadata  *metadata.Table
	Exemplars *exemplars.Ring
	Deleted   *atomic.Pointer[tombstones.Set]
	Gone      checkpoint.Gone
	Restored  uint64 // refs below it were found by recovery
	SyncLate  checkpoint.LateSync
	Start     func() int64 // where the head begins by the blocks alone
	Damaged   bool         // a chunk file is: no snapshot may build on it
	Unread    bool         // there are records that nobody could read, so no snapshot has them
}

// purpose is what errors of a full disk call a snapshot.
const purpose = "snapshot of the head"

// Take writes a snapshot of the head and removes those before it. A failure costs the time of the
// next Open; a failed sync poisons the log, as any does.
func (k *Keeper) Take(ctx context.Context, h *Head) error {
	begun := k.Clock.Now()
	bytes := k.estimate(h)
	if err := diskspace.Check(k.FS, k.Dir, purpose, bytes); err != nil {
		return err
	}
	meta, err := k.write(ctx, h)
	if errors.Is(err, wal.ErrPoisoned) {
		err = h.Log.Poison(err)
	}
	if err != nil {
		return diskspace.WhileWriting(k.FS, k.Dir, purpose, bytes, err)
	}
	k.use(&meta)
	k.taken.Add(1)
	k.Logger.Info("snapshot of the head", "segment", meta.Start.Segment, "series", meta.Series, "bytes", meta.Sum.Bytes,
		"duration", k.Clock.Now().Sub(begun))
	return k.RemoveOthers()
}

// use makes a snapshot the newest one.
func (k *Keeper) use(m *headsnap.Meta) {
	k.newest = newest{segment: m.Start.Segment, bytes: m.Sum.Bytes, nextSeq: m.Start.NextSeq}
}

// estimate is about what the next snapshot takes: as much as the head does in memory,
// less if the log is compressed, or as much as the one before. Where the disk may have no room
// for it, none is begun: commits need the room more.
func (k *Keeper) estimate(h *Head) int64 {
	bytes := h.Series.SizeBytes()
	if k.newest.bytes > 0 {
		bytes = min(bytes, 2*k.newest.bytes)
	}
	return bytes
}

// write writes a snapshot and gives it its name, behind everything that it builds on.
func (k *Keeper) write(ctx context.Context, h *Head) (meta headsnap.Meta, err error) {
	log := h.Log
	start, err := log.BeginSnapshot()
	if err != nil {
		return meta, err
	}
	// From here on every commit before the segment is applied, deletes too, and what it filled is
	// in files: of each series the first chunk that is in none has all that is left of them.
	h.Series.Shards.Barrier()
	h.Commits.WaitPublished(start.NextSeq - 1)
	late, err := h.SyncLate()
	if err != nil {
		return meta, err
	}
	if err := h.Writer.StoreAll(log.SyncTo); err != nil {
		return meta, headchunks.Poisoned(err)
	}
	// What comes into files from here on is not in the extents: recovery looks at it again, as
	// the copies of the series may be older. Nobody has put a chunk into a file and not told its
	// series: recovery would store it twice, as the extents have it and its series has not.
	h.Writer.Lock()
	extents, err := h.Chunks.SyncExtents()
	h.Writer.Unlock()
	if err != nil {
		return meta, headchunks.Poisoned(err)
	}
	w, err := headsnap.Create(k.FS, k.Dir, headsnap.Options{Start: start, HeadStart: h.Start(), Compression: k.Compression})
	if err != nil {
		return meta, diskspace.Full(err)
	}
	defer func() {
		if err != nil {
			err = diskspace.Full(fileutil.JoinErrors(err, w.Abort()))
		}
	}()
	c := seriesCopier{ctx: ctx, series: h.Series, w: w}
	if err := h.Series.Capture(h.Restored, c.add); err != nil {
		return meta, err
	}
	if late != nil {
		if err := w.Logged(late); err != nil {
			return meta, err
		}
	}
	if err := h.Metadata.Records(w.Logged); err != nil {
		return meta, err
	}
	h.Exemplars.Settle(start.NextSeq - 1)
	if err := w.Exemplars(h.Exemplars.Before(start.NextSeq - 1)); err != nil {
		return meta, err
	}
	// Samples, and deletes, that came while it was written are in the snapshot. The log has
	// them on stable storage before it counts.
	base := func() (uint64, []chunks.HeadExtent, error) {
		if err := h.Chunks.Sync(); err != nil {
			return 0, nil, headchunks.Poisoned(err)
		}
		seq := log.LastSeq()
		return seq, extents, log.SyncTo(seq)
	}
	if meta, err = w.Finish(h.Deleted.Load(), h.Gone.List(), base); err != nil {
		return meta, err
	}
	return meta, w.Publish(ctx)
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
