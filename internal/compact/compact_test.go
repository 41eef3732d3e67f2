package compact_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/background"
	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/blockmerge"
	"github.com/seed347100a3/tsdb/internal/blockplan"
	"github.com/seed347100a3/tsdb/internal/blocktest"
	"github.com/seed347100a3/tsdb/internal/clock"
	"github.com/seed347100a3/tsdb/internal/compact"
	"github.com/seed347100a3/tsdb/internal/diskspace"
	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/faultfs"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/tsdbtest"
	"github.com/seed347100a3/tsdb/wal"
)

// Blocks, what is in them, and how it is written down.
var (
	openBlock    = blocktest.Open
	numberedULID = blocktest.ID
	remove       = blocktest.Delete
	blockPoints  = blocktest.Points
	leftovers    = blocktest.Leftovers
	ramp         = blocktest.Ramp
	floats       = blocktest.Floats
	only         = blocktest.Only
)

// compactor publishes the results as they are.
type compactor struct{ *compact.Compactor }

func newCompactor(fsys fileutil.FS, dir string, c clock.Clock, bytesPerSecond int64) compactor {
	inBackground := background.NewOrdinary(c)
	if c == clock.System {
		inBackground = background.New(c)
	}
	return compactor{compact.New(compact.Config{FS: fsys, Dir: dir, Clock: c, Background: inBackground,
		BytesPerSecond: bytesPerSecond, SamplesPerChunk: 120})}
}

func (c compactor) Merge(ctx context.Context, inputs []*blockdir.Dir) (compact.Result, error) {
	return c.Compactor.Merge(ctx, blockmerge.Whole(inputs), func(w *blockdir.Writer, _ bool) error {
		if w == nil {
			return compact.MarkDeletable(inputs)
		}
		return w.Publish()
	})
}

// mergeTest is a directory with blocks.
type mergeTest struct {
	testing.TB
	fs     *tsdbtest.MemFS
	clock  *tsdbtest.Clock
	c      compactor
	inputs []*blockdir.Dir
}

func newMergeTest(t testing.TB) *mergeTest {
	m := &mergeTest{TB: t, fs: tsdbtest.NewMemFS(), clock: tsdbtest.NewClock(time.UnixMilli(1_700_000_000_000))}
	require.NoError(t, m.fs.MkdirAll("data"))
	m.c = newCompactor(m.fs, "data", m.clock, 0)
	return m
}

// block adds an input with these half-open bounds.
func (m *mergeTest) block(mint, maxt int64, series ...blocktest.Series) *blockdir.Dir {
	m.Helper()
	d := blocktest.Make(m, m.fs, "data", blocktest.Meta(len(m.inputs)+1, mint, maxt), series...)
	m.inputs = append(m.inputs, d)
	return d
}

// merge merges all inputs, and checks all that holds of every result.
func (m *mergeTest) merge() (*blockdir.Dir, compact.Result) {
	m.Helper()
	r, err := m.c.Merge(context.Background(), m.inputs)
	require.NoError(m, err)
	d := openBlock(m, m.fs, "data", r.Meta.ULID)
	require.Equal(m, d.Meta(), r.Meta)
	report, err := blockdir.Verify(context.Background(), d, nil)
	require.NoError(m, err)
	require.Empty(m, report.Problems)
	require.Empty(m, leftovers(m, m.fs, "data"))
	return d, r
}

// twoBlocks are inputs that meet, with something deleted.
func twoBlocks(t testing.TB) *mergeTest {
	m := newMergeTest(t)
	a := m.block(0, 1000, only(t, `{a="1"}`, ramp(0, 150, 1), ramp(300, 150, 1)), only(t, `{a="2"}`, ramp(0, 10, 1)))
	m.block(1000, 2000, only(t, `{a="1"}`, ramp(1000, 150, 1)), only(t, `{a="2"}`, ramp(1000, 10, 1)))
	remove(t, a, `{a="1"}`, 10, 20)
	return m
}

func (m *mergeTest) names() (ids []string) {
	m.Helper()
	list, err := blockdir.List(m.fs, "data")
	require.NoError(m, err)
	for _, id := range list {
		ids = append(ids, id.String())
	}
	return ids
}

