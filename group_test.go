package tsdb_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/clock"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// groupFixture is a group in memory, with a clock that stands still.
type groupFixture struct {
	*testing.T
	fs    *tsdbtest.MemFS
	clock *tsdbtest.Clock
	opts  tsdb.GroupOptions
	group *tsdb.Group
}

func newGroup(t *testing.T, configure func(o *tsdb.GroupOptions)) *groupFixture {
	g := &groupFixture{T: t, fs: tsdbtest.NewMemFS(), clock: tsdbtest.NewClock(testNow)}
	g.opts.Options = &tsdb.Options{FS: g.fs, Clock: g.clock}
	if configure != nil {
		configure(&g.opts)
	}
	g.open()
	t.Cleanup(func() { require.NoError(t, g.group.Close()) })
	return g
}

func (g *groupFixture) open() {
	var err error
	g.group, err = tsdb.OpenGroup("tenants", &g.opts)
	require.NoError(g, err)
}

// use opens a database.
func (g *groupFixture) use(name string) (*tsdb.DB, func()) {
	g.Helper()
	db, release, err := g.group.DB(ctx, name)
	require.NoError(g, err)
	return db, release
}

// commit commits a sample of some series now, and returns the first error of theirs.
func (g *groupFixture) commit(name string, series int) (failed error) {
	g.Helper()
	db, release := g.use(name)
	defer release()
	return commitSome(g.T, db, g.clock.Now().UnixMilli(), series)
}

func commitSome(t *testing.T, db *tsdb.DB, at int64, series int) (failed error) {
	t.Helper()
	app := db.Appender()
	for i := range series {
		if _, err := app.Append(0, labels.FromStrings("i", fmt.Sprint(i)), at, float64(i)); failed == nil {
			failed = err
		}
	}
	_, err := app.Commit(ctx)
	require.NoError(t, err)
	return failed
}

// samples counts what a database has.
func samples(t *testing.T, db *tsdb.DB) (n int) {
	t.Helper()
	for _, ps := range dump(t, db, math.MinInt64, math.MaxInt64) {
		n += len(ps)
	}
	return n
}

func TestGroup_OpensByNameAndKeepsEachApart(t *testing.T) {
	g := newGroup(t, nil)
	names, err := g.group.Names()
	require.NoError(t, err)
	require.Empty(t, names)
	for i, name := range []string{"b", "a", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "tenant-7.eu_west"} {
		require.NoError(t, g.commit(name, i+1))
	}
	require.NoError(t, g.fs.MkdirAll("tenants/not a name"))
	require.NoError(t, g.fs.MkdirAll("tenants/empty"))
	for range 2 {
		names, err = g.group.Names()
		require.NoError(t, err)
		require.Equal(t, []string{"01ARZ3NDEKTSV4RRFFQ69G5FAV", "a", "b", "tenant-7.eu_west"}, names)
		a, release := g.use("a")
		same, releaseSame := g.use("a")
		require.Same(t, a, same)
		require.Equal(t, 2, samples(t, a))
		require.Equal(t, 1, g.group.Stats().Used)
		release()
		releaseSame()
		require.NoError(t, g.group.CloseDB(ctx, "a"))
		require.NoError(t, g.group.CloseDB(ctx, "never"))
		_, err = a.Querier(0, 1)
		require.ErrorIs(t, err, tsdb.ErrClosed)
		require.NoError(t, g.group.Close())
		_, _, err = g.group.DB(ctx, "a")
		require.ErrorIs(t, err, tsdb.ErrClosed)
		require.NoError(t, g.group.Close())
		g.open()
	}
}

