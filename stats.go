package tsdb

import (
	"sync/atomic"
	"time"

	"github.com/seed347100a3/tsdb/wal"
)

// headStats are counted where they happen.
type headStats struct {
	commits, commitsFailed           atomic.Uint64
	samplesAppended, samplesRejected atomic.Uint64
	seriesCreated, seriesRemoved     atomic.Uint64
	chunksWritten, chunkWriteErrors  atomic.Uint64
	queriers, deletes, flushes       atomic.Uint64
	checkpoints, flushErrors         atomic.Uint64
	merges, mergeErrors              atomic.Uint64
	blocksRemoved                    atomic.Uint64
	snapshots, snapshotErrors        atomic.Uint64
}

// Stats are cheap counters and gauges, taken one after the other: they are not one
// instant. Counters begin at 0 when the database is opened.
type Stats struct {
	Series        int   // series in the head
	MinT, MaxT    int64 // closed bounds of the head's samples in milliseconds; MinT > MaxT: there are none
	HeadSizeBytes int64 // memory of the head: series, labels, postings, chunks; within 10%
	FullBytes     int64 // full chunks that wait for a head-chunk file

	Commits         uint64 // that succeeded
	CommitsFailed   uint64 // of which nothing is in the database
	SamplesAppended uint64 // by commits that succeeded
	SamplesRejected uint64 // found late by Commit; what Append refuses is not counted
	SeriesCreated   uint64
	SeriesRemoved   uint64 // created and never committed, or only in blocks now

	HeadChunksWritten    uint64 // full chunks put into files
	HeadChunkWriteErrors uint64 // attempts that failed; they are repeated
	HeadChunkFiles       int
	HeadChunkBytes       int64 // of the head-chunk files

	Blocks        int    // open blocks
	BlockBytes    int64  // of their files when they were opened
	BlocksMissing int    // damaged ones that were set aside and not repaired
	Flushes       uint64 // blocks made of the head
	FlushErrors   uint64 // flushes in the background that failed; they are repeated
	Checkpoints   uint64 // of the log, each behind a flush

	HeadSnapshots      uint64 // taken of the head, for the next Open
	HeadSnapshotErrors uint64 // attempts that failed; the next Open takes longer for it

	Merges        uint64
	MergeErrors   uint64 // their blocks rest for a while
	BlocksRemoved uint64 // by retention
	Deletes       uint64

	Queriers           uint64        // opened so far
	QueriersOpen       int           // open now
	OldestQuerierSince time.Duration // how long the oldest one is open; 0: none is

	Log LogStats
}

// LogStats are about the write-ahead log since it was opened; see wal.Stats.
type LogStats = wal.Stats

// Stats returns the present numbers.
func (db *DB) Stats() Stats { return takeStats(db.head, db.blocks) }

func takeStats(h *Head, bs *blockSet) Stats {
	v := bs.current()
	s := Stats{
		Series: h.dir.Len(), MinT: h.minT.Load(), MaxT: h.maxT.Load(),
		HeadSizeBytes: h.dir.SizeBytes() + h.texts.sizeBytes(), FullBytes: h.dir.FullBytes(),
		Commits: h.stats.commits.Load(), CommitsFailed: h.stats.commitsFailed.Load(),
		SamplesAppended: h.stats.samplesAppended.Load(), SamplesRejected: h.stats.samplesRejected.Load(),
		SeriesCreated: h.stats.seriesCreated.Load(), SeriesRemoved: h.stats.seriesRemoved.Load(),
		HeadChunksWritten: h.stats.chunksWritten.Load(), HeadChunkWriteErrors: h.stats.chunkWriteErrors.Load(),
		Queriers: h.stats.queriers.Load(),
		Blocks:   len(v.blocks), BlockBytes: v.bytes(), BlocksMissing: len(v.missing),
		Flushes: h.stats.flushes.Load(), FlushErrors: h.stats.flushErrors.Load(),
		Checkpoints:   h.stats.checkpoints.Load(),
		HeadSnapshots: h.stats.snapshots.Load(), HeadSnapshotErrors: h.stats.snapshotErrors.Load(),
		Merges: h.stats.merges.Load(), MergeErrors: h.stats.mergeErrors.Load(),
		BlocksRemoved: h.stats.blocksRemoved.Load(), Deletes: h.stats.deletes.Load(),
	}
	files := h.chunks.Stats()
	s.HeadChunkFiles, s.HeadChunkBytes = files.Files, files.Bytes
	n, oldest := h.iso.openSnapshots()
	s.QueriersOpen = n
	if n > 0 {
		s.OldestQuerierSince = h.opts.Clock.Now().Sub(oldest)
	}
	if log := h.log.Load(); log != nil {
		s.Log = log.Stats()
	}
	return s
}
