package tsdb

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/blockplan"
	"github.com/seed347100a3/tsdb/internal/blockset"
	"github.com/seed347100a3/tsdb/internal/compact"
	"github.com/seed347100a3/tsdb/internal/datadir"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/horizon"
	"github.com/seed347100a3/tsdb/internal/schedule"
)

// Lock order, from the outside in (docs/design/concurrency.md): DB.using, DB.flushing;
// blockset.Set.Lock, its view; the lock of who writes full chunks; series creation;
// shards of the series directory in ascending order; then leaves: log, isolation, head
// chunks, postings. Holding a leaf, nothing else is taken. Only those down to
// blockset.Set.Lock, that of who writes full chunks, and the log's are held across a sync.

// DB is an open data directory. It is safe for concurrent use.
type DB struct {
	dir    string
	opts   *Options
	held   *datadir.Held
	head   *head
	blocks *blockset.Set
	report OpenReport
	opened time.Time

	merges *compact.Compactor
	busy   blockplan.Busy
	time   *horizon.Watch
	limits atomic.Pointer[RetentionLimits] // never nil

	retaining sync.Mutex // held by who changes limits

	flushing sync.Mutex // held by who makes blocks of the head and truncates it

	maintenance maintenance
	lifetime
}

// lifetime is what Close ends.
type lifetime struct {
	using     sync.RWMutex    // held shared by long calls; Close waits for them
	ctx       context.Context // ends when Close begins
	endOfWork context.CancelFunc

	closing atomic.Bool
	close   sync.Once
	closeOf error // what Close returned
}

// Open opens a data directory, creating it if there is none, and recovers what its
// log has. Nil options are the defaults. OpenReport says what recovery did. A relative path is
// looked up once: a later change of the working directory is of no matter.
//
// Errors: ErrLocked (another process has it open; the error names it), ErrUnsupported (it holds
// files of another version; the error names them), ErrNotDataDir (there are files of something else
// in it, and none of a database), ErrCorrupt (damage that would not leave a log to go on with), and
// those of the file system. Damage that can be contained is not an error: what is left is there,
// the damaged files are copied into quarantine/, and OpenReport lists them.
//
// When the disk is too full to finish recovery the database opens all the same, with everything
// readable; Health says so, and writing begins by itself when there is room.
func Open(dir string, opts *Options) (*DB, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	return open(dir, o, &common{scheduler: schedule.For(o.Clock)})
}

// open opens a database that has something in common with others.
func open(dir string, o *Options, c *common) (_ *DB, err error) {
	if dir, err = fileutil.Abs(o.FS, dir); err != nil {
		return nil, errors.WithMessage(err, "open data directory")
	}
	if err := fileutil.MkdirSync(o.FS, dir); err != nil {
		return nil, errors.WithMessagef(err, "create data directory %s", dir)
	}
	if err := datadir.Check(o.FS, dir, o.AnyDirectory); err != nil {
		return nil, err
	}
	db := newDB(dir, o, c)
	if db.held, o.FS, err = datadir.Hold(o.FS, dir, o.Logger); err != nil {
		return nil, errors.WithMessagef(err, "open %s", dir)
	}
	if err := db.open(); err != nil {
		return nil, fileutil.JoinErrors(err, db.held.Release())
	}
	db.start()
	if r := &db.report; !r.Clean() {
		o.Logger.Warn("recovery lost data to damaged files", "damages", len(r.Damages), "dropped_commits", r.DroppedCommits,
			"unknown_samples", r.SamplesUnknown, "invalid_samples", r.SamplesInvalid+r.LateInvalid, "quarantined", len(r.Quarantined))
	}
	if unread := db.head.flushable(); unread != nil {
		o.Logger.Warn("the head cannot be made into blocks", "error", fileutil.Logged(unread))
	}
	o.Logger.Info("database opened", "dir", dir, "options", o.String(), "series", db.head.series.Len(),
		"samples", db.report.Samples+db.report.SamplesInChunks, "duration", db.report.Duration)
	return db, nil
}

