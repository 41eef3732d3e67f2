package tsdb

import (
	"context"
	stderrors "errors"
	"path/filepath"
	"time"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/datadir"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/logreach"
	"github.com/seed347100a3/tsdb/internal/repair"
	"github.com/seed347100a3/tsdb/internal/schedule"
	"github.com/seed347100a3/tsdb/wal"
)

// RepairOptions are the options of Repair. Nil are the defaults.
type RepairOptions struct {
	// Options are those that the database is opened with: file system, clock, block range,
	// logger. Default: the defaults.
	Options *Options
	// Undelete saves blocks also when it is not known any more which of their samples were
	// deleted, so that deleted samples come back. Default: such a block stays in
	// quarantine.
	Undelete bool
	// Progress is called from one goroutine with how many bytes of blocks, of how many, are
	// read. The log comes behind: Options.Progress tells of it. Default: none.
	Progress func(done, total int64)
}

// RepairReport is what Repair did.
type RepairReport struct {
	Duration time.Duration
	Blocks   []BlockRepair // that were damaged, or not in order
	Renamed  []string      // directories that got the spelling of their blocks' names
	// Filled are empty log segments in the places of missing ones: what those held is lost.
	Filled []string
	// Forgotten are blocks that had vanished, by name: what they held is lost, and is not
	// expected any more.
	Forgotten []string
	// Log is the recovery of log and head-chunk files.
	Log OpenReport
}

// BlockRepair is what became of one block that is damaged, or not in order.
type BlockRepair struct {
	Original string // where it is now, relative to the data directory
	// Saved is the block that has what could be read of it; nil: there is none, and Err says
	// why.
	Saved *BlockMeta
	Err   error
	// Beside are blocks of samples that lay outside of the original's bounds.
	Beside []BlockMeta
	// Repeated are samples that the original had more than once: at times of which its series has
	// another one. Of different values the one stays that queries gave.
	Repeated uint64
	// What could not be saved: series whose entry is not readable, and chunks of the others.
	// LostSamples is known if the meta file of the original counts them.
	LostSeries, LostChunks, LostSamples uint64
	MetaLost                            bool     // the meta file was made up from what was saved
	DeletedLost                         bool     // deleted samples came back: see RepairOptions.Undelete
	Damages                             []Damage // the first ones; their paths are those of before

	elsewhere bool // other blocks have its samples, so that nothing is lost with it
}

// Clean reports whether nothing was lost.
func (r *RepairReport) Clean() bool {
	for _, b := range r.Blocks {
		if b.Saved == nil && !b.elsewhere || b.LostSeries+b.LostChunks+b.LostSamples > 0 || b.DeletedLost {
			return false
		}
	}
	return len(r.Filled) == 0 && len(r.Forgotten) == 0 && r.Log.Clean()
}

// Repair makes a damaged data directory whole again, with all that can be read of it. Every
// block is verified. What is readable of a damaged one goes chunk by chunk into a new block, and
// the original into quarantine/; so does what Open has set aside there before. A block of
// another writer whose labels, series or chunks are not in order, or repeat, is written anew in
// order, each sample once; what it has outside of its bounds goes into blocks beside it. Queries
// do not warn any more of what was saved, little as it may be: the report says what was lost.
// Where segments of the log are missing it goes on behind them; then log and head-chunk files
// are recovered as Open does. Directories of blocks whose names are misspelt get their right
// names. Blocks that vanished are not expected any more: this report has them for the last time.
//
// Nothing that is damaged is deleted: to free the room remove quarantine/. What Delete was asked
// for while a block was set aside does not reach it: delete again what must not come back.
//
// What goes wrong with one block keeps Repair from no other one, and not from the log: it is in the
// block's Err, and in the error. Errors: ErrLocked (the database must be closed), ErrUnsupported,
// ErrDiskFull, those of the file system, the context's. The report says what was done also beside
// an error; it is nil if nothing could be begun. After an error, and after a crash, everything is
// there as it was, or repaired, and Repair can be called again. A block that does not fit on the
// disk a second time is left as it is, with ErrDiskFull in its Err, which is no error of Repair.
func Repair(ctx context.Context, dir string, opts *RepairOptions) (*RepairReport, error) {
	if err := checkContext(ctx); err != nil {
		return nil, err
	}
	o := RepairOptions{}
	if opts != nil {
		o = *opts
	}
	all, err := o.Options.withDefaults()
	if err != nil {
		return nil, err
	}
	if dir, err = fileutil.Abs(all.FS, dir); err != nil {
		return nil, errors.WithMessage(err, "repair")
	}
	if _, err := all.FS.Stat(dir); err != nil { // a lock file would make the directory
		return nil, errors.WithMessage(err, "repair")
	}
	if err := datadir.Check(all.FS, dir, all.AnyDirectory); err != nil {
		return nil, err
	}
	held, fsys, err := datadir.Hold(all.FS, dir, all.Logger)
	if err != nil {
		return nil, errors.WithMessagef(err, "repair %s", dir)
	}
	all.FS = fsys
	r := &repairer{ctx: ctx, dir: dir, db: all, held: held, report: &RepairReport{}}
	start := all.Clock.Now()
	err = r.run(repair.Options{
		FS: fsys, Dir: dir, Clock: all.Clock, MaxFuture: all.Limits.MaxFuture, Undelete: o.Undelete, Progress: o.Progress,
		SamplesPerChunk: all.Head.SamplesPerChunk,
	})
	r.report.Duration = all.Clock.Now().Sub(start)
	return r.report, errors.WithMessagef(err, "repair %s", dir)
}

