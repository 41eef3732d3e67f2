package tsdb

import (
	"context"
	"math"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/diskspace"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/headended"
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/wal"
)

// endedBefore bounds the newest time of series that count as ended near the budget of the head: no
// sample of them has come for an eighth of the block range, or for MaxLateness if that is longer.
//
//go:noinline
func endedBefore(h *head, maxt int64) int64 {
	idle := max(h.opts.Blocks.Range.Milliseconds()/8, h.opts.Head.MaxLateness.Milliseconds())
	return max(maxt, math.MinInt64+idle) - idle
}

// headEnded lets go of series that ended. Its users hold DB.flushing.
type headEnded struct{ leaving headended.Leaving }

// flush makes blocks of series that ended, and lets go of them, if the budget is near and that
// helps.
func (he *headEnded) flush(ctx context.Context, db *DB) error {
	h := db.head
	if err := he.goOn(ctx, db); err != nil {
		return err
	}
	maxt := h.bounds.maxT.Load()
	if he.leaving.Waits() || h.bounds.minT.Load() > maxt || !he.mayLetGo(h) || !h.series.Budget.EndedHelp(endedBefore(h, maxt)) {
		return nil
	}
	return he.letGo(ctx, db, endedBefore(h, maxt))
}

// mayLetGo reports whether series may leave one by one. They may not while the log has some under
// several refs, of which the head knows one: it would bring back what it has under the others.
func (he *headEnded) mayLetGo(h *head) bool { return !h.trunc.checkpoints.Gone.HasDuplicates() }

// letGo makes blocks of series without a sample since a time, and lets go of them.
func (he *headEnded) letGo(ctx context.Context, db *DB, since int64) error {
	h := db.head
	if err := db.maintenance.common.flushes.Take(ctx); err != nil {
		return err
	}
	defer db.maintenance.common.flushes.Give()
	if err := h.late.flushAll(ctx, db); err != nil { // of these, too
		return err
	}
	log, err := h.flushableLog()
	if err != nil {
		return err
	}
	start := db.blocks.Current().Start
	to := headended.Blocks{Start: start, Range: db.opts.Blocks.Range.Milliseconds()}
	to.Write = func(mint, end int64, of map[uint64]bool) error {
		write := func(ctx context.Context, w *blockdir.Writer, mint, maxt int64) error {
			return h.writePart(ctx, w, mint, maxt, func(s *memseries.Series) bool { return of[s.Ref()] })
		}
		return db.maintenance.background.Run(ctx, func(ctx context.Context) error {
			bd := db.blocks.BeginBuild(nil)
			defer db.blocks.EndBuild(bd)
			return db.writeBlock(ctx, bd, newBlock{mint, end, blockdir.HintFromStaleSeries, true, start}, write)
		})
	}
	if err := he.leaving.Begin(he.of(db, log), since, &to); err != nil {
		if errors.Is(err, ErrCorrupt) {
			_, mendErr := h.mend(ctx, start)
			err = fileutil.JoinErrors(err, mendErr)
		}
		return diskspace.WhileWriting(db.opts.FS, db.dir, "flush series that ended", h.series.SizeBytes(), err)
	}
	return he.goOn(ctx, db)
}

// goOn goes on with series that ended, as far as readers let it.
func (he *headEnded) goOn(ctx context.Context, db *DB) error {
	log, err := db.head.writable()
	if err != nil || !he.leaving.Waits() {
		return err
	}
	n, err := he.leaving.GoOn(ctx, he.of(db, log))
	if n > 0 {
		db.head.commits.seriesRemoved.Add(uint64(n))
		db.opts.Logger.Info("series that ended left the head", "series", n)
	}
	return err
}

// of is what series leave.
func (he *headEnded) of(db *DB, log *wal.Log) *headended.Head {
	h := db.head
	deletes := deletesOf(h, log)
	return &headended.Head{Series: h.series, Commits: h.iso, Log: log, End: deletes.End, Gone: &h.trunc.checkpoints.Gone,
		Chunks: &h.writer, Deletes: db.blocks}
}
