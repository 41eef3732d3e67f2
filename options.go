package tsdb

import (
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"time"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/blockplan"
	"github.com/seed347100a3/tsdb/internal/clock"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/rules"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/wal"
)

// FS is the file system that a database lives in. Package tsdbtest has one in memory
// that can lose power.
type FS = fileutil.FS

// Clock tells the time and ticks. Package tsdbtest has one that a test moves.
type Clock = clock.Clock

// SyncPolicy is when committed data goes to stable storage.
type SyncPolicy = wal.SyncPolicy

// SyncCommit syncs before Commit returns; concurrent commits share one sync.
func SyncCommit() SyncPolicy { return wal.SyncCommit() }

// SyncInterval syncs every d, which must be more than 0, while there is something to sync.
func SyncInterval(d time.Duration) SyncPolicy { return wal.SyncInterval(d) }

// SyncRotate syncs a log segment when it is full, as the Prometheus TSDB does.
func SyncRotate() SyncPolicy { return wal.SyncRotate() }

// SyncNever leaves it to the operating system until Close, or a flush shortens the log; for
// tests and bulk loads.
func SyncNever() SyncPolicy { return wal.SyncNever() }

// Compression is how log records are compressed: one of the variables below, or what CompressionBy
// returns. It can be compared; the zero value is CompressionSnappy. A program that reads its
// settings from text chooses by a name of its own.
type Compression struct{ codec *wal.Codec }

// The compressions that are always there. They are not changed.
var (
	CompressionSnappy = Compression{} // the default
	CompressionNone   = Compression{&wal.None}
)

// CompressionBy returns the compression of a codec that a package of its own has, as wal/zstd, so
// that only programs that import it have it linked. Whatever is chosen, all compressions can be
// read.
func CompressionBy(codec *wal.Codec) Compression { return Compression{codec} }

// String returns "snappy", "zstd" or "none".
func (c Compression) String() string { return c.wal().String() }

func (c Compression) wal() *wal.Codec {
	if c.codec == nil {
		return &wal.Snappy
	}
	return c.codec
}

// Options configure Open. The zero value of each field means its default, so a
// partly filled Options is fine. They are copied.
type Options struct {
	Head   HeadOptions
	WAL    WALOptions
	Blocks BlockOptions
	Limits Limits

	// Logger gets the events of docs/design/events.md. Default: none are logged.
	Logger *slog.Logger
	// FS is the file system. Default: that of the operating system.
	FS FS
	// AnyDirectory lets a directory be opened that is not empty and has nothing of a database in
	// it. Default: that is ErrNotDataDir, so that a mistyped path puts no database among
	// files of another kind. Files whose names begin with a dot, and lost+found, do not count.
	AnyDirectory bool
	// Clock tells the time. Default: the system's. By another one flushes and merges have no
	// threads of a low priority (docs/adr/0008-maintenance-on-threads-of-least-priority.md).
	Clock Clock
	// Progress is called from one goroutine while Open recovers, a few times a second
	// at most and once at the end. Default: none.
	Progress func(RecoveryProgress)
}

// HeadOptions are about the newest data, which is held in memory.
type HeadOptions struct {
	// SamplesPerChunk is how many samples a chunk should get; twice as many are the
	// limit. 16 to 32,767; default 120.
	SamplesPerChunk int
	// ReplayWorkers is how many goroutines rebuild series while Open replays the log,
	// and how many decode it. 1 to 256; default: one per CPU. Where memory is limited, by
	// GOMEMLIMIT or by the control group, there are fewer if all of them would take too much of it.
	ReplayWorkers int
	// FlushBytes: when the head takes more memory than this, what it has up to then becomes
	// a block before the block range is over, as soon as the newest sample is MaxLateness
	// further. Series and labels stay in memory. Default and 0: never.
	FlushBytes int64
	// MaxSeries and MaxBytes are the budget of the head: how many series it has, and how many bytes
	// of memory it takes for series, labels and samples, late ones included (Stats.HeadSizeBytes
	// has exemplars and metadata, too). At either of them new series are refused with ErrLimit, and
	// those that are there go on: samples of them may take more than MaxBytes. Bytes are looked at
	// now and then, so the labels of some dozen series may be above. When an eighth or less of the
	// budget is left, series that ended leave the head first, those without a sample in the last
	// eighth of a block range, and in the last MaxLateness: what they have becomes blocks, and the
	// others go on. If bytes are what is short, the head spans an eighth of a block range, and it
	// helps, it becomes a block early as a whole, as by FlushBytes. Open recovers all that is in
	// the head, and goes on with the budget. Default and 0 or less: no limit.
	MaxSeries int
	MaxBytes  int64
	// SnapshotThreshold: a head snapshot is taken when the log behind the last one has more bytes
	// than this, and than twice that snapshot. Open then reads little log. Close takes one from a
	// 64th of this on. Default and 0: 64 MiB. Negative: none is taken or used.
	SnapshotThreshold int64
	// MaxLateness is how far behind the newest sample of all series a late one of some
	// series is still taken when the head is flushed early. Default 1 min.
	MaxLateness time.Duration
	// OutOfOrderWindow is how far behind the newest sample of the head a late one may be: one that
	// is older than the newest of its series, or than what the head takes in order. Late samples
	// are visible at once and become blocks of their own, which are merged with those they overlap.
	// Older ones are ErrTooOld. Default and 0: none are taken, and late ones are ErrOutOfOrder or
	// ErrOutOfBounds. Those that a directory has are read whatever the window is.
	OutOfOrderWindow time.Duration
	// LastWriteWins: a late sample takes the place of another value at its time, in all places; the
	// newest counts. If its series left the head and is back an older late block wins. Otherwise it
	// is ErrDuplicateSample where the head has another value, and what blocks have counts.
	LastWriteWins bool
	// MaxExemplars is how many exemplars are kept, of all series together; one takes about 250
	// bytes, and none that is not there. Default 100,000. Negative: none are kept, to append
	// one is ErrExemplarsOff, and those that the log has go with the next flush.
	MaxExemplars int
}