func newDB(dir string, o *Options, c *common) *DB {
	db := &DB{dir: dir, opts: o, time: newWatch(o, dir), opened: o.Clock.Now()}
	limits := o.Blocks.limits()
	db.limits.Store(&limits)
	db.maintenance.init(o.Clock, c)
	db.ctx, db.endOfWork = context.WithCancel(context.Background())
	return db
}

// blockConfig is what the blocks of a data directory are opened with.
func blockConfig(o *Options, dir string) blockset.Config {
	return blockset.Config{FS: o.FS, Dir: dir, Clock: o.Clock, Logger: o.Logger, MaxFuture: o.Limits.MaxFuture, OnBlock: o.Blocks.OnBlock}
}

// open reads what is there.
func (db *DB) open() error {
	if err := db.time.Read(); err != nil {
		return err
	}
	// What an open or a repair that was interrupted left.
	busy, err := datadir.RemoveLeftovers(db.opts.FS, db.dir)
	if err != nil {
		return err
	}
	cfg := blockConfig(db.opts, db.dir)
	cfg.Busy = busy
	db.blocks = blockset.New(cfg)
	loaded, err := db.blocks.Load()
	if err != nil {
		return err
	}
	db.report.addBlocks(&loaded)
	db.merges = compact.New(compact.Config{FS: db.opts.FS, Dir: db.dir, Clock: db.opts.Clock, Background: db.maintenance.background,
		BytesPerSecond: db.opts.Blocks.BytesPerSecond, Limiter: db.maintenance.common.limiter, SamplesPerChunk: db.opts.Head.SamplesPerChunk,
		NewestFirst: db.opts.Head.LastWriteWins, Rules: db.opts.Blocks.RetentionRules})
	db.head = newHead(db.opts, db.dir)
	db.head.trunc.checkpoints.Background = db.maintenance.background
	beginBehind(db.head, db.blocks.Current())
	if err := db.head.recovery.run(context.Background(), db.held.Lock(), &db.report); err != nil {
		db.blocks.Close()
		return fileutil.JoinErrors(err, db.head.late.log.Close(), db.head.closeFiles())
	}
	db.blocks.SkipTo(db.head.bounds.minValid.Load())
	db.head.series.Budget.Join(db.maintenance.common.budget)
	db.head.late.within.InBlocks = func(t int64) bool { return db.blocks.Current().HasLate(t) }
	db.held.Tell(db.head.poison)
	db.blocks.SaveList()
	db.blocks.WaitFor(db.head.iso)
	db.time.Open(max(db.head.bounds.maxT.Load(), db.blocks.Current().Newest()))
	return nil
}

// Appender returns a new Appender. On a closed database its Commit gives ErrClosed.
func (db *DB) Appender() *Appender { return db.head.commits.appender(db.head) }

// Querier returns a snapshot of the closed range [mint, maxt] of all that is
// committed. Close it. ErrClosed: the database is closed.
func (db *DB) Querier(mint, maxt int64) (*Querier, error) {
	// All that a Querier sees is taken at one moment: a flush, a delete, the end of the
	// database come before or after it as a whole.
	v := db.blocks.HoldView()
	defer db.blocks.LetViewGo()
	if db.closing.Load() {
		return nil, ErrClosed
	}
	return newQuerier(db.head, v, mint, maxt)
}

// Bounds returns the times of the oldest and the newest sample of the database, as Querier.Bounds.
func (db *DB) Bounds(ctx context.Context) (mint, maxt int64, _ Warnings, err error) {
	return allBounds(ctx, db.Querier)
}

// Blocks returns what the blocks say of themselves, in the order of their times.
func (db *DB) Blocks() []BlockMeta { return db.blocks.Current().Metas() }

// MissingBlocks returns the blocks that there should be and that are not read, as far as no other
// block has their samples. Queries of their times say so.
func (db *DB) MissingBlocks() []MissingBlock { return missingBlocks(db.blocks.Current()) }