func TestGroup_NamesThatAreNone(t *testing.T) {
	g := newGroup(t, nil)
	for _, name := range []string{"", ".", "..", "../a", "a/b", `a\b`, "/a", "a.", ".a", "a b", "a\x00b", "ä", "con", "COM1", "lpt9.txt", "nul.db",
		"wal", "chunks_head", "quarantine", "lock", "lock.owner", "head_snapshot.1", string(make([]byte, 200)), string(make([]rune, 129))} {
		_, _, err := g.group.DB(ctx, name)
		require.ErrorIs(t, err, tsdb.ErrInvalidArgument, "%q", name)
	}
	var none context.Context
	_, _, err := g.group.DB(none, "a")
	require.ErrorIs(t, err, tsdb.ErrInvalidArgument)
	_, err = tsdb.OpenGroup("tenants", &tsdb.GroupOptions{MaxOpen: -1, Options: g.opts.Options})
	require.Error(t, err)
	require.NoError(t, g.commit("one", 1))
	_, err = tsdb.OpenGroup("tenants/one", &g.opts)
	require.ErrorIs(t, err, tsdb.ErrNotDataDir)
}

// No more are open than may be, and of those that nobody uses the one that was released first goes.
// What is in use stays.
func TestGroup_Bound(t *testing.T) {
	g := newGroup(t, func(o *tsdb.GroupOptions) { o.MaxOpen = 3 })
	held, release := g.use("held")
	for i := range 20 {
		require.NoError(t, g.commit(fmt.Sprintf("db%d", i%7), 2))
		require.LessOrEqual(t, g.group.Stats().Open, 3)
		require.NoError(t, commitSome(t, held, testNow.UnixMilli()+int64(i), 1))
		g.clock.Advance(time.Second)
	}
	require.Equal(t, 20, samples(t, held))
	require.EqualValues(t, 18, g.group.Stats().Closed)
	_, release2 := g.use("a")
	_, release3 := g.use("b")
	over, cancel := context.WithCancel(ctx)
	cancel()
	_, _, err := g.group.DB(over, "c")
	require.ErrorIs(t, err, tsdb.ErrLimit)
	require.ErrorIs(t, err, context.Canceled)
	release()
	require.NoError(t, g.commit("c", 1))
	require.ErrorIs(t, held.Sync(), tsdb.ErrClosed, "it was released, and had to go")
	release2()
	release3()
	for i := range 7 {
		db, release := g.use(fmt.Sprintf("db%d", i))
		require.Equal(t, 2*(20/7+min(1, max(0, 20%7-i))), samples(t, db))
		release()
	}
}

// Queriers of a database that was closed for another one go on.
func TestGroup_QueriersOutliveTheBound(t *testing.T) {
	g := newGroup(t, func(o *tsdb.GroupOptions) { o.MaxOpen = 1 })
	require.NoError(t, g.commit("a", 5))
	db, release := g.use("a")
	q, err := db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	release()
	require.NoError(t, g.commit("b", 1))
	n := 0
	for _, err := range q.Select(ctx, nil, labels.Equal("i", "3")).All() {
		require.NoError(t, err)
		n++
	}
	require.Equal(t, 1, n)
	require.NoError(t, q.Close())
}

// What goes wrong with one database is of no matter to others, and when it can be opened again, it
// is.
func TestGroup_FailureOfOneLeavesTheOthers(t *testing.T) {
	g := newGroup(t, nil)
	require.NoError(t, g.commit("good", 1))
	require.NoError(t, g.commit("bad", 1))
	g.fs.SetHook(func(op tsdbtest.Op) error {
		if op.Kind == tsdbtest.OpSync && filepath.Dir(op.Name) == filepath.FromSlash("tenants/bad/wal") {
			return errors.New("the disk of this one is broken")
		}
		return nil
	})
	bad, release := g.use("bad")
	require.ErrorIs(t, bad.Sync(), tsdb.ErrPoisoned)
	same, releaseSame := g.use("bad")
	require.Same(t, bad, same, "somebody reads it still")
	release()
	releaseSame()
	_, _, err := g.group.DB(ctx, "bad")
	require.ErrorIs(t, err, tsdb.ErrPoisoned)
	require.ErrorContains(t, err, "database bad")
	g.clock.Advance(time.Second)
	require.NoError(t, g.commit("good", 1))
	g.fs.SetHook(nil)
	db, release := g.use("bad")
	require.NoError(t, db.Health())
	require.Equal(t, 1, samples(t, db))
	release()

	db, release = g.use("good")
	require.NoError(t, db.Close(), "nobody should")
	release()
	db, release = g.use("good")
	require.Equal(t, 2, samples(t, db))
	release()
}

