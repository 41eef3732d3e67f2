package tsdb

import (
	"time"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/blockset"
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/wal"
)

// Stats are cheap counters and gauges, taken one after the other: they are not one
// instant. Counters begin at 0 when the database is opened.
type Stats struct {
	Series     int   // series in the head
	MinT, MaxT int64 // closed bounds of the head's samples in milliseconds; MinT > MaxT: there are none
	// AcceptsFrom and AcceptsTo are the closed bounds, in milliseconds, of times that samples may
	// have now. What is before is in blocks, or before the out-of-order window; To goes with the
	// clock (Limits.MaxFuture). AcceptsInOrderFrom is where late samples end: what is older is late
	// whatever its series has. Without a window it is AcceptsFrom.
	AcceptsFrom, AcceptsTo, AcceptsInOrderFrom int64

	SeriesWithMetadata int // those of the head, and some that left it: they go with the next checkpoint

	// HeadSizeBytes is the memory of the head, within 10%: series, labels, postings, chunks, late
	// samples, exemplars.
	HeadSizeBytes int64
	FullBytes     int64 // full chunks that wait for a head-chunk file

	Commits         uint64 // that succeeded
	CommitsFailed   uint64 // of which nothing is in the database
	SamplesAppended uint64 // by commits that succeeded
	// Of these, by kind.
	FloatsAppended, HistogramsAppended, FloatHistogramsAppended uint64
	// Of all, those that came late, and of these the histograms of both kinds.
	LateSamplesAppended, LateHistogramsAppended uint64

	// Late samples that are in memory, as they are not in blocks, or some Querier needs them: their
	// series, their number, where those of one time and deleted ones may count, and their bytes.
	LateSeries, LateSamples, LateBytes int64
	LateFlushes                        uint64   // how often all late samples became blocks
	LateLog                            LogStats // of the out-of-order log; zero: there is none

	SamplesRejected uint64 // found late by Commit; what Append refuses is not counted
	SeriesCreated   uint64
	SeriesRefused   uint64 // how often Append was refused a new one, for its labels or for a limit
	SeriesRemoved   uint64 // created and never committed, or only in blocks now

	// Samples that Append refused or Commit found late, by the reason. They count when their
	// Appender ends.
	SamplesOutOfOrder  uint64 // older than the newest of their series
	SamplesDuplicate   uint64 // of a time for which their series has another value
	SamplesOutOfBounds uint64 // outside of what was accepted
	SamplesTooOld      uint64 // older than the out-of-order window
	// Of these, histograms, with integer and with float counts.
	HistogramsOutOfOrder, HistogramsDuplicate, HistogramsOutOfBounds, HistogramsTooOld uint64

	ExemplarsAppended uint64 // by commits that succeeded; repeats are not counted
	ExemplarsRejected uint64 // by AppendExemplar; not for want of labels of a series, nor where none are kept
	Exemplars         int    // that are kept
	ExemplarSeries    int    // that have some
	MaxExemplars      int    // that may be kept; 0: none are

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
	BlocksRemoved uint64 // by retention, by DropBlocks, by Delete on a full disk
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
	s.RetentionBehind = db.time.Behind()
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
		AcceptsInOrderFrom: h.bounds.minValid.Load(), AcceptsTo: h.bounds.acceptsTo(),
		HeadSizeBytes: h.series.SizeBytes() + h.queries.labels.SizeBytes(), FullBytes: h.series.Shelf.Bytes(),
		HeadChunksWritten: h.writer.Written.Load(), HeadChunkWriteErrors: h.writer.Failed.Load(),
		Queriers: h.queries.opened.Load(), Deletes: h.deleted.deletes.Load(),
		Blocks: len(v.Blocks), BlockBytes: v.Bytes(), BlocksMissing: len(v.Missing),
	}
	s.Checkpoints, s.CheckpointErrors, s.LogDamages = h.trunc.checkpoints.Counts()
	s.HeadSnapshots, s.HeadSnapshotErrors = h.snapshots.Counts()
	h.commits.addTo(&s)
	h.late.addTo(&s, &h.bounds)
	s.HeadChunksDamaged, s.HeadSamplesLost = h.queries.mender.Counts()
	n, bytes := h.commits.metadata.Size()
	s.SeriesWithMetadata, s.HeadSizeBytes = n, s.HeadSizeBytes+bytes
	s.HeadChunks, s.HeadChunksCreated = h.series.Shards.Chunks()
	s.HeadChunksRemoved = uint64(h.recovery.chunks) + s.HeadChunksCreated - uint64(s.HeadChunks)
	files := h.chunks.Stats()
	s.HeadChunkFiles, s.HeadChunkBytes = files.Files, files.Bytes
	open, oldest := h.iso.Open()
	s.QueriersOpen = open
	if open > 0 {
		s.OldestQuerierSince = h.opts.Clock.Now().Sub(oldest)
	}
	if log := h.log.Load(); log != nil {
		s.Log = log.Stats()
	}
	return s
}

func (hl *headLate) addTo(s *Stats, b *bounds) {
	s.LateSamplesAppended, s.LateHistogramsAppended = hl.appended.Load(), hl.histograms.Load()
	s.LateSeries, s.LateSamples = hl.store.Len()
	s.LateBytes, s.LateFlushes, s.LateLog = hl.store.SizeBytes(), hl.flush.Done(), hl.log.Stats()
	s.HeadSizeBytes += s.LateBytes
	if s.AcceptsFrom = s.AcceptsInOrderFrom; hl.window.Load() > 0 {
		s.AcceptsFrom = min(s.AcceptsFrom, hl.acceptsFrom(b))
	}
}

func (c *commits) addTo(s *Stats) {
	s.Commits, s.CommitsFailed = c.done.Load(), c.failed.Load()
	s.FloatsAppended = c.appended[chunkenc.ValFloat].Load()
	s.HistogramsAppended = c.appended[chunkenc.ValHistogram].Load()
	s.FloatHistogramsAppended = c.appended[chunkenc.ValFloatHistogram].Load()
	s.SamplesAppended = s.FloatsAppended + s.HistogramsAppended + s.FloatHistogramsAppended
	s.SamplesRejected = c.rejected.Load()
	s.SamplesOutOfOrder, s.HistogramsOutOfOrder = c.refusedFor(isOutOfOrder)
	s.SamplesDuplicate, s.HistogramsDuplicate = c.refusedFor(isDuplicate)
	s.SamplesOutOfBounds, s.HistogramsOutOfBounds = c.refusedFor(isOutOfBounds)
	s.SamplesTooOld, s.HistogramsTooOld = c.refusedFor(isTooOld)
	s.SeriesCreated, s.SeriesRemoved, s.SeriesRefused = c.seriesCreated.Load(), c.seriesRemoved.Load(), c.seriesRefused.Load()
	ring := c.exemplars.Stats()
	s.Exemplars, s.ExemplarSeries, s.ExemplarsAppended = ring.Exemplars, ring.Series, ring.Appended
	s.MaxExemplars = ring.Most
	s.ExemplarsRejected = c.exemplarsRejected.Load()
	s.HeadSizeBytes += ring.SizeBytes
}

// refusals counts samples that are not taken by the reason, floats and histograms apart: first
// here, as a stream of late ones must not cost more than one that is taken.
type refusals struct {
	any bool
	by  [2 * reasons]uint64
}

// Reasons by which refusals are counted; those of histograms come behind those of floats.
const (
	isOutOfOrder = iota
	isDuplicate
	isOutOfBounds
	isTooOld
	reasons
)

// note counts a sample that is not taken, and returns why.
func (r *refusals) note(st *memseries.Sample, err error) error {
	reason := isOutOfBounds
	switch {
	case errors.Is(err, ErrOutOfOrder):
		reason = isOutOfOrder
	case errors.Is(err, ErrDuplicateSample):
		reason = isDuplicate
	case errors.Is(err, ErrTooOld):
		reason = isTooOld
	case !errors.Is(err, ErrOutOfBounds):
		return err
	}
	if st.Encoding.Kind() != chunkenc.ValFloat {
		reason += reasons
	}
	r.any = true
	r.by[reason]++
	return err
}

// moveTo adds the numbers to those of the head.
func (r *refusals) moveTo(c *commits) {
	for i := 0; r.any && i < len(r.by); i++ {
		c.refused[i].Add(r.by[i])
	}
	*r = refusals{}
}

// refusedFor returns how many samples were not taken for a reason, and how many of them were
// histograms.
func (c *commits) refusedFor(reason int) (all, histograms uint64) {
	histograms = c.refused[reasons+reason].Load()
	return c.refused[reason].Load() + histograms, histograms
}
