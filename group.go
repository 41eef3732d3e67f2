package tsdb

import (
	"context"
	"io"
	"path/filepath"
	"runtime"
	"time"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/datadir"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/internal/pace"
	"github.com/seed347100a3/tsdb/internal/pool"
	"github.com/seed347100a3/tsdb/internal/schedule"
)

// Group is many databases of one process, by name: one for each tenant, device or customer. Each
// has a directory of its own, below that of the group. They are opened when somebody asks for them,
// no more than a bound at a time, and share what one process has: a budget of memory, and the
// workers and the rate of merges. What goes wrong with one does not concern the others. A Group is
// safe for concurrent use.
type Group struct {
	dir    string
	opts   GroupOptions
	each   Options // of a database; of the defaults, those are filled in that all have in common
	common common
	pool   *pool.Pool
}

// GroupOptions configure OpenGroup. The zero value of each field means its default. They are
// copied.
type GroupOptions struct {
	// Options are those of each database. Blocks.Workers and Blocks.BytesPerSecond bound the merges
	// of all of them together. Default: the defaults.
	Options *Options
	// Configure may change the options of one database before it is opened, such as its retention
	// or its Logger; FS, Clock, and what bounds merges stay as they are. It gets a copy of Options,
	// where the zero value of a field still means its default. A goroutine of the group calls it,
	// maybe several at a time for different names. Default: none.
	Configure func(name string, o *Options)
	// MaxOpen is how many databases are open at a time. One takes three file descriptors, one more
	// with Head.OutOfOrderWindow, and one or two more for seconds after it wrote chunks. Default
	// 1,000.
	MaxOpen int
	// MaxSeries and MaxBytes are the budget of the heads of all open databases together, as
	// HeadOptions.MaxSeries and MaxBytes are for one: beyond it new series are refused with
	// ErrLimit. When an eighth of it is left, databases flush early. Default and 0 or less: no
	// limit.
	MaxSeries int
	MaxBytes  int64
	// FlushIdle: the head of a database to which nothing was committed for so long becomes blocks
	// and takes no memory any more. Near the budget an eighth of that is enough. Default: the block
	// range.
	FlushIdle time.Duration
}

// common is what the databases of a group have in common. One that stands alone has a scheduler.
type common struct {
	scheduler       *schedule.Scheduler
	limiter         *pace.Limiter
	merges, flushes pace.Slots
	budget          *memseries.CommonBudget
	idleAfter       time.Duration // 0: as long as the block range
}

const defaultMaxOpen = 1000

// OpenGroup returns a group of the databases in a directory, which is created if it is not there.
// None of them is opened yet. Nil options are the defaults. Several processes may have a group of
// one directory: each database is open in one of them.
//
// Errors: ErrNotDataDir (the directory is itself a database), those of options that are not valid,
// and those of the file system.
func OpenGroup(dir string, opts *GroupOptions) (*Group, error) {
	g := &Group{}
	if opts != nil {
		g.opts = *opts
	}
	o, err := g.opts.Options.withDefaults()
	if err != nil {
		return nil, err
	}
	if g.opts.Options != nil {
		g.each = *g.opts.Options
	}
	g.each.Blocks.RetentionRules = o.Blocks.RetentionRules
	g.each.shareWith(o)
	setDefault(&g.opts.MaxOpen, defaultMaxOpen)
	if g.opts.MaxOpen < 0 || g.opts.FlushIdle < 0 {
		return nil, errors.Errorf("options MaxOpen and FlushIdle are %d and %v, want 0 or more", g.opts.MaxOpen, g.opts.FlushIdle)
	}
	if g.dir, err = datadir.MakeGroup(o.FS, dir); err != nil {
		return nil, errors.WithMessagef(err, "open group %s", dir)
	}
	g.common = common{
		scheduler: schedule.For(o.Clock), limiter: pace.New(o.Clock, o.Blocks.BytesPerSecond),
		merges: pace.NewSlots(o.Blocks.Workers), flushes: pace.NewSlots(max(2, runtime.GOMAXPROCS(0))),
		budget: &memseries.CommonBudget{Series: int64(g.opts.MaxSeries), Bytes: g.opts.MaxBytes}, idleAfter: g.opts.FlushIdle,
	}
	g.pool = pool.New(pool.Config{Most: g.opts.MaxOpen, Open: g.open, Stale: isStale, Closed: func(name string, err error) {
		if err != nil {
			o.Logger.Error("close database for another one", "name", name, "error", logged(err))
		}
	}})
	return g, nil
}

