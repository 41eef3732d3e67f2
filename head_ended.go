package tsdb

import (
	"context"
	"math"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/exemplar"
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
// helps. all: it would, but that they do not leave one by one.
func (he *headEnded) flush(ctx context.Context, db *DB) (all bool, err error) {
	h := db.head
	if err := he.goOn(ctx, db); err != nil {
		return false, err
	}
	maxt := h.bounds.maxT.Load()
	before := endedBefore(h, maxt)
	if he.leaving.Waits() || h.bounds.minT.Load() > maxt || !h.series.Budget.EndedHelp(before) {
		return false, nil
	}
	if !he.mayLetGo(h) {
		return true, nil
	}
	done, err := he.letGo(ctx, db, before)
	return !done, err
}

// mayLetGo reports whether series may leave one by one. They may not while the log has some under
// several refs, of which the head knows one: it would bring back what it has under the others.
func (he *headEnded) mayLetGo(h *head) bool { return !h.trunc.checkpoints.Gone.HasDuplicates() }

// letGo makes blocks of series without a sample since a time, and lets go of them, if they are many
// enough. Those with late samples that a reader keeps, or with exemplars, stay.
func (he *headEnded) letGo(ctx context.Context, db *DB, since int64) (done bool, err error) {
	h := db.head
	if err := db.maintenance.common.flushes.Take(ctx); err != nil {
		return false, err
	}
	defer db.maintenance.common.flushes.Give()
	if err := h.late.flushAll(ctx, db); err != nil { // of these, too
		return false, err
	}
	log, err := h.flushableLog()
	if err != nil {
		return false, err
	}
	start := db.blocks.Current().Start
	to := headended.Blocks{Start: start, Range: db.opts.Blocks.Range.Milliseconds(), Now: db.opts.Clock.Now()}
	to.Write = func(mint, end int64, seq uint64, of map[uint64]bool) error {
		write := func(ctx context.Context, w *blockdir.Writer, mint, maxt int64) error {
			return h.writePart(ctx, w, mint, maxt, seq, func(s *memseries.Series) bool { return of[s.Ref()] })
		}
		return db.maintenance.background.Run(ctx, func(ctx context.Context) error {
			bd := db.blocks.BeginBuild(nil)
			defer db.blocks.EndBuild(bd)
			return db.writeBlock(ctx, bd, newBlock{mint, end, blockdir.HintFromStaleSeries, true, start}, write)
		})
	}
	if done, err = he.leaving.Begin(he.of(db, log), since, &to); err != nil {
		if errors.Is(err, ErrCorrupt) {
			_, mendErr := h.mend(ctx, start)
			err = fileutil.JoinErrors(err, mendErr)
		}
		return done, diskspace.WhileWriting(db.opts.FS, db.dir, "flush series that ended", h.series.SizeBytes(), err)
	}
	return done, he.goOn(ctx, db)
}

// goOn goes on with series that ended, as far as readers let it.
func (he *headEnded) goOn(ctx context.Context, db *DB) error {
	if !he.leaving.Waits() {
		return nil
	}
	log, err := db.head.writable()
	if err != nil {
		return err
	}
	left, err := he.leaving.GoOn(ctx, he.of(db, log))
	if n := len(left); n > 0 {
		db.head.commits.seriesRemoved.Add(uint64(n))
		db.forgetDeleted(math.MinInt64, left)
		db.opts.Logger.Info("series that ended left the head", "series", n)
	}
	return err
}

// of is what series leave.
func (he *headEnded) of(db *DB, log *wal.Log) *headended.Head {
	h := db.head
	deletes := deletesOf(h, log)
	stays := func(ref uint64) bool { // the log has exemplars under the ref of a series
		ls, _ := h.commits.exemplars.Look(ref, &exemplar.Exemplar{})
		return !ls.IsEmpty()
	}
	return &headended.Head{Stays: stays, Series: h.series, Commits: h.iso, Log: log, End: deletes.End, Gone: &h.trunc.checkpoints.Gone,
		Chunks: &h.writer, Deletes: db.blocks}
}
