package tsdb_test

import (
	"context"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/horizon"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// What a program does with blocks on a disk that fails.

// needsBlocks says that an operation makes blocks, or works on them.
func needsBlocks(op string) bool {
	return slices.Contains([]string{"late", "flush", "ended", "blocks", "due", "merge", "tidy", "delete", "deleteold", "clean", "retain"}, op)
}

// ofBlocks says that a file operation is on a block, on the names of blocks, on their list, or on
// the horizon of their retention.
func ofBlocks(op tsdbtest.Op) bool {
	name, _ := strings.CutPrefix(op.Name, "data/")
	return strings.HasPrefix(name, "tmp-block-") || strings.HasPrefix(name, "tmp-deleted-") || strings.HasPrefix(name, "01") ||
		name == horizon.FileName || name == horizon.TempName ||
		name == "blocks.tsdb" || name == "tmp-blocks.tsdb" ||
		op.Kind == tsdbtest.OpSyncDir && op.Name == fixtureDir
}

// warnings counts what is logged because nobody is there who could be told: blocks that
// should go and stay until the next Open, a horizon that Open or Close could not write, and a
// list of blocks that could not be.
type warnings struct{ n atomic.Int64 }

func (w *warnings) count() int { return int(w.n.Load()) }

func (w *warnings) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

func (w *warnings) Handle(_ context.Context, r slog.Record) error {
	switch r.Message {
	case "remove block", "write horizon of retention", "write list of blocks", "list of blocks was removed, there is no room for another one":
		w.n.Add(1)
	}
	return nil
}

func (w *warnings) WithAttrs([]slog.Attr) slog.Handler { return w }
func (w *warnings) WithGroup(string) slog.Handler      { return w }

// tryBlocks does one of the operations on blocks.
func (r *faultRun) tryBlocks(op string) error {
	r.history.blocks = true
	switch op {
	case "flush":
		r.nextRange(1)
		if err := r.tryCommit(r.fewRows()); err != nil {
			return err
		}
		return r.tryKeeping(r.db.Flush)
	case "due":
		for range 4 {
			if err := r.tryCommit(r.fewRows()); err != nil {
				return err
			}
			r.now += crashRange.Milliseconds()
		}
		return r.tryKeeping(r.db.Compact)
	case "ended":
		if err := r.tryCommit(r.fewRows()); err != nil {
			return err
		}
		before := r.db.Stats().Log
		r.effects = r.effects.withEnded(r.ending())
		err := r.tryKeeping(func(ctx context.Context) error { return tsdb.LetGo(ctx, r.db, r.now) })
		if r.db.Stats().Log.Commits > before.Commits { // what blocks have is deleted from the head
			r.history.commits = append(r.history.commits, entry{})
			r.acked(before.Segment)
		}
		return err
	case "merge":
		return r.tryKeeping(r.db.Compact)
	case "clean":
		return r.tryKeeping(r.db.CleanTombstones)
	case "delete":
		return r.tryDelete(r.now-3*crashRange.Milliseconds(), r.now-500, "steady")
	case "retain":
		return r.tryRetain()
	default:
		return errors.Errorf("no such operation: %s", op)
	}
}

// tryKeeping does what changes no answer, whether it succeeds or fails.
func (r *faultRun) tryKeeping(do func(context.Context) error) error {
	err := do(ctx)
	r.tell(err)
	if err != nil && len(r.fs.Hits()) == 0 {
		return err
	}
	if err != nil && errors.Is(err, tsdb.ErrDiskFull) && !r.diskFull() {
		return errors.WithMessage(err, "the disk is not full")
	}
	return r.checkContent()
}

// tryDelete deletes. What it has not deleted when it fails may go later, a block or the head
// at a time.
func (r *faultRun) tryDelete(mint, maxt int64, name string) error {
	groups, gone, err := r.places(mint, maxt, name)
	if err != nil {
		return err
	}
	before := r.db.Stats().Log
	err = r.db.Delete(ctx, mint, maxt, labels.Equal("__name__", name))
	r.tell(err)
	logged := r.db.Stats().Log.Commits > before.Commits
	switch {
	case err == nil:
		r.effects = r.effects.without(keysOf(groups))
		if logged {
			r.history.commits = append(r.history.commits, entry{gone: gone})
			r.acked(before.Segment)
		} else if len(gone) > 0 {
			return errors.New("samples in the head were deleted, and the log says nothing")
		}
		return r.checkContent()
	case len(r.fs.Hits()) == 0:
		return err
	case errors.Is(err, tsdb.ErrIndeterminate):
		r.unsure = append(r.unsure, entry{gone: gone})
	case errors.Is(err, tsdb.ErrNotCommitted):
		r.history.failed++
	}
	got, readErr := readContent(r.db)
	if readErr != nil {
		r.maybe = append(r.maybe, groups...)
		return r.readError(readErr)
	}
	r.effects, err = r.effects.settle(groups, r.history.after(r.history.len(), r.effects), got)
	if err != nil {
		return err
	}
	r.maybe = append(r.maybe, groups...)
	return r.checkContent()
}

// tryRetain opens with retention for a while. Old blocks may be there again when the
// directory is opened without, if their files could not be removed.
func (r *faultRun) tryRetain() error {
	if err := r.tryClose(); err != nil {
		return err
	}
	r.setup.retain = true
	err := r.tryOpen()
	r.setup.retain = false
	if err != nil || r.db == nil {
		return err
	}
	blocks := r.db.Blocks()
	newest := int64(math.MinInt64)
	for _, ps := range r.history.after(r.history.len(), r.effects).series {
		newest = max(newest, ps[len(ps)-1].T)
	}
	hits := len(r.fs.Hits())
	groups, err := r.obsolete(blocks, newest-crashRetention.Milliseconds()+1)
	if err != nil {
		return err
	}
	r.maybe = append(r.maybe, groups...)
	if len(groups) == 0 {
		return errors.New("no block is too old")
	}
	err = r.db.Compact(ctx)
	r.tell(err)
	if err == nil && len(r.fs.Hits()) == hits {
		r.effects = r.effects.without(keysOf(groups))
	}
	if err := r.tryClose(); err != nil {
		return err
	}
	return r.tryOpen()
}

// wellBlocks: on a disk that is well all that is due succeeds, and no answer changes.
func (r *faultRun) wellBlocks() error {
	for _, do := range []func(context.Context) error{r.db.Flush, r.db.Compact, r.db.CleanTombstones} {
		if err := do(ctx); err != nil {
			return errors.WithMessage(err, "blocks on a disk that is well")
		}
		if err := r.checkContent(); err != nil {
			return err
		}
	}
	r.durable = r.history.len()
	return nil
}
