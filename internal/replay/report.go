package replay

import (
	"time"

	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/internal/headsnap"
	"github.com/seed347100a3/tsdb/internal/metadata"
	"github.com/seed347100a3/tsdb/internal/record"
	"github.com/seed347100a3/tsdb/internal/tombstones"
	"github.com/seed347100a3/tsdb/wal"
)

// Report is what Run read and what came of it, beside the series.
type Report struct {
	Log    *wal.ReplayReport // of the log, or of what is behind the snapshot
	Chunks chunks.LoadReport // of the head-chunk files

	Samples         uint64 // appended again
	SamplesInChunks uint64 // found in head-chunk files and not appended again
	SamplesLate     uint64 // not newer than the newest of their series
	SamplesUnknown  uint64 // without a series record
	SamplesInBlocks uint64 // older than MinValid
	SamplesInvalid  uint64 // histograms that make no sense
	MetadataUnknown uint64 // entries without a series record

	SeriesRebuilt   int // series whose chunk files did not cover the log
	ChunksBeyondLog int // that the log has not to their end, if it has lost something
	ChunksUnknown   int // without a series record, as the log has lost it

	Unread record.Counts // records without a decoder
	Held   record.Counts // those of them with samples that no block has

	Late LateReport

	Exemplars        uint64 // that were read, repeats among them
	ExemplarsUnknown uint64 // without a series record

	Tombs      *tombstones.Set // deleted intervals by ref of the series
	Tombstones uint64          // deleted intervals that were read
	Metadata   *metadata.Table // by ref of the series
	// Gone are refs of the log that no series has, each with the newest segment that may have
	// samples of it.
	Gone []headsnap.Gone

	Damages []Damage // beside those that Log has; the last one speaks of those that are omitted
	omitted int
	// Start is where the head begins by the log: MinValid, or later, if it was truncated up to
	// there and has nothing older. Chunks may have older samples: those of a block that is gone.
	Start int64
	// LogLost: the log has lost something that was promised. Truncated is the time up to which it
	// was truncated, logreach.NeverTruncated if that is not known.
	LogLost   bool
	Truncated int64
	StoreErr  error // why full chunks stayed in memory; nil: all were written that could be

	WorkerBusy time.Duration // summed over the workers
}

// Damage is a place of the log that passed its checksum and makes no sense, or the log as a whole.
type Damage struct {
	File   string // relative to the data directory
	Offset int64  // bytes
	Reason string
}