// WALOptions are about the write-ahead log.
type WALOptions struct {
	// SegmentSize in bytes, a multiple of 32 KiB, at most 1 GiB. Default 128 MiB.
	SegmentSize int64
	// Compression of records. Default snappy.
	Compression Compression
	// Sync policy. Default SyncInterval(time.Second).
	Sync SyncPolicy
}

// BlockOptions are about blocks.
type BlockOptions struct {
	// Range is the time that one block of the lowest level covers; no chunk crosses a
	// multiple of it. One minute to ten years, whole milliseconds. Default 2 h.
	Range time.Duration
	// MaxRange bounds the time that a merged block covers: blocks are merged into ranges of
	// 3, 9, 27, ... times Range up to it. Default 31 days, or a tenth of Retention if that is
	// set and shorter. One that is below three times Range merges no more than what
	// overlaps.
	MaxRange time.Duration
	// Retention, RetentionBytes, RetentionPercent: the oldest blocks go when they are wholly
	// older than Retention before the newest sample (or the clock, if that is behind it), or
	// when blocks, log, head-chunk files and head snapshots together have more than
	// RetentionBytes, or RetentionPercent of the disk. What is negative or 0 deletes nothing,
	// which is the default of each. DB.SetRetention changes them later.
	Retention        time.Duration
	RetentionBytes   int64
	RetentionPercent float64
	// RetentionRules keep some series for longer than others, or for less: the first rule that
	// chooses a series decides about it, and what none chooses is kept for Retention. What is too
	// old goes when blocks are merged. What is left goes when all is too old that a rule decides
	// about in a block, by writing that block anew, or removing it if nothing else is in it: so no
	// later than its duration and the length of its block. Bytes are another matter: the oldest
	// blocks go whole. Keep is asked before; a block that it keeps is not changed. At most 256.
	// Default: none.
	RetentionRules []RetentionRule `json:"-"`
	// Workers is how many merges run at a time. 1 to 64; default 1.
	Workers int
	// BytesPerSecond bounds what merges write, all together, over any second to within 10%.
	// 64 KiB or more; default and 0: no bound.
	BytesPerSecond int64
	// Manual: nothing is flushed, merged, removed or snapshotted unless Flush, Compact or
	// CleanTombstones is called. For tests, bulk loads and benchmarks.
	Manual bool

	// OnBlock is told of each new block that queries read from now on: of a flush, of a merge, or
	// brought into the directory. Those that Open finds are in DB.Blocks. A goroutine of the
	// database calls it, for one block after the other as they came. It holds no lock, so the DB
	// may be used, but for Close, which waits for it. A slow one delays only the calls for later
	// blocks, which may be gone by then. A panic in it ends the program, as in any goroutine.
	// Default: none.
	OnBlock func(BlockMeta) `json:"-"`
	// Keep is asked before retention removes a block for its age or for the size of all, or series
	// of it by RetentionRules: true keeps it this time, and nothing else goes in its place, so
	// limits may be exceeded. A merge that leaves nothing out does not ask; of its result Keep is
	// asked as of any block. Delete and DropBlocks do not ask either. Who does maintenance calls
	// it, maybe several goroutines at a time. It holds no lock, so the DB may be used, but for
	// Close. A slow one delays merges and retention; commits, flushes and queries go on. A panic in
	// it reaches the caller of Compact, and ends the program in the maintenance that runs by
	// itself. Default: none is kept.
	Keep func(BlockMeta) bool `json:"-"`
	// MayMerge is asked before a block is merged with others, or written anew by itself: by
	// RetentionRules, or in the background for what was deleted in it. false leaves it as it is
	// this time. Until it is copied elsewhere, for example. It is called as Keep is.
	// CleanTombstones does not ask. Default: all may.
	MayMerge func(BlockMeta) bool `json:"-"`
}

