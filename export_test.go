package tsdb

import (
	"context"
	"math"

	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/labels"
)

// What white-box tests of package tsdb_test need; nothing else reaches inside.

// TakeHeadSnapshot takes a snapshot of the head, due or not.
func TakeHeadSnapshot(db *DB) error {
	db.flushing.Lock()
	defer db.flushing.Unlock()
	if _, err := db.head.writable(); err != nil {
		return err
	}
	return db.head.snapshots.Take(context.Background(), db.head.forSnapshot(db.headStart))
}

// LookForSnapshot takes a snapshot of the head if that is due, as a loop of a database does.
func LookForSnapshot(db *DB) { (&snapshotTask{db: db}).step() }

// HoldsDeleted reports whether no snapshot is taken for what a Querier has of what is deleted.
func HoldsDeleted(db *DB) bool { return holdsDeleted(db) }

// Flusher returns what looks once whether the head is to be flushed, as a loop of a database does
// each second that is not Manual.
func Flusher(db *DB) (look func()) {
	f := flusher{db: db}
	return f.step
}

// LetGo lets go of series without a sample since a time, as a head that is near its budget does.
func LetGo(ctx context.Context, db *DB, since int64) error {
	db.flushing.Lock()
	defer db.flushing.Unlock()
	he := &db.head.trunc.ended
	if err := he.goOn(ctx, db); err != nil || he.leaving.Waits() || !he.mayLetGo(db.head) {
		return err
	}
	_, err := he.letGo(ctx, db, since)
	return err
}

// InHead reports whether the head has a series that goes back to a time.
func InHead(db *DB, ls labels.Labels, t int64) bool {
	s := db.head.series.ByLabels(ls, ls.Hash())
	if s == nil || s.Dead() {
		return false
	}
	oldest, _, ok := db.head.series.Past(math.MaxUint64).Ends(s)
	return ok && oldest <= t
}

// HoldApply keeps a commit that is written from being applied until wait returns.
func HoldApply(a *Appender, wait func()) {
	c := &a.staged.commit
	apply := c.Apply
	c.Apply = func() { c.Apply = apply; wait(); apply() }
}

// Checkpoint replaces all of the log before now by a checkpoint.
func Checkpoint(db *DB) error {
	db.flushing.Lock()
	defer db.flushing.Unlock()
	return db.head.trunc.checkpoint(context.Background(), math.MinInt64, true)
}

// WriteHeadBlock writes the samples that the head has at one time into a block, and drops it.
func WriteHeadBlock(ctx context.Context, db *DB, t int64) error {
	w, err := blockdir.Create(db.opts.FS, db.dir, blockdir.NewULID(db.opts.Clock.Now()), blockdir.WriterOptions{})
	if err != nil {
		return err
	}
	return fileutil.JoinErrors(db.head.writeBlock(ctx, w, t, t), w.Abort())
}

// CutAt splits chunks, as a flush that begins does beside commits.
func CutAt(db *DB, t int64) { db.head.series.Truncation.CutAt(t) }

// HeadChunks counts the chunks of the head one by one.
func HeadChunks(db *DB) (n int) {
	var e memseries.Excerpt
	for s := range db.head.series.All() {
		db.head.series.Past(math.MaxUint64).Excerpt(s, math.MinInt64, math.MaxInt64, &e)
		n += len(e.Chunks)
	}
	return n
}

// HoldView keeps what new queriers see from changing until release is called.
func HoldView(db *DB) (release func()) {
	db.blocks.HoldView()
	return db.blocks.LetViewGo
}

// Ended is closed when Close ends what is under way.
func Ended(db *DB) <-chan struct{} { return db.ctx.Done() }

// Waiting returns how many wait until a commit is visible.
func Waiting(db *DB) int { return db.head.iso.Waiting() }

// MinValid returns the time from which on the head takes samples.
func MinValid(db *DB) int64 { return db.head.bounds.minValid.Load() }

// WriteHeadChunks does what the loop does in time: it puts full chunks into files.
func WriteHeadChunks(db *DB) error { return db.head.writeChunks() }

// Logged makes an attribute of an error.
var Logged = logged

// NewBackground returns what runs maintenance by a clock.
var NewBackground = newBackground
