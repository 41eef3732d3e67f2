package tsdb

import (
	"context"
	stderrors "errors"
	"math"

	"github.com/oklog/ulid/v2"
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/diskspace"
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
	d := deletion{mint: mint, maxt: maxt, ms: ms}
	err = db.delete(ctx, d)
	if errors.Is(err, ErrDiskFull) {
		if n, left := db.dropCovered(d); n > 0 {
			err = stderrors.Join(left, db.delete(ctx, d))
		}
	}
	if err == nil {
		err = db.reopenPresent(ctx, d)
	}
	return errors.WithMessage(err, "delete")
}

// reopenPresent makes the head take samples of the present again, if what raised it above that
// is deleted. Where the clock counts for nothing, Limits.MaxFuture being off, that is asked of the
// samples: none is left from the begin of the deletion on.
func (db *DB) reopenPresent(ctx context.Context, d deletion) error {
	h, present := db.head, db.opts.present()
	if !h.isAhead(present) {
		return nil
	}
	if db.opts.Limits.MaxFuture < 0 {
		if d.maxt < max(h.minValid.Load()-1, h.maxT.Load()) {
			return nil
		}
		if left, err := db.hasSamples(ctx, d.mint); left || err != nil {
			return err
		}
	}
	db.flushing.Lock()
	defer db.flushing.Unlock()
	return diskspace.Full(db.leaveFuture(ctx, present))
}

// hasSamples reports whether there is a sample from a time on.
func (db *DB) hasSamples(ctx context.Context, from int64) (bool, error) {
	q, err := db.Querier(from, math.MaxInt64)
	if err != nil {
		return false, err
	}
	defer q.Close()
	set := q.Select(ctx, nil)
	return set.Next(), set.Err()
}

// dropCovered removes the blocks that a deletion takes everything from, and returns how many. It
// writes nothing. Those stay that a merge reads, or that say where the head begins. Of an error
// with no block the delete says what is wrong with the disk; else files could not be removed.
func (db *DB) dropCovered(d deletion) (n int, err error) {
	if len(d.ms) > 0 {
		return 0, nil
	}
	v := db.blocks.current()
	var ids []ulid.ULID
	for _, b := range v.blocks {
		if b.meta.MinTime >= d.mint && b.meta.MaxTime-1 <= d.maxt && !db.busy.Has(b.meta.ULID) {
			ids = append(ids, b.meta.ULID)
		}
	}
	free, _ := v.splitByStart(ids)
	if len(free) == 0 {
		return 0, nil
	}
	return db.blocks.drop(free)
}

// delete marks samples as deleted, in blocks and then in the head.
func (db *DB) delete(ctx context.Context, d deletion) error {
	log, err := db.head.writable()
	if err == nil {
		err = db.heal(log)
	}
	if err != nil {
		return err
	}
	bs := db.blocks
	bs.change.Lock()
	defer bs.change.Unlock()
	// What is being written now was read before: publish deletes from it.
	for _, bd := range bs.change.builds {
		bd.missed = append(bd.missed, d)
	}
	next, damaged, err := d.ofBlocks(ctx, bs.current())
	set, seq := db.head.tombs.Load(), uint64(0)
	if err == nil {
		set, seq, err = db.head.logDelete(ctx, log, d.from(next.start))
	}
	// Blocks and head change for new queriers at one moment.
	bs.view.Lock()
	bs.view.cur = next
	db.head.tombs.Store(set)
	bs.view.Unlock()
	if seq > 0 {
		db.head.iso.Publish(seq)
		db.head.iso.WaitPublished(seq)
	}
	if err == nil {
		db.head.stats.deletes.Add(1)
	}
	return diskspace.Full(stderrors.Join(err, damaged))
}

// deletion is what one Delete asks for.
type deletion struct {
	mint, maxt int64
	ms         []*labels.Matcher
}

// from is what is left of the deletion at t and later.
func (d deletion) from(t int64) deletion {
	d.mint = max(d.mint, t)
	return d
}

// ofBlocks deletes from every block that overlaps, one after the other, and returns the
// view with what was done, also when it ends with an error. damaged tells of series that could
// not be deleted from, as their entries are damaged; it is no reason to end.
func (d deletion) ofBlocks(ctx context.Context, cur *view) (_ *view, damaged, err error) {
	next := *cur
	next.blocks = append([]viewBlock(nil), cur.blocks...)
	for i := range next.blocks {
		b := &next.blocks[i]
		if !b.overlaps(d.mint, d.maxt) {
			continue
		}
		set, broken, err := d.of(ctx, *b)
		if err != nil {
			return &next, damaged, err
		}
		if damaged == nil {
			damaged = broken
		}
		b.deleted, b.meta = set, b.dir.Meta()
	}
	return &next, damaged, nil
}

