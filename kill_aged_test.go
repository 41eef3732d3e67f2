//go:build unix

package tsdb_test

import (
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
)

// Processes are killed under retention by time and by bytes, while their clock is wrong, between
// imports of blocks, and on a disk that is small. What they acknowledged is there, whole, unless it
// is too old by an honest clock or the bytes do not allow it; what went does not come back, and
// what was refused never appears.

const agedMaxDelay = 2 * killMaxDelay

// aged is a directory in which processes get killed, and what may be in it.
type aged struct {
	*testing.T
	dir     string
	rng     *rand.Rand
	limit   int64 // of all bytes; 0: none
	blocks  tsdb.BlockOptions
	enlarge func()                // makes the disk much larger
	ballast func(*aged, int64)    // takes the room of the disk but so many bytes; less than 0: gives it back
	must    func(*agedCount) bool // what must have happened in the end has; nil: nothing must
	honest  int64                 // milliseconds since 1970
	boots   int
	// doubtful: a clock that was ahead may be believed, so that what is imported by a right one is
	// too old by it.
	doubtful bool
	kept     map[int64]int64 // times of samples that are there, and when each was written
	maybe    map[int64]int64 // of commits that were on their way when a process was killed
	tried    struct{ t, when int64 }
	count    agedCount
}

// agedCount is what happened, for the log of the test.
type agedCount struct {
	kills, blocks, acked, refused, full, imported, odd, aged, paid int
	ahead, behind                                                  int // commits by a wrong clock
}

func newAged(t *testing.T, dir string, seed uint64, blocks tsdb.BlockOptions) *aged {
	blocks.Range, blocks.MaxRange = agedRange, 6*agedRange
	a := &aged{T: t, dir: dir, limit: blocks.RetentionBytes, blocks: blocks, rng: rand.New(rand.NewPCG(seed, 2)), honest: testNow.UnixMilli() / agedStep * agedStep}
	a.kept, a.maybe = map[int64]int64{}, map[int64]int64{}
	return a
}

// agedOffs are errors of clocks; their last digits keep all times apart.
var agedOffs = []int64{0, 0, 0, 3600_000 + 60_001, -3600_000 + 2, 3*3600_000 + 6, -3*3600_000 + 3, 10*365*24*3600_000 + 4, -10*365*24*3600_000 + 5}

func (a *aged) config() agedConfig {
	if a.boots == 0 || a.rng.IntN(6) == 0 {
		a.boots++ // what passed since the last process is not known
	}
	return agedConfig{Dir: a.dir, Now: a.honest, Boot: fmt.Sprintf("boot %d", a.boots), Sync: a.rng.IntN(len(killSyncs)),
		Snapshots: a.rng.IntN(2) == 0, Blocks: a.blocks}
}

// kill runs one process to its end, some time after it was started.
func (a *aged) kill() {
	cfg := a.config()
	cfg.Off = agedOffs[a.rng.IntN(len(agedOffs))]
	a.doubtful = a.doubtful || cfg.Off > 0
	delay := time.Duration(a.rng.Int64N(int64(agedMaxDelay)))
	if a.rng.IntN(4) == 0 {
		cfg.CloseAfter = 1 + delay/2
	}
	child := startKillChild(a.T, "aged", cfg)
	timer := time.NewTimer(delay)
	defer timer.Stop()
	for lines := child.lines; lines != nil; {
		select {
		case <-timer.C:
			require.NoError(a, child.cmd.Process.Kill())
		case line, ok := <-lines:
			if !ok {
				lines = nil
				break
			}
			a.take(line, cfg.Off)
			if line == "opened" && a.rng.IntN(4) == 0 && a.ballast == nil {
				a.bring() // while it runs
			}
		}
	}
	if err := child.cmd.Wait(); err != nil {
		require.Equal(a, "signal: killed", err.Error())
		a.count.kills++
	} else if cfg.Off <= 0 && a.honest-cfg.Now > 2*time.Minute.Milliseconds() {
		a.doubtful = false // it has seen for a minute what the clock shows, and written it down
	}
	if a.tried.when > 0 {
		a.maybe[a.tried.t] = a.tried.when
		a.tried.when = 0
	}
}

