package wal

import "time"

// maxDamages is how many damages a report lists; more are counted only. A log that is
// broken in more places needs a backup, not a list.
const maxDamages = 1000

// Damage is one place of a log that could not be read, or did not fit.
type Damage struct {
	File        string
	Segment     int
	Checkpoint  bool   // File is of a checkpoint
	Offset, End int64  // bytes from the start of the file
	Reason      string // what was found, lower case

	// What was lost, as far as the log shows it.
	FirstSeq, LastSeq uint64 // closed range of commits; zero if no number is known
	Commits           int
	Records           int
	// Tail: nothing that counts follows. What was lost had not been brought to stable
	// storage: a crash in the middle of a write leaves such a tail.
	Tail bool
	// Harmless: no commit was there, as the number of the next one shows.
	Harmless bool

	framed bool // in a segment of ours, or one without any record behind it, and the number of the next commit was known
}

// ReplayReport says what Replay found. Repair needs it.
type ReplayReport struct {
	Checkpoint int // number of the checkpoint that was read, -1 for none
	Segments   int // files read, those of the checkpoint included
	Records    int // that count: handed to Apply
	Commits    int // that count and have records; a bare frame has none
	Bytes      int64

	LastSeq   uint64 // the log goes on with LastSeq+1
	Watermark uint64 // highest sequence number known to be on stable storage
	NextRef   uint64 // highest "next ref" of all headers, zero if there is none

	// Reached: how far the log reached was known (ReplayOptions.Reached) and is about this log;
	// what is missing of it is among the damages.
	Reached bool

	Foreign           int  // segments that were not written by this library
	ForeignCheckpoint bool // so was the checkpoint

	Damages        []Damage // in log order, at most maxDamages
	OmittedDamages int      // not listed
	DroppedCommits int      // known to have existed
	DroppedRecords int      // read or known, but not counted
	DroppedBytes   int64
	TornTail       bool // the log's end was torn: see Damage.Tail

	ReaderBusy  time.Duration // reading and checking
	DecoderBusy time.Duration // decompressing and Decode, over all decoders
	ApplyBusy   time.Duration // reading rules and Apply
	Elapsed     time.Duration

	listing   *Listing
	segments  []segmentState // the checkpoint's, then the log's
	cpHeader  *header        // of a checkpoint that this library wrote
	cpTrailer bool           // it has a trailer
	cpSum     trailer        // what the records before that come to
	cpBroken  bool           // it does not match its trailer
	cpWhole   bool           // nothing is wrong with it
	cpNumber  int            // index in segments of the first one of the log
	endSeg    int            // index in segments of the one where the log ends
	ended     bool           // before the end of the last segment: what is behind does not count
}

// segmentState is what Repair needs to know of one segment.
type segmentState struct {
	file   SegmentFile
	owner  owner  // once the source has come to it
	known  bool   // owner is set
	dirty  bool   // has bytes that do not count: write it again without them
	drops  []drop // whole records among them
	gaps   []gap  // that commits left which are lost for good, in order
	cut    int64  // end of what counts, -1: all of it
	maxSeq uint64 // highest commit that counts, also one without records: what follows it names it
	done   bool   // by Repair: as it shall be, and synced
	gone   bool   // by Repair: moved to quarantine
}

// drop is a range of whole records that do not count.
type drop struct{ off, end int64 }

// gap is a closed range of lost commits. Repair puts bare frames before what stands at
// off, so that they are not found missing again.
type gap struct {
	off         int64
	first, last uint64
}

// owner says who wrote a segment.
type owner uint8

const (
	ownerNobody  owner = iota // no record in it
	ownerUs                   // has a valid header or frame
	ownerForeign              // anything else
)
