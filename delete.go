package tsdb

import (
	"context"
	"sync/atomic"

	"github.com/oklog/ulid/v2"
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/blockset"
	"github.com/seed347100a3/tsdb/internal/diskspace"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/latelog"
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/internal/record"
	"github.com/seed347100a3/tsdb/internal/tombstones"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/wal"
)

// Delete removes the samples of the closed range [mint, maxt], in milliseconds, of all
// series that the matchers choose; without matchers, of all series. Samples that are
// appended later are not touched, nor are series that get the same labels later.
//
// When it returns nil no Querier that is opened from then on sees them; those that are
// open keep what they see. In blocks the delete is on stable storage, in the head as
// Options.WAL.Sync says. The space comes back when the blocks are merged, or by
// CleanTombstones.
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
		set, seq, err = (&headDelete{db.head, log, d.From(next.Start), d.Mint}).write(ctx)
	}
	// Blocks and head change for new queriers at one moment.
	db.blocks.ShowLocked(next, func() { db.head.deleted.set.Store(set) })
	if seq > 0 {
		db.head.iso.Publish(seq)
		db.head.iso.WaitPublished(seq)
	}
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

// headDelete deletes from the head. Its Deletion begins where the head does, late samples may be
// older.
type headDelete struct {
	h   *head
	log *wal.Log
	blockset.Deletion
	lateMint int64
}

// write logs the delete as a commit of its own: behind all commits that have
// reserved before it, so it ends at the newest sample of each series at that place in
// the log. It returns what is deleted of the head then, and the commit to publish; none
// when no series is touched.
func (d *headDelete) write(ctx context.Context) (*tombstones.Set, uint64, error) {
	h, log, old := d.h, d.log, d.h.deleted.set.Load()
	series, shards, err := d.touched(ctx)
	if err != nil || len(series) == 0 {
		return old, 0, err
	}
	var commit wal.Commit
	var turns memseries.Turns
	if err := h.enqueue(ctx, log, &commit, shards); err != nil {
		return old, 0, err
	}
	h.series.Shards.TakeTurnsLocked(shards, &turns)
	var stones, late []record.Tombstone
	for _, s := range series {
		if s.Dead() {
			continue
		}
		maxt := min(d.Maxt, s.PendingT())
		if s.PendingT() != memseries.NoTime && d.Mint <= maxt {
			stones = append(stones, record.Tombstone{Ref: s.Ref(), Mint: d.Mint, Maxt: maxt})
		}
		iv := tombstones.Interval{Mint: d.lateMint, Maxt: d.Maxt}
		if newest, any := h.late.store.Delete(s.Ref(), iv, commit.Seq()); any {
			late = append(late, record.Tombstone{Ref: s.Ref(), Mint: iv.Mint, Maxt: max(maxt, newest)})
		}
	}
	h.series.Shards.Unlock(shards)
	if len(stones)+len(late) > 0 {
		commit.End(record.AppendTombstones(commit.Begin(), append(stones[:len(stones):len(stones)], late...)))
	}
	var repeated latelog.Commit
	passTurn := func() {
		h.series.Shards.LockInTurn(shards, &turns)
		if len(late) > 0 {
			repeated.End(record.AppendTombstones(record.AppendLateTombstones(repeated.Begin()), late))
			h.late.log.Enqueue(commit.Seq(), &repeated)
		}
		h.series.Shards.EndTurn(shards)
	}
	commit.Apply = passTurn
	if err = log.Write(&commit); err != nil {
		for _, s := range late {
			h.late.store.UndoDelete(s.Ref, commit.Seq())
		}
		late = nil
		passTurn()
		log.Settle(&commit)
		return old, 0, err
	}
	if len(late) > 0 {
		if err := h.late.log.Write(&repeated); errors.Is(err, ErrPoisoned) {
			h.poison(err)
		}
	}
	set := old.Clone()
	for _, s := range stones {
		set.Add(s.Ref, tombstones.Interval{Mint: s.Mint, Maxt: s.Maxt})
	}
	return set, commit.Seq(), nil
}

// touched returns the series that the delete can touch, and their shards.
func (d *headDelete) touched(ctx context.Context) (series []*memseries.Series, shards memseries.ShardSet, err error) {
	if d.Maxt < d.lateMint {
		return nil, 0, nil
	}
	refs, err := d.h.series.Postings().Select(ctx, d.Matchers...)
	if err != nil {
		return nil, 0, err
	}
	for _, ref := range refs {
		if s := d.h.series.ByRef(ref); s != nil && (s.PendingT() >= d.Mint || d.h.late.store.Overlaps(ref, d.lateMint, d.Maxt)) {
			series = append(series, s)
			shards |= memseries.Bit(s)
		}
	}
	return series, shards, nil
}
