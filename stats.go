package tsdb

import (
	"time"

	"github.com/seed347100a3/tsdb/internal/blockset"
	"github.com/seed347100a3/tsdb/wal"
)

// Stats are cheap counters and gauges, taken one after the other: they are not one
// instant. Counters begin at 0 when the database is opened.
type Stats struct {
	Series     int   // series in the head
	MinT, MaxT int64 // closed bounds of the head's samples in milliseconds; MinT > MaxT: there are none
	// AcceptsFrom and AcceptsTo are the closed bounds, in milliseconds, of times that samples may
	// have now. What is before is in blocks; To goes with the clock (Limits.MaxFuture).
	AcceptsFrom, AcceptsTo int64

	HeadSizeBytes int64 // memory of the head: series, labels, postings, chunks; within 10%
	FullBytes     int64 // full chunks that wait for a head-chunk file

	Commits         uint64 // that succeeded
	CommitsFailed   uint64 // of which nothing is in the database
	SamplesAppended uint64 // by commits that succeeded
	SamplesRejected uint64 // found late by Commit; what Append refuses is not counted
	SeriesCreated   uint64
	SeriesRemoved   uint64 // created and never committed, or only in blocks now

	// Samples that Append refused or Commit found late, by the reason. They count when their
	// Appender ends.
	SamplesOutOfOrder  uint64 // older than the newest of their series
	SamplesDuplicate   uint64 // of the time of the newest, with another value
	SamplesOutOfBounds uint64 // outside of what was accepted

	HeadChunks           int    // of all series, those included that samples are still appended to
	HeadChunksCreated    uint64 // begun
	HeadChunksRemoved    uint64 // that blocks have now, or whose samples are all deleted
	HeadChunksWritten    uint64 // full chunks put into files
	HeadChunkWriteErrors uint64 // attempts that failed; they are repeated
	HeadChunksDamaged    uint64 // full chunks that were damaged in their files, and set aside
	HeadSamplesLost      uint64 // of these, that the log did not have either
	HeadChunkFiles       int
	HeadChunkBytes       int64 // of the head-chunk files

	Blocks        int    // open blocks
	BlockBytes    int64  // of their files when they were opened
	BlocksMissing int    // that there should be: set aside and not repaired, not read, or vanished
	Flushes       uint64 // blocks made of the head
	FlushErrors   uint64 // flushes in the background that failed; they are repeated
	Checkpoints   uint64 // of the log, each behind a flush
	// CheckpointErrors counts those that failed: the log stays as long as it was. They are
	// repeated.
	CheckpointErrors uint64
	LogDamages       uint64 // places of the log that a checkpoint found damaged; OpenReport has those of Open
	// Reloads counts looks for blocks that somebody has put into the directory, ReloadErrors those
	// of them that found some which cannot be opened.
	Reloads, ReloadErrors uint64

	HeadSnapshots      uint64 // taken of the head, for the next Open
	HeadSnapshotErrors uint64 // attempts that failed; the next Open takes longer for it

	Merges        uint64
	MergeErrors   uint64 // their blocks rest for a while
	BlocksRemoved uint64 // by retention
	// TimeRetentions and ByteRetentions count how often blocks went because they were too old, or
	// all together too large.
	TimeRetentions, ByteRetentions uint64
	// RetentionBehind is how far retention by time stays behind the clock while blocks are kept
	// for that, as the clock went further than time passed; 0: it does not.
	RetentionBehind time.Duration
	Deletes         uint64

	Queriers           uint64        // opened so far
	QueriersOpen       int           // open now
	OldestQuerierSince time.Duration // how long the oldest one is open; 0: none is

	Log LogStats
}

// LogStats are about the write-ahead log since it was opened; see wal.Stats.
type LogStats = wal.Stats

// Stats returns the present numbers.
func (db *DB) Stats() Stats {
	s := takeStats(db.head, db.blocks)
	s.RetentionBehind = time.Duration(db.time.behind.Load()) * time.Millisecond
	m := &db.maintenance
	s.Flushes, s.FlushErrors = m.flushes.Load(), m.flushErrors.Load()
	s.Reloads, s.ReloadErrors = m.reloads.Load(), m.reloadErrors.Load()
	s.Merges, s.MergeErrors = m.merges.Load(), m.mergeErrors.Load()
	s.BlocksRemoved, s.TimeRetentions, s.ByteRetentions = m.blocksRemoved.Load(), m.timeRetentions.Load(), m.byteRetentions.Load()
	return s
}

// takeStats returns what a head and blocks tell of themselves.
func takeStats(h *head, blocks *blockset.Set) Stats {
	v := blocks.Current()
	s := Stats{
		Series: h.series.Len(), MinT: h.bounds.minT.Load(), MaxT: h.bounds.maxT.Load(),
		AcceptsFrom: h.bounds.minValid.Load(), AcceptsTo: h.bounds.acceptsTo(),
		HeadSizeBytes: h.series.SizeBytes() + h.queries.labels.SizeBytes(), FullBytes: h.series.Shelf.Bytes(),
		HeadChunksWritten: h.writer.written.Load(), HeadChunkWriteErrors: h.writer.failed.Load(),
		HeadChunksDamaged: h.mender.damaged.Load(), HeadSamplesLost: h.mender.lostSamples.Load(),
		Queriers: h.queries.opened.Load(), Deletes: h.deleted.deletes.Load(),
		Blocks: len(v.Blocks), BlockBytes: v.Bytes(), BlocksMissing: len(v.Missing),
		Checkpoints: h.trunc.checkpoints.Load(), CheckpointErrors: h.trunc.failed.Load(), LogDamages: h.trunc.damages.Load(),
		HeadSnapshots: h.snapshots.taken.Load(), HeadSnapshotErrors: h.snapshots.failed.Load(),
	}
	h.commits.addTo(&s)
	s.HeadChunks, s.HeadChunksCreated = h.series.Shards.Chunks()
	s.HeadChunksRemoved = uint64(h.recovery.chunks) + s.HeadChunksCreated - uint64(s.HeadChunks)
	files := h.chunks.Stats()
	s.HeadChunkFiles, s.HeadChunkBytes = files.Files, files.Bytes
	n, oldest := h.iso.Open()
	s.QueriersOpen = n
	if n > 0 {
		s.OldestQuerierSince = h.opts.Clock.Now().Sub(oldest)
	}
	if log := h.log.Load(); log != nil {
		s.Log = log.Stats()
	}
	return s
}

func (c *commits) addTo(s *Stats) {
	s.Commits, s.CommitsFailed = c.done.Load(), c.failed.Load()
	s.SamplesAppended, s.SamplesRejected = c.samplesAppended.Load(), c.samplesRejected.Load()
	s.SamplesOutOfOrder, s.SamplesDuplicate, s.SamplesOutOfBounds = c.outOfOrder.Load(), c.duplicate.Load(), c.outOfBounds.Load()
	s.SeriesCreated, s.SeriesRemoved = c.seriesCreated.Load(), c.seriesRemoved.Load()
}
