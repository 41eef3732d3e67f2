package tsdb

import (
	"context"
	stderrors "errors"
	"slices"
	"sync"

	"github.com/oklog/ulid/v2"
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/diskspace"
)

// Compact does all maintenance that is due: it flushes the part of the head that is old
// enough, takes up blocks that were put into the directory, merges blocks and removes those
// that Options.Blocks' retention says. It returns when that is done.
//
// What one part cannot do keeps the others from nothing; all errors are returned.
// ErrClosed, ErrReadOnly, ErrDiskFull, ErrCorrupt with the file of a damaged block, the
// context's. Nothing is lost by any of them.
func (db *DB) Compact(ctx context.Context) (err error) {
	ctx, done, err := db.begin(ctx)
	if err != nil {
		return err
	}
	defer done(&err)
	db.merges.forget()
	// What is too old goes first, as that needs no room: on a full disk there is some behind it.
	old := db.retain(ctx)
	err = stderrors.Join(old, db.flushDue(ctx), db.reload(), db.blocks.removeLeft(), db.mergeAll(ctx, true))
	if old == nil {
		err = stderrors.Join(err, db.retain(ctx))
	}
	return diskspace.Full(err)
}

// flushDue makes blocks of the part of the head that is over.
func (db *DB) flushDue(ctx context.Context) error {
	db.flushing.Lock()
	defer db.flushing.Unlock()
	if present := db.head.acceptsTo(); db.head.isAhead(present) {
		return db.leaveFuture(ctx, present)
	}
	if end, ok := db.head.due(); ok {
		return db.flushTo(ctx, end, false)
	}
	return db.collect()
}

// CleanTombstones writes every block anew that has deleted samples, so that their space
// comes back. A block that cannot be written keeps the others from nothing; all errors are
// returned. Errors are those of Compact.
func (db *DB) CleanTombstones(ctx context.Context) (err error) {
	ctx, done, err := db.begin(ctx)
	if err != nil {
		return err
	}
	defer done(&err)
	var errs []error
	failed := map[ulid.ULID]bool{}
	for {
		var left []ulid.ULID
		for _, m := range db.Blocks() {
			if m.Stats.NumTombstones > 0 && !failed[m.ULID] {
				left = append(left, m.ULID)
			}
		}
		if len(left) == 0 || ctx.Err() != nil {
			return diskspace.Full(stderrors.Join(append(errs, ctx.Err())...))
		}
		for _, id := range left {
			if !db.busy.take([]ulid.ULID{id}) {
				continue
			}
			err := db.merge(ctx, []ulid.ULID{id})
			db.busy.give([]ulid.ULID{id})
			if err != nil && ctx.Err() == nil {
				failed[id] = true
				errs = append(errs, errors.WithMessagef(err, "clean block %s", id))
			}
		}
		if err := db.busy.wait(ctx, left); err != nil {
			return stderrors.Join(append(errs, err)...)
		}
	}
}

// busyBlocks are those that go into merges that are under way.
type busyBlocks struct {
	sync.Mutex
	ids   []ulid.ULID
	given chan struct{} // closed by the next give; nil: nobody waits
}

// take marks blocks as busy; false if one of them is.
func (b *busyBlocks) take(ids []ulid.ULID) bool {
	b.Lock()
	defer b.Unlock()
	if b.anyLocked(ids) {
		return false
	}
	b.ids = append(b.ids, ids...)
	return true
}

func (b *busyBlocks) give(ids []ulid.ULID) {
	b.Lock()
	defer b.Unlock()
	b.ids = slices.DeleteFunc(b.ids, func(id ulid.ULID) bool { return slices.Contains(ids, id) })
	if b.given != nil {
		close(b.given)
		b.given = nil
	}
}

func (b *busyBlocks) has(id ulid.ULID) bool {
	b.Lock()
	defer b.Unlock()
	return slices.Contains(b.ids, id)
}

func (b *busyBlocks) all() []ulid.ULID {
	b.Lock()
	defer b.Unlock()
	return slices.Clone(b.ids)
}

func (b *busyBlocks) anyLocked(ids []ulid.ULID) bool {
	return slices.ContainsFunc(ids, func(id ulid.ULID) bool { return slices.Contains(b.ids, id) })
}