// The process is killed: each database is what it was, by itself.
func TestGroup_KilledWithManyOpen(t *testing.T) {
	g := newGroup(t, nil)
	for i := range 10 {
		require.NoError(t, g.commit(fmt.Sprint("db", i), i+1))
	}
	g.clock.Advance(time.Second) // all of it is synced, and that is noted
	g.clock.Advance(time.Second)
	disk := g.fs.KillClone()
	f, err := disk.OpenWrite("tenants/db3/wal/00000000")
	require.NoError(t, err)
	require.NoError(t, f.Truncate(10))
	require.NoError(t, f.Close())
	opts := g.opts
	opts.Options = &tsdb.Options{FS: disk, Clock: g.clock}
	again, err := tsdb.OpenGroup("tenants", &opts)
	require.NoError(t, err)
	for i := range 10 {
		db, release, err := again.DB(ctx, fmt.Sprint("db", i))
		require.NoError(t, err)
		report := db.OpenReport()
		require.Equal(t, i != 3, report.Clean())
		if i != 3 {
			require.Equal(t, i+1, samples(t, db))
		}
		release()
	}
	require.NoError(t, again.Close())
}

// The heads of all share one budget: one that is full refuses new series in each, and what is there
// goes on. What one gives back others may take.
func TestGroup_BudgetOfSeriesIsShared(t *testing.T) {
	g := newGroup(t, func(o *tsdb.GroupOptions) {
		o.MaxSeries = 100
		o.MaxOpen = 3
		manual(o.Options)
	})
	require.NoError(t, g.commit("a", 60))
	require.ErrorIs(t, g.commit("b", 60), tsdb.ErrLimit)
	require.EqualValues(t, 100, g.group.Stats().HeadSeries)
	g.clock.Advance(time.Second)
	require.NoError(t, g.commit("a", 60), "those that are there go on")
	require.ErrorIs(t, g.commit("a", 61), tsdb.ErrLimit)
	a, release := g.use("a")
	require.NoError(t, a.Flush(ctx))
	release()
	require.NoError(t, g.group.CloseDB(ctx, "a"))
	require.EqualValues(t, 40, g.group.Stats().HeadSeries)
	require.NoError(t, g.commit("b", 60))
	require.NoError(t, g.group.CloseDB(ctx, "b"))
	require.Zero(t, g.group.Stats().HeadSeries)
	require.Zero(t, g.group.Stats().HeadBytes)
	b, release := g.use("b")
	defer release()
	require.EqualValues(t, 60, g.group.Stats().HeadSeries, "what recovery brings back counts")
	require.EqualValues(t, 60, b.Stats().Series)
}

func TestGroup_BudgetOfBytesIsShared(t *testing.T) {
	g := newGroup(t, func(o *tsdb.GroupOptions) {
		o.MaxBytes = 1 << 20
		manual(o.Options)
	})
	var failed error
	n := 0
	for ; n < 100 && failed == nil; n++ {
		failed = g.commit(fmt.Sprint("db", n), 200)
	}
	require.ErrorIs(t, failed, tsdb.ErrLimit)
	require.Greater(t, n, 3, "more than one has a share of it")
	require.InDelta(t, 1<<20, g.group.Stats().HeadBytes, 256<<10)
	for i := range n {
		require.NoError(t, g.group.CloseDB(ctx, fmt.Sprint("db", i)))
	}
	require.NoError(t, g.commit("other", 200))
}

