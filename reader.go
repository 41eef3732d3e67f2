package tsdb

import (
	"context"
	stderrors "errors"
	"io/fs"
	"slices"
	"sync"

	"github.com/oklog/ulid/v2"
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/blockset"
	"github.com/seed347100a3/tsdb/internal/datadir"
	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// readTries is how often a Reader looks again at a directory that changed while it was
// read. A writer makes a block every hour or so, and reading takes seconds.
const readTries = 10

// Reader reads a data directory without writing anything to it and without its lock: also
// one that a DB, or the Prometheus TSDB, has open, or that is on a read-only disk. It sees
// what was committed when it was opened, or refreshed last; of a Delete that is under way
// then it may see a part. It is safe for concurrent use.
type Reader struct {
	dir  string
	opts *Options

	refresh sync.Mutex      // held by who builds the next state
	shapes  blockset.Shapes // blocks, which do not change
	mu      struct {
		sync.RWMutex
		state *readState // nil when closed
	}
}

// readState is one look at a directory.
type readState struct {
	head   *head
	blocks *blockset.Set
	listed []ulid.ULID // blocks in the directory before it was read
	report OpenReport
}

// OpenReadOnly opens a data directory for reading. Nil options are the defaults; those
// that are about writing mean nothing. Recovery is that of Open, in memory: it needs about
// as much of it as the process that writes. Damage is reported by OpenReport and left
// where it is; a query that would touch a damaged block, or one of a newer version, warns.
//
// Errors: ErrUnsupported, ErrCorrupt, ErrNotDataDir, those of the file system, as for Open. A
// directory that does not exist is fs.ErrNotExist.
func OpenReadOnly(dir string, opts *Options) (*Reader, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	if dir, err = fileutil.Abs(o.FS, dir); err != nil {
		return nil, errors.WithMessage(err, "read data directory")
	}
	if err := datadir.Check(o.FS, dir, o.AnyDirectory); err != nil {
		return nil, err
	}
	r := &Reader{dir: dir, opts: o}
	if r.mu.state, err = r.look(context.Background()); err != nil {
		return nil, errors.WithMessagef(err, "read %s", dir)
	}
	return r, nil
}

// Refresh looks at the directory again. Queriers that are opened from then on see what it
// found, those that are open what they saw. It takes as long as opening did. On an error
// the Reader stays as it was. ErrClosed, the context's, those of OpenReadOnly.
func (r *Reader) Refresh(ctx context.Context) error {
	if err := checkContext(ctx); err != nil {
		return err
	}
	r.refresh.Lock()
	defer r.refresh.Unlock()
	if _, done, err := r.state(); err != nil {
		return err
	} else {
		done()
	}
	next, err := r.look(ctx)
	if err != nil {
		return errors.WithMessagef(err, "read %s", r.dir)
	}
	r.mu.Lock()
	old := r.mu.state
	if old != nil {
		r.mu.state = next
	}
	r.mu.Unlock()
	if old == nil { // closed meanwhile
		return stderrors.Join(ErrClosed, next.close())
	}
	return old.close()
}

// look reads the directory until it did not change meanwhile. A writer that has made a block of the
// head goes on to shorten the log. What was read of one would not fit what was read of the other.
func (r *Reader) look(ctx context.Context) (*readState, error) {
	for try := 1; ; try++ {
		state, err := r.load(ctx)
		if ctx.Err() != nil {
			return nil, stderrors.Join(ctx.Err(), state.close())
		}
		if err == nil && (try == readTries || !r.changed(state)) {
			return state, nil
		}
		if err != nil && (try == readTries || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, ErrCorrupt)) {
			return nil, err
		}
		if err := state.close(); err != nil {
			return nil, err
		}
		if _, err := r.opts.FS.Stat(r.dir); err != nil {
			return nil, err // not a file that went meanwhile
		}
	}
}

