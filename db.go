package tsdb

import (
	"context"
	stderrors "errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// Lock order, from the outside in (docs/design/concurrency.md): DB.using, DB.flushing;
// blockSet.change, blockSet.view; the lock of who writes full chunks; series creation;
// shards of the series directory in ascending order; then leaves: log, isolation, head
// chunks, postings. Holding a leaf, nothing else is taken. Only those down to
// blockSet.change, that of who writes full chunks, and the log's are held across a sync.

// Names in a data directory.
const (
	walDirName        = "wal"
	wblDirName        = "wbl"
	headChunksDirName = "chunks_head"
	quarantineDirName = "quarantine"
	tempPrefix        = "tmp-" // of ours; removed at open
	snapshotPrefix    = "chunk_snapshot."
)

// DB is an open data directory. It is safe for concurrent use.
type DB struct {
	dir    string
	opts   *Options
	lock   fileutil.DirLock
	head   *Head
	blocks *blockSet
	report OpenReport
	opened time.Time

	merges *compactor
	busy   busyBlocks

	flushing sync.Mutex // held by who makes blocks of the head and truncates it

	using     sync.RWMutex    // held shared by long calls; Close waits for them
	ctx       context.Context // ends when Close begins
	endOfWork context.CancelFunc

	newBlock chan struct{} // wakes who merges
	closing  atomic.Bool
	stop     chan struct{} // closed by Close: loops end
	loops    sync.WaitGroup
	close    sync.Once
	closeOf  error // what Close returned
}

// Open opens a data directory, creating it if there is none, and recovers what its
// log has. Nil options are the defaults. OpenReport says what recovery did.
//
// Errors: ErrLocked (another process has it open; the error names it),
// ErrUnsupported (it holds files of another version; the error names them),
// ErrCorrupt (damage that would not leave a log to go on with), and those of the file
// system. Damage that can be contained is not an error: what is left is there, the
// damaged files are copied into quarantine/, and OpenReport lists them.
//
// When the disk is too full to finish recovery the database opens all the same, with
// everything readable; Health says so, and writing begins by itself when there is
// room.
func Open(dir string, opts *Options) (*DB, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	db := newDB(dir, o)
	if err := fileutil.MkdirSync(o.FS, dir); err != nil {
		return nil, errors.WithMessagef(err, "create data directory %s", dir)
	}
	if db.lock, err = o.FS.LockDir(dir, owner()); err != nil {
		return nil, errors.WithMessagef(err, "open %s", dir)
	}
	if err := db.open(); err != nil {
		return nil, stderrors.Join(err, db.lock.Release())
	}
	db.start()
	if r := &db.report; !r.Clean() {
		o.Logger.Warn("recovery lost data to damaged files", "damages", len(r.Damages), "dropped_commits", r.DroppedCommits,
			"unknown_samples", r.SamplesUnknown, "quarantined", len(r.Quarantined))
	}
	if n := db.report.StartTimestamps; n > 0 {
		o.Logger.Warn("start timestamps in the log are not kept", "samples", n)
	}
	o.Logger.Info("database opened", "dir", dir, "options", o.String(), "series", db.head.dir.Len(),
		"samples", db.report.Samples+db.report.SamplesInChunks, "duration", db.report.Duration)
	return db, nil
}

func newDB(dir string, o *Options) *DB {
	db := &DB{dir: dir, opts: o, opened: o.Clock.Now(), stop: make(chan struct{}), newBlock: make(chan struct{}, 1)}
	db.ctx, db.endOfWork = context.WithCancel(context.Background())
	return db
}

// owner is what a second opener is told.
func owner() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return fmt.Sprintf("pid %d of %s on %s", os.Getpid(), filepath.Base(os.Args[0]), host)
}

// open reads what is there.
func (db *DB) open() error {
	if err := checkSupported(db.opts.FS, db.dir); err != nil {
		return err
	}
	// What an open or a repair that was interrupted left.
	if err := removeLeftovers(db.opts.FS, db.dir, tempPrefix); err != nil {
		return err
	}
	db.blocks = newBlockSet(db.opts, db.dir)
	if err := db.blocks.load(&db.report); err != nil {
		return err
	}
	db.merges = newCompactor(db.opts.FS, db.dir, db.opts.Clock, db.opts.Blocks.BytesPerSecond, db.opts.Head.SamplesPerChunk)
	db.head = newHead(db.opts)
	db.head.minValid.Store(db.blocks.current().start)
	if err := db.head.recover(context.Background(), db.dir, db.lock, &db.report); err != nil {
		db.blocks.close()
		return stderrors.Join(err, db.head.closeFiles())
	}
	db.blocks.settle = db.head.iso.settle
	return nil
}

