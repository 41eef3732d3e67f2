package tsdb_test

import (
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pkg/errors"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/sweep"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
	"github.com/seed347100a3/tsdb/wal/zstd"
)

// cloner takes copies of a disk at random moments, as a kill or a power cut would leave it.
type cloner struct {
	sync.Mutex
	disk  *tsdbtest.MemFS
	rng   *rand.Rand
	next  int64 // operation at which to take one
	every int64 // operations, about
	max   int
	kills []*tsdbtest.MemFS
	cuts  []*tsdbtest.MemFS
}

// before is the hook of the disk. What a snapshot writes is worth more copies.
func (c *cloner) before(op tsdbtest.Op) error {
	c.Lock()
	defer c.Unlock()
	if strings.Contains(op.Name, "head-snapshot") || strings.Contains(op.Name, "head_snapshot") {
		c.next -= c.every / 8
	}
	if op.N < c.next {
		return nil
	}
	c.next = op.N + 1 + c.rng.Int64N(2*c.every)
	if len(c.kills) < c.max {
		c.kills = append(c.kills, c.disk.KillClone())
	} else { // any of them has the same chance to be kept
		c.kills[c.rng.IntN(c.max)] = c.disk.KillClone()
	}
	cut := c.disk.CrashClone(tsdbtest.CrashOptions{Seed: c.rng.Uint64(), Ordered: c.rng.IntN(2) == 0})
	if len(c.cuts) < c.max {
		c.cuts = append(c.cuts, cut)
	} else {
		c.cuts[c.rng.IntN(c.max)] = cut
	}
	return nil
}

// Writers with changing series, deletes, flushes, merges, queries and snapshots of the head, all
// beside each other: whenever it ends, an open from a snapshot finds what an open without it does.
func TestHeadSnapshot_BesideEverythingElse(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*tsdb.Options){
		"small chunks and segments": func(*tsdb.Options) {},
		"zstd, nothing is synced": func(o *tsdb.Options) {
			o.Head.SamplesPerChunk, o.WAL.Compression, o.WAL.Sync = 16, tsdb.CompressionBy(zstd.Codec), tsdb.SyncNever()
		},
		"large chunks and segments, every commit is synced": func(o *tsdb.Options) {
			o.Head.SamplesPerChunk, o.WAL.SegmentSize, o.WAL.Compression, o.WAL.Sync = 120, 1<<20, tsdb.CompressionNone, tsdb.SyncCommit()
		},
	} {
		t.Run(name, func(t *testing.T) {
			besideEverythingElse(t, newFixture(t, func(o *tsdb.Options) {
				crowded(o)
				change(o)
			}))
		})
	}
}