// open opens a database.
func (g *Group) open(name string) (io.Closer, error) {
	o := g.each
	if g.opts.Configure != nil {
		o.Blocks.RetentionRules = copyRules(o.Blocks.RetentionRules)
		g.opts.Configure(name, &o)
		o.shareWith(&g.each)
	}
	filled, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	filled.Blocks.Workers = 1 // each asks for one of the slots of all
	return open(filepath.Join(g.dir, name), filled, &g.common)
}

// shareWith sets what is the same in all databases of a group.
func (o *Options) shareWith(of *Options) {
	o.FS, o.Clock, o.Blocks.Workers, o.Blocks.BytesPerSecond = of.FS, of.Clock, of.Blocks.Workers, of.Blocks.BytesPerSecond
}

// isStale reports whether a database that nobody uses is to be opened again: somebody has closed
// it, or a sync failed, which is settled so.
func isStale(it io.Closer) bool {
	db := it.(*DB)
	log := db.head.log.Load() // without one recovery goes on, which is not waited for here
	return db.closing.Load() || log != nil && errors.Is(log.Err(), ErrPoisoned)
}

// DB returns the database of a name, which is opened if it is not open, and created if there is
// none. It stays open until release is called, which may be done more than once. Behind that it is
// used no more: it may be closed for another one, and gives ErrClosed then; Queriers that are open
// go on. DB.Close is the group's to call.
//
// Where MaxOpen databases are open the one that was released first is closed. While all of them
// are in use, DB waits for one until ctx ends: then ErrLimit and the error of ctx.
//
// A name is 1 to 128 ASCII letters, digits, '-', '_' and '.', and neither begins nor ends with a
// dot. Names of devices on Windows, such as con, and of parts of a database, such as wal, are not
// taken. Where file names do not tell cases apart, two names must differ by more than case.
//
// Errors: ErrInvalidArgument (the name), ErrLimit, ErrClosed (the group), and those of Open.
func (g *Group) DB(ctx context.Context, name string) (db *DB, release func(), err error) {
	if err := checkContext(ctx); err != nil {
		return nil, nil, err
	}
	if err := datadir.CheckName(name); err != nil {
		return nil, nil, &refusal{ErrInvalidArgument, err}
	}
	it, release, err := g.pool.Get(ctx, name)
	switch {
	case errors.Is(err, pool.ErrClosed):
		return nil, nil, ErrClosed
	case errors.Is(err, pool.ErrFull):
		return nil, nil, &refusal{ErrLimit, errors.WithMessagef(err, "%d databases of the group", g.opts.MaxOpen)}
	case err != nil:
		return nil, nil, errors.WithMessagef(err, "database %s", name)
	}
	return it.(*DB), release, nil
}

// CloseDB closes a database, if it is open, when nobody uses it any more, and returns what DB.Close
// does. Whoever asks for it meanwhile waits and gets it opened again. If ctx ends before, its error
// is returned, and the database stays open.
func (g *Group) CloseDB(ctx context.Context, name string) error {
	if err := checkContext(ctx); err != nil {
		return err
	}
	return g.pool.Drop(ctx, name)
}

// Names returns the names of all databases that there are, open or not, sorted. Directories in that
// of the group whose names are none, or that have nothing of a database, are not among them.
func (g *Group) Names() ([]string, error) {
	names, err := datadir.Databases(g.each.FS, g.dir)
	return names, errors.WithMessage(err, "list databases of group")
}

// GroupStats are numbers about a Group.
type GroupStats struct {
	Open   int    // databases, those that are being opened or closed included
	Used   int    // of them, not released
	Opened uint64 // since OpenGroup
	Closed uint64 // since OpenGroup, to make room for others

	// Of the heads of all open databases, as when they were looked at last: where there is a budget
	// of them, at most some seconds ago.
	HeadSeries, HeadBytes int64
}

// Stats returns the numbers of now.
func (g *Group) Stats() GroupStats {
	p := g.pool.Stats()
	s := GroupStats{Open: p.Open, Used: p.Used, Opened: p.Opened, Closed: p.Evicted}
	s.HeadSeries, s.HeadBytes = g.common.budget.Has()
	return s
}

// Close closes all databases, many at a time, whether somebody uses them or not: what is under way
// ends with ErrClosed, and Queriers go on. It returns the errors of all. A second Close does
// nothing.
func (g *Group) Close() error { return fileutil.JoinErrors(g.pool.Close()...) }