// Limits keep bad input from hurting. A negative value turns a limit off.
type Limits struct {
	// MaxFuture is how far ahead of the clock a sample may be. Default 1 h. Where it is off, the
	// clock counts for nothing: the newest samples and blocks are the present, however far ahead
	// they are, and what is long before them is refused until they are deleted (docs/limits.md).
	MaxFuture time.Duration
	// LabelsPerSeries counts labels, the name included. Default 64, at most 4,096.
	LabelsPerSeries int
	// LabelNameBytes, LabelValueBytes: of one label. Defaults 256 and 4,096.
	LabelNameBytes, LabelValueBytes int
	// LabelSetBytes: names and values of a series together. Default 16 KiB.
	LabelSetBytes int
	// MetadataBytes: unit and help of a series together. Default 4,096.
	MetadataBytes int
	// NoHistograms refuses native histograms, with ErrHistogramsOff, before a series is made for
	// them. Those that are there stay, and are read. Default: they are taken.
	NoHistograms bool
	// NewSeries is a rule of the program's own: it is asked before a series is made that the head
	// does not have, behind the other limits, and its error refuses the series. That error and
	// ErrLimit are in what Append returns. Series that the head has are not asked for, so nor are
	// those that Open recovers; one that left the head is new again. Several goroutines may call it
	// at a time, each for the Appender it uses; two may ask for the same series, of which one is
	// made. No lock is held, so it may query and append to the DB, with another Appender. Labels
	// that Append was given of labels.UnsafeFromEncoded are valid during the call only. A panic in
	// it reaches the caller of Append, with nothing staged. A BlockWriter asks it, too. Default:
	// all are taken.
	NewSeries func(labels.Labels) error `json:"-"`
}

// Bounds of options, and the defaults that are not obvious.
const (
	minSamplesPerChunk = 16
	maxSamplesPerChunk = 1<<15 - 1 // a chunk may get twice as many and counts them in 16 bits
	maxReplayWorkers   = 256
	walPage            = 32 << 10
	maxSegmentSize     = 1 << 30
	minBlockRange      = time.Minute
	maxBlockRange      = 10 * 365 * 24 * time.Hour
	defaultMaxRange    = 31 * 24 * time.Hour
	maxMergeWorkers    = 64
	// A second of replay, about: less is not worth the writing.
	defaultSnapshotThreshold = 64 << 20
	minBytesPerSecond        = 64 << 10 // less would be slower than ingestion of anything
	maxLabelsPerSeries       = 1 << 12
	defaultMaxExemplars      = 100_000 // some 25 MB, the newest of a large scrape
)

// DefaultOptions returns the defaults, filled in.
func DefaultOptions() *Options {
	o, err := (&Options{}).withDefaults()
	if err != nil {
		panic("BUG: default options are not valid: " + err.Error())
	}
	return o
}