func besideEverythingElse(t *testing.T, f *fixture) {
	const writers = 3
	steps, clones := int64(600), 25
	if !sweep.Whole() {
		steps, clones = 150, 5
	}
	base := (testNow.UnixMilli() - 20*hour) / (9 * hour) * (9 * hour)
	var committed [writers]map[string][]point
	begun := make(chan struct{}) // closed when there are a block and snapshots
	first := sync.OnceFunc(func() { close(begun) })
	var writing, newest atomic.Int64
	writing.Store(writers)
	newest.Store(base)
	var wg sync.WaitGroup
	c := &cloner{disk: f.fs, rng: rand.New(rand.NewPCG(5, 5)), every: 200, max: clones}
	f.fs.SetHook(c.before)
	for w := range writers {
		committed[w] = map[string][]point{}
		wg.Go(func() {
			defer writing.Add(-1)
			for step := range steps {
				if step == steps*2/3 {
					<-begun // fast writers could end before anything else begins
				}
				writeStep(t, f.db, committed[w], w, base, step)
				newest.Store(base + step*minute)
			}
		})
	}
	beside := func(what func(n int64) error) {
		wg.Go(func() {
			for n := int64(0); writing.Load() > 0; n++ {
				if err := what(n); err != nil {
					t.Error(err)
					first()
					return
				}
			}
		})
	}
	beside(func(int64) error { return tsdb.TakeHeadSnapshot(f.db) })
	beside(func(int64) error {
		err := f.db.Compact(ctx)
		if err != nil || len(f.db.Blocks()) > 0 && f.db.Stats().HeadSnapshots > 1 {
			first()
		}
		return err
	})
	beside(func(n int64) error { // of series that nobody looks at in the end
		at := newest.Load() - n%40*minute
		return f.db.Delete(ctx, at-3*minute, at, labels.Equal("i", "2"))
	})
	beside(func(int64) error { return readSome(f.db) })
	beside(func(int64) error { return openBeside(f) })
	beside(func(int64) error { return tsdb.WriteHeadChunks(f.db) })
	wg.Wait()
	f.fs.SetHook(nil)
	require.False(t, t.Failed())
	c.kills, c.cuts = append(c.kills, f.fs.KillClone()), append(c.cuts, f.fs.CrashClone(tsdbtest.CrashOptions{Seed: 1}))
	snapshots := f.db.Stats().HeadSnapshots
	require.Positive(t, snapshots)
	require.Zero(t, f.db.Stats().HeadSnapshotErrors)

	want := map[string][]point{}
	for _, part := range committed {
		for key, ps := range part {
			if !strings.Contains(key, `i="2"`) {
				want[key] = ps
			}
		}
	}
	requireUndeleted := func() {
		got := f.all()
		for key := range got {
			if strings.Contains(key, `i="2"`) {
				delete(got, key)
			}
		}
		require.Equal(t, want, got)
	}
	requireUndeleted()
	require.NoError(t, tsdb.TakeHeadSnapshot(f.db))
	require.NotEmpty(t, bothWays(t, f.fs, *f.opts).Snapshot)
	f.reopen()
	requireUndeleted()

	used := map[string]int{}
	for _, disk := range c.kills {
		if bothWays(t, disk, *f.opts).Snapshot != "" {
			used["kill"]++
		}
		openAndStore(t, disk, *f.opts)
		requireOrderedChunks(t, disk)
	}
	for _, disk := range c.cuts {
		if bothWays(t, disk, *f.opts).Snapshot != "" {
			used["power cut"]++
		}
	}
	t.Logf("%d snapshots; of %d and %d copies began with one: %v", snapshots, len(c.kills), len(c.cuts), used)
	require.Positive(t, used["kill"])
	require.Positive(t, used["power cut"])
}

// A delete that is in the log before the segment that a snapshot continues with is in the snapshot,
// even if it has not come to its end yet.
func TestHeadSnapshot_HasTheDeleteThatIsUnderWay(t *testing.T) {
	f := snapshotFixture(t)
	logged := make(chan struct{})
	f.fs.SetHook(func(op tsdbtest.Op) error {
		if op.Kind == tsdbtest.OpSync && strings.Contains(op.Name, "wal") {
			close(logged)
			f.fs.SetHook(nil)
		}
		return nil
	})
	release := tsdb.HoldView(f.db)
	deleted, taken := make(chan error, 1), make(chan error, 1)
	go func() { deleted <- f.db.Delete(ctx, 0, 5000, labels.Equal("a", "b")) }()
	<-logged
	go func() { taken <- tsdb.TakeHeadSnapshot(f.db) }() // its segment comes behind the delete
	for tsdb.Waiting(f.db) == 0 && len(taken) == 0 {
		runtime.Gosched()
	}
	release()
	require.NoError(t, <-deleted)
	require.NoError(t, <-taken)
	require.NotEmpty(t, bothWays(t, f.fs, *f.opts).Snapshot)
}

// openBeside reads all series beside the one who writes, again after a while.
func openBeside(f *fixture) error {
	r, err := tsdb.OpenReadOnly(fixtureDir, f.opts)
	if err != nil {
		return errors.WithMessage(err, "open beside the writer")
	}
	err = readSome(r)
	if err == nil {
		err = r.Refresh(ctx)
	}
	if err == nil {
		err = readSome(r)
	}
	return errors.WithMessage(fileutil.JoinErrors(err, r.Close()), "read beside the writer")
}

// readSome reads all series once.
func readSome(db interface {
	Querier(mint, maxt int64) (*tsdb.Querier, error)
}) error {
	q, err := db.Querier(math.MinInt64, math.MaxInt64)
	if err != nil {
		return err
	}
	b := chunkenc.NewBatch(256)
	var it chunkenc.Iterator
	for s, err := range q.Select(ctx, nil).All() {
		if err != nil {
			return err
		}
		for it = s.Iterator(it); it.NextBatch(b) != chunkenc.ValNone; {
		}
		if it.Err() != nil {
			return it.Err()
		}
	}
	return q.Close()
}
