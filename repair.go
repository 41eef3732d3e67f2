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
	"github.com/seed347100a3/tsdb/internal/blocklist"
	"github.com/seed347100a3/tsdb/internal/datadir"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/logreach"
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
// block is verified. What is readable of a damaged one goes chunk by chunk into a new
// block, and the original into quarantine/; so does what Open has set aside there before. A block of
// another writer whose labels, series or chunks are not in order, or repeat, is written anew in
// order, each sample once; what it has outside of its bounds goes into blocks beside it.
// Queries do not warn any more of what was saved, little as it may be: the report says what
// was lost. Where segments of the log are missing it goes on behind them; then log and
// head-chunk files are recovered as Open does. Directories of blocks whose names are
// misspelt get their right names. Blocks that vanished are not expected any more: this report has
// them for the last time.
//
// Nothing that is damaged is deleted: to free the room remove quarantine/. What Delete was
// asked for while a block was set aside does not reach it: delete again what must not come
// back.
//
// What goes wrong with one block keeps Repair from no other one, and not from the log: it is in the
// block's Err, and in the error. Errors: ErrLocked (the database must be closed), ErrUnsupported,
// ErrDiskFull, those of the file system, the context's. The report says what was done also beside an
// error; it is nil if nothing could be begun. After an error, and after a crash, everything is there as it was, or
// repaired, and Repair can be called again. A block that does not fit on the disk a second
// time is left as it is, with ErrDiskFull in its Err, which is no error of Repair.
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
	r := &repairer{ctx: ctx, fs: fsys, dir: dir, opts: o, db: all, held: held, report: &RepairReport{}}
	start := all.Clock.Now()
	err = r.run()
	r.report.Duration = all.Clock.Now().Sub(start)
	return r.report, errors.WithMessagef(err, "repair %s", dir)
}

// repairer is one run of Repair.
type repairer struct {
	ctx    context.Context
	fs     FS
	dir    string
	opts   RepairOptions
	db     *Options
	held   *datadir.Held
	report *RepairReport
	errs   []error // of single blocks

	none        []ulid.ULID      // directories that are called after blocks and are none
	have        *datadir.Lineage // of the blocks that are there and good
	start       int64            // where the head begins with them
	total, read int64
}

func (r *repairer) run() error {
	err := r.repairBlocks()
	if err == nil {
		err = r.ctx.Err()
	}
	if err != nil {
		return stderrors.Join(append(r.errs, err, r.held.Release())...)
	}
	return stderrors.Join(append(r.errs, r.repairLog())...)
}

// repairBlocks leaves only good blocks.
func (r *repairer) repairBlocks() error {
	if err := datadir.CheckSupported(r.fs, r.dir); err != nil {
		return err
	}
	if _, err := datadir.RemoveLeftovers(r.fs, r.dir); err != nil {
		return err
	}
	r.have, r.start = datadir.NewLineage(), memseries.NoTime+1
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
	missing, err := datadir.Quarantined(r.fs, r.dir, r.have)
	if err != nil {
		return err
	}
	for _, m := range missing {
		if r.tried(m) || r.have.Has(m) {
			continue
		}
		b := BlockRepair{Original: m.Name}
		if err := r.done(&b, r.save(m, &b, false)); err != nil {
			return err
		}
	}
	return nil
}

// done enters a block into the report, with the error that it ended with. Only the end of the
// context ends the work.
func (r *repairer) done(b *BlockRepair, err error) error {
	if err != nil {
		b.Err = err
		r.errs = append(r.errs, errors.WithMessagef(err, "repair block %s", b.Original))
	}
	r.report.Blocks = append(r.report.Blocks, *b)
	return r.ctx.Err()
}

// tried reports whether an original is one that this Repair could not save.
func (r *repairer) tried(m datadir.Missing) bool {
	return slices.ContainsFunc(r.report.Blocks, func(b BlockRepair) bool { return b.Original == m.Name })
}

// damagedBlock is a block in the data directory that has to be written anew, and what is wrong with it.
type damagedBlock struct {
	id      ulid.ULID
	bytes   int64
	damages []Damage
}

// verifyBlocks reads every block and returns those that are damaged, or not in order.
func (r *repairer) verifyBlocks() (damaged []damagedBlock, err error) {
	ids, err := blockdir.List(r.fs, r.dir)
	if err != nil {
		return nil, err
	}
	sizes := make([]int64, len(ids))
	for i, id := range ids {
		if sizes[i], err = fileutil.TreeSize(r.fs, blockdir.Path(r.dir, id)); err != nil {
			return nil, err
		}
		r.total += sizes[i]
	}
	for i, id := range ids {
		before := r.read
		damages, err := r.verifyBlock(id)
		switch {
		case errors.Is(err, ErrUnsupported):
			return nil, err // nobody knows what it has
		case err != nil: // it could not be read to its end, which says nothing about it
			if err := r.done(&BlockRepair{Original: id.String()}, err); err != nil {
				return nil, err
			}
		case len(damages) > 0:
			damaged = append(damaged, damagedBlock{id, sizes[i], damages})
		}
		r.progress(before + sizes[i] - r.read)
	}
	return damaged, nil
}

