package tsdb

import (
	"context"
	"path/filepath"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/blockplan"
	"github.com/seed347100a3/tsdb/internal/clock"
	"github.com/seed347100a3/tsdb/internal/datadir"
	"github.com/seed347100a3/tsdb/internal/diskspace"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/horizon"
	"github.com/seed347100a3/tsdb/internal/rules"
)

// RetentionLimits are Duration, Bytes and Percent, as Retention and so on of BlockOptions are.
type RetentionLimits = blockplan.RetentionLimits

// limits are those that a database is opened with.
func (b *BlockOptions) limits() RetentionLimits {
	return RetentionLimits{Duration: b.Retention, Bytes: b.RetentionBytes, Percent: b.RetentionPercent}
}

// SetRetention changes Options.Blocks.Retention, RetentionBytes and RetentionPercent of a database
// that is open, all of them at once: what is 0 or less has no limit any more. Blocks beyond the new
// limits go with the next maintenance, which begins now, or by Compact where Options.Blocks.Manual
// is set. Blocks.MaxRange stays as it is, and so do RetentionRules: Duration is for what no rule
// chooses. The next Open goes by its options. It may be called at any time, by any goroutine. When
// it has returned nothing goes by the limits before: it waits for blocks that are being removed.
//
// Errors: ErrInvalidArgument (the percentage is above 100, or no number), ErrClosed, those of the
// file system when retention by time begins and cannot read how far time had come. Nothing is
// changed then.
func (db *DB) SetRetention(l RetentionLimits) error {
	if err := blockplan.CheckLimits(l, "Percent"); err != nil {
		return &refusal{ErrInvalidArgument, errors.WithMessage(err, "set retention")}
	}
	_, done, err := db.begin(context.Background())
	if err != nil {
		return err
	}
	defer done(&err)
	db.retaining.Lock()
	defer db.retaining.Unlock()
	if err = db.time.SetRetention(db.opts.Blocks.longest(l.Duration), max(db.head.bounds.maxT.Load(), db.blocks.Current().Newest())); err != nil {
		return errors.WithMessage(err, "set retention")
	}
	db.limits.Store(&l)
	db.maintenance.wake()
	return nil
}

// Retention returns what is kept at the moment: as opened with, or as SetRetention said last.
//
//go:noinline
func (db *DB) Retention() RetentionLimits { return *db.limits.Load() }

// retain removes the blocks that the retention limits do not keep.
func (db *DB) retain(ctx context.Context) error {
	state := retentionState(db)
	by := db.Retention()
	limits, err := blockplan.OnDisk(by, db.opts.FS, db.dir)
	if err == nil && limits.Bytes > 0 {
		state.HeadBytes, err = datadir.HeadBytes(db.opts.FS, db.dir)
	}
	if err != nil {
		return err
	}
	aged, failed := db.age(ctx, state, limits)
	if aged.ByBytes() {
		aged, failed = ageBesideShortLog(ctx, db, state, limits, aged, failed)
	}
	ids := aged.Leaving(state.Blocks, db.opts.Blocks.Keep)
	db.retaining.Lock()
	defer db.retaining.Unlock()
	if db.Retention() != by {
		return failed // SetRetention has changed them, and has woken maintenance
	}
	ids, _ = db.busy.TakeEach(ids) // of the others the merges end first
	var byTime, byBytes bool
	for _, id := range ids {
		why := aged.Gone[id]
		byTime, byBytes = byTime || why == blockplan.ReasonDuration, byBytes || why == blockplan.ReasonBytes
		db.opts.Logger.Info("block is obsolete", "block", id, "reason", why.String())
	}
	n, err := db.drop(ctx, ids)
	db.busy.Give(ids)
	db.maintenance.blocksRemoved.Add(uint64(n))
	if n > 0 && byTime {
		db.maintenance.timeRetentions.Add(1)
	}
	if n > 0 && byBytes {
		db.maintenance.byteRetentions.Add(1)
	}
	return fileutil.JoinErrors(failed, err, db.time.Save(false))
}