// of deletes from one block, on stable storage, and returns what is deleted of it now. damaged is
// of the first series whose entry is.
func (d deletion) of(ctx context.Context, b viewBlock) (_ *tombstones.Set, damaged, err error) {
	ids, err := b.dir.Index().Select(ctx, d.ms...)
	if err != nil {
		return nil, nil, err
	}
	set := b.deleted
	var metas []index.ChunkMeta
	for _, id := range ids {
		if _, metas, err = b.dir.Index().Series(id, nil, metas[:0]); err != nil {
			if !blockdir.IsDamage(err) {
				return nil, nil, err
			}
			if damaged == nil {
				damaged = errors.WithMessagef(err, "a series of block %s", b.meta.ULID)
			}
			continue
		}
		iv, ok := d.within(metas)
		if !ok || b.deleted.Of(id).CoversRange(iv.Mint, iv.Maxt) {
			continue
		}
		if set == b.deleted {
			set = b.deleted.Clone()
		}
		set.Add(id, iv)
	}
	if set == b.deleted {
		return set, damaged, nil
	}
	return set, damaged, errors.WithMessagef(b.dir.SetTombstones(set), "block %s", b.meta.ULID)
}

// allDeleted reports whether nothing is left of a block, without a look at its samples; false if
// that cannot be told.
func (b viewBlock) allDeleted(ctx context.Context) bool {
	if b.meta.Stats.NumTombstones < b.meta.Stats.NumSeries {
		return false
	}
	ids, err := b.dir.Index().Select(ctx)
	if err != nil {
		return false
	}
	var metas []index.ChunkMeta
	for _, id := range ids {
		if _, metas, err = b.dir.Index().Series(id, nil, metas[:0]); err != nil {
			return false
		}
		deleted := b.deleted.Of(id)
		for _, m := range metas {
			if !deleted.CoversRange(m.MinT, m.MaxT) {
				return false
			}
		}
	}
	return true
}

// within clamps the range to the chunks of a series; ok is false when it touches none.
func (d deletion) within(metas []index.ChunkMeta) (iv tombstones.Interval, ok bool) {
	iv = tombstones.Interval{Mint: math.MaxInt64, Maxt: math.MinInt64}
	for _, m := range metas { // of a foreign block not in order
		ok = ok || m.MinT <= d.maxt && m.MaxT >= d.mint
		iv.Mint, iv.Maxt = min(iv.Mint, m.MinT), max(iv.Maxt, m.MaxT)
	}
	iv.Mint, iv.Maxt = max(d.mint, iv.Mint), min(d.maxt, iv.Maxt)
	return iv, ok
}

// logDelete writes the delete as a commit of its own: behind all commits that have
// reserved before it, so it ends at the newest sample of each series at that place in
// the log. d begins where the head does. It returns what is deleted of the head then, and the commit to publish; none
// when no series is touched.
func (h *Head) logDelete(ctx context.Context, log *wal.Log, d deletion) (*tombstones.Set, uint64, error) {
	old := h.tombs.Load()
	series, shards, err := h.deletable(ctx, d)
	if err != nil || len(series) == 0 {
		return old, 0, err
	}
	var commit wal.Commit
	var turns memseries.Turns
	if err := h.enqueue(ctx, log, &commit, shards); err != nil {
		return old, 0, err
	}
	h.dir.TakeTurnsLocked(shards, &turns)
	var stones []record.Tombstone
	for _, s := range series {
		maxt := min(d.maxt, s.PendingT())
		if !s.Dead() && s.PendingT() != memseries.NoTime && d.mint <= maxt {
			stones = append(stones, record.Tombstone{Ref: s.Ref(), Mint: d.mint, Maxt: maxt})
		}
	}
	h.dir.Unlock(shards)
	if len(stones) > 0 {
		commit.End(record.AppendTombstones(commit.Begin(), stones))
	}
	passTurn := func() {
		h.dir.LockInTurn(shards, &turns)
		h.dir.EndTurn(shards)
	}
	commit.Apply = passTurn
	if err = log.Write(&commit); err != nil {
		passTurn()
		log.Settle(&commit)
		return old, 0, err
	}
	set := old.Clone()
	for _, s := range stones {
		set.Add(s.Ref, tombstones.Interval{Mint: s.Mint, Maxt: s.Maxt})
	}
	return set, commit.Seq(), nil
}

// deletable returns the series that a delete can touch, and their shards.
func (h *Head) deletable(ctx context.Context, d deletion) (series []*memseries.Series, shards memseries.Shards, err error) {
	if d.maxt < d.mint {
		return nil, 0, nil
	}
	refs, err := h.dir.Postings().Select(ctx, d.ms...)
	if err != nil {
		return nil, 0, err
	}
	for _, ref := range refs {
		if s := h.dir.ByRef(ref); s != nil && s.PendingT() >= d.mint {
			series = append(series, s)
			shards |= memseries.Bit(s)
		}
	}
	return series, shards, nil
}