// progress tells that n more bytes are read.
func (r *repairer) progress(n int64) {
	r.read = min(r.read+n, r.total)
	if r.opts.Progress != nil {
		r.opts.Progress(r.read, r.total)
	}
}

// verifyBlock returns what is wrong with a block, nothing if it is good.
func (r *repairer) verifyBlock(id ulid.ULID) (damages []Damage, err error) {
	dir, err := blockdir.Open(r.fs, blockdir.Path(r.dir, id))
	switch {
	case errors.Is(err, ErrCorrupt):
		if other, err := datadir.IsNested(r.fs, blockdir.Path(r.dir, id)); err != nil || other {
			r.none = append(r.none, id)
			return nil, err
		}
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
	for _, place := range report.Disorder {
		d := damageOf(id, place)
		d.Harmless = true
		damages = append(damages, d)
	}
	if len(damages) == 0 {
		r.keep(dir.Meta())
	}
	return damages, nil
}

// keep notes that a good block is there.
func (r *repairer) keep(m BlockMeta) {
	r.have.Add(m)
	if !blockdir.BesideHead(m) && !blockdir.FromFuture(m, r.db.Clock, r.db.Limits.MaxFuture) {
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
		if err != nil || meta.ULID != id || r.have.Has(datadir.MissingAt(r.fs, r.dir, name, id)) {
			continue
		}
		if err := r.renameOne(name, id); err != nil {
			if err := r.done(&BlockRepair{Original: id.String()}, err); err != nil {
				return err
			}
		}
	}
	return nil
}

// renameOne gives a directory its right name, and repairs the block.
func (r *repairer) renameOne(name string, id ulid.ULID) error {
	if err := r.fs.Rename(filepath.Join(r.dir, name), blockdir.Path(r.dir, id)); err != nil {
		return err
	}
	if err := r.fs.SyncDir(r.dir); err != nil {
		return err
	}
	r.report.Renamed = append(r.report.Renamed, id.String())
	damages, err := r.verifyBlock(id)
	if err != nil || len(damages) == 0 {
		return err
	}
	size, err := fileutil.TreeSize(r.fs, blockdir.Path(r.dir, id))
	if err != nil {
		return err
	}
	return r.replace(damagedBlock{id, size, damages})
}

// repairLog fills gaps and lets the recovery of Open do the rest.
func (r *repairer) repairLog() error {
	if len(r.errs) == 0 { // a block that failed may be on its way
		if err := r.forgetVanished(); err != nil {
			return stderrors.Join(err, r.held.Release())
		}
	}
	filled, err := wal.FillGaps(r.fs, filepath.Join(r.dir, walDirName))
	for _, path := range filled {
		name, _ := filepath.Rel(r.dir, path) // both begin with the data directory
		r.report.Filled = append(r.report.Filled, filepath.ToSlash(name))
	}
	if err != nil {
		return stderrors.Join(refuse(err), r.held.Release())
	}
	db := newDB(r.dir, r.db)
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

// mendBehindSnapshot looks at the part of the log that was not read, as a snapshot of the head has what is in
// there. If it is damaged the head becomes blocks, so that nothing of it is needed any more: the
// checkpoint that takes its place has the good part, and the original goes into quarantine.
func (r *repairer) mendBehindSnapshot(db *DB) error {
	log, err := wal.Replay(r.ctx, wal.ReplayOptions{FS: r.fs, Dir: filepath.Join(r.dir, walDirName)})
	if err != nil || logreach.IsWhole(log) {
		return err
	}
	return db.Flush(r.ctx)
}

// forgetVanished takes the blocks that are gone from the list of those that there should be.
func (r *repairer) forgetVanished() error {
	listed, _, err := blocklist.Read(r.fs, r.dir)
	if err != nil {
		return err
	}
	gone, err := datadir.Vanished(r.fs, r.dir, listed, r.have, r.none)
	if err != nil || len(gone) == 0 {
		return err
	}
	for _, m := range gone {
		r.report.Forgotten = append(r.report.Forgotten, m.Name)
	}
	return blocklist.Remove(r.fs, r.dir) // Open writes another one
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
