package tsdb_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
	"github.com/seed347100a3/tsdb/wal/zstd"
)

// crashSetup is what the same operations are tried under.
type crashSetup struct {
	sync        string
	compression tsdb.Compression
	samples     int  // a chunk; 0: 16, the least
	retain      bool // old blocks go
	late        bool // a window is open for late samples
}

func (s crashSetup) String() string { return s.sync + "," + s.compression.String() }

// crashTick is the interval of the sync policy of that name: so short that a few of them
// pass without a tick of anything else.
const crashTick = time.Millisecond

var compressions = []tsdb.Compression{tsdb.CompressionSnappy, tsdb.CompressionBy(zstd.Codec), tsdb.CompressionNone}

var syncPolicies = map[string]tsdb.SyncPolicy{
	"commit": tsdb.SyncCommit(), "interval": tsdb.SyncInterval(crashTick),
	"rotate": tsdb.SyncRotate(), "never": tsdb.SyncNever(),
}

// syncNames are the names in an order.
var syncNames = []string{"commit", "interval", "rotate", "never"}

func (s crashSetup) options(fs tsdb.FS, clock tsdb.Clock) *tsdb.Options {
	o := &tsdb.Options{FS: fs, Clock: clock}
	o.Limits.MaxFuture = -1
	o.Blocks.Range, o.Blocks.MaxRange, o.Blocks.Manual = crashRange, 9*crashRange, true
	if s.retain {
		o.Blocks.Retention = crashRetention
	}
	if s.late {
		o.Head.OutOfOrderWindow = crashWindow
	}
	o.Head.SamplesPerChunk, o.Head.ReplayWorkers, o.Head.MaxExemplars = max(s.samples, 16), 2, crashExemplars
	o.WAL.SegmentSize = crashSegment
	o.WAL.Compression, o.WAL.Sync = s.compression, syncPolicies[s.sync]
	return o
}

const (
	crashSegment = 32 << 10
	bigValue     = 4 << 10 // bytes of label values that fill a commit

	crashRange     = time.Minute // of blocks: the least
	crashRetention = crashRange
	crashWindow    = time.Hour
)

// crasher works on a database and knows what a power cut may take from it at each moment.
// It belongs to one goroutine.
type crasher struct {
	setup   crashSetup
	rng     *rand.Rand
	disk    *tsdbtest.MemFS
	clock   *tsdbtest.Clock
	db      *tsdb.DB // nil: closed
	history *history
	effects *effects // what became of blocks
	maybe   []group  // what an operation that is under way may do to them, each as a whole
	durable int      // so many commits are on stable storage
	serial  int      // makes labels that no other commit has
	now     int64    // time of the newest sample

	series map[string]*mixedSeries // of those that have samples of all kinds

	together *crowd // goroutines that commit at this moment; nil: there are none

	copy *snapshotCopy // the newest one

	// visit is called before each operation that changes the disk.
	visit func(tsdbtest.Op)
	// beside, if set, is done once, when a block was written and is read back.
	beside func() error
	// besides is what came of it.
	besides error
}

func newCrasher(setup crashSetup, seed uint64) *crasher {
	c := &crasher{setup: setup, rng: crashRand(seed), history: &history{}, effects: &effects{}, now: -20_000}
	c.use(tsdbtest.NewMemFS())
	return c
}

// use goes on on another disk.
func (c *crasher) use(disk *tsdbtest.MemFS) {
	if c.disk != nil {
		c.disk.SetHook(nil)
	}
	c.disk = disk
	disk.SetHook(func(op tsdbtest.Op) error {
		if do := c.beside; do != nil && op.Kind == tsdbtest.OpMmap && strings.HasPrefix(op.Name, "data/tmp-block-") {
			c.beside = nil
			c.besides = do()
		}
		if c.visit != nil && op.Kind.Mutates() {
			c.visit(op)
		}
		return nil
	})
}

// promise is what a crash at this moment must keep: what is durable, and at most all that
// was begun.
func (c *crasher) promise() promise {
	return promise{c.durable, c.history.len(), c.history.len(), c.effects, c.maybe, c.copy}
}