// repairer is one run of Repair.
type repairer struct {
	ctx    context.Context
	dir    string
	db     *Options
	held   *datadir.Held
	report *RepairReport
}

func (r *repairer) run(opts repair.Options) error {
	done, err := repair.Run(r.ctx, opts)
	r.take(&done)
	if err != nil {
		return stderrors.Join(append(done.Errs, err, r.held.Release())...)
	}
	return stderrors.Join(append(done.Errs, r.repairLog())...)
}

// take enters what became of the blocks into the report.
func (r *repairer) take(done *repair.Report) {
	r.report.Renamed, r.report.Forgotten = done.Renamed, done.Forgotten
	for _, b := range done.Blocks {
		one := BlockRepair{
			Original: b.Original, Saved: b.Saved, Err: b.Err, Beside: b.Beside, Repeated: b.Repeated,
			LostSeries: b.LostSeries, LostChunks: b.LostChunks, LostSamples: b.LostSamples,
			MetaLost: b.MetaLost, DeletedLost: b.DeletedLost, elsewhere: b.Elsewhere,
		}
		for _, d := range b.Damages {
			one.Damages = append(one.Damages, Damage{File: d.File, Offset: d.Offset, Reason: d.Reason, Harmless: d.Harmless})
		}
		r.report.Blocks = append(r.report.Blocks, one)
	}
}

// repairLog fills gaps and lets the recovery of Open do the rest.
func (r *repairer) repairLog() error {
	filled, err := wal.FillGaps(r.db.FS, filepath.Join(r.dir, walDirName))
	late, lateErr := wal.FillGaps(r.db.FS, filepath.Join(r.dir, wal.OutOfOrderDir))
	err = fileutil.JoinErrors(err, lateErr)
	for _, path := range append(filled, late...) {
		name, _ := filepath.Rel(r.dir, path) // both begin with the data directory
		r.report.Filled = append(r.report.Filled, filepath.ToSlash(name))
	}
	if err != nil {
		return stderrors.Join(refuse(err), r.held.Release())
	}
	db := newDB(r.dir, r.db, &common{scheduler: schedule.For(r.db.Clock)})
	db.held = r.held
	if err := db.open(); err != nil {
		return stderrors.Join(err, r.held.Release())
	}
	r.report.Log = db.report
	err = db.head.refused()
	if err == nil && db.report.Snapshot != "" {
		err = r.mendBehindSnapshot(db)
	}
	return stderrors.Join(err, db.Close())
}

// mendBehindSnapshot looks at the part of the log that was not read, as a snapshot of the head
// has what is in there. If it is damaged the head becomes blocks, so that nothing of it is
// needed any more: the checkpoint that takes its place has the good part, and the original goes
// into quarantine.
func (r *repairer) mendBehindSnapshot(db *DB) error {
	log, err := wal.Replay(r.ctx, wal.ReplayOptions{FS: r.db.FS, Dir: filepath.Join(r.dir, walDirName)})
	if err != nil || logreach.IsWhole(log) {
		return err
	}
	return db.Flush(r.ctx)
}
