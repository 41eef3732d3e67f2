package tsdb

import (
	"context"
	stderrors "errors"
	"fmt"
	"math"

	"github.com/oklog/ulid/v2"
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/background"
	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/blockmerge"
	"github.com/seed347100a3/tsdb/internal/blockplan"
	"github.com/seed347100a3/tsdb/internal/clock"
	"github.com/seed347100a3/tsdb/internal/diskspace"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/pace"
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
	db.merges.rest.Forget()
	// What is too old goes first, as that needs no room: on a full disk there is some behind it.
	old := db.retain(ctx)
	err = stderrors.Join(old, db.flushDue(ctx), db.reload(), db.blocks.RemoveLeft(), db.mergeAll(ctx, true))
	if old == nil {
		err = stderrors.Join(err, db.retain(ctx))
	}
	return diskspace.Full(err)
}

// flushDue makes blocks of the part of the head that is over.
func (db *DB) flushDue(ctx context.Context) error {
	db.flushing.Lock()
	defer db.flushing.Unlock()
	if present := db.head.bounds.acceptsTo(); db.head.bounds.isAhead(present) {
		return db.leaveFuture(ctx, present)
	}
	if end, ok := db.head.bounds.due(); ok {
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
			if !db.busy.Take([]ulid.ULID{id}) {
				continue
			}
			err := db.merge(ctx, []ulid.ULID{id})
			db.busy.Give([]ulid.ULID{id})
			if err != nil && ctx.Err() == nil {
				failed[id] = true
				errs = append(errs, errors.WithMessagef(err, "clean block %s", id))
			}
		}
		if err := db.busy.Wait(ctx, left); err != nil {
			return stderrors.Join(append(errs, err)...)
		}
	}
}