// crashOps are what a workload is made of.
var crashOps = map[string]func(*crasher) error{
	"commit": (*crasher).commit,
	"late":   (*crasher).late,
	"big":    (*crasher).big,
	"rotate": (*crasher).rotate,
	"chunks": (*crasher).chunks,
	"close":  (*crasher).close,
	"reopen": (*crasher).reopen,
	"kill":   (*crasher).kill,
	"sync":   (*crasher).sync,
	"tick":   (*crasher).tick,
	"crowd":  (*crasher).crowd,

	"flush":      (*crasher).flushHead,
	"ended":      (*crasher).letGo,
	"blocks":     (*crasher).blocks,
	"due":        (*crasher).due,
	"merge":      (*crasher).merge,
	"tidy":       (*crasher).tidy,
	"delete":     (*crasher).erase,
	"deletein":   (*crasher).eraseBeside,
	"deleteold":  (*crasher).eraseOld,
	"deleteall":  (*crasher).eraseAll,
	"deletesome": (*crasher).eraseSome,
	"clean":      (*crasher).clean,
	"retain":     (*crasher).retainBlocks,
	"backfill":   (*crasher).backfill,
	"snapshot":   (*crasher).snapshot,

	"headsnap": (*crasher).headSnapshot,
}

// do runs one operation. All but close and kill begin with an open database.
func (c *crasher) do(op string) error {
	if c.db == nil && op != "close" && op != "kill" {
		if err := c.open(); err != nil {
			return err
		}
	}
	return errors.WithMessage(crashOps[op](c), op)
}

func (c *crasher) open() (err error) {
	before, err := everyFile(c.disk)
	if err != nil {
		return err
	}
	c.clock = tsdbtest.NewClock(testNow)
	if c.db, err = tsdb.Open(fixtureDir, c.setup.options(c.disk, c.clock)); err != nil {
		return errors.WithMessage(err, "open")
	}
	if _, err := verifyOpen(c.db, c.history, exactly(c.history.len(), c.effects)); err != nil {
		return errors.WithMessage(err, "open without a crash")
	}
	c.durable = c.history.len()
	return verifyFiles(c.disk, before, c.db.OpenReport())
}

func (c *crasher) close() error {
	if c.db == nil {
		return nil
	}
	db := c.db
	c.db = nil
	if err := db.Close(); err != nil {
		return err
	}
	c.durable = c.history.len()
	if open := c.disk.OpenHandles(); len(open) > 0 {
		return errors.Errorf("files are open after Close: %v", open)
	}
	return nil
}

func (c *crasher) reopen() error {
	if err := c.close(); err != nil {
		return err
	}
	return c.open()
}

// kill ends the process without a word. The kernel has all that was written.
func (c *crasher) kill() error {
	if c.db == nil {
		return nil
	}
	db := c.db
	c.db = nil
	c.use(c.disk.KillClone())
	return db.Close() // on a disk that nobody looks at any more
}

func (c *crasher) sync() error {
	if err := c.db.Sync(); err != nil {
		return err
	}
	c.durable = c.history.len()
	return nil
}

// tick lets the interval of the sync policy pass. The second tick is received when the
// work of the first one is done, and finds nothing to do.
func (c *crasher) tick() error {
	c.clock.Advance(2 * crashTick)
	if c.setup.sync == "interval" {
		c.durable = c.history.len()
	}
	return c.db.Health()
}

func (c *crasher) commit() error { return c.commitRows(c.fewRows()) }

// late is a commit in which most samples are late.
func (c *crasher) late() error {
	c.history.blocks = true // the log need not have everything
	return c.commitRows(c.lateRows())
}

// big is a commit larger than a segment.
func (c *crasher) big() error { return c.commitRows(c.bigRows(crashSegment + crashSegment/4)) }

// rotate commits until a new segment begins.
func (c *crasher) rotate() error {
	for before := c.db.Stats().Log.Segment; c.db.Stats().Log.Segment == before; {
		if err := c.commitRows(c.bigRows(crashSegment / 3)); err != nil {
			return err
		}
	}
	return nil
}

// chunks fills chunks of a series and has them put into a head-chunk file.
func (c *crasher) chunks() error {
	if err := c.commitRows(c.chunkRows()); err != nil {
		return err
	}
	before := c.db.Stats().HeadChunksWritten
	if err := tsdb.WriteHeadChunks(c.db); err != nil {
		return err
	}
	if c.db.Stats().HeadChunksWritten == before {
		return errors.New("no chunk was full")
	}
	c.durable = c.history.len() // head chunks do not outrun the log
	return nil
}

// headSnapshot takes a snapshot of the head.
func (c *crasher) headSnapshot() error {
	if err := tsdb.TakeHeadSnapshot(c.db); err != nil {
		return err
	}
	c.durable = c.history.len() // a snapshot does not outrun the log
	return nil
}