// begin is called by long calls that Close interrupts and waits for. The context ends
// with the caller's or when Close begins; done ends the call, and makes ErrClosed of what an
// interruption by Close came to.
func (l *lifetime) begin(parent context.Context) (ctx context.Context, done func(*error), err error) {
	if err := checkContext(parent); err != nil {
		return nil, nil, err
	}
	// A hook may call from inside of such a call: it must not wait for Close, which waits for it.
	if !l.using.TryRLock() {
		return nil, nil, ErrClosed
	}
	if l.closing.Load() {
		l.using.RUnlock()
		return nil, nil, ErrClosed
	}
	ctx, cancel := context.WithCancel(parent)
	stop := context.AfterFunc(l.ctx, cancel)
	return ctx, func(err *error) {
		if errors.Is(*err, context.Canceled) && parent.Err() == nil {
			*err = &refusal{ErrClosed, *err}
		}
		stop()
		cancel()
		l.using.RUnlock()
	}, nil
}

// Sync returns when everything that was committed before is on stable storage.
// ErrPoisoned: a sync failed. ErrReadOnly, ErrClosed.
func (db *DB) Sync() error {
	if db.closing.Load() {
		return ErrClosed
	}
	log, err := db.head.writable()
	if err != nil {
		return err
	}
	return log.Sync()
}

// Health returns nil, or what somebody should look at. ErrClosed, ErrPoisoned and ErrDiskFull:
// commits are refused; reads go on in any case but the first. ErrOutOfBounds: the head is ahead of
// the clock, so that samples of the present are refused. ErrClock: retention by time waits.
// ErrPoisoned also means that the data directory was moved or replaced, or its lock file removed:
// nothing is written under that path any more. An *UnreadError, which is an ErrUnsupported: the
// head cannot be made into blocks. Commits are taken, but memory and log grow until somebody sees
// to it. ErrCorrupt: chunks of the head are damaged in their files. Nothing is lost so far, and
// commits are taken, but the disk may be failing; it lasts until a flush has removed the files.
// ErrMissing: of such chunks the log does not have all samples either. It lasts until the database
// is closed, and Stats.HeadSamplesLost counts them. Any other error: the out-of-order log could not
// be written. Nothing is lost, and commits are taken, but the log only grows until late samples
// have become blocks.
func (db *DB) Health() error {
	if db.closing.Load() {
		return ErrClosed
	}
	h := db.head
	clock := func() error { return retentionErr(db.time, db.opts.Clock) }
	// The mender is the last, as what is lost is said until the end.
	for _, look := range [...]func() error{db.held.Err, h.refused, h.bounds.err, h.flushable, h.late.within.Health, clock, h.queries.mender.Health} {
		if err := look(); err != nil {
			return err
		}
	}
	return nil
}

// OpenReport returns what Open found and did.
func (db *DB) OpenReport() OpenReport { return db.report }

// Options returns what the database was opened with, the defaults filled in.
func (db *DB) Options() Options { return *db.opts }

// SetMaxExemplars changes HeadOptions.MaxExemplars of a database that is open: 0 is the default,
// and with a negative number none are kept any more. Of those that are too many the ones that were
// inserted first go. The next Open goes by its options, and by what the log still has.
func (db *DB) SetMaxExemplars(n int) {
	setDefault(&n, defaultMaxExemplars)
	db.head.commits.exemplars.SetMost(n)
}

// Dir returns the data directory; its path is absolute on the file system of the operating system.
func (db *DB) Dir() string { return db.dir }

// Close ends the database: new work is refused, full chunks are written, the log is synced and the
// lock released. It waits for BlockOptions.OnBlock to return. It does not wait for queriers: they
// keep working on their snapshot. A second Close returns what the first one did. ErrPoisoned: a
// sync failed, now or before; what was committed since may be lost in a power failure.
func (db *DB) Close() error {
	db.close.Do(func() {
		db.closing.Store(true)
		db.endOfWork()
		db.maintenance.stop()
		db.using.Lock() // what is under way ends with its context
		defer db.using.Unlock()
		headStart := db.headStart()
		db.blocks.Close()
		db.time.SaveOrWarn()
		db.closeOf = fileutil.JoinErrors(db.head.close(headStart), db.held.Release())
		db.head.series.Budget.Leave()
		level := slog.LevelInfo
		if db.closeOf != nil {
			level = slog.LevelError
		}
		db.opts.Logger.Log(context.Background(), level, "database closed", "dir", db.dir, "error", logged(db.closeOf))
	})
	db.blocks.Announcer.Wait()
	return db.closeOf
}