func TestCompactor_NothingLeft_MarksTheInputsDeletable(t *testing.T) {
	m := twoBlocks(t)
	for _, d := range m.inputs {
		remove(t, d, `{a=~".+"}`, math.MinInt64, math.MaxInt64)
	}
	before := m.names()
	_, err := m.c.Merge(context.Background(), m.inputs)
	require.ErrorIs(t, err, blockdir.ErrEmpty)
	require.Equal(t, before, m.names())
	require.Empty(t, leftovers(t, m.fs, "data"))
	var blocks []blockplan.SizedBlock
	for _, d := range m.inputs {
		require.False(t, m.c.Resting(d.Meta().ULID))
		again := openBlock(t, m.fs, "data", d.Meta().ULID)
		require.True(t, again.Meta().Compaction.Deletable)
		blocks = append(blocks, blockplan.SizedBlock{Meta: again.Meta()})
	}
	require.Len(t, blockplan.Obsolete(blockplan.RetentionState{Blocks: blocks}, blockplan.RetentionLimits{}), 2)
}

func TestCompactor_TooLittleRoom_IsRefusedWithNumbersBeforeAnythingIsWritten(t *testing.T) {
	m := twoBlocks(t)
	bytes := int64(0)
	for _, d := range m.inputs {
		bytes += d.SizeBytes()
	}
	used := m.fs.Used()
	capacity := used + bytes
	for capacity-used-diskspace.ReserveBytes(capacity) < bytes {
		capacity++
	}
	m.fs.SetCapacity(capacity - 1)
	m.fs.SetHook(func(op tsdbtest.Op) error {
		if op.Kind.Mutates() {
			return errors.New("nothing may be written")
		}
		return nil
	})
	_, err := m.c.Merge(context.Background(), m.inputs)
	require.ErrorIs(t, err, wal.ErrDiskFull)
	require.Equal(t, fmt.Sprintf("merge 2 blocks from %s on: %d bytes are wanted and %d kept for the log, %d are free: no space left on the disk",
		m.inputs[0].Meta().ULID, bytes, diskspace.ReserveBytes(capacity-1), capacity-1-used), err.Error())
	require.Equal(t, used, m.fs.Used())
	require.False(t, m.c.Resting(m.inputs[0].Meta().ULID), "to ask again costs nothing")

	m.fs.SetHook(nil)
	m.fs.SetCapacity(capacity)
	m.merge()
}

// Bug 36: a merge that fails leaves nothing behind, and is not tried again and again.
func TestCompactor_Bug36_AFailedMerge_LeavesNothingAndRests(t *testing.T) {
	m := twoBlocks(t)
	before, used := m.names(), m.fs.Used()
	ids := m.inputs[0].Meta().ULID
	full := true
	m.fs.SetHook(func(op tsdbtest.Op) error {
		if full && op.Kind == tsdbtest.OpWrite {
			return errors.New("no")
		}
		return nil
	})
	rest := time.Duration(0)
	for _, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60, 60} {
		_, err := m.c.Merge(context.Background(), m.inputs)
		require.ErrorContains(t, err, "no")
		require.Equal(t, before, m.names())
		require.Equal(t, used, m.fs.Used(), "nothing is left behind")
		require.Empty(t, leftovers(t, m.fs, "data"))
		rest = want * time.Minute
		require.True(t, m.c.Resting(ids))
		m.clock.Advance(rest - 1)
		require.True(t, m.c.Resting(ids))
		m.clock.Advance(1)
		require.False(t, m.c.Resting(ids))
	}

	// Who asks for it needs not wait, and neither does a clock that was set back.
	_, err := m.c.Merge(context.Background(), m.inputs)
	require.Error(t, err)
	m.clock.Set(m.clock.Now().Add(-10 * 365 * 24 * time.Hour))
	require.False(t, m.c.Resting(ids))
	_, err = m.c.Merge(context.Background(), m.inputs)
	require.Error(t, err)
	require.True(t, m.c.Resting(ids))
	m.c.Forget()
	require.False(t, m.c.Resting(ids))

	// Success begins anew.
	_, err = m.c.Merge(context.Background(), m.inputs)
	require.Error(t, err)
	full = false
	_, r := m.merge()
	require.False(t, m.c.Resting(ids))
	require.False(t, m.c.Resting(r.Meta.ULID))
}

