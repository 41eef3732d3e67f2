package tsdb

import (
	"context"
	stderrors "errors"
	"math"
	"path/filepath"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/blockplan"
	"github.com/seed347100a3/tsdb/internal/datadir"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/headsnap"
	"github.com/seed347100a3/tsdb/internal/horizon"
)

// retain removes the blocks that the retention options do not keep.
func (db *DB) retain(ctx context.Context) error {
	o := db.opts.Blocks
	state := blockplan.RetentionState{NewestT: db.head.bounds.maxT.Load(), NowT: db.opts.Clock.Now().UnixMilli()}
	for _, b := range db.blocks.Current().Blocks {
		state.Blocks = append(state.Blocks, blockplan.SizedBlock{Meta: b.Meta, Bytes: b.Size})
	}
	limit, err := db.byteLimit()
	if err == nil && limit > 0 {
		state.HeadBytes, err = db.headBytes()
	}
	if err != nil {
		return err
	}
	gone := db.obsolete(state, blockplan.RetentionLimits{Duration: o.Retention, Bytes: limit})
	var ids []ulid.ULID
	var byTime, byBytes bool
	for id, why := range gone {
		if db.busy.Has(id) {
			continue // its merge ends first
		}
		ids = append(ids, id)
		byTime, byBytes = byTime || why == blockplan.ReasonDuration, byBytes || why == blockplan.ReasonBytes
		db.opts.Logger.Info("block is obsolete", "block", id, "reason", why.String())
	}
	n, err := db.drop(ctx, ids)
	db.maintenance.blocksRemoved.Add(uint64(n))
	if n > 0 && byTime {
		db.maintenance.timeRetentions.Add(1)
	}
	if n > 0 && byBytes {
		db.maintenance.byteRetentions.Add(1)
	}
	return stderrors.Join(err, db.time.Save(false))
}

// watchClock looks at the clock now and then: one that was set, and set right again since, leaves
// no doubt.
func (db *DB) watchClock() {
	if db.opts.Blocks.Retention <= 0 {
		return
	}
	s := blockplan.RetentionState{NewestT: max(db.head.bounds.maxT.Load(), db.blocks.Current().Newest()), NowT: db.opts.Clock.Now().UnixMilli()}
	if t := s.CountedFrom(); t != math.MinInt64 {
		db.time.Look(t)
	}
}

// obsolete says which blocks may go, by no more time than has passed.
func (db *DB) obsolete(s blockplan.RetentionState, limits blockplan.RetentionLimits) map[ulid.ULID]blockplan.Reason {
	if limits.Duration <= 0 || s.CountedFrom() == math.MinInt64 {
		return blockplan.Obsolete(s, limits)
	}
	byClock := blockplan.Obsolete(s, limits)
	s.Behind = db.time.Look(s.CountedFrom())
	gone := blockplan.Obsolete(s, limits)
	db.time.Note(len(byClock)-len(gone), s.Behind)
	return gone
}

// byteLimit returns what Options.Blocks lets blocks and head have, in bytes; 0: no limit.
func (db *DB) byteLimit() (int64, error) {
	o := db.opts.Blocks
	if o.RetentionPercent <= 0 {
		return o.RetentionBytes, nil
	}
	_, disk, err := fileutil.DiskSpace(db.opts.FS, db.dir)
	if err != nil && !errors.Is(err, fileutil.ErrUnsupported) {
		return 0, errors.WithMessage(err, "ask for disk space")
	}
	return blockplan.LimitBytes(disk, o.RetentionPercent, o.RetentionBytes), nil
}

// drop removes blocks that nothing replaces, the oldest first, and returns how many went. What
// needs no writing goes before the rest, so that a full disk does not keep it.
//
// When the head begins behind one of them, the log is shortened to there before. The next start
// knows from blocks only where the head begins. It would find their samples in the log again, and
// not what was deleted of them.
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

// headBytes returns the size of the log, the head-chunk files and the snapshots of the head.
func (db *DB) headBytes() (n int64, err error) {
	dirs := []string{filepath.Join(db.dir, walDirName), filepath.Join(db.dir, datadir.HeadChunksDir)}
	snapshots, err := headsnap.List(db.opts.FS, db.dir)
	if err != nil {
		return 0, err
	}
	for _, s := range snapshots {
		dirs = append(dirs, s.Path)
	}
	for _, dir := range dirs {
		size, err := fileutil.TreeSize(db.opts.FS, dir)
		if err != nil {
			return 0, err
		}
		n += size
	}
	return n, nil
}

// deadLogShare is how much of the limit of all bytes the log may take, as a part of it, before a
// truncation leaves nothing in it that a block has: retention must not take blocks away to pay
// for that. Below it, copying less is worth more.
const deadLogShare = 1.0 / 32

// logIsDear reports whether the log takes so much of what retention by bytes allows that none of
// it may be dead.
func (db *DB) logIsDear() (bool, error) {
	limit, err := db.byteLimit()
	if err != nil || limit <= 0 {
		return false, err
	}
	size, err := fileutil.TreeSize(db.opts.FS, filepath.Join(db.dir, walDirName))
	return float64(size) > deadLogShare*float64(limit), err
}

func newWatch(o *Options, dir string) *horizon.Watch {
	return horizon.NewWatch(horizon.Config{FS: o.FS, Dir: dir, Clock: o.Clock, Logger: o.Logger, Retention: o.Blocks.Retention})
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
