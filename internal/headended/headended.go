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
	"time"

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
	// Stays says of a series that it stays: it has something that does not become a block.
	Stays func(ref uint64) bool
	// Deletes keeps deletes away: what is deleted from the blocks must not come back from the log.
	Deletes sync.Locker
}

// Blocks is where blocks of series that ended go.
type Blocks struct {
	Start, Range int64 // where the head begins, and the length of blocks; milliseconds
	Now          time.Time
	// Write makes a block of what some series have of [mint, end), as of a commit.
	// blockdir.ErrEmpty: that is nothing.
	Write func(mint, end int64, seq uint64, of map[uint64]bool) error
}

// Leaving is series that ended and are in blocks. It is used by one goroutine at a time.
type Leaving struct {
	series    *memseries.Ending // nil: there are none
	left      bool              // they have left the head, and somebody may know them
	snapshots uint64            // that were opened by then; who has one must not be surprised
}

// Waits reports whether readers keep series from leaving.
func (l *Leaving) Waits() bool { return l.series != nil }

// Begin makes blocks of series without a sample since a time. None waits from before. It reports
// whether they are worth it; else it has done nothing.
func (l *Leaving) Begin(h *Head, since int64, to *Blocks) (bool, error) {
	series := memseries.EndedSince(h.Series, since, h.Stays)
	if !h.Series.Budget.IsWorth(series.Len()) {
		return false, nil
	}
	h.Series.Shards.Barrier()
	h.Commits.WaitPublished(h.Log.LastSeq())
	// Commits go on: a block has none of them in part, nor does it outrun the log.
	sn := h.Commits.Acquire(to.Now, to.Start)
	defer h.Commits.Release(sn)
	if err := h.Log.SyncTo(sn.Seq()); err != nil {
		return true, err
	}
	chosen, _ := series.Refs()
	for from := to.Start; ; {
		mint, ok := h.Series.Truncation.OldestFrom(from)
		if !ok || mint >= series.Until() {
			break
		}
		from = min(memseries.RangeEnd(mint, to.Range), series.Until())
		if err := to.Write(mint, from, sn.Seq(), chosen); err != nil && !errors.Is(err, blockdir.ErrEmpty) {
			return true, err
		}
	}
	l.series, l.left, l.snapshots = series, false, h.Commits.Opened()
	return true, nil
}

// GoOn goes on as far as readers let it, and returns the refs of series that have left now.
func (l *Leaving) GoOn(ctx context.Context, h *Head) (left []uint64, err error) {
	if l.series == nil || !h.Commits.AllClosed(l.snapshots) {
		return nil, nil
	}
	if !l.left {
		left, err = l.leave(ctx, h)
		if err != nil || !h.Commits.AllClosed(l.snapshots) {
			return left, errors.WithMessage(err, "take series that ended out of the head")
		}
	}
	l.series.Free()
	l.series = nil
	return left, nil
}

func (l *Leaving) leave(ctx context.Context, h *Head) (left []uint64, err error) {
	h.Deletes.Lock()
	defer h.Deletes.Unlock()
	h.Chunks.Lock() // a full one must not come behind
	refs, seq, err := h.End(ctx, l.series)
	h.Chunks.Unlock()
	if err != nil {
		return nil, err
	}
	err = h.Log.SyncTo(seq)
	h.Commits.Publish(seq)
	h.Commits.WaitPublished(seq)
	l.left, l.snapshots = true, h.Commits.Opened()
	h.Gone.Remember(h.Log.Segment(), refs...)
	h.Series.Budget.Left()
	return refs, err
}
