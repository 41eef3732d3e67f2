package tsdb

import "time"

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

	// What came out of it.
	Series          int
	Samples         uint64 // appended again from the log
	SamplesInChunks uint64 // found in head-chunk files and not appended again
	SamplesLate     uint64 // in the log, and refused when they were appended
	SamplesUnknown  uint64 // without a series record
	Tombstones      uint64 // deleted intervals

	// Head-chunk files.
	HeadChunkFiles int
	HeadChunks     int // full chunks in them that are in use
	SeriesRebuilt  int // series whose chunk files did not cover the log

	// What this version does not read and leaves where it is: records by type.
	UnreadRecords map[string]int

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
}

// Clean reports whether nothing was lost: no damage, nothing dropped but an
// unfinished tail.
func (r *OpenReport) Clean() bool {
	return len(r.Damages) == 0 && (r.DroppedCommits == 0 || r.TornTail) && r.SamplesUnknown == 0
}

// RecoveryProgress tells how far Open is.
type RecoveryProgress struct {
	Done, Total int64 // bytes of log
}
