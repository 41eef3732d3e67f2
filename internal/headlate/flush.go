package headlate

import (
	"sync/atomic"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/diskspace"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/late"
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/wal"
)

// flushBytes and flushSamples are how much late samples may be before they become blocks without
// waiting for a part of the head that does. In recovery each takes 32 bytes, twice.
const (
	flushBytes   = 32 << 20
	flushSamples = 2 << 20
)

// Flush makes blocks of all late samples, one for each block range, and lets go of them. They stay
// in memory while a reader is open that has not seen the blocks. It is used by one goroutine at a
// time, but for Done.
type Flush struct {
	waits     bool
	dropped   bool   // series may have no sample any more
	snapshots uint64 // that were opened by then
	done      atomic.Uint64
}

// Blocks is where blocks of late samples go.
type Blocks struct {
	FS    fileutil.FS
	Dir   string
	Range int64        // milliseconds
	Start func() int64 // where the head begins
	// Begin returns the newest commit of which samples are written. Deletes that come behind it are
	// noted for the blocks.
	Begin func() uint64
	// Write makes a block of the late samples of [mint, end), as of a commit. blockdir.ErrEmpty:
	// there are none.
	Write func(mint, end int64, seq uint64) error
}

// Done returns how often all late samples became blocks.
func (f *Flush) Done() uint64 { return f.done.Load() }

// Waits reports whether blocks are there of samples that are still in memory.
func (f *Flush) Waits() bool { return f.waits }

// IsUrgent reports whether late samples are to become blocks at once.
func (h *Head) IsUrgent() bool {
	_, samples := h.Store.Len()
	bytes := h.Store.SizeBytes()
	return h.Log.IsIncomplete() || samples > flushSamples || bytes > flushBytes || h.Series.Budget.IsMuch(bytes)
}

// HasWork reports whether Run has something to do.
func (f *Flush) HasWork(h *Head) bool {
	if f.Drop(h); f.waits {
		return false // a reader has been open for long
	}
	series, _ := h.Store.Len()
	return series > 0 || h.Log.IsIncomplete()
}

// Run makes the blocks. The deletes of blocks are noted from before on. log is that of the head,
// which a failed sync of the out-of-order log poisons.
func (f *Flush) Run(h *Head, log *wal.Log, to *Blocks) (err error) {
	h.Log.Keep()
	h.Store.BeginFlush(0) // nothing is sealed until it is known what is written
	seq := to.Begin()
	h.Store.BeginFlush(seq)
	h.Series.Shards.Barrier()
	defer func() {
		if err != nil {
			h.Log.LetGo()
			h.Store.EndFlush()
			err = errors.WithMessage(err, "flush late samples")
		}
	}()
	// As for the head: a block must not outrun the log.
	if err := log.SyncTo(seq); err != nil {
		return err
	}
	h.Commits.WaitPublished(seq)
	for oldest, ok := h.Store.OldestFrom(memseries.NoTime, seq); ok; {
		_, newest := h.Store.Bounds()
		mint, end := late.BlockRange(oldest, to.Start(), newest, to.Range)
		if err := to.Write(mint, end, seq); err != nil && !errors.Is(err, blockdir.ErrEmpty) {
			return diskspace.WhileWriting(to.FS, to.Dir, "write blocks", h.Store.SizeBytes(), err)
		}
		oldest, ok = h.Store.OldestFrom(end, seq)
	}
	if err := h.Log.Truncate(seq, h.Series.Shards.Barrier); err != nil {
		if errors.Is(err, wal.ErrPoisoned) {
			_ = log.Poison(err) // it returns what it was given
		}
		return err
	}
	f.waits, f.snapshots = true, h.Commits.Opened()
	f.done.Add(1)
	f.Drop(h)
	return nil
}

// Drop forgets late samples that blocks have, when no reader is open that has not seen these.
func (f *Flush) Drop(h *Head) {
	if f.waits && h.Commits.AllClosed(f.snapshots) {
		h.Store.Drop()
		f.waits, f.dropped = false, true
	}
}

// TakeDropped reports whether samples were forgotten since it was asked last: then series may go
// that had no others.
func (f *Flush) TakeDropped() bool {
	was := f.dropped
	f.dropped = false
	return was
}
