package backfill

import (
	"context"
	"math"
	"time"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/blockplan"
	"github.com/seed347100a3/tsdb/internal/clock"
	"github.com/seed347100a3/tsdb/internal/diskspace"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/wal"
)

// progressSamples is after how many samples Progress is told.
const progressSamples = 1 << 16

// Config is what a Writer works with.
type Config struct {
	FS              fileutil.FS
	AnyDirectory    bool // as for OpenPlace
	Clock           clock.Clock
	Range, MaxRange time.Duration // of one block: the shortest, and what none is longer than
	MemoryBytes     int64
	Duplicates      Duplicates
	OutOfOrder      bool                      // as in Target
	Check           func(labels.Labels) error // as in Options; labels.ErrInvalid and labels.ErrLimit do not end the Writer
	OutOfBounds     func(t int64) error       // the error of a time that no sample can have
	Progress        func(progress Progress)   // told now and then; nil: nobody is
}

// Progress is how far a Writer is.
type Progress struct {
	Samples      int64 // appended since the last Flush
	Written      int64 // of these, in blocks of the Flush that runs
	SpilledBytes int64 // since the last Flush
	BlockBytes   int64 // of the blocks of the Flush that runs
	Duplicates   int64 // samples that went because of their time
}

// Writer is a Store in a Place of a data directory, and knows when it is of no use any more. It is
// for one goroutine.
type Writer struct {
	cfg      Config
	dir      string
	ranges   []int64 // widths of windows in milliseconds, ascending
	place    *Place  // nil when it is closed
	store    *Store
	progress Progress
	err      error  // of the disk, or wal.ErrClosed: nothing goes any more
	body     []byte // of a histogram that is appended

	duplicates int64 // what the store had counted at the last Flush
}

// NewWriter returns a Writer of blocks into a data directory, which is created if there is none.
// Close it. Errors are those of OpenPlace.
func NewWriter(dir string, cfg Config) (*Writer, error) {
	w := &Writer{cfg: cfg, ranges: blockplan.Ranges(cfg.Range, cfg.MaxRange)}
	var err error
	if w.dir, err = fileutil.Abs(cfg.FS, dir); err != nil {
		return nil, w.fail(errors.WithMessage(err, "open data directory"))
	}
	if w.place, err = OpenPlace(cfg.FS, w.dir, cfg.AnyDirectory, cfg.Clock); err != nil {
		return nil, w.fail(err)
	}
	w.cfg.FS = w.place.FS
	w.store = NewStore(w.cfg.FS, w.place.Tmp, Options{
		Range: w.ranges[len(w.ranges)-1], MemoryBytes: cfg.MemoryBytes, Duplicates: cfg.Duplicates, Check: cfg.Check,
		Spilled: func(bytes int64) {
			w.progress.SpilledBytes += bytes
			w.report()
		},
	})
	return w, nil
}

// Append is Store.Append for any time. Errors of one sample are those of Check, ErrDuplicate and
// ErrNotFound. Any other error ends the Writer.
func (w *Writer) Append(ref uint64, ls labels.Labels, t int64, v float64) (uint64, error) {
	if w.err != nil || t == math.MinInt64 || t == math.MaxInt64 {
		return w.Takes(ref, t)
	}
	ref, err := w.store.Append(ref, ls, t, v)
	if err != nil {
		return ref, w.rejected(err)
	}
	w.count()
	return ref, nil
}

// AppendWide is Append for a sample of any kind, behind Takes.
func (w *Writer) AppendWide(ref uint64, ls labels.Labels, s *memseries.WideSample) (uint64, error) {
	s.Encode(w.body[:0])
	if s.Body != nil {
		w.body = s.Body
	}
	ref, err := w.store.AppendAny(ref, ls, s)
	if err != nil {
		return ref, w.rejected(err)
	}
	w.count()
	return ref, nil
}

// Takes returns why no sample of this time can be appended, and the ref to return then.
func (w *Writer) Takes(ref uint64, t int64) (uint64, error) {
	switch {
	case w.err != nil:
		return 0, w.err
	case t == math.MinInt64 || t == math.MaxInt64:
		return ref, w.cfg.OutOfBounds(t)
	default:
		return ref, nil
	}
}

// count counts a sample that the store has taken.
func (w *Writer) count() {
	if w.progress.Samples++; w.progress.Samples%progressSamples == 0 {
		w.report()
	}
}

// rejected returns the error of a sample. One that is not of the sample alone is final.
func (w *Writer) rejected(err error) error {
	if errors.Is(err, ErrDuplicate) || errors.Is(err, ErrNotFound) || errors.Is(err, labels.ErrInvalid) || errors.Is(err, labels.ErrLimit) {
		return err
	}
	return w.fail(err)
}

// Flush turns what was appended into blocks, as the function does. Any error ends the Writer.
func (w *Writer) Flush(ctx context.Context) ([]blockdir.Meta, error) {
	if w.err != nil {
		return nil, w.err
	}
	metas, err := Flush(ctx, w.store, Target{
		Dir: w.dir, Ranges: w.ranges, Clock: w.cfg.Clock, OutOfOrder: w.cfg.OutOfOrder,
		Progress: func(samples, bytes int64) {
			w.progress.Written, w.progress.BlockBytes = samples, bytes
			w.report()
		},
	})
	if err != nil {
		return metas, w.fail(err)
	}
	w.report()
	w.progress, w.duplicates = Progress{}, w.store.Duplicates()
	return metas, nil
}

// fail makes an error the last word.
func (w *Writer) fail(err error) error {
	if fileutil.IsDiskFull(err) {
		err = diskspace.WhileWriting(w.cfg.FS, w.dir, "write blocks", 0, err)
	}
	w.err = err
	return err
}

func (w *Writer) report() {
	if w.cfg.Progress != nil {
		w.progress.Duplicates = w.store.Duplicates() - w.duplicates
		w.cfg.Progress(w.progress)
	}
}

// Close ends the Writer. What was not flushed is gone. A second Close does nothing.
func (w *Writer) Close() error {
	if w.place == nil {
		return nil
	}
	w.err = wal.ErrClosed
	err := w.place.Close()
	w.place, w.store = nil, nil
	return err
}