// take notes a line of the journal.
func (a *aged) take(line string, off int64) {
	words := strings.Fields(line)
	switch words[0] {
	case "try":
		a.tried.t, a.tried.when = int64(atoi(a, words[1])), int64(atoi(a, words[2]))
		require.Greater(a, a.tried.when, a.honest)
		a.honest = a.tried.when
	case "ack":
		a.kept[a.tried.t] = a.tried.when
		a.tried.when = 0
		a.count.acked++
		if off > 0 {
			a.count.ahead++
		} else if off < 0 {
			a.count.behind++
		}
	case "refused":
		a.tried.when = 0
		a.count.refused++
	case "full":
		a.tried.when = 0
		a.count.full++
	case "opening", "opened", "closing", "closed":
	default:
		require.Fail(a, line)
	}
}

// bring imports a block, of any time.
func (a *aged) bring() {
	hours := []int64{-30, -5, -1, 0, 1, 30, 90_000}[a.rng.IntN(7)]
	t := a.importedAt(a.honest + hours*3600_000)
	w, err := tsdb.NewBlockWriter(a.dir, &tsdb.BlockWriterOptions{Clock: newAgedClock(agedConfig{Now: a.honest})})
	require.NoError(a, err)
	for i := range agedSeries {
		require.NoError(a, w.Append(agedLabels(i), t, agedValue(i, t)))
	}
	if _, err = w.Flush(ctx); err != nil {
		require.ErrorIs(a, err, tsdb.ErrDiskFull)
		delete(a.kept, t)
	}
	require.NoError(a, w.Close())
}

// bringOdd puts a block into the directory that is not in order, before all that there is: it says
// nothing of what lies beside it in the log.
func (a *aged) bringOdd() {
	oldest := a.honest
	for t := range a.kept {
		oldest = min(oldest, t)
	}
	a.count.odd++
	t := a.importedAt(oldest - 2*agedStep)
	b := agedOddBlock(t, a.rng)
	if err := b.write(osFiles{}, a.dir); err != nil {
		require.ErrorIs(a, err, syscall.ENOSPC)
		require.NoError(a, os.RemoveAll(filepath.Join(a.dir, b.id.String())))
		delete(a.kept, t)
	}
}

// importedAt notes an import and returns a time about t that no commit has.
func (a *aged) importedAt(t int64) int64 {
	a.count.imported++
	t += agedStep - t%agedStep + 1000 + int64(a.count.imported)
	if a.kept[t] = a.honest; a.doubtful {
		a.kept[t] -= a.blocks.Retention.Milliseconds()
	}
	return t
}

// agedOddBlock is a block of another writer, whose series are in no order, and which has one of
// them twice.
func agedOddBlock(t int64, rng *rand.Rand) *oddBlock {
	b := &oddBlock{id: ulid.MustNew(uint64(t), nil), mint: t, maxt: t + 1}
	b.id[15] = byte(rng.IntN(256))
	for _, i := range append(rng.Perm(agedSeries), 3) {
		name := agedLabels(i).Get("__name__")
		b.series = append(b.series, oddSeries{labels: [][2]string{{"__name__", name}, {"i", fmt.Sprint(i)}},
			chunks: []*oddChunk{{samples: []point{{t, math.Float64bits(agedValue(i, t))}}}}})
	}
	return b
}

// osFiles writes files of the operating system, with their directories.
type osFiles struct{}

func (osFiles) WriteFile(name string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, data, 0o644)
}

// check opens the directory with a clock that is right, and looks at every sample. Nothing is
// removed meanwhile.
func (a *aged) check() {
	cfg := a.config()
	cfg.Blocks.Manual = true
	db, err := tsdb.Open(a.dir, cfg.options(newAgedClock(cfg)))
	require.NoError(a, err)
	defer func() {
		if err := db.Close(); err != nil {
			require.ErrorIs(a, err, tsdb.ErrDiskFull)
		}
	}()
	a.count.blocks = max(a.count.blocks, len(db.Blocks()))
	r := db.OpenReport()
	require.True(a, r.Clean(), "%+v", r)
	found := a.times(db)
	for t := range found {
		when, ok := a.maybe[t]
		if was, there := a.kept[t]; there {
			when, ok = was, true
		}
		require.True(a, ok, "samples of %d are there: they were refused, never written, or had gone", t)
		a.kept[t] = when
	}
	clear(a.maybe)
	a.checkGone(found)
}