func TestCompactor_CancelledAnywhere_LeavesNothingAndDoesNotRest(t *testing.T) {
	m := twoBlocks(t)
	before, used := m.names(), m.fs.Used()
	for n := int64(1); ; n++ {
		ctx, cancel := context.WithCancel(context.Background())
		ops := int64(0)
		m.fs.SetHook(func(tsdbtest.Op) error {
			if ops++; ops == n {
				cancel()
			}
			return nil
		})
		_, err := m.c.Merge(ctx, m.inputs)
		m.fs.SetHook(nil)
		cancel()
		if err == nil {
			require.Greater(t, n, int64(10))
			break
		}
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, before, m.names())
		require.Equal(t, used, m.fs.Used())
		require.Empty(t, leftovers(t, m.fs, "data"))
		require.False(t, m.c.Resting(m.inputs[0].Meta().ULID))
	}
}

// flip turns one bit of a file.
func (m *mergeTest) flip(name string, off int64) {
	m.Helper()
	b, err := fileutil.ReadFile(m.fs, name, math.MaxInt64)
	require.NoError(m, err)
	b[off] ^= 1
	require.NoError(m, fileutil.WriteFileAtomic(m.fs, name+".tmp", name, b))
}

// reopen opens the inputs anew.
func (m *mergeTest) reopen() {
	m.Helper()
	for i, d := range m.inputs {
		m.inputs[i] = openBlock(m, m.fs, "data", d.Meta().ULID)
		require.NoError(m, d.Close())
	}
}

func TestCompactor_ADamagedChunk_IsNamedByItsFile(t *testing.T) {
	m := twoBlocks(t)
	for _, at := range []int64{10, 15, 40} {
		name := filepath.Join(m.inputs[1].Path(), "chunks", "000001")
		m.flip(name, at)
		m.reopen()
		_, err := m.c.Merge(context.Background(), m.inputs)
		var damage *encbuf.CorruptError
		require.ErrorAs(t, err, &damage)
		require.Equal(t, name, damage.File)
		require.Positive(t, damage.Offset)
		require.Empty(t, leftovers(t, m.fs, "data"))
		require.Len(t, m.names(), 2)
		require.True(t, m.c.Resting(m.inputs[0].Meta().ULID))
		m.flip(name, at)
	}
	m.reopen()
	m.merge()
}

// Every bit of an input: opening it or the merge says what is wrong, or it makes no
// difference.
func TestCompactor_ADamagedInput_NeverMergesSilently(t *testing.T) {
	m := newMergeTest(t)
	m.block(0, 1000, only(t, `{a="1"}`, ramp(0, 3, 1)), only(t, `{a="2",b="x"}`, ramp(0, 3, 1), ramp(20, 130, 1)))
	m.block(0, 2000, only(t, `{a="1"}`, ramp(1000, 3, 1)), only(t, `{a="2",b="x"}`, ramp(10, 20, 2)))
	merged, _ := m.merge()
	want := blockPoints(t, merged)
	require.NoError(t, merged.Close())
	detected := 0
	for _, file := range []string{"index", "chunks/000001", "tombstones"} {
		name := filepath.Join(m.inputs[0].Path(), file)
		b, err := fileutil.ReadFile(m.fs, name, math.MaxInt64)
		require.NoError(t, err)
		for off := range int64(len(b)) {
			m.flip(name, off)
			d, err := blockdir.Open(m.fs, m.inputs[0].Path())
			if err == nil {
				var r compact.Result
				if r, err = m.c.Merge(context.Background(), []*blockdir.Dir{d, m.inputs[1]}); err == nil {
					got := openBlock(t, m.fs, "data", r.Meta.ULID)
					require.Equal(t, want, blockPoints(t, got), "%s %d", file, off)
					require.NoError(t, got.Close())
					require.NoError(t, blockdir.Remove(m.fs, "data", r.Meta.ULID))
				}
				require.NoError(t, d.Close())
			}
			if err != nil {
				require.ErrorIs(t, err, encbuf.ErrCorrupt, "%s %d", file, off)
				require.ErrorContains(t, err, file)
				detected++
			}
			m.flip(name, off)
		}
	}
	require.Greater(t, detected, 300)
}