// withDefaults returns a copy with every zero replaced and every field checked.
func (o *Options) withDefaults() (*Options, error) {
	c := Options{}
	if o != nil {
		c = *o
	}
	setDefault(&c.Head.SamplesPerChunk, chunkenc.TargetSamples)
	setDefault(&c.Head.ReplayWorkers, runtime.GOMAXPROCS(0))
	setDefault(&c.Head.MaxLateness, time.Minute)
	setDefault(&c.Head.SnapshotThreshold, defaultSnapshotThreshold)
	setDefault(&c.Head.MaxExemplars, defaultMaxExemplars)
	setDefault(&c.WAL.SegmentSize, wal.DefaultSegmentSize)
	setDefault(&c.WAL.Sync, wal.SyncInterval(time.Second))
	setDefault(&c.Blocks.Range, 2*time.Hour)
	longest := defaultMaxRange
	if c.Blocks.Retention > 0 {
		longest = min(longest, c.Blocks.Retention/10)
	}
	setDefault(&c.Blocks.MaxRange, max(c.Blocks.Range, longest))
	setDefault(&c.Blocks.Workers, 1)
	setDefault(&c.Limits.MaxFuture, time.Hour)
	setDefault(&c.Limits.LabelsPerSeries, 64)
	setDefault(&c.Limits.LabelNameBytes, 256)
	setDefault(&c.Limits.LabelValueBytes, 4<<10)
	setDefault(&c.Limits.LabelSetBytes, 16<<10)
	setDefault(&c.Limits.MetadataBytes, 4<<10)
	c.Blocks.RetentionRules = copyRules(c.Blocks.RetentionRules)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.FS == nil {
		c.FS = fileutil.OS
	}
	if c.Clock == nil {
		c.Clock = clock.System
	}
	return &c, c.validate()
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (o *Options) validate() error {
	percent := blockplan.CheckLimits(o.Blocks.limits(), "option Blocks.RetentionPercent")
	invalid := rules.Check(o.Blocks.RetentionRules, "option Blocks.RetentionRules")
	switch {
	case percent != nil:
		return percent
	case invalid != nil:
		return invalid
	case o.Head.SamplesPerChunk < minSamplesPerChunk || o.Head.SamplesPerChunk > maxSamplesPerChunk:
		return errors.Errorf("option Head.SamplesPerChunk is %d, want %d to %d", o.Head.SamplesPerChunk, minSamplesPerChunk, maxSamplesPerChunk)
	case o.Head.ReplayWorkers < 1 || o.Head.ReplayWorkers > maxReplayWorkers:
		return errors.Errorf("option Head.ReplayWorkers is %d, want 1 to %d", o.Head.ReplayWorkers, maxReplayWorkers)
	case o.WAL.SegmentSize < walPage || o.WAL.SegmentSize > maxSegmentSize || o.WAL.SegmentSize%walPage != 0:
		return errors.Errorf("option WAL.SegmentSize is %d bytes, want a multiple of %d up to %d", o.WAL.SegmentSize, walPage, maxSegmentSize)
	case o.WAL.Sync.Mode() == wal.ModeInterval && o.WAL.Sync.Interval() <= 0:
		return errors.Errorf("option WAL.Sync is %v, want an interval of more than 0", o.WAL.Sync)
	case o.Blocks.Range < minBlockRange || o.Blocks.Range > maxBlockRange || o.Blocks.Range%time.Millisecond != 0:
		return errors.Errorf("option Blocks.Range is %v, want %v to %v in whole milliseconds", o.Blocks.Range, minBlockRange, maxBlockRange)
	case o.Head.OutOfOrderWindow < 0:
		return errors.Errorf("option Head.OutOfOrderWindow is %v, want 0 or more", o.Head.OutOfOrderWindow)
	case o.Head.MaxLateness < 0:
		return errors.Errorf("option Head.MaxLateness is %v, want 0 or more", o.Head.MaxLateness)
	case o.Blocks.MaxRange < o.Blocks.Range:
		return errors.Errorf("option Blocks.MaxRange is %v, want Blocks.Range, %v, or more", o.Blocks.MaxRange, o.Blocks.Range)
	case o.Blocks.Workers < 1 || o.Blocks.Workers > maxMergeWorkers:
		return errors.Errorf("option Blocks.Workers is %d, want 1 to %d", o.Blocks.Workers, maxMergeWorkers)
	case o.Blocks.BytesPerSecond < 0 || o.Blocks.BytesPerSecond > 0 && o.Blocks.BytesPerSecond < minBytesPerSecond:
		return errors.Errorf("option Blocks.BytesPerSecond is %d, want 0 for no bound, or %d or more", o.Blocks.BytesPerSecond, minBytesPerSecond)
	case o.Limits.LabelsPerSeries > maxLabelsPerSeries:
		return errors.Errorf("option Limits.LabelsPerSeries is %d, want at most %d", o.Limits.LabelsPerSeries, maxLabelsPerSeries)
	}
	return nil
}

// String shows the options in the form in which Open logs them.
func (o *Options) String() string {
	return fmt.Sprintf("block range %v, merged up to %v, retention %s, %d samples a chunk, %d replay workers, %s, log segments of %d bytes, compression %v, sync %v, at most %v in the future",
		o.Blocks.Range, o.Blocks.MaxRange, o.Blocks.retention(), o.Head.SamplesPerChunk, o.Head.ReplayWorkers, o.snapshots(), o.WAL.SegmentSize, o.WAL.Compression, o.WAL.Sync, o.Limits.MaxFuture)
}

// snapshots shows when snapshots of the head are taken.
func (o *Options) snapshots() string {
	if o.Head.SnapshotThreshold < 0 || o.Blocks.Manual {
		return "no head snapshots"
	}
	return fmt.Sprintf("head snapshots after %d bytes of log", o.Head.SnapshotThreshold)
}

// retention shows which limits are set.
func (b *BlockOptions) retention() string {
	var limits []string
	if b.Retention > 0 {
		limits = append(limits, b.Retention.String())
	}
	if b.RetentionBytes > 0 {
		limits = append(limits, fmt.Sprintf("%d bytes", b.RetentionBytes))
	}
	if b.RetentionPercent > 0 {
		limits = append(limits, fmt.Sprintf("%v%% of the disk", b.RetentionPercent))
	}
	if n := len(b.RetentionRules); n > 0 {
		limits = append(limits, fmt.Sprintf("%d rules", n))
	}
	if limits == nil {
		return "none"
	}
	return strings.Join(limits, " ")
}