// A database to which nothing comes any more gives its memory back after a while, and the others of
// the group stay as they are.
func TestGroup_IdleOnesAreFlushed(t *testing.T) {
	g := newGroup(t, func(o *tsdb.GroupOptions) { o.FlushIdle = 10 * time.Minute })
	require.NoError(t, g.commit("idle", 10))
	idle, release := g.use("idle")
	defer release()
	for range 9 {
		g.clock.Advance(time.Minute)
		require.NoError(t, g.commit("busy", 10))
	}
	require.Empty(t, idle.Blocks())
	for range 4 {
		g.clock.Advance(time.Minute)
		require.NoError(t, g.commit("busy", 10))
	}
	require.Len(t, idle.Blocks(), 1)
	require.Zero(t, idle.Stats().Series)
	busy, releaseBusy := g.use("busy")
	defer releaseBusy()
	require.Empty(t, busy.Blocks())
	require.EqualValues(t, 10, busy.Stats().Series)
	require.Equal(t, 10, samples(t, idle))
}

// Near the budget the idle ones are flushed earlier, so that those that are not can go on.
func TestGroup_NearTheBudgetIdleOnesGoEarlier(t *testing.T) {
	g := newGroup(t, func(o *tsdb.GroupOptions) { o.MaxSeries = 100 })
	require.NoError(t, g.commit("idle", 90))
	for range 20 {
		g.clock.Advance(time.Minute)
		require.NoError(t, g.commit("busy", 5))
	}
	require.NoError(t, g.commit("busy", 90))
	require.EqualValues(t, 90, g.group.Stats().HeadSeries)
}

// Near the budget late samples go, too, of which nothing else is in the way.
func TestGroup_NearTheBudgetLateSamplesBecomeBlocks(t *testing.T) {
	g := newGroup(t, func(o *tsdb.GroupOptions) {
		o.MaxBytes = 1 << 20
		o.Options.Head.OutOfOrderWindow = time.Hour
	})
	db, release := g.use("late")
	defer release()
	newest := g.clock.Now().UnixMilli()
	require.NoError(t, commitSome(t, db, newest, 10))
	written := 10
	for at := newest - hour; db.Stats().LateBytes < 600<<10; at++ {
		require.NoError(t, commitSome(t, db, at, 10))
		written += 10
	}
	g.clock.Advance(2 * time.Second)
	require.Zero(t, db.Stats().LateFlushes, "there is room")
	require.ErrorIs(t, g.commit("other", 700), tsdb.ErrLimit)
	require.NoError(t, commitSome(t, db, newest-1, 10)) // something is to be looked at
	g.clock.Advance(2 * time.Second)
	require.EqualValues(t, 1, db.Stats().LateFlushes)
	require.Zero(t, db.Stats().LateBytes)
	require.Equal(t, written+10, samples(t, db))
	require.NoError(t, g.commit("other", 700))
}

