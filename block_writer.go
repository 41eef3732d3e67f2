package tsdb

import (
	"context"
	"math"
	"time"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/backfill"
	"github.com/seed347100a3/tsdb/internal/clock"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/labels"
)

// Bounds of the memory of a BlockWriter, in bytes.
const (
	defaultBackfillMemory = 256 << 20
	minBackfillMemory     = 1 << 20
	maxBackfillMemory     = 32 << 30
)

// DuplicatePolicy says what a BlockWriter does with samples of one series that have one time
// and different values. An exact repeat is stored once whatever it says.
type DuplicatePolicy uint8

// What there is to choose from. First and last are meant in the order of Append.
const (
	DuplicatesError DuplicatePolicy = iota // they are ErrDuplicateSample
	DuplicatesFirst                        // the first is kept
	DuplicatesLast                         // the last is kept
)

// BlockWriterOptions configure NewBlockWriter. The zero value of each field means its default.
type BlockWriterOptions struct {
	// Range is the block range of the database that the blocks are for
	// (BlockOptions.Range). Default 2 h.
	Range time.Duration
	// MaxRange is the longest time that one block may cover. Blocks cover windows of
	// Range, 3 Range, 9 Range and so on: the widest that is neither longer than MaxRange
	// nor than the time from the oldest to the newest sample. Default 31 days, which
	// makes windows of 486 h.
	MaxRange time.Duration
	// MemoryBytes is how much memory samples and series take before they go to disk.
	// 1 MiB to 32 GiB; default 256 MiB. Samples that come in turns from many
	// series want 300 bytes for each series, labels not counted.
	MemoryBytes int64
	// OnDuplicate decides between several values at one time. Default DuplicatesError.
	OnDuplicate DuplicatePolicy
	// OutOfOrder marks every block as one that says nothing about the head, for blocks
	// that somebody moves into the directory of a database with newer samples. In its
	// own directory the writer knows when the mark is needed.
	OutOfOrder bool
	// Limits of labels, as for a database. MaxFuture is not looked at.
	Limits Limits
	// AnyDirectory is that of Options.
	AnyDirectory bool
	// FS is the file system. Default: that of the operating system.
	FS FS
	// Clock tells the time for names of blocks. Default: the system's.
	Clock Clock
	// Progress is called by Append and Flush now and then. Default: none.
	Progress func(BlockWriterProgress)
}

// BlockWriterProgress is how far a BlockWriter is.
type BlockWriterProgress struct {
	Samples      int64 // taken by Append since the last Flush
	Written      int64 // of these, in blocks of the Flush that runs
	SpilledBytes int64 // on disk for want of memory, since the last Flush
	BlockBytes   int64 // of the blocks of the Flush that runs
	// Duplicates went for want of a time of their own, as OnDuplicate says. Those that only
	// sorting shows are counted in Flush.
	Duplicates int64
}

// BlockWriter makes blocks of samples of any age and kind: history that is imported, or a database
// that is converted. Series and samples come in any order; samples in the order of time are taken
// fastest. Memory is bounded by an option; what is more goes to disk until Flush sorts it into
// blocks. It is for one goroutine.
//
// The directory may be that of an open database, in this process or another: the
// database finds the blocks when it looks for new ones the next time. docs/design/backfill.md
// says how blocks and a head go together.
type BlockWriter struct {
	to     *backfill.Writer
	limits Limits
	wide   memseries.WideSamples // what a sample has that is appended, if it is no plain float
}

// NewBlockWriter returns a writer of blocks into a data directory, which is created if
// there is none. Nil options are the defaults. Close it. ErrNotDataDir as for Open.
func NewBlockWriter(dir string, opts *BlockWriterOptions) (*BlockWriter, error) {
	var o BlockWriterOptions
	if opts != nil {
		o = *opts
	}
	if err := o.withDefaults(); err != nil {
		return nil, err
	}
	w := &BlockWriter{limits: o.Limits}
	cfg := backfill.Config{FS: o.FS, AnyDirectory: o.AnyDirectory, Clock: o.Clock, Range: o.Range, MaxRange: o.MaxRange,
		MemoryBytes: o.MemoryBytes, Duplicates: backfill.Duplicates(o.OnDuplicate), OutOfOrder: o.OutOfOrder,
		Check: func(ls labels.Labels) error { return checkLabels(ls, &w.limits) },
		OutOfBounds: func(t int64) error {
			return &BoundsError{T: t, From: math.MinInt64 + 1, To: math.MaxInt64 - 1}
		}}
	if o.Progress != nil {
		cfg.Progress = func(p backfill.Progress) { o.Progress(BlockWriterProgress(p)) }
	}
	var err error
	if w.to, err = backfill.NewWriter(dir, cfg); err != nil {
		return nil, err
	}
	return w, nil
}

