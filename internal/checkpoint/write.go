package checkpoint

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync/atomic"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/background"
	"github.com/seed347100a3/tsdb/internal/diskspace"
	"github.com/seed347100a3/tsdb/internal/exemplars"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/isolation"
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/internal/metadata"
	"github.com/seed347100a3/tsdb/internal/record"
	"github.com/seed347100a3/tsdb/wal"
)

// Config is what a Writer goes by.
type Config struct {
	FS         fileutil.FS
	Dir        string // the data directory
	WALDir     string // where the log is
	Quarantine string // where copies of damaged segments go
	Logger     *slog.Logger
	Background *background.Runner
}

// Head is what a checkpoint needs of a head.
type Head struct {
	Log       func() (*wal.Log, error) // the error says why nothing can be written
	Series    *memseries.Directory
	Commits   *isolation.Commits
	Metadata  *metadata.Table
	Exemplars *exemplars.Ring
	Restored  uint64 // refs below it were found by recovery
	SyncLate  LateSync
	Passed    func(upTo int) error // removes what needs segments that are gone
}

// LateSync puts late samples on stable storage in the out-of-order log, for who leaves them out. He
// has to keep the record that it returns, of how far that log reached then; nil: there is none.
type LateSync func() (reach []byte, err error)

// Writer writes checkpoints of the log of a head. Who calls it holds the lock of who flushes the
// head, but for Counts, which anybody may call.
type Writer struct {
	Config
	Gone Gone // refs of the log that no series of the head has

	written, failed atomic.Uint64
	damages         atomic.Uint64
}

// Counts returns how many checkpoints there were, how many failed, and how many places of the log
// they found damaged.
func (w *Writer) Counts() (written, failed, damages uint64) {
	return w.written.Load(), w.failed.Load(), w.damages.Load()
}

// Write replaces the older part of the log by a checkpoint with what is still
// needed of it, samples from mint on: two thirds of the segments, as then little is copied more
// than once; with whole, all of them. A caller that gives up is no failure.
func (w *Writer) Write(ctx context.Context, h *Head, mint int64, whole bool) (err error) {
	defer func() {
		if err != nil && ctx.Err() == nil {
			w.failed.Add(1)
		}
	}()
	log, err := h.Log()
	if err != nil {
		return err
	}
	listing, err := wal.List(w.FS, w.WALDir)
	if err != nil {
		return err
	}
	// What a commit waits for while the log goes on to the next segment is little then.
	if err := log.Sync(); err != nil {
		return errors.WithMessage(err, "sync the log")
	}
	current, err := log.Rotate()
	if err != nil {
		return errors.WithMessage(err, "begin a log segment")
	}
	// What it leaves out of late samples the out-of-order log has.
	late, err := h.SyncLate()
	if err != nil {
		return err
	}
	first, upTo := listing.Segments[0].Number, current-1
	if !whole {
		upTo = first + (upTo-first)*2/3
	}
	if upTo < first || !whole && upTo == first {
		return nil
	}
	// What a file of chunks still has from before is not to be taken for what the log has lost.
	if err := log.SetMark(mint); err != nil {
		return err
	}
	for ref, segment := range w.Gone {
		if segment <= upTo { // metadata goes with the record of its series: a snapshot may bring both back until then
			h.Metadata.Remove(ref)
		}
	}
	rep, err := w.replace(ctx, log, h, mint, upTo, late)
	if err != nil {
		return diskspace.WhileWriting(w.FS, w.Dir, fmt.Sprintf("checkpoint log up to segment %d", upTo), listing.Bytes(), err)
	}
	w.damages.Add(uint64(len(rep.Damages)))
	for _, d := range rep.Damages {
		w.Logger.Error("damage in the log was found by a checkpoint; a copy is in quarantine", "file", d.File, "offset", d.Offset, "reason", d.Reason)
	}
	if len(rep.Damages) > 0 {
		if err := w.relog(ctx, h); err != nil {
			return err
		}
	}
	w.written.Add(1)
	maps.DeleteFunc(w.Gone, func(_ uint64, segment int) bool { return segment <= upTo })
	return errors.WithMessage(h.Passed(upTo), "remove snapshot of the head")
}

// replace replaces the segments of the log up to one. late: see LateSync.
func (w *Writer) replace(ctx context.Context, log *wal.Log, h *Head, mint int64, upTo int, late []byte) (rep wal.CheckpointReport, err error) {
	gone := w.Gone
	err = w.Background.Run(ctx, func(ctx context.Context) (err error) {
		var kept []exemplars.Entry
		var dear map[uint64]bool // refs that they are logged under
		var left func(ref uint64) bool
		if gone.any(upTo) {
			left = func(ref uint64) bool { segment, is := gone[ref]; return is && segment <= upTo }
		}
		filter := NewFilter(mint, func(ref uint64) bool { return h.Series.ByRef(ref) != nil || gone[ref] > upTo || dear[ref] }, left)
		begin := func(nextSeq uint64) {
			h.Commits.WaitPublished(nextSeq - 1) // written is not applied yet, maybe
			h.Exemplars.Settle(nextSeq - 1)
			kept, dear = h.Exemplars.Logged(nextSeq - 1)
		}
		tail := func(emit func(rec []byte) error) error { return h.logBeside(log, late, kept, emit) }
		rep, err = log.Checkpoint(ctx, wal.CheckpointOptions{
			UpTo: upTo, TmpDir: w.Dir, QuarantineDir: w.Quarantine,
			Begin: begin, Keep: filter.Keep, Tail: tail, Expired: func(newest int64) bool { return newest < mint },
		})
		return err
	})
	return rep, err
}

// logBeside adds, at the end of a checkpoint, how far the out-of-order log reached, the metadata of
// all series, and exemplars.
func (h *Head) logBeside(log *wal.Log, late []byte, kept []exemplars.Entry, emit func(rec []byte) error) error {
	if late != nil {
		if err := emit(late); err != nil {
			return err
		}
	}
	if err := h.Metadata.Records(emit); err != nil {
		return err
	}
	for len(kept) > 0 {
		n := min(len(kept), exemplarsPerRecord)
		if err := emit(EncodeExemplars(nil, kept[:n])); err != nil {
			return err
		}
		kept = kept[n:]
	}
	// Metadata may come of commits behind the checkpoint, and these have taken the place of
	// exemplars that are not here: they must not be lost any more.
	return log.SyncTo(log.LastSeq())
}

// exemplarsPerRecord is how many exemplars of a checkpoint are in one record: with the longest
// labels some hundred kilobytes.
const exemplarsPerRecord = 4096

// EncodeExemplars appends the record of exemplars to dst, as commits have it, too.
func EncodeExemplars(dst []byte, list []exemplars.Entry) []byte {
	var enc record.ExemplarEncoder
	dst = enc.Begin(dst)
	for i := range list {
		e := &list[i]
		dst = enc.Append(dst, e.Ref, e.T, e.Value, e.Labels)
	}
	return dst
}

// relog makes the next commit of each series that the log has no record of any more write one:
// without, the log would be worth nothing for it.
func (w *Writer) relog(ctx context.Context, h *Head) error {
	seen, lastSeq, err := Logged(ctx, w.FS, w.WALDir)
	if err != nil {
		return errors.WithMessage(err, "look for series records")
	}
	if n := h.Series.Unlog(h.Restored, lastSeq, func(ref uint64) bool { return seen[ref] }); n > 0 {
		w.Logger.Warn("series without a record in the log get a new one", "series", n)
	}
	return nil
}
