// Package headdelete deletes samples from the head: in its log, in the set of what is deleted, and
// from its late samples. It does not know of blocks, nor when queries see what is deleted.
package headdelete

import (
	"context"
	"math"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/late"
	"github.com/seed347100a3/tsdb/internal/latelog"
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/internal/record"
	"github.com/seed347100a3/tsdb/internal/tombstones"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/wal"
)

// Head is what a delete works on.
type Head struct {
	Series  *memseries.Directory
	Log     *wal.Log
	Late    *late.Store
	LateLog *latelog.Log
	// Enqueue gives a commit its place in Log. It returns with the shards locked, or with an error.
	Enqueue func(ctx context.Context, c *wal.Commit, shards memseries.ShardSet) error
	// Poison is told when LateLog can take no more.
	Poison func(why error)
}

// Deletion says what is deleted: closed ranges, in milliseconds, of the series that all matchers
// choose.
type Deletion struct {
	Mint, Maxt int64
	LateMint   int64 // where the range begins for late samples; not above Mint
	Matchers   []*labels.Matcher
}

// Write logs the delete as a commit of its own: behind all commits that have
// reserved before it, so it ends at the newest sample of each series at that place in
// the log. It returns what is deleted of the head then, given what was before, and the commit to
// publish; none when no series is touched. Errors are those of the log, of Enqueue and of the
// context; nothing is deleted then.
func (h *Head) Write(ctx context.Context, d Deletion, old *tombstones.Set) (*tombstones.Set, uint64, error) {
	series, shards, err := h.touched(ctx, &d)
	if err != nil || len(series) == 0 {
		return old, 0, err
	}
	return h.commit(ctx, shards, old, func(seq uint64) (stones, late []record.Tombstone) { return h.deleteLocked(&d, series, seq) })
}

// End logs that series have left the head, as a commit of its own, and makes them leave. It returns
// their refs, in ascending order, and the commit to publish. Errors are as for Write.
func (h *Head) End(ctx context.Context, e *memseries.Ending) (refs []uint64, seq uint64, err error) {
	_, shards := e.Refs()
	e.Begin()
	_, seq, err = h.commit(ctx, shards, &tombstones.Set{}, func(uint64) (stones, late []record.Tombstone) {
		refs = e.KillLocked()
		for _, ref := range refs {
			stones = append(stones, record.Tombstone{Ref: ref, Mint: math.MinInt64, Maxt: math.MaxInt64})
		}
		return stones, nil
	})
	e.End(err)
	return refs, seq, err
}

// commit logs a delete. choose returns what is to be deleted, with the shards locked, of which that
// of late samples is marked.
func (h *Head) commit(ctx context.Context, shards memseries.ShardSet, old *tombstones.Set, choose func(seq uint64) (stones, late []record.Tombstone)) (*tombstones.Set, uint64, error) {
	var commit wal.Commit
	var turns memseries.Turns
	if err := h.Enqueue(ctx, &commit, shards); err != nil {
		return old, 0, err
	}
	h.Series.Shards.TakeTurnsLocked(shards, &turns)
	stones, late := choose(commit.Seq())
	h.Series.Shards.Unlock(shards)
	if len(late) > 0 { // which hide late samples only, however a reader finds them below
		commit.End(record.AppendTombstones(record.AppendLateTombstones(commit.Begin()), late))
	}
	if len(stones)+len(late) > 0 {
		commit.End(record.AppendTombstones(commit.Begin(), append(stones[:len(stones):len(stones)], late...)))
	}
	var repeated latelog.Commit
	passTurn := func() {
		h.Series.Shards.LockInTurn(shards, &turns)
		if len(late) > 0 {
			repeated.End(record.AppendTombstones(record.AppendLateTombstones(repeated.Begin()), late))
			h.LateLog.Enqueue(commit.Seq(), &repeated)
		}
		h.Series.Shards.EndTurn(shards)
	}
	commit.Apply = passTurn
	if err := h.Log.Write(&commit); err != nil {
		for _, s := range late {
			h.Late.UndoDelete(s.Ref, commit.Seq())
		}
		late = nil
		passTurn()
		h.Log.Settle(&commit)
		return old, 0, err
	}
	if len(late) > 0 {
		if err := h.LateLog.Write(&repeated); errors.Is(err, wal.ErrPoisoned) {
			h.Poison(err)
		}
	}
	set := old.Clone()
	for _, s := range stones {
		set.Add(s.Ref, tombstones.Interval{Mint: s.Mint, Maxt: s.Maxt})
	}
	return set, commit.Seq(), nil
}

// deleteLocked returns what is to be deleted of series, and of their late samples, of which it is
// already marked.
func (h *Head) deleteLocked(d *Deletion, series []*memseries.Series, seq uint64) (stones, late []record.Tombstone) {
	for _, s := range series {
		if s.Dead() {
			continue
		}
		maxt := min(d.Maxt, s.PendingT())
		if s.PendingT() != memseries.NoTime && d.Mint <= maxt {
			stones = append(stones, record.Tombstone{Ref: s.Ref(), Mint: d.Mint, Maxt: maxt})
		}
		iv := tombstones.Interval{Mint: d.LateMint, Maxt: d.Maxt}
		if newest, any := h.Late.Delete(s.Ref(), iv, seq); any {
			late = append(late, record.Tombstone{Ref: s.Ref(), Mint: iv.Mint, Maxt: max(maxt, newest)})
		}
	}
	return stones, late
}

// touched returns the series that the delete can touch, and their shards.
func (h *Head) touched(ctx context.Context, d *Deletion) (series []*memseries.Series, shards memseries.ShardSet, err error) {
	if d.Maxt < d.LateMint {
		return nil, 0, nil
	}
	refs, err := h.Series.Postings().Select(ctx, d.Matchers...)
	if err != nil {
		return nil, 0, err
	}
	for _, ref := range refs {
		if s := h.Series.ByRef(ref); s != nil && (s.PendingT() >= d.Mint || h.Late.Overlaps(ref, d.LateMint, d.Maxt)) {
			series = append(series, s)
			shards |= memseries.Bit(s)
		}
	}
	return series, shards, nil
}
