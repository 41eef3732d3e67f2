package tsdb

import (
	"context"
	"sync/atomic"

	"github.com/oklog/ulid/v2"
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/blockset"
	"github.com/seed347100a3/tsdb/internal/diskspace"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/headdelete"
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/internal/tombstones"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/wal"
)

// Delete removes the samples of the closed range [mint, maxt], in milliseconds, of all
// series that the matchers choose; without matchers, of all series. Samples that are
// appended later are not touched, nor are series that get the same labels later.
//
// When it returns nil no Querier that is opened from then on sees them; those that are open keep
// what they see. In blocks the delete is on stable storage, in the head as Options.WAL.Sync says.
// The space comes back when the blocks are merged, or by CleanTombstones.
//
// When samples of the future are deleted, as of a clock that was ahead, the present is taken again:
// at once, or by the next maintenance if a Querier reads what the head would let go of.
//
// On a full disk there is no room to write down what is deleted. Then blocks go that lie in the
// range as a whole, if there are no matchers, and what is left is tried in the room that they had.
//
// On an error some of the samples may be deleted; to call it again is safe. ErrClosed,
// ErrReadOnly, ErrDiskFull, ErrNotCommitted, ErrIndeterminate as for Commit, the error
// of the context. ErrCorrupt: series of a block have damaged entries, so queries leave them out;
// all else is deleted.
func (db *DB) Delete(ctx context.Context, mint, maxt int64, ms ...*labels.Matcher) (err error) {
	if err := checkQuery(ctx, ms); err != nil {
		return err
	}
	ctx, done, err := db.begin(ctx)
	if err != nil {
		return err
	}
	defer done(&err)
	if mint > maxt {
		return errors.Errorf("delete from %d to %d: the range ends before it begins", mint, maxt)
	}
	d := blockset.Deletion{Mint: mint, Maxt: maxt, Matchers: ms}
	err = db.delete(ctx, d)
	if errors.Is(err, ErrDiskFull) {
		n, left := 0, error(nil)
		if len(d.Matchers) == 0 {
			n, _, left = db.dropFree(func(m *BlockMeta) bool { return m.MinTime >= d.Mint && m.MaxTime-1 <= d.Maxt })
		}
		if n > 0 {
			err = fileutil.JoinErrors(left, db.delete(ctx, d))
		}
	}
	if err == nil {
		err = db.reopenPresent(ctx, d)
	}
	return errors.WithMessage(err, "delete")
}

// reopenPresent makes the head take samples of the present again, if what raised it above that
// is deleted. By the clock that is so beyond Limits.MaxFuture. Where that is off, or so long that
// the clock says nothing, the samples say so: none is left from the end of the deletion to where
// the head was raised to.
func (db *DB) reopenPresent(ctx context.Context, d blockset.Deletion) error {
	h, present := db.head, db.opts.present()
	if !h.bounds.isAhead(present) {
		return nil
	}
	if !h.bounds.isAhead(h.bounds.acceptsTo()) {
		to := h.bounds.raisedTo()
		if left, err := hasSamples(ctx, db, min(d.Maxt, to), to); left || err != nil {
			return err
		}
	}
	h.bounds.leaving.Store(true)
	db.flushing.Lock()
	defer db.flushing.Unlock()
	return diskspace.Full(db.leaveFuture(ctx, present))
}

// hasSamples reports whether there is a sample in a closed range of time.
func hasSamples(ctx context.Context, db *DB, mint, maxt int64) (bool, error) {
	q, err := db.Querier(mint, maxt)
	if err != nil {
		return false, err
	}
	defer q.Close()
	set := q.Select(ctx, nil)
	return set.Next(), set.Err()
}

