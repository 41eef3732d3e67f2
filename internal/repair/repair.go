// Package repair makes the blocks of a data directory whole again, with all that can be read of
// them: it verifies each, saves what is readable of a damaged one, and keeps the original in
// quarantine. It knows the order in which that is done, so that every state between two steps is
// one from which it can go on. It does not know the log: what is done about that, and how it is
// told, is the root's.
//
// It is for who holds the lock of the directory, and for one goroutine (docs/design/repair.md).
package repair

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
	"github.com/seed347100a3/tsdb/internal/clock"
	"github.com/seed347100a3/tsdb/internal/datadir"
	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/memseries"
)

// Options are what Run is told.
type Options struct {
	FS  fileutil.FS
	Dir string // locked by the caller
	// Clock and MaxFuture say which blocks are of the future, as of blockdir.FromFuture. Clock
	// names new blocks, too.
	Clock     clock.Clock
	MaxFuture time.Duration
	// Undelete saves blocks also when it is not known any more which of their samples were deleted.
	Undelete bool
	// SamplesPerChunk is how many samples a chunk gets that is made of others that overlap.
	SamplesPerChunk int
	// Progress is called from one goroutine with how many bytes of blocks, of how many, are read.
	// nil: nobody is told.
	Progress func(done, total int64)
}

// Report is what Run did.
type Report struct {
	Blocks    []Block  // that were damaged, or not in order
	Renamed   []string // directories that got the spelling of their blocks' names
	Forgotten []string // blocks that had vanished, and are not expected any more
	Errs      []error  // of single blocks
}

// Block is what became of one block that is damaged, or not in order.
type Block struct {
	Original string // where it is now, relative to the data directory
	// Saved is the block that has what could be read of it; nil: there is none, and Err says why.
	Saved    *blockdir.Meta
	Err      error
	Beside   []blockdir.Meta // of samples that lay outside of the original's bounds
	Repeated uint64          // samples that the original had more than once
	// What could not be saved.
	LostSeries, LostChunks, LostSamples uint64
	MetaLost                            bool // the meta file was made up from what was saved
	DeletedLost                         bool // deleted samples came back
	Damages                             []datadir.Damage
	Elsewhere                           bool // other blocks have its samples, so that nothing is lost with it
}

// Run leaves only good blocks: what is readable of a damaged one, or of one that is not in order,
// goes into a new one, and the original into quarantine. Blocks that vanished are not expected any
// more, unless something went wrong with one that is there. What goes wrong with one block keeps
// Run from no other one: it is in the block's Err, and in Errs. An error ends the work; the report
// is there beside it. After an error, and after a crash, everything is there as it was, or
// repaired, and Run can be called again.
//
// Errors: datadir.ErrUnsupported, those of the file system, the context's.
func Run(ctx context.Context, opts Options) (Report, error) {
	r := &repairer{ctx: ctx, fs: opts.FS, dir: opts.Dir, opts: opts}
	err := r.run()
	return r.report, err
}

// repairer is one Run.
type repairer struct {
	ctx    context.Context
	fs     fileutil.FS
	dir    string
	opts   Options
	report Report

	none        []ulid.ULID      // directories that are called after blocks and are none
	have        *datadir.Lineage // of the blocks that are there and good
	start       int64            // where the head begins with them
	total, read int64
}

func (r *repairer) run() error {
	if err := r.repairBlocks(); err != nil {
		return err
	}
	if err := r.ctx.Err(); err != nil {
		return err
	}
	if len(r.report.Errs) > 0 {
		return nil // a block that failed may be on its way
	}
	return r.forgetVanished()
}

// repairBlocks leaves only good blocks.
func (r *repairer) repairBlocks() error {
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
		b := Block{Original: m.Name}
		if err := r.done(&b, r.save(m, &b, false)); err != nil {
			return err
		}
	}
	return nil
}

// done enters a block into the report, with the error that it ended with. Only the end of the
// context ends the work.
func (r *repairer) done(b *Block, err error) error {
	if err != nil {
		b.Err = err
		r.report.Errs = append(r.report.Errs, errors.WithMessagef(err, "repair block %s", b.Original))
	}
	r.report.Blocks = append(r.report.Blocks, *b)
	return r.ctx.Err()
}

// tried reports whether an original is one that this Repair could not save.
func (r *repairer) tried(m datadir.Missing) bool {
	return slices.ContainsFunc(r.report.Blocks, func(b Block) bool { return b.Original == m.Name })
}

// damagedBlock is a block in the data directory that has to be written anew, and what is wrong with
// it.
type damagedBlock struct {
	id      ulid.ULID
	bytes   int64
	damages []datadir.Damage
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
		case errors.Is(err, datadir.ErrUnsupported):
			return nil, err // nobody knows what it has
		case err != nil: // it could not be read to its end, which says nothing about it
			if err := r.done(&Block{Original: id.String()}, err); err != nil {
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
func (r *repairer) verifyBlock(id ulid.ULID) (damages []datadir.Damage, err error) {
	dir, err := blockdir.Open(r.fs, blockdir.Path(r.dir, id))
	switch {
	case errors.Is(err, encbuf.ErrCorrupt):
		if other, err := datadir.IsNested(r.fs, blockdir.Path(r.dir, id)); err != nil || other {
			r.none = append(r.none, id)
			return nil, err
		}
		return []datadir.Damage{datadir.DamageOf(id, err)}, nil
	case errors.Is(err, blockdir.ErrUnsupportedVersion):
		return nil, fileutil.Meaning(datadir.ErrUnsupported, errors.WithMessagef(err, "open block %s", id))
	case err != nil:
		return nil, errors.WithMessagef(err, "open block %s", id)
	}
	defer func() { err = stderrors.Join(err, dir.Close()) }()
	report, err := blockdir.Verify(r.ctx, dir, r.progress)
	if err != nil {
		return nil, errors.WithMessagef(err, "verify block %s", id)
	}
	for _, problem := range report.Problems {
		damages = append(damages, datadir.DamageOf(id, problem))
	}
	for _, place := range report.Disorder {
		d := datadir.DamageOf(id, place)
		d.Harmless = true
		damages = append(damages, d)
	}
	if len(damages) == 0 {
		r.keep(dir.Meta())
	}
	return damages, nil
}

// keep notes that a good block is there.
func (r *repairer) keep(m blockdir.Meta) {
	r.have.Add(&m)
	if !blockdir.BesideHead(&m) && !blockdir.FromFuture(&m, r.opts.Clock, r.opts.MaxFuture) {
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
			if err := r.done(&Block{Original: id.String()}, err); err != nil {
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
func damagesOf(name string, errs []error) (damages []datadir.Damage) {
	for _, err := range errs {
		d := datadir.Damage{File: name, Reason: err.Error()}
		if c, ok := encbuf.AsCorrupt(err); ok {
			d.Offset, d.Reason = c.Offset, c.Reason
			if _, file, ok := strings.Cut(filepath.ToSlash(c.File), filepath.ToSlash(name)+"/"); ok {
				d.File = filepath.Join(name, file)
			}
		}
		damages = append(damages, d)
	}
	return damages
}