// No more merges run at a time than all databases together may have.
func TestGroup_MergesShareTheirWorkers(t *testing.T) {
	const databases = 4
	for _, workers := range []int{1, 2} {
		g := newGroup(t, func(o *tsdb.GroupOptions) {
			manual(o.Options)
			o.Options.Blocks.Range = time.Hour
			o.Options.Blocks.MaxRange = 3 * time.Hour
			o.Options.Blocks.Workers = workers
		})
		base := testNow.UnixMilli()/(3*hour)*(3*hour) - 18*hour
		var dbs []*tsdb.DB
		for i := range databases {
			db, release := g.use(fmt.Sprint("db", i))
			defer release()
			for k := range int64(12) {
				require.NoError(t, commitSome(t, db, base+k*hour+minute, 3))
			}
			require.NoError(t, db.Flush(ctx))
			dbs = append(dbs, db)
		}
		m := &mergesSeen{now: map[string]bool{}, wanted: workers, met: make(chan struct{})}
		g.fs.SetHook(m.hook)
		var wg sync.WaitGroup
		for _, db := range dbs {
			wg.Go(func() {
				if err := db.Compact(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		g.fs.SetHook(nil)
		for _, db := range dbs {
			require.Positive(t, db.Stats().Merges)
		}
		require.Equal(t, workers, m.most)
	}
}

// mergesSeen sees in a file system which databases write a block. None goes on before as many as
// are wanted write one side by side, or that took too long.
type mergesSeen struct {
	sync.Mutex
	now    map[string]bool
	most   int
	wanted int
	met    chan struct{} // closed when they do
}

func (m *mergesSeen) hook(op tsdbtest.Op) error {
	name, rest, _ := strings.Cut(strings.TrimPrefix(filepath.ToSlash(op.Name), "tenants/"), "/")
	if !strings.HasPrefix(rest, "tmp-block-") {
		return nil
	}
	m.Lock()
	m.now[name] = true
	if len(m.now) > m.most {
		if m.most++; m.most == m.wanted {
			close(m.met)
		}
	}
	if op.Kind == tsdbtest.OpRename && !strings.Contains(rest, "/") {
		delete(m.now, name) // it is published
	}
	m.Unlock()
	select {
	case <-m.met:
	case <-time.After(10 * time.Second):
	}
	for range 20 {
		runtime.Gosched() // others that may do so begin
	}
	return nil
}

// Configure sees each name, and changes nothing that is shared.
func TestGroup_ConfigureEach(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]int{}
	g := newGroup(t, func(o *tsdb.GroupOptions) {
		o.Configure = func(name string, o *tsdb.Options) {
			mu.Lock()
			defer mu.Unlock()
			seen[name]++
			o.Head.MaxSeries = len(name)
			o.FS, o.Clock, o.Blocks.Workers = nil, nil, 60
			if name == "broken" {
				o.Head.SamplesPerChunk = 1
			}
		}
	})
	require.ErrorIs(t, g.commit("three", 6), tsdb.ErrLimit)
	require.NoError(t, g.commit("sixsix", 6))
	_, _, err := g.group.DB(ctx, "broken")
	require.ErrorContains(t, err, "SamplesPerChunk")
	require.Equal(t, map[string]int{"three": 1, "sixsix": 1, "broken": 1}, seen)
	_, err = g.fs.Stat("tenants/three/wal")
	require.NoError(t, err)
}

// What follows from options follows from those that Configure leaves, and it changes them for one
// database alone.
func TestGroup_ConfigureOne_LeavesTheOthers(t *testing.T) {
	g := newGroup(t, func(o *tsdb.GroupOptions) {
		o.Options.Blocks.RetentionRules = []tsdb.RetentionRule{rule(`{a="1"}`, 100*24*time.Hour)}
		var log strings.Builder
		t.Cleanup(func() {
			require.Contains(t, log.String(), "merged up to 2h24m0s")
			require.Contains(t, log.String(), "merged up to 744h0m0s")
		})
		o.Options.Logger = slog.New(slog.NewTextHandler(&log, nil))
		o.Configure = func(name string, o *tsdb.Options) {
			rules := o.Blocks.RetentionRules
			if rules[0].Duration != 100*24*time.Hour {
				t.Errorf("%s begins with %v", name, rules[0].Duration) // not its goroutine's to end the test
			}
			if name == "short" {
				rules[0].Duration = time.Hour
				rules[0].Matchers[0] = labels.Equal("a", "2")
				o.Blocks.Retention = 24 * time.Hour
			}
		}
	})
	require.NoError(t, g.commit("short", 1))
	require.NoError(t, g.commit("other", 1))
}

// Many goroutines use more databases than may be open, while the clock goes on: no commit that
// succeeded is lost.
func TestGroup_ManyAtOnce(t *testing.T) {
	g := newGroup(t, func(o *tsdb.GroupOptions) { o.MaxOpen = 4 })
	const names = 9
	var mu sync.Mutex
	want := map[string]int{}
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 3))
			for k := range fewer(150, 40) {
				name := fmt.Sprint("db", rng.IntN(names))
				if rng.IntN(15) == 0 {
					if err := g.group.CloseDB(ctx, name); err != nil {
						t.Error(err)
					}
				}
				db, release, err := g.group.DB(ctx, name)
				if err != nil {
					t.Error(err)
					return
				}
				app := db.Appender()
				_, err = app.Append(0, labels.FromStrings("w", fmt.Sprint(w)), testNow.UnixMilli()+int64(k), 1)
				if err == nil {
					_, err = app.Commit(ctx)
				}
				if err != nil {
					t.Error(err)
				}
				release()
				mu.Lock()
				want[name]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for name, n := range want {
		db, release := g.use(name)
		require.Equal(t, n, samples(t, db), name)
		release()
	}
}

// Merges of all databases together write what the bound allows, and no more.
func TestGroup_MergesShareTheirBytesPerSecond(t *testing.T) {
	const rate, databases = 64 << 10, 3
	paying := &payingClock{Period: time.Second / 32} // of a piece at that rate
	g := newGroup(t, func(o *tsdb.GroupOptions) {
		manual(o.Options)
		paying.Clock = o.Options.Clock.(*tsdbtest.Clock)
		o.Options.Clock = paying
		o.Options.Blocks.Range, o.Options.Blocks.MaxRange = time.Hour, 3*time.Hour
		o.Options.Blocks.Workers, o.Options.Blocks.BytesPerSecond = databases, rate
		o.Configure = func(_ string, o *tsdb.Options) { o.Blocks.BytesPerSecond = 1 << 30 } // is not asked
	})
	base := testNow.UnixMilli()/(3*hour)*(3*hour) - 18*hour
	var dbs []*tsdb.DB
	for i := range databases {
		db, release := g.use(fmt.Sprint("db", i))
		defer release()
		for k := range int64(12) {
			require.NoError(t, commitSome(t, db, base+k*hour+minute, 300))
		}
		require.NoError(t, db.Flush(ctx))
		dbs = append(dbs, db)
	}
	begun := g.clock.Now()
	written, most := pacedBytes(t, g, paying, dbs)
	require.Greater(t, written, 2*rate, "too little to tell")
	require.GreaterOrEqual(t, g.clock.Now().Sub(begun).Seconds(), 0.9*float64(written)/rate)
	require.Equal(t, 1, most, "one after the other pays for what it wrote")
}

// payingClock counts the tickers of periods up to one.
type payingClock struct {
	*tsdbtest.Clock
	Period  time.Duration
	waiting atomic.Int64
}

type payingTicker struct {
	clock.Ticker
	of *payingClock
}

func (c *payingClock) NewTicker(d time.Duration) clock.Ticker {
	ticker := c.Clock.NewTicker(d)
	if d > c.Period {
		return ticker
	}
	c.waiting.Add(1)
	return payingTicker{ticker, c}
}

func (t payingTicker) Stop() {
	t.of.waiting.Add(-1)
	t.Ticker.Stop()
}

// pacedBytes merges what all databases have side by side. It returns how many bytes that wrote, and
// how many waited at a time, at most, before the clock went on.
func pacedBytes(t *testing.T, g *groupFixture, paying *payingClock, dbs []*tsdb.DB) (written, most int) {
	var bytes atomic.Int64
	g.fs.SetHook(func(op tsdbtest.Op) error {
		if op.Kind == tsdbtest.OpWrite && strings.Contains(filepath.ToSlash(op.Name), "/tmp-block-") {
			bytes.Add(op.Bytes)
		}
		return nil
	})
	defer g.fs.SetHook(nil)
	var merging sync.WaitGroup
	for _, db := range dbs {
		merging.Go(func() {
			if err := db.Compact(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	done := make(chan struct{})
	go func() {
		merging.Wait()
		close(done)
	}()
	for {
		select {
		case <-done:
			return int(bytes.Load()), most
		default:
		}
		if paying.waiting.Load() > 0 {
			for range 50 { // others that may wait, too, begin to
				runtime.Gosched()
			}
			most = max(most, int(paying.waiting.Load()))
			g.clock.Advance(10 * time.Millisecond)
		}
		runtime.Gosched()
	}
}