// fewRows are samples of two series that have been there, one of them with samples of all kinds,
// and of a new one.
func (c *crasher) fewRows() []row {
	c.serial++
	rows := []row{c.row("steady"), c.row("steady"), c.mixed("other")}
	name := fmt.Sprintf("new-%d", c.serial)
	if c.serial%2 == 0 {
		return append(rows, c.mixed(name))
	}
	return append(rows, c.row(name))
}

// lateRows are samples in order, and between them late ones of all kinds: of the last block ranges,
// of a series that has some in order and of one that has none, at times of their own.
func (c *crasher) lateRows() []row {
	rows := c.fewRows()
	taken := map[sampleKey]bool{}
	for _, e := range c.history.commits {
		for _, r := range e.rows {
			taken[r.key()] = true
		}
	}
	middle := []row{rows[0]}
	for i := range 12 {
		now := c.now
		r := c.mixed([]string{"other", "late"}[i%2])
		c.now = now
		at := now - 1 - c.rng.Int64N(3*crashRange.Milliseconds())
		if taken[sampleKey{r.ls, at}] {
			continue
		}
		taken[sampleKey{r.ls, at}] = true
		r.T, r.sample.T, r.late = at, at, true
		middle = append(middle, r.again())
	}
	return append(middle, rows[1:]...)
}

// again makes the point of a row that was changed.
func (r row) again() row {
	s := anySample{T: r.sample.T, ST: r.sample.ST, V: math.Float64bits(r.sample.V), H: r.sample.H, FH: r.sample.FH}
	r.point = s.point()
	return r
}

// bigRows take n bytes of the log, most of it labels that do not compress.
func (c *crasher) bigRows(n int) []row {
	c.serial++
	rows := []row{c.row("steady")}
	for i := range (n + bigValue - 1) / bigValue {
		var b strings.Builder
		for range bigValue {
			b.WriteByte(byte('!' + c.rng.IntN(90)))
		}
		rows = append(rows, c.row(fmt.Sprintf("big-%d-%d", c.serial, i), "padding", b.String()))
	}
	return rows
}

// chunkRows fill a chunk of a series, which has at most twice as many samples as it should. Chunks
// of the other one end where its samples are of another kind, and fill with a few.
func (c *crasher) chunkRows() []row {
	var rows []row
	for i := range 2*max(c.setup.samples, 16) + 8 {
		if rows = append(rows, c.row("steady")); i%6 == 0 {
			rows = append(rows, c.mixed("other"))
		}
	}
	return rows
}

// row makes a sample of a series that is newer than all others.
func (c *crasher) row(name string, more ...string) row {
	ls := labels.FromStrings(append([]string{"__name__", name}, more...)...)
	c.now += 1 + c.rng.Int64N(1500)
	return floatRow(ls, c.now, c.rng.NormFloat64())
}

// mixed makes a sample of a series that has samples of all kinds.
func (c *crasher) mixed(name string) row {
	r := c.row(name)
	if c.series == nil {
		c.series = map[string]*mixedSeries{}
	}
	if c.series[name] == nil {
		c.series[name] = &mixedSeries{}
	}
	return rowOf(r.ls, c.series[name].next(c.rng, r.T))
}

// commitRows commits and notes what a crash may take from now on.
func (c *crasher) commitRows(rows []row) error {
	segment := c.db.Stats().Log.Segment
	c.history.add(rows)
	if err := c.logRows(rows); err != nil {
		return err
	}
	c.acked(segment)
	return nil
}

// acked notes what a crash may take from the log, of which a commit was acknowledged. The
// segment is the one of before.
func (c *crasher) acked(segment int) {
	switch {
	case c.setup.sync == "commit":
		c.durable = c.history.len()
	case c.setup.sync != "never" && c.db.Stats().Log.Segment > segment:
		c.durable = c.history.len() - 1 // a segment is synced before the next one begins
	}
}

// logRows commits. What a commit has beside samples goes through here, too.
func (c *crasher) logRows(rows []row) error {
	app := c.db.Appender()
	for _, r := range rows {
		if _, err := app.AppendSample(0, r.ls, r.sample); err != nil {
			return err
		}
	}
	if err := besideOf(rows).stage(app); err != nil {
		return err
	}
	res, err := app.Commit(ctx)
	if err != nil {
		return err
	}
	if res.Samples != len(rows) || len(res.Rejected) > 0 {
		return errors.Errorf("committed %d of %d samples, rejected %v", res.Samples, len(rows), res.Rejected)
	}
	return nil
}

func crashRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }
