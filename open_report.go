package tsdb

import (
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/internal/blockset"
	"github.com/seed347100a3/tsdb/internal/replay"
	"github.com/seed347100a3/tsdb/wal"
)

// OpenReport is what Open found in the directory and what it did about it.
type OpenReport struct {
	Duration time.Duration // of recovery as a whole

	// The log.
	Segments        int    // read, checkpoints included
	ForeignSegments int    // of them: written by another engine, read record by record
	Bytes           int64  // of log read
	Records         int    // that counted
	Commits         int    // whole ones
	LastSeq         uint64 // sequence number of the newest commit
	SyncedSeq       uint64 // newest commit that was known to be on stable storage

	// Snapshot of the head that recovery began with; Segments to Commits count what it read
	// behind that. Empty: there was none.
	Snapshot      string
	SnapshotBytes int64
	// SnapshotsIgnored are those that could not be used, each with the reason. Nothing is lost
	// with them: the log has it all.
	SnapshotsIgnored []string

	// What came out of it.
	Series          int
	Samples         uint64 // appended again, from the log and a snapshot
	SamplesInChunks uint64 // found in head-chunk files and not appended again
	SamplesLate     uint64 // in the log, and refused when they were appended, or in the snapshot, too
	SamplesUnknown  uint64 // without a series record
	SamplesInBlocks uint64 // in the log, and older than the end of the blocks, which have them
	SamplesInvalid  uint64 // histograms in the log that make no sense, and are left out
	Tombstones      uint64 // deleted intervals
	Exemplars       uint64 // read from the log and a snapshot; not more of them are kept than fit
	// ExemplarsUnknown counts those in the log without a series record. Nothing of samples is lost.
	ExemplarsUnknown uint64
	// MetadataUnknown counts metadata in the log without a series record, which is left out.
	MetadataUnknown uint64

	// Late samples, from the log, the out-of-order log and out-of-order chunks of another engine.
	LateSegments     int    // of the out-of-order log, read
	LateBytes        int64  // of it, read
	LateSamples      uint64 // that were taken from either log, those that both have once
	LateUnknown      uint64 // without a series record: nobody can read them
	LateInvalid      uint64 // that make no sense, and are left out: histograms, impossible times
	LateVoid         uint64 // of commits that the log does not have, which so never were
	OutOfOrderChunks int    // of head-chunk files, taken into the out-of-order log
	// LateLogRewritten: the out-of-order log said something else than what was read, so Open wrote
	// it anew; OpenReadOnly does not.
	LateLogRewritten bool

	// Blocks.
	Blocks         int // that are open
	BlocksSetAside int // damaged ones, moved into quarantine/
	BlocksVanished int // that were there before, and that nobody removed by this library; see ErrMissing

	// Head-chunk files.
	HeadChunkFiles int
	HeadChunks     int // full chunks in them that are in use
	SeriesRebuilt  int // series whose chunk files did not cover the log
	// ChunksBeyondLog counts those that the log has not to their end, if it has lost something
	// that was promised. Their samples are served. What was deleted by commits that are lost is
	// there again: delete it once more.
	ChunksBeyondLog int
	// ChunksUnknown counts those without a series record, as the log has lost it: nobody can read
	// their samples.
	ChunksUnknown int

	// What this version does not read and leaves where it is: records by type.
	UnreadRecords map[string]int
	// UnreadSampleRecords counts those of them that hold samples which no block has. As long as
	// there are any, DB.Health is an *UnreadError, and the head is not made into blocks.
	UnreadSampleRecords int

	// What is not there any more, and why. Originals are in quarantine/.
	TornTail       bool // the log ended within a commit or record, as after a crash
	DroppedCommits int
	DroppedRecords int
	DroppedBytes   int64
	Damages        []Damage
	Quarantined    []string // paths of copies, relative to the data directory

	// How long the stages of replay were busy, summed over their goroutines.
	ReaderBusy, DecoderBusy, WorkerBusy time.Duration
}

// Damage is one place where a file did not say what was written.
type Damage struct {
	File   string
	Offset int64 // bytes
	Reason string
	// Tail: an unfinished write at the end of the log, as a crash leaves it. Nothing
	// that was promised is lost.
	Tail bool
	// Rebuilt: a head-chunk file. What it and the files behind it held was taken from
	// the log again, so nothing is lost. A power failure leaves such files.
	Rebuilt bool
	// Harmless: a place of the log where no commit was, or a block whose series are not in order,
	// which queries and merges put right. Nothing is lost.
	Harmless bool
}

// Clean reports whether nothing that was promised is lost: no damage but an unfinished tail, what
// the log made good, or what had nothing to lose, and a series for each sample. What is there and
// not read by this version is not lost: see UnreadSampleRecords.
func (r *OpenReport) Clean() bool {
	for _, d := range r.Damages {
		if !d.Tail && !d.Rebuilt && !d.Harmless {
			return false
		}
	}
	return r.SamplesUnknown == 0 && r.LateUnknown == 0 && r.LateInvalid == 0 && r.ChunksUnknown == 0
}

// UnreadError says that the log has samples of kinds that this version does not read, which
// another engine has written. They stay in the log, for a program that reads them. No block would
// have them, so the head is not made into blocks as long as they are newer than the end of the
// blocks: commits are taken, but head and log only grow. The way out is to close the database, let
// the other engine make blocks of its head, and open it again.
//
// errors.Is(err, ErrUnsupported) holds for it.
type UnreadError struct {
	// Records counts the records of such samples by kind, as OpenReport.UnreadRecords does.
	// Exemplars and the like are not among them: blocks do without.
	Records map[string]int
}

// Error names the kinds.
func (e *UnreadError) Error() string {
	kinds := slices.Collect(maps.Keys(e.Records))
	sort.Slice(kinds, func(i, k int) bool { return kinds[i] < kinds[k] }) // not by package slices: 13 kB for strings
	for i, kind := range kinds {
		kinds[i] = fmt.Sprintf("%d records of %s", e.Records[kind], kind)
	}
	return "the head cannot be made into blocks: the log has " + strings.Join(kinds, ", ") +
		", samples that this version does not read and that would be lost: let the program that wrote them make blocks of its head"
}

// Unwrap returns ErrUnsupported.
func (e *UnreadError) Unwrap() error { return ErrUnsupported }

// RecoveryProgress tells how far Open is.
type RecoveryProgress struct {
	Done, Total int64 // bytes of log
}

// addReplay takes over what replay says of snapshot, log and head-chunk files.
func (r *OpenReport) addReplay(p *replay.Report) {
	r.addChunks(p.Chunks)
	r.Samples, r.SamplesInChunks, r.SamplesLate = p.Samples, p.SamplesInChunks, p.SamplesLate
	r.SamplesUnknown, r.SamplesInBlocks = p.SamplesUnknown, p.SamplesInBlocks
	r.Exemplars, r.ExemplarsUnknown = p.Exemplars, p.ExemplarsUnknown
	r.SamplesInvalid, r.Tombstones, r.MetadataUnknown = p.SamplesInvalid, p.Tombstones, p.MetadataUnknown
	r.SeriesRebuilt, r.ChunksBeyondLog, r.ChunksUnknown = p.SeriesRebuilt, p.ChunksBeyondLog, p.ChunksUnknown
	r.UnreadRecords, r.UnreadSampleRecords = p.Unread.Names(), p.Held.Total()
	r.WorkerBusy = p.WorkerBusy
	for _, d := range p.Damages {
		r.Damages = append(r.Damages, Damage{File: d.File, Offset: d.Offset, Reason: d.Reason})
	}
	r.addLog(p.Log)
	r.addLate(&p.Late)
}

// addLate takes over what replay says of late samples. What the end of the out-of-order log lacks
// the log has.
func (r *OpenReport) addLate(l *replay.LateReport) {
	r.LateSamples, r.LateUnknown, r.LateInvalid, r.LateVoid = l.Samples, l.Unknown, l.Invalid, l.Void
	r.OutOfOrderChunks, r.LateLogRewritten = l.Chunks, l.Incomplete
	if l.Log != nil {
		r.LateSegments, r.LateBytes = l.Log.Segments, l.Log.Bytes
		r.addDamages(l.Log)
	}
}

// addBlocks takes over what loading the blocks found.
func (r *OpenReport) addBlocks(l *blockset.Report) {
	r.Blocks, r.BlocksSetAside, r.BlocksVanished = l.Blocks, l.SetAside, l.Vanished
	r.Quarantined = append(r.Quarantined, l.Quarantined...)
	for _, d := range l.Damages {
		r.Damages = append(r.Damages, Damage{File: d.File, Offset: d.Offset, Reason: d.Reason, Harmless: d.Harmless})
	}
}

// addLog takes over what replay says of the log.
func (r *OpenReport) addLog(l *wal.ReplayReport) {
	r.Segments, r.ForeignSegments = l.Segments, l.Foreign
	r.Bytes, r.Records, r.Commits = l.Bytes, l.Records, l.Commits
	r.LastSeq, r.SyncedSeq = l.LastSeq, l.Watermark
	r.TornTail = l.TornTail
	r.DroppedCommits, r.DroppedRecords, r.DroppedBytes = l.DroppedCommits, l.DroppedRecords, l.DroppedBytes
	r.ReaderBusy, r.DecoderBusy = l.ReaderBusy, l.DecoderBusy
	r.addDamages(l)
}

func (r *OpenReport) addDamages(l *wal.ReplayReport) {
	for _, d := range l.Damages {
		r.Damages = append(r.Damages, Damage{File: d.File, Offset: d.Offset, Reason: d.Reason, Tail: d.Tail, Harmless: d.Harmless})
	}
}

// addChunks takes over what the load of the head-chunk files says.
func (r *OpenReport) addChunks(l chunks.LoadReport) {
	r.HeadChunkFiles, r.HeadChunks = l.Files, l.Chunks
	if d := l.Damage; d != nil {
		r.Damages = append(r.Damages, Damage{File: d.File, Offset: d.Offset, Reason: d.Reason, Rebuilt: true})
	}
}