// withDefaults fills in what is 0 and checks the rest.
func (o *BlockWriterOptions) withDefaults() error {
	setDefault(&o.Range, 2*time.Hour)
	setDefault(&o.MaxRange, max(31*24*time.Hour, o.Range))
	setDefault(&o.MemoryBytes, defaultBackfillMemory)
	if o.FS == nil {
		o.FS = fileutil.OS
	}
	if o.Clock == nil {
		o.Clock = clock.System
	}
	switch {
	case o.MaxRange < o.Range:
		return errors.Errorf("option MaxRange is %v, want %v, which is Range, or more", o.MaxRange, o.Range)
	case o.MaxRange > maxBlockRange:
		return errors.Errorf("option MaxRange is %v, want at most %v", o.MaxRange, maxBlockRange)
	case o.OnDuplicate > DuplicatesLast:
		return errors.Errorf("option OnDuplicate is %d, want DuplicatesError, DuplicatesFirst or DuplicatesLast", o.OnDuplicate)
	case o.MemoryBytes < minBackfillMemory || o.MemoryBytes > maxBackfillMemory:
		return errors.Errorf("option MemoryBytes is %d, want %d to %d", o.MemoryBytes, minBackfillMemory, int64(maxBackfillMemory))
	}
	filled, err := (&Options{Blocks: BlockOptions{Range: o.Range}, Limits: o.Limits}).withDefaults()
	if err == nil {
		o.Limits = filled.Limits
	}
	return err
}

// Append adds one sample. It may be older than others of its series, and is stored once if
// it is an exact repeat of one.
//
// ErrDuplicateSample (the newest sample of the series has this time; of older ones Flush
// tells), ErrOutOfBounds (a BoundsError: the least and the greatest int64 are no times),
// ErrInvalidLabels and ErrLimit are of this sample, and the others are not touched. ErrClosed;
// ErrDiskFull and other errors of the file system end the writer.
func (w *BlockWriter) Append(ls labels.Labels, t int64, v float64) error {
	_, err := w.AppendRef(0, ls, t, v)
	return err
}

// AppendRef is Append for who keeps refs, as Appender.Append takes them: the ref that an
// earlier call has returned finds the series without its labels. With a ref of 0, or one
// that is not known any more, labels are needed: without any it is ErrNotFound. Refs are
// forgotten when there are more series than half of the memory has room for.
func (w *BlockWriter) AppendRef(ref SeriesRef, ls labels.Labels, t int64, v float64) (SeriesRef, error) {
	r, err := w.to.Append(uint64(ref), ls, t, v)
	return SeriesRef(r), err
}

// AppendSample is AppendRef for a sample of any kind, with what Appender.AppendSample says of its
// value and of what is refused. Samples of one time and one value are the same, whatever their
// start timestamps. A stale marker that is a float becomes a histogram if it is newer than what was
// appended of its series before, and the newest of that is a histogram.
func (w *BlockWriter) AppendSample(ref SeriesRef, ls labels.Labels, s Sample) (SeriesRef, error) {
	if r, err := w.to.Takes(uint64(ref), s.T); err != nil {
		return SeriesRef(r), err
	}
	if (s.H != nil || s.FH != nil) && w.limits.NoHistograms {
		return ref, ErrHistogramsOff
	}
	w.wide.Reset()
	enc, sum, number, err := s.addTo(&w.wide)
	if err != nil {
		return ref, err
	}
	var wide memseries.WideSample
	w.wide.Fill(&wide, &memseries.Sample{T: s.T, Sum: sum, Wide: number, Encoding: enc})
	r, err := w.to.AppendWide(uint64(ref), ls, &wide)
	return SeriesRef(r), err
}

// Flush turns all samples that were appended since the last Flush into blocks, moves
// them into the data directory and returns what they are, oldest first. The blocks are on
// stable storage then. Without samples there is nothing to do. Samples may be appended
// afterwards; they become blocks of their own, which may overlap those before them.
//
// First all blocks are written aside, then all of them are moved; so after an error, a cancelled
// context among them, there are none, unless moving them failed, when those that had been moved are
// returned. ErrDuplicateSample names a series and a time with different values, unless OnDuplicate
// chooses between them. ErrClosed, ErrDiskFull. After any error the writer can only be closed.
func (w *BlockWriter) Flush(ctx context.Context) ([]BlockMeta, error) {
	if err := checkContext(ctx); err != nil {
		return nil, err
	}
	return w.to.Flush(ctx)
}

// Close ends the writer. What was not flushed is gone, and nothing is left of it on
// disk. A second Close does nothing.
func (w *BlockWriter) Close() error { return w.to.Close() }