// mergeAll merges until no plan is left. Blocks whose merge fails rest; the others go on.
// With whole it waits for the merges of others, and goes on behind them.
func (db *DB) mergeAll(ctx context.Context, whole bool) error {
	ranges := blockplan.Ranges(db.opts.Blocks.Range, db.opts.Blocks.MaxRange)
	var errs []error
	for ctx.Err() == nil {
		v := db.blocks.Current()
		plan := blockplan.Next(v.Planned(), v.Start, ranges, func(id ulid.ULID) bool {
			return db.busy.Has(id) || db.merges.resting(id)
		})
		if len(plan) == 0 {
			if wait := db.busy.All(); whole && len(wait) > 0 {
				_ = db.busy.Wait(ctx, wait) // the context is looked at again
				continue
			}
			break
		}
		ids := make([]ulid.ULID, len(plan))
		for i, m := range plan {
			ids[i] = m.ULID
		}
		if !db.busy.Take(ids) {
			continue // another worker was quicker; what is left is planned anew
		}
		err := db.merge(ctx, ids)
		db.busy.Give(ids)
		if errors.Is(err, ErrDiskFull) {
			return stderrors.Join(append(errs, err)...) // the next one would find no more room
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	return stderrors.Join(append(errs, ctx.Err())...)
}

// merge merges blocks and puts the result in their place.
func (db *DB) merge(ctx context.Context, ids []ulid.ULID) error {
	bd := db.blocks.BeginBuild()
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
	begun := db.opts.Clock.Now()
	var result mergeResult
	var left error
	err := blockdir.ErrEmpty // a block of which nothing is left needs no room to go
	if len(inputs) > 1 || !inputs[0].AllDeleted(ctx) {
		result, err = db.merges.merge(ctx, dirs, func(w *blockdir.Writer, inPlace bool) (err error) {
			replaced := ids
			if !inPlace {
				replaced = nil
			}
			left, err = db.blocks.Publish(bd, w, replaced, db.blocks.Current().Start)
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
		db.maintenance.mergeErrors.Add(1)
		return err
	}
	db.maintenance.merges.Add(1)
	db.opts.Logger.Info("blocks merged", "block", result.Meta.ULID, "inputs", len(ids), "level", result.Meta.Compaction.Level,
		"mint", result.Meta.MinTime, "maxt", result.Meta.MaxTime, "samples", result.Meta.Stats.NumSamples, "bytes", result.Bytes,
		"duration", db.opts.Clock.Now().Sub(begun))
	return errors.WithMessagef(left, "behind the merge into block %s", result.Meta.ULID)
}

// compactor merges blocks: one merge a call, what and when is its caller's decision. It is
// safe for concurrent use as long as no block is in two merges at a time.
type compactor struct {
	fs              FS
	dir             string // the data directory
	clock           clock.Clock
	limiter         *pace.Limiter // nil: none
	background      *background.Runner
	samplesPerChunk int // of chunks that are written anew
	rest            blockplan.Rest
}

// mergeResult is what became of a merge.
type mergeResult struct {
	Meta   BlockMeta // of the new block
	Bytes  int64     // that it has on disk
	Counts blockmerge.Counts
}

func newCompactor(fsys FS, dir string, c clock.Clock, b *background.Runner, bytesPerSecond int64, samplesPerChunk int) *compactor {
	return &compactor{fs: fsys, dir: dir, clock: c, limiter: pace.New(c, bytesPerSecond), background: b, samplesPerChunk: samplesPerChunk}
}

// resting tells whether a block was in a merge that failed a while ago.
func (c *compactor) resting(id ulid.ULID) bool { return c.rest.Resting(id, c.clock.Now()) }

// publishFunc publishes a block that is finished. inPlace: it takes the place of the inputs of the
// merge.
type publishFunc func(w *blockdir.Writer, inPlace bool) error

// merge writes the samples of inputs, which the caller keeps open and gives in the order of
// the plan, as one new block. The inputs stay; they may go once the new block is loaded.
// What is deleted of them while merge runs is not deleted of the result: the caller keeps
// deletes away, or applies them again: publish is called with the finished block, and
// publishes it. Samples that foreign inputs have outside of their bounds
// go into blocks of their own, which are published before.
//
// When merge returns nil, the block is on stable storage, checked. On an error there is no
// block, and nothing is left behind that opening the database would not remove. Errors:
// blockdir.ErrEmpty, when no sample was left, the inputs being marked as deletable then;
// ErrDiskFull, with numbers, before anything is written or when the disk fills up
// meanwhile; ErrCorrupt, with the file of an input that is damaged; the context's. Behind
// an error other than the context's and a refusal for lack of room, the inputs rest
// (blockplan.Rest).
func (c *compactor) merge(ctx context.Context, inputs []*blockdir.Dir, publish publishFunc) (mergeResult, error) {
	purpose, bytes := fmt.Sprintf("merge %d blocks from %s on", len(inputs), inputs[0].Meta().ULID), inputBytes(inputs)
	if err := diskspace.Check(c.fs, c.dir, purpose, bytes); err != nil {
		return mergeResult{}, err
	}
	var result mergeResult
	fsys := pace.FS(ctx, c.fs, c.limiter) // until ctx ends, not until work in the background does: that may publish
	err := c.background.Run(ctx, func(ctx context.Context) (err error) {
		result, err = c.write(ctx, fsys, inputs, publish)
		return err
	})
	if errors.Is(err, blockdir.ErrEmpty) {
		if markErr := markDeletable(inputs); markErr != nil {
			err = markErr
		}
	}
	c.note(ctx, inputs, err)
	return result, diskspace.WhileWriting(c.fs, c.dir, purpose, bytes, err)
}

// inputBytes is how much the inputs of a merge have on disk. Its result has about as much, or less.
func inputBytes(inputs []*blockdir.Dir) (n int64) {
	for _, d := range inputs {
		n += d.SizeBytes()
	}
	return n
}

// write does the work of merge.
func (c *compactor) write(ctx context.Context, fsys FS, inputs []*blockdir.Dir, publish publishFunc) (mergeResult, error) {
	target := blockmerge.Target{FS: fsys, Dir: c.dir, SamplesPerChunk: c.samplesPerChunk}
	blocks, err := blockmerge.Write(ctx, target, inputs, c.results(inputs)...)
	if err != nil {
		return mergeResult{}, diskspace.Full(err)
	}
	result := mergeResult{Meta: blocks[0].Meta}
	for i := range blocks {
		result.Bytes += blocks[i].Bytes
		result.Counts.Add(blocks[i].Counts)
	}
	// The one that takes the place of the inputs comes last: there is no moment at which a sample
	// is in no block.
	for i := len(blocks) - 1; i >= 0; i-- {
		if blocks[i].Empty {
			continue
		}
		if err := publish(blocks[i].Writer, i == 0); err != nil {
			return mergeResult{}, diskspace.Full(fileutil.JoinErrors(err, blockmerge.Abort(blocks)))
		}
	}
	if blocks[0].Empty {
		return mergeResult{}, blockdir.ErrEmpty
	}
	return result, nil
}

// results returns what the blocks say of themselves that a merge makes: the one that takes the
// place of its inputs, and those for what lies outside of their bounds.
func (c *compactor) results(inputs []*blockdir.Dir) []BlockMeta {
	metas := make([]BlockMeta, len(inputs))
	for i, d := range inputs {
		metas[i] = d.Meta()
	}
	meta := blockplan.Merged(newOwnULID(c.clock.Now(), endOfOrdinary(metas)), metas)
	early, late := meta.MinTime, meta.MaxTime
	for _, d := range inputs {
		from, to := d.Reach()
		early, late = min(early, from), max(late, to)
	}
	all := append([]BlockMeta{meta}, blockplan.Outside(meta, early, late)...)
	for i := range all[1:] {
		all[i+1].ULID = blockdir.NewULID(c.clock.Now())
	}
	return all
}

// endOfOrdinary returns where the blocks end that say where the head begins.
func endOfOrdinary(metas []BlockMeta) int64 {
	end := int64(math.MinInt64)
	for _, m := range metas {
		if !blockdir.BesideHead(m) {
			end = max(end, m.MaxTime)
		}
	}
	return end
}

// markDeletable notes in all blocks that nothing is left of them.
func markDeletable(dirs []*blockdir.Dir) error {
	for _, d := range dirs {
		if err := d.SetMeta(func(m *blockdir.Meta) { m.Compaction.Deletable = true }); err != nil {
			return errors.WithMessagef(err, "mark block %s as deletable", d.Meta().ULID)
		}
	}
	return nil
}

// note lets blocks rest whose merge failed.
func (c *compactor) note(ctx context.Context, dirs []*blockdir.Dir, err error) {
	if ctx.Err() != nil {
		return
	}
	ids := make([]ulid.ULID, len(dirs))
	for i, d := range dirs {
		ids[i] = d.Meta().ULID
	}
	if err == nil || errors.Is(err, blockdir.ErrEmpty) {
		c.rest.Merged(ids)
	} else {
		c.rest.Failed(ids, c.clock.Now())
	}
}
