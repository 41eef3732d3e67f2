package tsdb

import (
	"context"
	stderrors "errors"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/memseries"
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
	Blocks   []BlockRepair // that were damaged
	Renamed  []string      // directories that got the spelling of their blocks' names
	// Filled are empty log segments in the places of missing ones: what those held is lost.
	Filled []string
	// Log is the recovery of log and head-chunk files.
	Log OpenReport
}

// BlockRepair is what became of one damaged block.
type BlockRepair struct {
	Original string // where it is now, relative to the data directory
	// Saved is the block that has what could be read of it; nil: there is none, and Err says
	// why.
	Saved *BlockMeta
	Err   error
	// What could not be saved: series whose entry is not readable, and chunks of the others.
	// LostSamples is known if the meta file of the original counts them.
	LostSeries, LostChunks, LostSamples uint64
	MetaLost                            bool     // the meta file was made up from what was saved
	DeletedLost                         bool     // deleted samples came back: see RepairOptions.Undelete
	Damages                             []Damage // the first ones; their paths are those of before
}

// Clean reports whether nothing was lost.
func (r *RepairReport) Clean() bool {
	for _, b := range r.Blocks {
		if b.Saved == nil || b.LostSeries+b.LostChunks+b.LostSamples > 0 || b.DeletedLost {
			return false
		}
	}
	return len(r.Filled) == 0 && r.Log.Clean()
}

// Repair makes a damaged data directory whole again, with all that can be read of it. Every
// block is verified. What is readable of a damaged one goes chunk by chunk into a new
// block, and the original into quarantine/; so does what Open has set aside there before.
// Queries do not warn any more of what was saved, little as it may be: the report says what
// was lost. Where segments of the log are missing it goes on behind them; then log and
// head-chunk files are recovered as Open does. Directories of blocks whose names are
// misspelt get their right names.
//
// Nothing that is damaged is deleted: to free the room remove quarantine/. What Delete was
// asked for while a block was set aside does not reach it: delete again what must not come
// back.
//
// Errors: ErrLocked (the database must be closed), ErrUnsupported, ErrDiskFull, those of
// the file system, the context's. After an error, and after a crash, everything is there as it was, or
// repaired, and Repair can be called again. A block that does not fit on the disk a second
// time is left as it is, with ErrDiskFull in its Err.
func Repair(ctx context.Context, dir string, opts *RepairOptions) (*RepairReport, error) {
	o := RepairOptions{}
	if opts != nil {
		o = *opts
	}
	all, err := o.Options.withDefaults()
	if err != nil {
		return nil, err
	}
	if _, err := all.FS.Stat(dir); err != nil { // a lock file would make the directory
		return nil, errors.WithMessage(err, "repair")
	}
	lock, err := all.FS.LockDir(dir, owner())
	if err != nil {
		return nil, errors.WithMessagef(err, "repair %s", dir)
	}
	r := &repairer{ctx: ctx, fs: all.FS, dir: dir, opts: o, db: all, lock: lock, report: &RepairReport{}}
	start := all.Clock.Now()
	if err := r.run(); err != nil {
		return nil, errors.WithMessagef(err, "repair %s", dir)
	}
	r.report.Duration = all.Clock.Now().Sub(start)
	return r.report, nil
}

// repairer is one run of Repair.
type repairer struct {
	ctx    context.Context
	fs     FS
	dir    string
	opts   RepairOptions
	db     *Options
	lock   fileutil.DirLock
	report *RepairReport

	blocks      *blockSet // for setAside only
	have        *lineage  // of the blocks that are there and good
	start       int64     // where the head begins with them
	total, done int64
}

func (r *repairer) run() error {
	err := r.repairBlocks()
	if err == nil {
		err = r.ctx.Err()
	}
	if err != nil {
		return stderrors.Join(err, r.lock.Release())
	}
	return r.repairLog()
}

// repairBlocks leaves only good blocks.
func (r *repairer) repairBlocks() error {
	if err := checkSupported(r.fs, r.dir); err != nil {
		return err
	}
	if err := removeLeftovers(r.fs, r.dir, tempPrefix); err != nil {
		return err
	}
	r.blocks = newBlockSet(r.db, r.dir)
	r.have, r.start = newLineage(), memseries.NoTime+1
	damaged, err := r.verifyBlocks()
	if err != nil {
		return err
	}
	if err := r.rename(); err != nil {
		return err
	}
	for _, d := range damaged {
		if err := r.replace(d); err != nil {
			return err
		}
	}
	missing, err := quarantinedBlocks(r.fs, r.dir, r.have)
	if err != nil {
		return err
	}
	for _, m := range missing {
		if r.tried(m) || r.have.has(m) {
			continue
		}
		b := BlockRepair{Original: m.name}
		err := r.save(m, &b)
		r.report.Blocks = append(r.report.Blocks, b)
		if err != nil {
			return err
		}
	}
	return nil
}

// tried reports whether an original is one that this Repair could not save.
func (r *repairer) tried(m missingBlock) bool {
	return slices.ContainsFunc(r.report.Blocks, func(b BlockRepair) bool { return b.Original == m.name })
}

// damagedBlock is a block in the data directory, and what is wrong with it.
type damagedBlock struct {
	id      ulid.ULID
	bytes   int64
	damages []Damage
}

