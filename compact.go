package tsdb

import (
	"context"

	"github.com/oklog/ulid/v2"
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/blockplan"
	"github.com/seed347100a3/tsdb/internal/compact"
	"github.com/seed347100a3/tsdb/internal/diskspace"
	"github.com/seed347100a3/tsdb/internal/fileutil"
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
	db.merges.Forget()
	// What is too old goes first, as that needs no room: on a full disk there is some behind it.
	old := db.retain(ctx)
	err = fileutil.JoinErrors(old, db.flushDue(ctx), db.reload(true), db.blocks.RemoveLeft(), db.mergeAll(ctx, true))
	if old == nil {
		err = fileutil.JoinErrors(err, db.retain(ctx))
	}
	return diskspace.Full(err)
}

// flushDue makes blocks of the part of the head that is over.
func (db *DB) flushDue(ctx context.Context) error {
	db.flushing.Lock()
	defer db.flushing.Unlock()
	if present, ok := db.head.bounds.leaves(); ok {
		return db.leaveFuture(ctx, present)
	}
	if end, ok := db.head.bounds.due(); ok {
		return db.flushTo(ctx, end, false)
	}
	return fileutil.JoinErrors(db.collect(), flushLate(ctx, db))
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
			return diskspace.Full(fileutil.JoinErrors(append(errs, ctx.Err())...))
		}
		for _, id := range left {
			err := db.merge(ctx, []ulid.ULID{id})
			if err != nil && ctx.Err() == nil {
				failed[id] = true
				errs = append(errs, errors.WithMessagef(err, "clean block %s", id))
			}
		}
		if err := db.busy.Wait(ctx, left); err != nil {
			return fileutil.JoinErrors(append(errs, err)...)
		}
	}
}

// mergeAll merges until no plan is left. Blocks whose merge fails rest; the others go on.
// With whole it waits for the merges of others, and goes on behind them.
func (db *DB) mergeAll(ctx context.Context, whole bool) error {
	ranges := blockplan.Ranges(db.opts.Blocks.Range, db.opts.Blocks.MaxRange)
	busy := func(id ulid.ULID) bool { return db.busy.Has(id) || db.merges.Resting(id) || stays(db, id) }
	var errs []error
	var unread error // of blocks of which nobody knows whether rules take a part
	for ctx.Err() == nil {
		v := db.blocks.Current()
		plan := blockplan.Next(v.Planned(), v.Start, ranges, busy)
		ids := make([]ulid.ULID, len(plan))
		for i := range plan {
			ids[i] = plan[i].ULID
		}
		if len(plan) == 0 {
			var old []ulid.ULID
			old, unread = rewrites(ctx, db, busy)
			ids = old[:min(len(old), 1)]
		}
		if len(ids) == 0 {
			if wait := db.busy.All(); whole && len(wait) > 0 {
				_ = db.busy.Wait(ctx, wait) // the context is looked at again
				continue
			}
			break
		}
		err := db.merge(ctx, ids)
		if errors.Is(err, ErrDiskFull) {
			return fileutil.JoinErrors(append(errs, err)...) // the next one would find no more room
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	return fileutil.JoinErrors(append(errs, unread, ctx.Err())...)
}

// stays tells whether BlockOptions.MayMerge leaves a block as it is.
//
//go:noinline
func stays(db *DB, id ulid.ULID) bool {
	may := db.opts.Blocks.MayMerge
	if may == nil {
		return false
	}
	b := db.blocks.Current().Find(id)
	return b != nil && !may(*b.Meta)
}

// merge merges blocks and puts the result in their place; or does nothing, if another worker was
// quicker with one of them. They are busy once the merge may begin, not while it waits for its turn
// among the databases of a group: then they may go.
func (db *DB) merge(ctx context.Context, ids []ulid.ULID) error {
	if err := db.maintenance.common.merges.Take(ctx); err != nil {
		return err
	}
	defer db.maintenance.common.merges.Give()
	if !db.busy.Take(ids) {
		return nil
	}
	defer db.busy.Give(ids)
	bd := db.blocks.BeginBuild(nil)
	defer db.blocks.EndBuild(bd)
	inputs := db.blocks.Pinned(ids)
	if inputs == nil {
		return nil // one is gone since the plan was made
	}
	defer func() {
		for _, b := range inputs {
			b.Release()
		}
	}()
	dirs := make([]*blockdir.Dir, len(inputs))
	for i, b := range inputs {
		dirs[i] = b.Dir()
	}
	if len(inputs) == 1 && inputs[0].IsEmpty() { // it needs no room to go
		_, err := db.drop(ctx, ids)
		db.merges.Note(ctx, dirs, err) // or the next plan would be the same
		return err
	}
	begun := db.opts.Clock.Now()
	var left error
	of, publish, err := mergeInputs(ctx, db, inputs, func(w *blockdir.Writer, inPlace bool) (err error) {
		if w == nil {
			if err = compact.MarkDeletable(dirs); err == nil {
				_, err = db.drop(ctx, ids)
			}
			return err
		}
		replaced := ids
		if !inPlace {
			replaced = nil
		}
		left, err = db.blocks.Publish(bd, w, replaced, db.blocks.Current().Start)
		return err
	})
	if err != nil {
		db.merges.Note(ctx, dirs, err)
		return err
	}
	result, err := db.merges.Merge(ctx, of, publish)
	switch {
	case errors.Is(err, errRetentionChanged):
		db.merges.Forget() // the blocks need no rest
		return nil
	case errors.Is(err, blockdir.ErrEmpty):
		return nil
	case err != nil:
		db.maintenance.mergeErrors.Add(1)
		return err
	}
	db.maintenance.merges.Add(1)
	db.opts.Logger.Info("blocks merged", "block", result.Meta.ULID, "inputs", len(ids), "level", result.Meta.Compaction.Level,
		"mint", result.Meta.MinTime, "maxt", result.Meta.MaxTime, "samples", result.Meta.Stats.NumSamples, "bytes", result.Bytes,
		"duration", db.opts.Clock.Now().Sub(begun))
	return errors.WithMessagef(left, "behind the merge into block %s", result.Meta.ULID)
}
