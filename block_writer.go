package tsdb

import (
	"context"
	"math"
	"time"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/backfill"
	"github.com/seed347100a3/tsdb/internal/blockplan"
	"github.com/seed347100a3/tsdb/internal/clock"
	"github.com/seed347100a3/tsdb/internal/diskspace"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/labels"
)

// progressSamples is after how many samples Progress is told.
const progressSamples = 1 << 16

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

// BlockWriterOptions configure NewBlockWriter. The zero value of each field means its
// default.
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
	dir      string
	opts     BlockWriterOptions
	ranges   []int64         // widths of windows in milliseconds, ascending
	place    *backfill.Place // nil when it is closed
	store    *backfill.Store
	progress BlockWriterProgress
	err      error                 // of the disk, or ErrClosed: nothing goes any more
	wide     memseries.WideSamples // what a sample has that is appended, if it is no plain float
	body     []byte                // of a histogram, the same

	duplicates int64 // what the store had counted at the last Flush
}

// NewBlockWriter returns a writer of blocks into a data directory, which is created if
// there is none. Nil options are the defaults. Close it. ErrNotDataDir as for Open.
func NewBlockWriter(dir string, opts *BlockWriterOptions) (*BlockWriter, error) {
	w := &BlockWriter{}
	if opts != nil {
		w.opts = *opts
	}
	if err := w.opts.withDefaults(); err != nil {
		return nil, err
	}
	w.ranges = blockplan.Ranges(w.opts.Range, w.opts.MaxRange)
	var err error
	if w.dir, err = fileutil.Abs(w.opts.FS, dir); err != nil {
		return nil, w.fail(errors.WithMessage(err, "open data directory"))
	}
	if w.place, err = backfill.OpenPlace(w.opts.FS, w.dir, w.opts.AnyDirectory, w.opts.Clock); err != nil {
		return nil, w.fail(err)
	}
	w.opts.FS = w.place.FS
	w.store = backfill.NewStore(w.opts.FS, w.place.Tmp, backfill.Options{
		Range:       w.ranges[len(w.ranges)-1],
		MemoryBytes: w.opts.MemoryBytes,
		Duplicates:  backfill.Duplicates(w.opts.OnDuplicate),
		Check:       func(ls labels.Labels) error { return checkLabels(ls, &w.opts.Limits) },
		Spilled: func(bytes int64) {
			w.progress.SpilledBytes += bytes
			w.report()
		},
	})
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
	if w.err != nil || t == math.MinInt64 || t == math.MaxInt64 {
		return w.AppendSample(ref, ls, Sample{T: t, V: v}) // which says what is wrong
	}
	r, err := w.store.Append(uint64(ref), ls, t, v)
	if err != nil {
		return SeriesRef(r), w.rejected(err)
	}
	if w.progress.Samples++; w.progress.Samples%progressSamples == 0 {
		w.report()
	}
	return SeriesRef(r), nil
}

// AppendSample is AppendRef for a sample of any kind, with what Appender.AppendSample says of its
// value and of what is refused. Samples of one time and one value are the same, whatever their
// start timestamps. A stale marker that is a float becomes a histogram if it is newer than what was
// appended of its series before, and the newest of that is a histogram.
func (w *BlockWriter) AppendSample(ref SeriesRef, ls labels.Labels, s Sample) (SeriesRef, error) {
	if w.err != nil {
		return 0, w.err
	}
	if s.T == math.MinInt64 || s.T == math.MaxInt64 {
		return ref, &BoundsError{T: s.T, From: math.MinInt64 + 1, To: math.MaxInt64 - 1}
	}
	if (s.H != nil || s.FH != nil) && w.opts.Limits.NoHistograms {
		return ref, ErrHistogramsOff
	}
	w.wide.Reset()
	st, err := s.addTo(&w.wide)
	if err != nil {
		return ref, err
	}
	wide := w.wide.Of(&st)
	wide.Encode(w.body[:0])
	if wide.Body != nil {
		w.body = wide.Body
	}
	r, err := w.store.AppendAny(uint64(ref), ls, &wide)
	if err != nil {
		return SeriesRef(r), w.rejected(err)
	}
	if w.progress.Samples++; w.progress.Samples%progressSamples == 0 {
		w.report()
	}
	return SeriesRef(r), nil
}

// rejected returns the error of a sample under the name that it has here. Any other
// error is final.
func (w *BlockWriter) rejected(err error) error {
	switch {
	case errors.Is(err, backfill.ErrDuplicate):
		return ErrDuplicateSample
	case errors.Is(err, backfill.ErrNotFound):
		return ErrNotFound
	case errors.Is(err, ErrInvalidLabels), errors.Is(err, ErrLimit):
		return err
	default:
		return w.fail(err)
	}
}

// Flush turns all samples that were appended since the last Flush into blocks, moves
// them into the data directory and returns what they are, oldest first. The blocks are on
// stable storage then. Without samples there is nothing to do. Samples may be appended
// afterwards; they become blocks of their own, which may overlap those before them.
//
// First all blocks are written aside, then all of them are moved; so after an error, a
// cancelled context among them, there are none, unless moving them failed, when those
// that had been moved are returned. ErrDuplicateSample names a series and a time with
// different values, unless OnDuplicate chooses between them. ErrClosed, ErrDiskFull. After
// any error the writer can only be closed.
func (w *BlockWriter) Flush(ctx context.Context) ([]BlockMeta, error) {
	if err := checkContext(ctx); err != nil {
		return nil, err
	}
	if w.err != nil {
		return nil, w.err
	}
	metas, err := backfill.Flush(ctx, w.store, backfill.Target{
		Dir: w.dir, Ranges: w.ranges, Clock: w.opts.Clock, OutOfOrder: w.opts.OutOfOrder,
		Progress: func(samples, bytes int64) {
			w.progress.Written, w.progress.BlockBytes = samples, bytes
			w.report()
		},
	})
	if err != nil {
		return metas, w.rejectedAll(err)
	}
	w.report()
	w.progress, w.duplicates = BlockWriterProgress{}, w.store.Duplicates()
	return metas, nil
}

// rejectedAll is rejected for an error that ends the writer in any case.
func (w *BlockWriter) rejectedAll(err error) error {
	if errors.Is(err, backfill.ErrDuplicate) {
		err = &refusal{ErrDuplicateSample, err}
	}
	return w.fail(err)
}

// fail makes an error the last word.
func (w *BlockWriter) fail(err error) error {
	if fileutil.IsDiskFull(err) {
		err = diskspace.WhileWriting(w.opts.FS, w.dir, "write blocks", 0, err)
	}
	w.err = err
	return err
}

func (w *BlockWriter) report() {
	if w.opts.Progress != nil {
		w.progress.Duplicates = w.store.Duplicates() - w.duplicates
		w.opts.Progress(w.progress)
	}
}

// Close ends the writer. What was not flushed is gone, and nothing is left of it on
// disk. A second Close does nothing.
func (w *BlockWriter) Close() error {
	if w.place == nil {
		return nil
	}
	w.err = ErrClosed
	err := w.place.Close()
	w.place, w.store = nil, nil
	return err
}