// verifyBlocks reads every block and returns those that are damaged.
func (r *repairer) verifyBlocks() (damaged []damagedBlock, err error) {
	ids, err := blockdir.List(r.fs, r.dir)
	if err != nil {
		return nil, err
	}
	sizes := make([]int64, len(ids))
	for i, id := range ids {
		if sizes[i], err = treeSize(r.fs, blockdir.Path(r.dir, id)); err != nil {
			return nil, err
		}
		r.total += sizes[i]
	}
	for i, id := range ids {
		before := r.done
		damages, err := r.verifyBlock(id)
		if err != nil {
			return nil, err
		}
		if len(damages) > 0 {
			damaged = append(damaged, damagedBlock{id, sizes[i], damages})
		}
		r.progress(before + sizes[i] - r.done)
	}
	return damaged, nil
}

// progress tells that n more bytes are read.
func (r *repairer) progress(n int64) {
	r.done = min(r.done+n, r.total)
	if r.opts.Progress != nil {
		r.opts.Progress(r.done, r.total)
	}
}

// verifyBlock returns what is wrong with a block, nothing if it is good.
func (r *repairer) verifyBlock(id ulid.ULID) (damages []Damage, err error) {
	dir, err := blockdir.Open(r.fs, blockdir.Path(r.dir, id))
	switch {
	case errors.Is(err, ErrCorrupt):
		return []Damage{damageOf(id, err)}, nil
	case errors.Is(err, blockdir.ErrUnsupportedVersion):
		return nil, &refusal{ErrUnsupported, errors.WithMessagef(err, "open block %s", id)}
	case err != nil:
		return nil, errors.WithMessagef(err, "open block %s", id)
	}
	defer func() { err = stderrors.Join(err, dir.Close()) }()
	report, err := blockdir.Verify(r.ctx, dir, r.progress)
	if err != nil {
		return nil, errors.WithMessagef(err, "verify block %s", id)
	}
	for _, problem := range report.Problems {
		damages = append(damages, damageOf(id, problem))
	}
	if len(damages) == 0 {
		r.keep(dir.Meta())
	}
	return damages, nil
}

// keep notes that a good block is there.
func (r *repairer) keep(m BlockMeta) {
	r.have.add(m)
	if !besideHead(m) {
		r.start = max(r.start, m.MaxTime)
	}
}

// rename gives misspelt directories the names of their blocks, if those are what they are
// and nobody has their samples.
func (r *repairer) rename() error {
	names, err := blockdir.Misspelt(r.fs, r.dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		id := ulid.MustParseStrict(name)
		meta, err := blockdir.ReadMeta(r.fs, filepath.Join(r.dir, name))
		if err != nil || meta.ULID != id || r.have.has(missingAt(r.fs, r.dir, name, id)) {
			continue
		}
		if err := r.fs.Rename(filepath.Join(r.dir, name), blockdir.Path(r.dir, id)); err != nil {
			return err
		}
		if err := r.fs.SyncDir(r.dir); err != nil {
			return err
		}
		r.report.Renamed = append(r.report.Renamed, id.String())
		damages, err := r.verifyBlock(id)
		if err != nil {
			return err
		}
		if len(damages) > 0 {
			size, err := treeSize(r.fs, blockdir.Path(r.dir, id))
			if err != nil {
				return err
			}
			if err := r.replace(damagedBlock{id, size, damages}); err != nil {
				return err
			}
		}
	}
	return nil
}

// repairLog fills gaps and lets the recovery of Open do the rest.
func (r *repairer) repairLog() error {
	filled, err := wal.FillGaps(r.fs, filepath.Join(r.dir, walDirName))
	for _, path := range filled {
		name, _ := filepath.Rel(r.dir, path) // both begin with the data directory
		r.report.Filled = append(r.report.Filled, filepath.ToSlash(name))
	}
	if err != nil {
		return stderrors.Join(refuse(err), r.lock.Release())
	}
	db := newDB(r.dir, r.db)
	db.lock = r.lock
	if err := db.open(); err != nil {
		return stderrors.Join(err, r.lock.Release())
	}
	r.report.Log = db.report
	err = db.Health()
	if err == nil && db.report.Snapshot != "" {
		err = r.mendBehindSnapshot(db)
	}
	return stderrors.Join(err, db.Close())
}

// mendBehindSnapshot looks at the part of the log that was not read, as a snapshot of the head has what is in
// there. If it is damaged the head becomes blocks, so that nothing of it is needed any more: the
// checkpoint that takes its place has the good part, and the original goes into quarantine.
func (r *repairer) mendBehindSnapshot(db *DB) error {
	log, err := wal.Replay(r.ctx, wal.ReplayOptions{FS: r.fs, Dir: filepath.Join(r.dir, walDirName)})
	if err != nil || isWhole(log) {
		return err
	}
	return db.Flush(r.ctx)
}

// damagesOf makes damage of errors of a block that is in quarantine.
func damagesOf(name string, errs []error) (damages []Damage) {
	for _, err := range errs {
		d := Damage{File: name, Reason: err.Error()}
		if c := (*CorruptError)(nil); errors.As(err, &c) {
			d.Offset, d.Reason = c.Offset, c.Reason
			if _, file, ok := strings.Cut(filepath.ToSlash(c.File), filepath.ToSlash(name)+"/"); ok {
				d.File = filepath.Join(name, file)
			}
		}
		damages = append(damages, d)
	}
	return damages
}