// times returns the times of the samples, of which each series has one.
func (a *aged) times(db *tsdb.DB) map[int64]bool {
	q, err := db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(a, err)
	defer func() { require.NoError(a, q.Close()) }()
	got, err := readAll(q)
	require.NoError(a, err)
	found := map[int64]bool{}
	for _, p := range got[agedLabels(0).String()] {
		found[p.T] = true
	}
	for i := range agedSeries {
		ps := got[agedLabels(i).String()]
		require.Len(a, ps, len(found), "series %d: a commit is there in part", i)
		for _, p := range ps {
			require.True(a, found[p.T], "series %d has a sample at %d, and others do not", i, p.T)
			require.Equal(a, math.Float64bits(agedValue(i, p.T)), p.V, "series %d at %d", i, p.T)
		}
	}
	return found
}

// checkGone looks whether what is not there any more may have gone.
func (a *aged) checkGone(found map[int64]bool) {
	paid := 0
	for t, when := range a.kept {
		if found[t] {
			continue
		}
		delete(a.kept, t)
		if t <= a.honest-a.blocks.Retention.Milliseconds() || a.honest-when >= a.blocks.Retention.Milliseconds() {
			a.count.aged++
			continue
		}
		require.Positive(a, a.limit, "lost %s, written %s ago", time.UnixMilli(t).UTC(), time.Duration(a.honest-when)*time.Millisecond)
		paid++
	}
	a.count.paid += paid
	if paid > 0 && a.ballast == nil { // on a full disk the log and what was half written took the bytes, and are gone
		require.Greater(a, a.used(), a.limit/4, "samples went for bytes that are not there")
	}
}

// used are the bytes of the directory.
func (a *aged) used() (n int64) {
	require.NoError(a, filepath.WalkDir(a.dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		n += info.Size()
		return err
	}))
	return n
}

// goOn requires that a clock that is right, and room, are good enough for everything to go on.
func (a *aged) goOn() {
	cfg := a.config()
	cl := newAgedClock(cfg)
	cfg.Blocks.Manual = true
	db, err := tsdb.Open(a.dir, cfg.options(cl))
	require.NoError(a, err)
	defer func() { require.NoError(a, db.Close()) }()
	err = db.Compact(ctx)
	if a.enlarge != nil && err != nil { // the log alone may be half of the disk
		require.ErrorIs(a, err, tsdb.ErrDiskFull)
		a.enlarge()
		a.limit = 0
		err = db.Compact(ctx)
	}
	require.NoError(a, err)
	require.NoError(a, db.Flush(ctx))
	// A border that is no further than Limits.MaxFuture, and a block range, is waited for.
	now := cl.honest.Add((time.Hour + agedRange).Milliseconds())
	taken, err := agedCommit(db, now)
	require.NoError(a, err)
	require.True(a, taken, "accepted is from %d to %d, it is %d", db.Stats().AcceptsFrom, db.Stats().AcceptsTo, now)
	require.NoError(a, db.Compact(ctx))
	if a.limit > 0 {
		require.LessOrEqual(a, db.Stats().BlockBytes, a.limit)
	}
}

// run kills processes until there were enough, and until all that must happen has, which takes more
// of them on a machine that does much else.
func (a *aged) run(kills int) {
	for a.count.kills < kills || a.must != nil && !a.must(&a.count) && a.count.kills < 20*kills {
		a.kill()
		if a.ballast != nil && a.rng.IntN(3) == 0 {
			a.ballast(a, a.rng.Int64N(128<<10))
			a.kill()
			if a.rng.IntN(2) == 0 {
				a.check()
			}
			a.ballast(a, -1)
		}
		if a.rng.IntN(3) > 0 {
			a.check()
		}
		switch a.rng.IntN(6) {
		case 0, 1:
			a.bring()
		case 2:
			a.bringOdd()
		}
	}
	a.check()
	a.goOn()
	a.Logf("%+v", a.count)
}

func TestKill_UnderRetention_NothingGoesThatAnHonestClockKeeps(t *testing.T) {
	for name, blocks := range map[string]tsdb.BlockOptions{
		"by time":           {Retention: agedRetention},
		"by time and bytes": {Retention: agedRetention, RetentionBytes: 128 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for i := range killCount(2) {
				newAged(t, t.TempDir(), uint64(i), blocks).run(killCount(20))
			}
		})
	}
}