// Chunks that are not what the index says of them; their checksums are right.
func TestCompactor_AChunkWithOtherTimesThanItsIndex_IsDamage(t *testing.T) {
	for name, chunk := range map[string]blockdir.Chunk{
		"late":       {MinT: 100, MaxT: 200, Num: 3, Encoding: chunkenc.EncXOR, Data: floats(100, 1, 150, 1, 201, 1).Data},
		"early":      {MinT: 100, MaxT: 200, Num: 3, Encoding: chunkenc.EncXOR, Data: floats(99, 1, 150, 1, 200, 1).Data},
		"backwards":  {MinT: 100, MaxT: 200, Num: 3, Encoding: chunkenc.EncXOR, Data: floats(100, 1, 150, 1, 149, 1).Data},
		"twice":      {MinT: 100, MaxT: 200, Num: 3, Encoding: chunkenc.EncXOR, Data: floats(100, 1, 100, 1, 200, 1).Data},
		"no samples": {MinT: 100, MaxT: 200, Num: 3, Encoding: chunkenc.EncXOR, Data: []byte{0, 0}},
		"cut":        {MinT: 100, MaxT: 200, Num: 3, Encoding: chunkenc.EncXOR, Data: []byte{0, 3, 1}},
		"no count":   {MinT: 100, MaxT: 200, Num: 3, Encoding: chunkenc.EncXOR, Data: []byte{3}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, other := range []blockdir.Chunk{ramp(205, 3, 1), ramp(150, 3, 1)} { // joined, mixed
				m := newMergeTest(t)
				m.block(0, 1000, only(t, `{a="1"}`, chunk))
				m.block(0, 1000, only(t, `{a="1"}`, other))
				_, err := m.c.Merge(context.Background(), m.inputs)
				var damage *encbuf.CorruptError
				require.ErrorAs(t, err, &damage)
				require.Equal(t, filepath.Join(m.inputs[0].Path(), "chunks", "000001"), damage.File)
				require.Empty(t, leftovers(t, m.fs, "data"))
			}
		})
	}
}

// Whatever fails, in every way, at every operation: an error, the inputs as they were, and
// nothing left that the next attempt or opening the database does not remove.
func TestCompactor_AnyOperationFails_InputsStayAndNothingIsSwallowed(t *testing.T) {
	m := twoBlocks(t)
	want := blockPoints(t, m.inputs[0])
	for _, fault := range faultfs.Standard() {
		t.Run(fault.Name, func(t *testing.T) {
			for fault.Nth = 1; ; fault.Nth++ {
				f := faultfs.New(m.fs.KillClone())
				c := newCompactor(f, "data", m.clock, 0)
				var inputs []*blockdir.Dir
				for _, d := range m.inputs {
					inputs = append(inputs, openBlock(t, f, "data", d.Meta().ULID))
				}
				f.Inject(fault)
				_, err := c.Merge(context.Background(), inputs)
				hits := len(f.Hits())
				f.Lift()
				if hits > 0 && !readOnlyHits(f.Hits()) {
					require.Error(t, err, "%v", f.Hits())
				}
				list, listErr := blockdir.List(f, "data")
				require.NoError(t, listErr)
				if err == nil {
					require.Len(t, list, 3)
				} else if !slices.ContainsFunc(f.Hits(), func(op tsdbtest.Op) bool { return op.Kind == tsdbtest.OpSyncDir }) {
					require.Len(t, list, 2, "%v: %v", err, f.Hits())
				}
				require.Equal(t, want, blockPoints(t, inputs[0]))
				if err != nil && !fault.Sticky {
					// What an error of removing leaves goes with the next attempt.
					for _, name := range leftovers(t, f, "data") {
						require.Contains(t, filepath.Base(name), "tmp-")
					}
				}
				for _, d := range inputs {
					require.NoError(t, d.Close())
				}
				if hits == 0 {
					require.NoError(t, err)
					return
				}
			}
		})
	}
}

// readOnlyHits tells whether only operations failed that change nothing: some of them
// are advice.
func readOnlyHits(ops []tsdbtest.Op) bool {
	return !slices.ContainsFunc(ops, func(op tsdbtest.Op) bool { return op.Kind.Mutates() })
}