// ageBesideShortLog is age when blocks are to go for their bytes: none goes to pay for what is dead
// in the log, unless the disk is too full to shorten that. aged and failed are those beside the log
// as it is.
func ageBesideShortLog(ctx context.Context, db *DB, s blockplan.RetentionState, limits RetentionLimits, aged blockplan.Aged, failed error) (blockplan.Aged, error) {
	longer, err := shortenLog(ctx, db)
	if !longer || errors.Is(diskspace.Full(err), ErrDiskFull) {
		return aged, failed
	}
	if err == nil {
		s.HeadBytes, err = datadir.HeadBytes(db.opts.FS, db.dir)
	}
	if err != nil {
		limits.Bytes = 0
	}
	aged, failed = db.age(ctx, s, limits)
	return aged, fileutil.JoinErrors(failed, err)
}

// retentionState is what retention is applied to now.
func retentionState(db *DB) blockplan.RetentionState {
	state := blockplan.RetentionState{NewestT: db.head.bounds.maxT.Load(), NowT: clock.UnixMilli(db.opts.Clock)}
	for _, b := range db.blocks.Current().Blocks {
		state.Blocks = append(state.Blocks, blockplan.SizedBlock{Meta: *b.Meta, Bytes: b.Size})
	}
	return state
}

// watchClock looks at the clock now and then: one that was set right again leaves no doubt.
func (db *DB) watchClock() {
	if db.opts.Blocks.longest(db.Retention().Duration) == 0 {
		return
	}
	blockplan.Look(db.time, &blockplan.RetentionState{
		NewestT: max(db.head.bounds.maxT.Load(), db.blocks.Current().Newest()), NowT: clock.UnixMilli(db.opts.Clock)})
}

// age says which blocks may go, and of which a part, by no more time than has passed. An error is
// about blocks that stay as they are.
func (db *DB) age(ctx context.Context, s blockplan.RetentionState, limits RetentionLimits) (aged blockplan.Aged, _ error) {
	durations := rules.Durations(db.opts.Blocks.RetentionRules, limits.Duration)
	shares := ruleShares{db: db, ctx: ctx}
	if db.opts.Blocks.longest(limits.Duration) > 0 {
		aged = blockplan.AgeWatched(db.time, s, limits, durations, shares.of)
	} else {
		aged = blockplan.Age(s, limits, durations, shares.of)
	}
	return aged, shares.err
}

// drop removes blocks that nothing replaces, the oldest first, and returns how many went. What
// needs no writing goes before the rest, so that a full disk does not keep it.
//
// When the head begins behind one of them, the log is shortened to there before: the next Open
// learns from it then where the head begins.
func (db *DB) drop(ctx context.Context, ids []ulid.ULID) (n int, err error) {
	v := db.blocks.Current()
	free, last := v.SplitByStart(ids)
	if len(free) > 0 {
		if n, err = db.blocks.Drop(free); err != nil {
			return n, err
		}
	}
	if len(last) == 0 {
		return n, nil
	}
	db.flushing.Lock()
	err = db.head.trunc.checkpoint(ctx, v.Start, true)
	db.flushing.Unlock()
	if err != nil {
		return n, errors.WithMessagef(err, "shorten log before block %s goes", last[0])
	}
	more, err := db.blocks.Drop(last)
	return n + more, err
}

// logIsDear reports whether none of the log may be dead, as it takes much of what retention allows.
func logIsDear(db *DB) (bool, error) {
	return blockplan.LogIsDear(db.Retention(), db.opts.FS, db.dir, filepath.Join(db.dir, walDirName))
}

func newWatch(o *Options, dir string) *horizon.Watch {
	return horizon.NewWatch(horizon.Config{FS: o.FS, Dir: dir, Clock: o.Clock, Logger: o.Logger,
		Retention: o.Blocks.longest(o.Blocks.Retention)})
}

// retentionErr is why retention by time waits, nil if it does not.
func retentionErr(w *horizon.Watch, c Clock) error {
	behind := w.Behind()
	if behind == 0 {
		return nil
	}
	return errors.WithMessagef(ErrClock, "retention stays %s behind the clock (%s) until that is sure; if the clock is right, "+
		"close the database and remove its file %s", behind.Round(time.Second), c.Now().UTC().Format(time.RFC3339), horizon.FileName)
}