// wait returns when none of these blocks is busy, or with the error of the context.
func (b *busyBlocks) wait(ctx context.Context, ids []ulid.ULID) error {
	for {
		b.Lock()
		if !b.anyLocked(ids) {
			b.Unlock()
			return ctx.Err()
		}
		if b.given == nil {
			b.given = make(chan struct{})
		}
		given := b.given
		b.Unlock()
		select {
		case <-given:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// mergeAll merges until no plan is left. Blocks whose merge fails rest; the others go on.
// With whole it waits for the merges of others, and goes on behind them.
func (db *DB) mergeAll(ctx context.Context, whole bool) error {
	ranges := blockRanges(db.opts.Blocks.Range, db.opts.Blocks.MaxRange)
	var errs []error
	for ctx.Err() == nil {
		plan := db.blocks.current().plan(ranges, func(id ulid.ULID) bool {
			return db.busy.has(id) || db.merges.resting(id)
		})
		if len(plan) == 0 {
			if wait := db.busy.all(); whole && len(wait) > 0 {
				_ = db.busy.wait(ctx, wait) // the context is looked at again
				continue
			}
			break
		}
		ids := make([]ulid.ULID, len(plan))
		for i, m := range plan {
			ids[i] = m.ULID
		}
		if !db.busy.take(ids) {
			continue // another worker was quicker; what is left is planned anew
		}
		err := db.merge(ctx, ids)
		db.busy.give(ids)
		if errors.Is(err, ErrDiskFull) {
			return stderrors.Join(append(errs, err)...) // the next one would find no more room
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	return stderrors.Join(append(errs, ctx.Err())...)
}

// plan says which blocks to merge next.
//
// Blocks beside the head that end after it begins are merged with each other only: the result says
// no more about the head than they do. The result of merging one with an ordinary block is an
// ordinary block, and its end would say that the head's samples up to there are in blocks. The next
// open would drop them. So those wait until the head is written that far.
func (v *view) plan(ranges []int64, busy func(ulid.ULID) bool) []BlockMeta {
	var behind, beside []BlockMeta
	for i := range v.blocks {
		b := &v.blocks[i]
		class := &behind
		if blockdir.BesideHead(b.meta) && b.meta.MaxTime > v.start {
			if !blockdir.BesideHead(b.dir.Meta()) {
				continue // the mark could not be written, and the result would have none
			}
			class = &beside
		}
		*class = append(*class, b.meta)
	}
	busyOrBeside := busy
	if n, m := len(behind), len(beside); n > 0 && m > 0 && compareStart(behind[n-1], beside[m-1]) < 0 {
		// The newest block of all is left alone, and it is not an ordinary one.
		newest := beside[m-1].ULID
		behind = append(behind, beside[m-1])
		busyOrBeside = func(id ulid.ULID) bool { return id == newest || busy(id) }
	}
	if plan := planMerge(behind, ranges, busyOrBeside); len(plan) > 0 {
		return plan
	}
	return planMerge(beside, ranges, busy)
}

// merge merges blocks and puts the result in their place.
func (db *DB) merge(ctx context.Context, ids []ulid.ULID) error {
	bd := db.blocks.beginBuild()
	defer db.blocks.endBuild(bd)
	inputs := db.blocks.pinned(ids)
	if inputs == nil {
		return nil // one is gone since the plan was made
	}
	defer func() {
		for _, b := range inputs {
			b.release()
		}
	}()
	dirs := make([]*blockdir.Dir, len(inputs))
	for i, b := range inputs {
		dirs[i] = b.dir
	}
	begun := db.opts.Clock.Now()
	var result mergeResult
	var left error
	err := blockdir.ErrEmpty // a block of which nothing is left needs no room to go
	if len(inputs) > 1 || !inputs[0].allDeleted(ctx) {
		result, err = db.merges.merge(ctx, dirs, func(w *blockdir.Writer, inPlace bool) (err error) {
			replaced := ids
			if !inPlace {
				replaced = nil
			}
			left, err = db.blocks.publish(bd, w, replaced, db.blocks.current().start)
			return err
		})
	}
	switch {
	case errors.Is(err, blockdir.ErrEmpty):
		if _, err := db.drop(ctx, ids); err != nil {
			db.merges.note(ctx, dirs, err) // or the next plan would be the same
			return err
		}
		return nil
	case err != nil:
		db.head.stats.mergeErrors.Add(1)
		return err
	}
	db.head.stats.merges.Add(1)
	db.opts.Logger.Info("blocks merged", "block", result.Meta.ULID, "inputs", len(ids), "level", result.Meta.Compaction.Level,
		"mint", result.Meta.MinTime, "maxt", result.Meta.MaxTime, "samples", result.Meta.Stats.NumSamples, "bytes", result.Bytes,
		"duration", db.opts.Clock.Now().Sub(begun))
	return errors.WithMessagef(left, "behind the merge into block %s", result.Meta.ULID)
}