// Bug 35: power fails in a merge. The inputs are there, and the result whole or not at all;
// where it is there, the inputs are known to be replaced.
func TestCompactor_Bug35_PowerCutAnywhere_HasInputsOrResult(t *testing.T) {
	m := twoBlocks(t)
	for _, d := range m.inputs {
		require.NoError(t, d.Close())
	}
	for _, dir := range []string{"data", ""} {
		require.NoError(t, m.fs.SyncDir(filepath.Join(".", dir)))
	}
	m.inputs = []*blockdir.Dir{openBlock(t, m.fs, "data", numberedULID(1)), openBlock(t, m.fs, "data", numberedULID(2))}
	want := map[string][]blocktest.Point{}
	for _, d := range m.inputs {
		for key, ps := range blockPoints(t, d) {
			want[key] = append(want[key], ps...)
		}
	}
	whole := 0
	check := func(left *tsdbtest.MemFS) {
		list, err := blockdir.List(left, "data")
		require.NoError(t, err)
		var blocks []blockplan.SizedBlock
		for _, id := range list {
			d := openBlock(t, left, "data", id)
			blocks = append(blocks, blockplan.SizedBlock{Meta: d.Meta()})
			if len(d.Meta().Compaction.Parents) > 0 {
				whole++
				require.Equal(t, want, blockPoints(t, d))
			}
			require.NoError(t, d.Close())
		}
		gone := blockplan.Obsolete(blockplan.RetentionState{Blocks: blocks}, blockplan.RetentionLimits{})
		require.Equal(t, len(list) == 3, len(gone) == 2, "%v", list)
		require.GreaterOrEqual(t, len(list), 2)
	}
	m.fs.SetHook(func(op tsdbtest.Op) error {
		if op.Kind.Mutates() {
			for left := range m.fs.CrashStates(20) {
				check(left)
			}
		}
		return nil
	})
	_, err := m.c.Merge(context.Background(), m.inputs)
	m.fs.SetHook(nil)
	require.NoError(t, err)
	before := whole
	n := 0
	for left := range m.fs.CrashStates(20) {
		check(left)
		n++
	}
	require.Equal(t, before+n, whole, "once merge has returned the result stays")
}

// runningClock lets time pass as soon as somebody waits for it.
type runningClock struct{ *tsdbtest.Clock }

func (c runningClock) NewTicker(d time.Duration) clock.Ticker {
	t := c.Clock.NewTicker(d)
	go c.Advance(d)
	return t
}

func TestCompactor_WithARate_WritesNoFaster(t *testing.T) {
	m := twoBlocks(t)
	const rate = 1000
	start := m.clock.Now()
	c := newCompactor(m.fs, "data", runningClock{m.clock}, rate)
	r, err := c.Merge(context.Background(), m.inputs)
	require.NoError(t, err)
	took := m.clock.Now().Sub(start).Seconds()
	require.GreaterOrEqual(t, took, 0.9*float64(r.Bytes)/rate)
	require.LessOrEqual(t, took, 1.1*float64(r.Bytes)/rate+2, "the meta file and the like are paced, too")
}

func TestCompactor_LevelSourcesAndTimes_AreThoseOfThePlan(t *testing.T) {
	m := twoBlocks(t)
	start := m.clock.Now()
	first, r := m.merge()
	require.Equal(t, uint64(start.UnixMilli()), r.Meta.ULID.Time())
	require.Equal(t, 2, r.Meta.Compaction.Level)
	require.Len(t, r.Meta.Compaction.Parents, 2)
	require.Equal(t, []ulid.ULID{numberedULID(1), numberedULID(2)}, r.Meta.Compaction.Sources)
	m.block(2000, 3000, only(t, `{a="1"}`, ramp(2000, 1, 1)))
	m.inputs = []*blockdir.Dir{first, m.inputs[2]}
	_, r = m.merge()
	require.Equal(t, 3, r.Meta.Compaction.Level)
	require.Len(t, r.Meta.Compaction.Sources, 3)
	require.Equal(t, first.Meta().ULID, r.Meta.Compaction.Parents[0].ULID)
	require.Equal(t, [2]int64{0, 3000}, [2]int64{r.Meta.MinTime, r.Meta.MaxTime})
}

// What was read comes from the page cache, and what takes its place is there, too.
func TestCompactor_ResultIsWarmIfItsInputsAre(t *testing.T) {
	for _, cached := range []bool{true, false} {
		m := twoBlocks(t)
		fsys := &faultfs.Advised{FS: m.fs, Cached: cached, Direct: true}
		var inputs []*blockdir.Dir
		for _, d := range m.inputs {
			inputs = append(inputs, openBlock(t, fsys, "data", d.Meta().ULID))
		}
		_, err := newCompactor(fsys, "data", clock.System, 0).Merge(context.Background(), inputs)
		require.NoError(t, err)
		require.Equal(t, cached, fsys.Dropped(true) == 0)
		require.Equal(t, cached, fsys.Dropped(false) == 0)
	}
}
