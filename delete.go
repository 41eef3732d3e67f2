package tsdb

import (
	"context"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/index"
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
// On an error some of the samples may be deleted; to call it again is safe. ErrClosed,
// ErrReadOnly, ErrDiskFull, ErrNotCommitted, ErrIndeterminate as for Commit, the error
// of the context.
func (db *DB) Delete(ctx context.Context, mint, maxt int64, ms ...*labels.Matcher) (err error) {
	ctx, done, err := db.begin(ctx)
	if err != nil {
		return err
	}
	defer done(&err)
	if mint > maxt {
		return errors.Errorf("delete from %d to %d: the range ends before it begins", mint, maxt)
	}
	log, err := db.head.writable()
	if err == nil {
		err = log.Err()
	}
	if err != nil {
		return err
	}
	d := deletion{mint: mint, maxt: maxt, ms: ms}
	bs := db.blocks
	bs.change.Lock()
	defer bs.change.Unlock()
	// What is being written now was read before: publish deletes from it.
	for _, bd := range bs.change.builds {
		bd.missed = append(bd.missed, d)
	}
	next, err := d.ofBlocks(ctx, bs.current())
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
		db.head.iso.publish(seq)
		db.head.iso.waitPublished(seq)
	}
	if err == nil {
		db.head.stats.deletes.Add(1)
	}
	return errors.WithMessage(diskFull(err), "delete")
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
// view with what was done, also when it ends with an error.
func (d deletion) ofBlocks(ctx context.Context, cur *view) (*view, error) {
	next := *cur
	next.blocks = append([]viewBlock(nil), cur.blocks...)
	for i := range next.blocks {
		b := &next.blocks[i]
		if !b.overlaps(d.mint, d.maxt) {
			continue
		}
		set, err := d.of(ctx, *b)
		if err != nil {
			return &next, err
		}
		b.deleted, b.meta = set, b.dir.Meta()
	}
	return &next, nil
}

// of deletes from one block, on stable storage, and returns what is deleted of it now.
func (d deletion) of(ctx context.Context, b viewBlock) (*tombstones.Set, error) {
	ids, err := b.dir.Index().Select(ctx, d.ms...)
	if err != nil {
		return nil, err
	}
	set := b.deleted
	var metas []index.ChunkMeta
	for _, id := range ids {
		if _, metas, err = b.dir.Index().Series(id, nil, metas[:0]); err != nil {
			return nil, err
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
		return set, nil
	}
	return set, errors.WithMessagef(b.dir.SetTombstones(set), "block %s", b.meta.ULID)
}

// within clamps the range to the chunks of a series; ok is false when it touches none.
func (d deletion) within(metas []index.ChunkMeta) (iv tombstones.Interval, ok bool) {
	for _, m := range metas {
		ok = ok || m.MinT <= d.maxt && m.MaxT >= d.mint
	}
	if ok {
		iv = tombstones.Interval{Mint: max(d.mint, metas[0].MinT), Maxt: min(d.maxt, metas[len(metas)-1].MaxT)}
	}
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