// checkSupported refuses what this version would not understand, before anything is
// written.
func checkSupported(fsys FS, dir string) error {
	wbl, err := fsys.ReadDir(filepath.Join(dir, wblDirName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return errors.Wrap(err, "list "+wblDirName)
	}
	for _, e := range wbl {
		size, err := sizeOf(e)
		if err != nil {
			return err
		}
		if size > 0 {
			return errors.WithMessagef(ErrUnsupported, "open %s: %s/%s holds out-of-order samples", dir, wblDirName, e.Name())
		}
	}
	return nil
}

func sizeOf(e fs.DirEntry) (int64, error) {
	info, err := e.Info()
	if err != nil {
		return 0, errors.Wrapf(err, "stat %s", e.Name())
	}
	return info.Size(), nil
}

// removeLeftovers removes what is in dir under names with a prefix, unless a BlockWriter
// is at work in it.
func removeLeftovers(fsys FS, dir, prefix string) error {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return errors.Wrapf(err, "list %s", dir)
	}
	synced := false
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), prefix) {
			continue
		}
		// It may have this name since a moment before a crash only: nothing below it goes
		// while it could get its old name back.
		if !synced {
			if err := fsys.SyncDir(dir); err != nil {
				return errors.WithMessagef(err, "sync %s", dir)
			}
			synced = true
		}
		path := filepath.Join(dir, e.Name())
		used, err := backfillInUse(fsys, path)
		if err == nil && !used {
			err = fileutil.RemoveAll(fsys, path)
		}
		if err != nil {
			return errors.WithMessagef(err, "remove leftover %s", e.Name())
		}
	}
	return nil
}

// Appender returns a new Appender. On a closed database its Commit gives ErrClosed.
func (db *DB) Appender() *Appender { return db.head.appender() }

// Querier returns a snapshot of the closed range [mint, maxt] of all that is
// committed. Close it. ErrClosed: the database is closed.
func (db *DB) Querier(mint, maxt int64) (*Querier, error) {
	// All that a Querier sees is taken at one moment: a flush, a delete, the end of the
	// database come before or after it as a whole.
	db.blocks.view.RLock()
	defer db.blocks.view.RUnlock()
	if db.closing.Load() {
		return nil, ErrClosed
	}
	return newQuerier(db.head, db.blocks.view.cur, mint, maxt)
}

// Blocks returns what the blocks say of themselves, in the order of their times.
func (db *DB) Blocks() []BlockMeta { return db.blocks.metas() }

// begin is called by long calls that Close interrupts and waits for. The context ends
// with the caller's or when Close begins; done ends the call, and makes ErrClosed of what an
// interruption by Close came to.
func (db *DB) begin(parent context.Context) (ctx context.Context, done func(*error), err error) {
	db.using.RLock()
	if db.closing.Load() {
		db.using.RUnlock()
		return nil, nil, ErrClosed
	}
	ctx, cancel := context.WithCancel(parent)
	stop := context.AfterFunc(db.ctx, cancel)
	return ctx, func(err *error) {
		if errors.Is(*err, context.Canceled) && parent.Err() == nil {
			*err = &refusal{ErrClosed, *err}
		}
		stop()
		cancel()
		db.using.RUnlock()
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

// Health returns nil, or why commits are refused at the moment: ErrClosed,
// ErrPoisoned, ErrDiskFull. Reads go on in any case but the first.
func (db *DB) Health() error {
	if db.closing.Load() {
		return ErrClosed
	}
	log, err := db.head.writable()
	if err != nil {
		return err
	}
	return log.Err()
}

// OpenReport returns what Open found and did.
func (db *DB) OpenReport() OpenReport { return db.report }

// Dir returns the data directory.
func (db *DB) Dir() string { return db.dir }

// Close ends the database: new work is refused, full chunks are written, the log is
// synced and the lock released. It does not wait for queriers: they keep working on
// their snapshot. A second Close returns what the first one did. ErrPoisoned: a sync
// failed, now or before; what was committed since may be lost in a power failure.
func (db *DB) Close() error {
	db.close.Do(func() {
		db.closing.Store(true)
		close(db.stop)
		db.endOfWork()
		db.loops.Wait()
		db.using.Lock() // what is under way ends with its context
		defer db.using.Unlock()
		headStart := db.headStart()
		db.blocks.close()
		db.closeOf = stderrors.Join(db.head.close(db.dir, headStart), db.lock.Release())
		level := slog.LevelInfo
		if db.closeOf != nil {
			level = slog.LevelError
		}
		db.opts.Logger.Log(context.Background(), level, "database closed", "dir", db.dir, "error", db.closeOf)
	})
	return db.closeOf
}
