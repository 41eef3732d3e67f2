package tsdb

import (
	"context"
	stderrors "errors"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"

	"github.com/oklog/ulid/v2"
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/headsnap"
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
	return diskFull(stderrors.Join(db.flushDue(ctx), db.blocks.reload(), db.mergeAll(ctx, true), db.retain(ctx)))
}

// flushDue makes blocks of the part of the head that is over.
func (db *DB) flushDue(ctx context.Context) error {
	db.flushing.Lock()
	defer db.flushing.Unlock()
	if end, ok := db.head.due(); ok {
		return db.flushTo(ctx, end, false)
	}
	return db.collect()
}

// CleanTombstones writes every block anew that has deleted samples, so that their space
// comes back. Errors are those of Compact.
func (db *DB) CleanTombstones(ctx context.Context) (err error) {
	ctx, done, err := db.begin(ctx)
	if err != nil {
		return err
	}
	defer done(&err)
	for {
		var left []ulid.ULID
		for _, m := range db.Blocks() {
			if m.Stats.NumTombstones > 0 {
				left = append(left, m.ULID)
			}
		}
		if len(left) == 0 {
			return nil
		}
		for _, id := range left {
			if !db.busy.take([]ulid.ULID{id}) {
				continue
			}
			err := db.merge(ctx, []ulid.ULID{id})
			db.busy.give([]ulid.ULID{id})
			if err != nil {
				return errors.WithMessagef(err, "clean block %s", id)
			}
		}
		if err := db.busy.wait(ctx, left); err != nil {
			return err
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
		early := db.blocks.current().reachIntoHead()
		plan := planMerge(db.Blocks(), ranges, func(id ulid.ULID) bool {
			return db.busy.has(id) || db.merges.resting(id) || slices.Contains(early, id)
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

// reachIntoHead returns the blocks beside the head that end after it begins. They are not
// merged before the head is written that far: the result of merging one with an ordinary
// block is an ordinary block, and its end would say that the head's samples up to there
// are in blocks. The next open would drop them.
func (v *view) reachIntoHead() (ids []ulid.ULID) {
	for _, b := range v.blocks {
		if besideHead(b.meta) && b.meta.MaxTime > v.start {
			ids = append(ids, b.meta.ULID)
		}
	}
	return ids
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
	result, err := db.merges.merge(ctx, dirs, func(w *blockdir.Writer) error {
		return db.blocks.publish(bd, w, ids, db.blocks.current().start)
	})
	switch {
	case errors.Is(err, blockdir.ErrEmpty):
		if err := db.drop(ctx, ids); err != nil {
			db.merges.note(ctx, dirs, err) // or the next plan would be the same
			return err
		}
		return nil
	case err != nil:
		db.head.stats.mergeErrors.Add(1)
		return errors.WithMessagef(err, "merge %d blocks from %s on", len(ids), ids[0])
	}
	db.head.stats.merges.Add(1)
	db.opts.Logger.Info("blocks merged", "block", result.Meta.ULID, "inputs", len(ids), "level", result.Meta.Compaction.Level,
		"mint", result.Meta.MinTime, "maxt", result.Meta.MaxTime, "samples", result.Meta.Stats.NumSamples, "bytes", result.Bytes,
		"duration", db.opts.Clock.Now().Sub(begun))
	return nil
}

// drop removes blocks that nothing replaces. When the head begins behind one of them, the
// log is shortened to there before: else the next start, which knows from blocks only where
// the head begins, would find their samples in it again, and not what was deleted of them.
func (db *DB) drop(ctx context.Context, ids []ulid.ULID) error {
	if v := db.blocks.current(); v.startWithout(ids) < v.startWithout(nil) {
		db.flushing.Lock()
		err := db.head.checkpoint(ctx, v.start, true)
		db.flushing.Unlock()
		if err != nil {
			return errors.WithMessage(err, "shorten log before blocks go")
		}
	}
	db.blocks.drop(ids)
	return nil
}

// retain removes the blocks that the retention options do not keep.
func (db *DB) retain(ctx context.Context) error {
	o := db.opts.Blocks
	state := retentionState{NewestT: db.head.maxT.Load(), NowT: db.opts.Clock.Now().UnixMilli()}
	for _, b := range db.blocks.current().blocks {
		state.Blocks = append(state.Blocks, sizedBlock{Meta: b.meta, Bytes: b.size})
	}
	var err error
	if o.RetentionBytes > 0 || o.RetentionPercent > 0 {
		if state.HeadBytes, err = db.headBytes(); err != nil {
			return err
		}
		_, state.DiskBytes, err = fileutil.DiskSpace(db.opts.FS, db.dir)
		if err != nil && !errors.Is(err, fileutil.ErrUnsupported) {
			return errors.WithMessage(err, "ask for disk space")
		}
	}
	gone := obsoleteBlocks(state, retentionLimits{Duration: o.Retention, Bytes: o.RetentionBytes, Percent: o.RetentionPercent})
	if len(gone) == 0 {
		return nil
	}
	ids := make([]ulid.ULID, 0, len(gone))
	for id, why := range gone {
		if db.busy.has(id) {
			continue // its merge ends first
		}
		ids = append(ids, id)
		db.opts.Logger.Info("block is obsolete", "block", id, "reason", why.String())
	}
	if len(ids) == 0 {
		return nil
	}
	db.head.stats.blocksRemoved.Add(uint64(len(ids)))
	return db.drop(ctx, ids)
}

// headBytes returns the size of the log, the head-chunk files and the snapshots of the head.
func (db *DB) headBytes() (n int64, err error) {
	dirs := []string{filepath.Join(db.dir, walDirName), filepath.Join(db.dir, headChunksDirName)}
	snapshots, err := headsnap.List(db.opts.FS, db.dir)
	if err != nil {
		return 0, err
	}
	for _, s := range snapshots {
		dirs = append(dirs, s.Path)
	}
	for _, dir := range dirs {
		size, err := treeSize(db.opts.FS, dir)
		if err != nil {
			return 0, err
		}
		n += size
	}
	return n, nil
}

// treeSize adds up the files below a directory; one that goes meanwhile counts nothing.
func treeSize(fsys FS, dir string) (n int64, err error) {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return 0, ignoreNotExist(err)
	}
	for _, e := range entries {
		if e.IsDir() {
			size, err := treeSize(fsys, filepath.Join(dir, e.Name()))
			if err != nil {
				return 0, err
			}
			n += size
			continue
		}
		size, err := sizeOf(e)
		if ignoreNotExist(err) != nil {
			return 0, err
		}
		n += size
	}
	return n, nil
}

func ignoreNotExist(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
