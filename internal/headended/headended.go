// Package headended takes series that ended out of a head whose budget is near: their samples
// become blocks that lie beside the head, which begins where it did.
//
// When nobody reads who does not know these blocks the series leave the head, and the log says so:
// recovery leaves them out, too. In between a sample is in both places, and counts once. A series
// that gets a sample meanwhile stays. One that does so later is a new one. The package does not
// know when that is due, nor how blocks are written. docs/design/blocks.md tells the steps.
package headended

import (
	"context"
	"sync"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/checkpoint"
	"github.com/seed347100a3/tsdb/internal/isolation"
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/wal"
)

// Head is what series leave.
type Head struct {
	Series  *memseries.Directory
	Commits *isolation.Commits
	Log     *wal.Log
	Gone    *checkpoint.Gone
	// End logs that series have left, and makes them leave. It returns their refs, and the commit
	// to publish.
	End    func(ctx context.Context, series *memseries.Ending) (refs []uint64, seq uint64, err error)
	Chunks sync.Locker // of who puts full chunks into files
	// Deletes keeps deletes away: what is deleted from the blocks must not come back from the log.
	Deletes sync.Locker
}

// Blocks is where blocks of series that ended go.
type Blocks struct {
	Start, Range int64 // where the head begins, and the length of blocks; milliseconds
	// Write makes a block of what some series have of [mint, end). blockdir.ErrEmpty: that is
	// nothing.
	Write func(mint, end int64, of map[uint64]bool) error
}

// Leaving is series that ended and are in blocks. It is used by one goroutine at a time.
type Leaving struct {
	series    *memseries.Ending // nil: there are none
	left      bool              // they have left the head, and somebody may know them
	snapshots uint64            // that were opened by then; who has one must not be surprised
}

// Waits reports whether readers keep series from leaving.
func (l *Leaving) Waits() bool { return l.series != nil }

// Begin makes blocks of series without a sample since a time. None waits from before.
func (l *Leaving) Begin(h *Head, since int64, to *Blocks) error {
	series := memseries.EndedSince(h.Series, since)
	h.Series.Shards.Barrier()
	seq := h.Log.LastSeq()
	if err := h.Log.SyncTo(seq); err != nil { // a block must not outrun it
		return err
	}
	h.Commits.WaitPublished(seq)
	chosen, _ := series.Refs()
	for from := to.Start; ; {
		mint, ok := h.Series.Truncation.OldestFrom(from)
		if !ok || mint >= series.Until() {
			break
		}
		from = min(memseries.RangeEnd(mint, to.Range), series.Until())
		if err := to.Write(mint, from, chosen); err != nil && !errors.Is(err, blockdir.ErrEmpty) {
			return err
		}
	}
	l.series, l.left, l.snapshots = series, false, h.Commits.Opened()
	return nil
}

// GoOn goes on as far as readers let it, and returns how many series have left now.
func (l *Leaving) GoOn(ctx context.Context, h *Head) (left int, err error) {
	if l.series == nil || !h.Commits.AllClosed(l.snapshots) {
		return 0, nil
	}
	if !l.left {
		if left, err = l.leave(ctx, h); err != nil {
			return left, errors.WithMessage(err, "take series that ended out of the head")
		}
		if l.left, l.snapshots = true, h.Commits.Opened(); !h.Commits.AllClosed(l.snapshots) {
			return left, nil
		}
	}
	l.series.Free()
	l.series = nil
	h.Series.Budget.Flushed()
	return left, nil
}

func (l *Leaving) leave(ctx context.Context, h *Head) (left int, err error) {
	h.Deletes.Lock()
	defer h.Deletes.Unlock()
	h.Chunks.Lock() // a full one must not come behind
	refs, seq, err := h.End(ctx, l.series)
	h.Chunks.Unlock()
	if err != nil {
		return 0, err
	}
	err = h.Log.SyncTo(seq)
	h.Commits.Publish(seq)
	h.Commits.WaitPublished(seq)
	h.Gone.Remember(h.Log.Segment(), refs...)
	return len(refs), err
}