// DropBlocks removes the blocks that end at or before a time, in milliseconds since 1970: whole
// ones, all of whose samples are before. It returns how many went. Nothing is written or merged for
// it, so it works on a full disk, and makes room there. Queriers that are open keep what they see;
// on Windows the room comes back when they are closed.
//
// One block may stay that ends before: the newest, if the head begins where it ends, because that
// is known from it. Retention removes such a block, as does CleanTombstones behind Delete, both of
// which write. Blocks that a merge reads are waited for until ctx ends; what becomes of them goes,
// too, if it fits. BlockOptions.Keep is not asked.
//
// Errors: ErrClosed, that of the context, those of the file system. n blocks are gone then as well;
// files that could not be removed are tried again by maintenance and by the next Open.
func (db *DB) DropBlocks(ctx context.Context, before int64) (n int, err error) {
	ctx, done, err := db.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer done(&err)
	for {
		more, busy, err := db.dropFree(func(m *BlockMeta) bool { return m.MaxTime <= before })
		n += more
		if err == nil && len(busy) > 0 {
			err = db.busy.Wait(ctx, busy)
		}
		if err != nil || more == 0 && len(busy) == 0 {
			db.opts.Logger.Info("blocks were dropped", "blocks", n, "before", before)
			return n, errors.WithMessage(err, "drop blocks")
		}
	}
}

// dropFree removes the blocks that fit, and returns how many. It writes nothing. Those stay that
// say where the head begins, and those that are busy, which are returned. With an error and no
// block the disk is the reason; else files could not be removed.
func (db *DB) dropFree(fit func(m *BlockMeta) bool) (n int, busy []ulid.ULID, err error) {
	v := db.blocks.Current()
	var ids []ulid.ULID
	for i := range v.Blocks {
		if m := v.Blocks[i].Meta; fit(m) {
			ids = append(ids, m.ULID)
		}
	}
	free, _ := v.SplitByStart(ids)
	free, busy = db.busy.TakeEach(free)
	if len(free) > 0 {
		n, err = db.blocks.Drop(free)
		db.maintenance.blocksRemoved.Add(uint64(n))
	}
	db.busy.Give(free)
	if err == nil && n < len(free) {
		more, busy, err := db.dropFree(fit) // a merge has made another block of them since
		return n + more, busy, err
	}
	return n, busy, err
}

// delete marks samples as deleted, in blocks and then in the head.
func (db *DB) delete(ctx context.Context, d blockset.Deletion) error {
	log, err := db.head.writable()
	if err == nil {
		err = db.head.heal(log)
	}
	if err != nil {
		return err
	}
	db.blocks.Lock()
	defer db.blocks.Unlock()
	next, damaged, err := db.blocks.DeleteLocked(ctx, d)
	set, seq := db.head.deleted.set.Load(), uint64(0)
	if err == nil {
		set, seq, err = deleteFromHead(ctx, db.head, log, d, next.Start)
	}
	// Blocks and head change for new queriers at one moment.
	db.blocks.ShowLocked(next, func() { db.head.deleted.set.Store(set) })
	if seq > 0 {
		db.head.iso.Publish(seq)
		db.head.iso.WaitPublished(seq)
	}
	db.blocks.NoteListLocked() // a block may be empty now
	if err == nil {
		db.head.deleted.deletes.Add(1)
	}
	return diskspace.Full(fileutil.JoinErrors(err, damaged))
}

// headDeletes is what is deleted of the head.
type headDeletes struct {
	// set has the intervals by series ref, as the log has them. One that readers can find is not
	// changed; recovery, which fills it, is alone.
	set     atomic.Pointer[tombstones.Set]
	deletes atomic.Uint64
}

// deletesOf returns what a delete of the head works on.
//
//go:noinline
func deletesOf(h *head, log *wal.Log) headdelete.Head {
	return headdelete.Head{Series: h.series, Log: log, Late: h.late.store, LateLog: &h.late.log, Poison: h.poison,
		Enqueue: func(ctx context.Context, c *wal.Commit, shards memseries.ShardSet) error {
			return h.enqueue(ctx, log, c, shards)
		}}
}

// deleteFromHead logs a delete of the head, from the head's start on or, of late samples, from any
// time on. It returns what is deleted of the head then, and the commit to publish, if there is one.
func deleteFromHead(ctx context.Context, h *head, log *wal.Log, d blockset.Deletion, start int64) (*tombstones.Set, uint64, error) {
	of := deletesOf(h, log)
	what := headdelete.Deletion{Mint: d.From(start).Mint, Maxt: d.Maxt, LateMint: d.Mint, Matchers: d.Matchers}
	return of.Write(ctx, what, h.deleted.set.Load())
}