// changed reports whether blocks came, went, or had samples deleted since they were read.
// A file of the log that went is an error of its own.
func (r *Reader) changed(s *readState) bool {
	ids, err := blockdir.List(r.opts.FS, r.dir)
	if err != nil || !slices.Equal(ids, s.listed) {
		return true
	}
	for _, b := range s.blocks.Current().Blocks {
		meta, err := blockdir.ReadMeta(r.opts.FS, b.Dir().Path())
		if err != nil || meta.Stats.NumTombstones != b.Meta.Stats.NumTombstones {
			return true
		}
	}
	return false
}

// load reads the directory once. The state is nil on an error.
func (r *Reader) load(ctx context.Context) (*readState, error) {
	listed, err := blockdir.List(r.opts.FS, r.dir)
	if err != nil {
		return nil, err
	}
	cfg := blockConfig(r.opts, r.dir)
	cfg.ReadOnly, cfg.Shapes = true, &r.shapes
	s := &readState{blocks: blockset.New(cfg), listed: listed}
	start := r.opts.Clock.Now()
	loaded, err := s.blocks.Load()
	if err != nil {
		return nil, err
	}
	s.report.addBlocks(&loaded)
	s.head = newHead(r.opts, r.dir)
	beginBehind(s.head, s.blocks.Current())
	if _, err := s.head.recovery.restore(ctx, &s.report, true); err != nil {
		return nil, stderrors.Join(err, s.close())
	}
	s.blocks.SkipTo(s.head.bounds.minValid.Load())
	s.report.Duration = r.opts.Clock.Now().Sub(start)
	return s, nil
}

// close lets go of files; queriers keep what they have pinned.
func (s *readState) close() error {
	if s == nil {
		return nil
	}
	s.blocks.Close()
	return s.head.closeFiles()
}

// state returns the present look at the directory, held until done is called.
func (r *Reader) state() (s *readState, done func(), err error) {
	r.mu.RLock()
	if r.mu.state == nil {
		r.mu.RUnlock()
		return nil, nil, ErrClosed
	}
	return r.mu.state, r.mu.RUnlock, nil
}

// Querier returns a snapshot of the closed range [mint, maxt] as of the last Refresh. Close
// it. ErrClosed: the Reader is closed.
func (r *Reader) Querier(mint, maxt int64) (*Querier, error) {
	s, done, err := r.state()
	if err != nil {
		return nil, err
	}
	defer done()
	return newQuerier(s.head, s.blocks.Current(), mint, maxt)
}

// Bounds returns the times of the oldest and the newest sample, as of the last Refresh.
func (r *Reader) Bounds(ctx context.Context) (mint, maxt int64, _ Warnings, err error) {
	return allBounds(ctx, r.Querier)
}

// Blocks returns what the blocks say of themselves, in the order of their times; none when
// the Reader is closed.
func (r *Reader) Blocks() []BlockMeta {
	s, done, err := r.state()
	if err != nil {
		return nil
	}
	defer done()
	return s.blocks.Current().Metas()
}

// MissingBlocks returns the blocks that there should be and that are not read, as of the last look
// at the directory; none when the Reader is closed.
func (r *Reader) MissingBlocks() []MissingBlock {
	s, done, err := r.state()
	if err != nil {
		return nil
	}
	defer done()
	return missingBlocks(s.blocks.Current())
}

// Stats returns the numbers of the last look at the directory; counters of writing are 0.
func (r *Reader) Stats() Stats {
	s, done, err := r.state()
	if err != nil {
		return Stats{}
	}
	defer done()
	return takeStats(s.head, s.blocks)
}

// OpenReport returns what the last look at the directory found.
func (r *Reader) OpenReport() OpenReport {
	s, done, err := r.state()
	if err != nil {
		return OpenReport{}
	}
	defer done()
	return s.report
}

// Close lets go of the directory. It does not wait for queriers: they keep working on
// their snapshot. A second Close does nothing.
func (r *Reader) Close() error {
	r.mu.Lock()
	old := r.mu.state
	r.mu.state = nil
	r.mu.Unlock()
	return old.close()
}
