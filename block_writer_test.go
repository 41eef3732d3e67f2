package tsdb_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/sweep"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

const hourMillis = int64(time.Hour / time.Millisecond)

// backfilled is what a block has on disk, series by their text.
type backfilled map[string][]samplePair

type samplePair struct {
	T int64
	V float64
}

// readBackfilled reads blocks through the layer that wrote them, checksums and all.
func readBackfilled(t testing.TB, fsys tsdb.FS, dir string) (map[string]backfilled, []tsdb.BlockMeta) {
	t.Helper()
	ids, err := blockdir.List(fsys, dir)
	require.NoError(t, err)
	all := make(map[string]backfilled)
	var metas []tsdb.BlockMeta
	for _, id := range ids {
		d, err := blockdir.Open(fsys, blockdir.Path(dir, id))
		require.NoError(t, err)
		all[id.String()] = readBlockDir(t, d)
		metas = append(metas, d.Meta())
		require.NoError(t, d.Close())
	}
	slices.SortFunc(metas, func(a, b tsdb.BlockMeta) int { return int((a.MinTime - b.MinTime) / 2) })
	return all, metas
}

func readBlockDir(t testing.TB, d *blockdir.Dir) backfilled {
	got := make(backfilled)
	err := d.Index().Verify(context.Background(), func(_ uint64, ls []index.SymbolPair, cs []index.ChunkMeta) error {
		var text []string
		for _, l := range ls {
			name, err := d.Index().Symbol(l.Name)
			require.NoError(t, err)
			value, err := d.Index().Symbol(l.Value)
			require.NoError(t, err)
			text = append(text, name, value)
		}
		key := labels.FromStrings(text...).String()
		for _, c := range cs {
			enc, data, err := d.Chunks().Read(c.Ref, nil)
			require.NoError(t, err)
			chunk, err := chunkenc.FromData(enc, data)
			require.NoError(t, err)
			it := chunk.Iterator(nil)
			for it.Next() != chunkenc.ValNone {
				at, v := it.At()
				require.True(t, at >= c.MinT && at <= c.MaxT)
				got[key] = append(got[key], samplePair{at, v})
			}
			require.NoError(t, it.Err())
		}
		return nil
	})
	require.NoError(t, err)
	return got
}

// requireNothingElse fails if something but blocks, or what is allowed, lies in dir.
func requireNothingElse(t testing.TB, fsys tsdb.FS, dir string, allowed ...string) {
	t.Helper()
	entries, err := fsys.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		_, block := blockdir.ParseName(e.Name())
		require.True(t, block || slices.Contains(allowed, e.Name()), "left over: %s", e.Name())
	}
}

func metric(i int) labels.Labels {
	return labels.FromStrings("__name__", fmt.Sprintf("metric_%d", i%3), "i", fmt.Sprint(i))
}

func TestBlockWriter_AnyInput_IsInTheBlocksOfItsTime(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		r := rand.New(rand.NewPCG(seed, 9))
		dir := t.TempDir()
		var last tsdb.BlockWriterProgress
		w, err := tsdb.NewBlockWriter(dir, &tsdb.BlockWriterOptions{
			MemoryBytes: 1 << 20,
			MaxRange:    time.Duration(r.IntN(60)+2) * time.Hour,
			Progress:    func(p tsdb.BlockWriterProgress) { last = p },
		})
		require.NoError(t, err)
		model := make(backfilled)
		refs, times := make([]tsdb.SeriesRef, 50), make([]int64, 50)
		for i := range times {
			times[i] = -100*hourMillis + r.Int64N(5*hourMillis)
		}
		const samples = 150_000
		for range samples {
			i := r.IntN(len(refs))
			times[i] += r.Int64N(200_000) + 1
			v := math.Round(r.Float64() * 100)
			refs[i], err = w.AppendRef(refs[i], metric(i), times[i], v)
			require.NoError(t, err)
			key := metric(i).String()
			model[key] = append(model[key], samplePair{times[i], v})
		}
		metas, err := w.Flush(context.Background())
		require.NoError(t, err)
		require.NoError(t, w.Close())
		require.NoError(t, w.Close())
		requireNothingElse(t, fileutil.OS, dir)
		require.EqualValues(t, samples, last.Samples)
		require.EqualValues(t, samples, last.Written)
		require.Positive(t, last.SpilledBytes)
		require.Positive(t, last.BlockBytes)

		blocks, onDisk := readBackfilled(t, fileutil.OS, dir)
		require.Equal(t, metas, onDisk)
		got := make(backfilled)
		for _, m := range metas {
			require.Equal(t, 1, m.Compaction.Level)
			require.Empty(t, m.Compaction.Hints)
			for key, xs := range blocks[m.ULID.String()] {
				require.GreaterOrEqual(t, xs[0].T, m.MinTime)
				require.Less(t, xs[len(xs)-1].T, m.MaxTime)
				got[key] = append(got[key], xs...)
			}
		}
		require.Equal(t, model, got)
	}
}

// TestBlockWriter_RangesFitTheData: ten years are not 43,800 blocks, and a day is not
// one block of a month.
func TestBlockWriter_RangesFitTheData(t *testing.T) {
	for _, c := range []struct {
		span     int64 // hours
		opts     tsdb.BlockWriterOptions
		atMost   int
		longest  int64 // hours
		alignsTo int64
	}{
		{1, tsdb.BlockWriterOptions{}, 2, 2, 2},
		{12, tsdb.BlockWriterOptions{}, 3, 6, 6},
		{24 * 19, tsdb.BlockWriterOptions{}, 4, 162, 162},
		{24 * 365, tsdb.BlockWriterOptions{}, 20, 486, 486},
		{24 * 3650, tsdb.BlockWriterOptions{}, 182, 486, 486},
		{24 * 30, tsdb.BlockWriterOptions{MaxRange: 2 * time.Hour}, 361, 2, 2},
		{24 * 30, tsdb.BlockWriterOptions{Range: time.Hour, MaxRange: 10 * time.Hour}, 81, 9, 9},
	} {
		c.opts.FS = tsdbtest.NewMemFS()
		w, err := tsdb.NewBlockWriter("db", &c.opts)
		require.NoError(t, err)
		n := int64(0)
		for at := int64(-7); at < c.span*hourMillis-7; at += 30 * 60_000 {
			require.NoError(t, w.Append(metric(1), at, 1))
			n++
		}
		metas, err := w.Flush(context.Background())
		require.NoError(t, err)
		require.NoError(t, w.Close())
		require.LessOrEqual(t, len(metas), c.atMost)
		for i, m := range metas {
			require.LessOrEqual(t, m.MaxTime-m.MinTime, c.longest*hourMillis)
			if i > 0 {
				require.LessOrEqual(t, metas[i-1].MaxTime, m.MinTime)
				start := (m.MinTime/hourMillis + 1) / c.alignsTo * c.alignsTo * hourMillis
				require.Less(t, m.MinTime-start, hourMillis, "block %d begins where a window does", i)
			}
			n -= int64(m.Stats.NumSamples)
		}
		require.Zero(t, n)
	}
}

func TestBlockWriter_BadSamplesSpoilNothing(t *testing.T) {
	dir := t.TempDir()
	w, err := tsdb.NewBlockWriter(dir, nil)
	require.NoError(t, err)
	ls := metric(1)
	require.NoError(t, w.Append(ls, 10, 1))
	require.NoError(t, w.Append(ls, 9, 1), "older is fine")
	require.ErrorIs(t, w.Append(ls, 10, 2), tsdb.ErrDuplicateSample)
	require.NoError(t, w.Append(ls, 10, 1), "an exact repeat is dropped")
	for _, at := range []int64{math.MinInt64, math.MaxInt64} {
		err := w.Append(ls, at, 1)
		require.ErrorIs(t, err, tsdb.ErrOutOfBounds)
		var bounds *tsdb.BoundsError
		require.ErrorAs(t, err, &bounds)
		require.Equal(t, tsdb.BoundsError{T: at, From: math.MinInt64 + 1, To: math.MaxInt64 - 1}, *bounds)
	}
	require.ErrorIs(t, w.Append(labels.FromStrings("a"), 10, 1), tsdb.ErrInvalidLabels)
	require.ErrorIs(t, w.Append(labels.FromStrings("a", string(make([]byte, 5000))), 10, 1), tsdb.ErrLimit)
	_, err = w.AppendRef(12345, labels.Labels{}, 10, 1)
	require.ErrorIs(t, err, tsdb.ErrNotFound)
	require.NoError(t, w.Append(ls, 11, 1))
	metas, err := w.Flush(context.Background())
	require.NoError(t, err)
	require.Len(t, metas, 1)
	require.EqualValues(t, 3, metas[0].Stats.NumSamples)
	require.EqualValues(t, 12, metas[0].MaxTime)

	require.ErrorIs(t, w.Append(ls, 11, 2), tsdb.ErrDuplicateSample, "what was flushed still counts")
	metas, err = w.Flush(context.Background())
	require.NoError(t, err)
	require.Empty(t, metas, "nothing new")
	require.NoError(t, w.Close())
	require.ErrorIs(t, w.Append(ls, 12, 1), tsdb.ErrClosed)
	_, err = w.Flush(context.Background())
	require.ErrorIs(t, err, tsdb.ErrClosed)
}

// Newest first, days put together in reverse, or shuffled, over many spills: the blocks are
// those of the same samples in the order of time.
func TestBlockWriter_AnyOrderOfTime_IsSorted(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 9))
	samples := 200_000
	if !sweep.Whole() {
		samples = 60_000 // still more than the memory holds
	}
	for name, place := range map[string]func(n int) int{
		"newest first":    func(n int) int { return samples - 1 - n },
		"days in reverse": func(n int) int { return (samples-1-n)/1440*1440 + n%1440 },
		"shuffled":        func() func(int) int { p := r.Perm(samples); return func(n int) int { return p[n] } }(),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			var last tsdb.BlockWriterProgress
			w, err := tsdb.NewBlockWriter(dir, &tsdb.BlockWriterOptions{
				MemoryBytes: 1 << 20, MaxRange: 54 * time.Hour,
				Progress: func(p tsdb.BlockWriterProgress) { last = p },
			})
			require.NoError(t, err)
			seen := make([]bool, samples+1440)
			for n := range samples {
				at := place(n)
				seen[at] = true
				require.NoError(t, w.Append(metric(at%3), int64(at)*minute, float64(at)))
			}
			metas, err := w.Flush(context.Background())
			require.NoError(t, err)
			require.NoError(t, w.Close())
			require.Positive(t, last.SpilledBytes)
			blocks, _ := readBackfilled(t, fileutil.OS, dir)
			got := make(backfilled)
			for _, m := range metas {
				for key, xs := range blocks[m.ULID.String()] {
					got[key] = append(got[key], xs...)
				}
			}
			want := make(backfilled)
			for at, ok := range seen {
				if key := metric(at % 3).String(); ok {
					want[key] = append(want[key], samplePair{int64(at) * minute, float64(at)})
				}
			}
			require.Equal(t, want, got)
		})
	}
}

// Of several values at one time one is kept, or they are an error that names series and
// time. A repeat is none.
func TestBlockWriter_ValuesOfOneTime_AreChosenFrom(t *testing.T) {
	stale := math.Float64frombits(0x7ff0000000000002)
	for policy, want := range map[tsdb.DuplicatePolicy][]samplePair{
		tsdb.DuplicatesFirst: {{5, 1}, {9, 1}},
		tsdb.DuplicatesLast:  {{5, stale}, {9, 3}},
		tsdb.DuplicatesError: nil,
	} {
		dir := t.TempDir()
		var last tsdb.BlockWriterProgress
		w, err := tsdb.NewBlockWriter(dir, &tsdb.BlockWriterOptions{
			OnDuplicate: policy, Progress: func(p tsdb.BlockWriterProgress) { last = p },
		})
		require.NoError(t, err)
		for _, x := range []samplePair{{5, 1}, {9, 1}, {9, 1}, {5, 1}, {5, stale}} {
			require.NoError(t, w.Append(metric(1), x.T, x.V))
		}
		err = w.Append(metric(1), 9, 3)
		if policy == tsdb.DuplicatesError {
			require.ErrorIs(t, err, tsdb.ErrDuplicateSample)
			_, err = w.Flush(context.Background())
			require.ErrorIs(t, err, tsdb.ErrDuplicateSample)
			require.ErrorContains(t, err, `{__name__="metric_1", i="1"} at time 5`)
			require.NoError(t, w.Close())
			requireNothingElse(t, fileutil.OS, dir)
			continue
		}
		require.NoError(t, err)
		metas, err := w.Flush(context.Background())
		require.NoError(t, err)
		require.GreaterOrEqual(t, last.Duplicates, int64(2))
		blocks, _ := readBackfilled(t, fileutil.OS, dir)
		got := blocks[metas[0].ULID.String()][metric(1).String()]
		require.Len(t, got, len(want))
		for i, x := range want {
			require.Equal(t, x.T, got[i].T)
			require.Equal(t, math.Float64bits(x.V), math.Float64bits(got[i].V))
		}
		require.NoError(t, w.Append(metric(1), 20, 1))
		_, err = w.Flush(context.Background())
		require.NoError(t, err)
		require.Zero(t, last.Duplicates, "of each Flush")
		require.NoError(t, w.Close())
	}
}

func TestBlockWriter_ClosedOrCancelled_LeavesNothing(t *testing.T) {
	for _, flush := range []bool{false, true} {
		dir := t.TempDir()
		w, err := tsdb.NewBlockWriter(dir, &tsdb.BlockWriterOptions{MemoryBytes: 1 << 20})
		require.NoError(t, err)
		for i := range int64(200_000) {
			require.NoError(t, w.Append(metric(int(i)%10), i, 1))
		}
		if flush {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			_, err := w.Flush(ctx)
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, w.Append(metric(1), 1<<40, 1), context.Canceled)
		}
		require.NoError(t, w.Close())
		entries, err := fileutil.OS.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, entries)
	}
}

func TestBlockWriter_OptionsThatMakeNoSense_AreRefused(t *testing.T) {
	for _, o := range []tsdb.BlockWriterOptions{
		{Range: time.Second},
		{Range: 3 * time.Hour, MaxRange: 2 * time.Hour},
		{MaxRange: 100_000 * time.Hour},
		{OnDuplicate: tsdb.DuplicatesLast + 1},
		{MemoryBytes: 1},
		{MemoryBytes: 1 << 40},
		{Limits: tsdb.Limits{LabelsPerSeries: 1 << 20}},
	} {
		dir := t.TempDir()
		_, err := tsdb.NewBlockWriter(dir, &o)
		require.Error(t, err)
		entries, err := fileutil.OS.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, entries)
	}
}

// writeSome makes a block writer write n samples, a minute apart, from a time on.
func writeSome(t testing.TB, fsys tsdb.FS, dir string, from int64, n int) []tsdb.BlockMeta {
	t.Helper()
	w, err := tsdb.NewBlockWriter(dir, &tsdb.BlockWriterOptions{FS: fsys})
	require.NoError(t, err)
	for i := range int64(n) {
		require.NoError(t, w.Append(metric(0), from+i*60_000, float64(i)))
	}
	metas, err := w.Flush(context.Background())
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return metas
}

// A block that ends after the beginning of the head, and says nothing, makes the next
// reader of the directory drop samples of the log.
func TestBlockWriter_BesideAHead_MarksWhatReachesIntoIt(t *testing.T) {
	fsys := tsdbtest.NewMemFS()
	first := writeSome(t, fsys, "db", 0, 60)
	require.Empty(t, first[0].Compaction.Hints, "no head, no mark")
	end := first[0].MaxTime

	require.NoError(t, fsys.MkdirAll(filepath.Join("db", "wal")))
	second := writeSome(t, fsys, "db", -3*hourMillis, 60)
	require.Empty(t, second[0].Compaction.Hints, "a directory of the log is not a head")

	f, err := fsys.Create(filepath.Join("db", "wal", "00000000"))
	require.NoError(t, err)
	require.NoError(t, f.Close())
	third := writeSome(t, fsys, "db", -hourMillis, 200)
	require.Len(t, third, 4, "windows of two hours, one of them cut where the head begins")
	require.Equal(t, end, third[1].MaxTime)
	_, onDisk := readBackfilled(t, fsys, "db")
	for i, m := range third {
		require.Equal(t, m.MaxTime > end, m.HasHint("from-out-of-order"), "block %d", i)
		require.Equal(t, m.MaxTime > end, m.MinTime >= end)
		require.Contains(t, onDisk, m)
	}

	fourth := writeSome(t, fsys, "other", 0, 1)
	require.Empty(t, fourth[0].Compaction.Hints)
	w, err := tsdb.NewBlockWriter("other", &tsdb.BlockWriterOptions{FS: fsys, OutOfOrder: true})
	require.NoError(t, err)
	require.NoError(t, w.Append(metric(1), 5, 5))
	metas, err := w.Flush(context.Background())
	require.NoError(t, err)
	require.Equal(t, []string{"from-out-of-order"}, metas[0].Compaction.Hints)
	require.NoError(t, w.Close())
}

// flushThree writes a block of three series and closes the writer.
func flushThree(fsys tsdb.FS) (flushed bool, err error) {
	w, err := tsdb.NewBlockWriter("db", &tsdb.BlockWriterOptions{FS: fsys})
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	for i := range 30 {
		if err := w.Append(metric(i%3), int64(i), 1); err != nil {
			return false, err
		}
	}
	_, err = w.Flush(context.Background())
	return err == nil, err
}

// Whenever the power fails, a block is there whole or not at all, and once Flush has
// returned, it is there.
func TestBlockWriter_PowerLoss_LeavesWholeBlocks(t *testing.T) {
	statesPerMoment := 200
	if !sweep.Whole() {
		statesPerMoment = 20
	}
	fsys := tsdbtest.NewMemFS()
	var moments []*tsdbtest.MemFS
	fsys.SetHook(func(op tsdbtest.Op) error {
		if op.Kind.Mutates() {
			moments = append(moments, fsys.KillClone())
		}
		return nil
	})
	_, err := flushThree(fsys)
	require.NoError(t, err)
	fsys.SetHook(nil)
	requireNothingElse(t, fsys, "db")
	states, withBlock := 0, 0
	for _, m := range append(moments, fsys) {
		for disk := range m.CrashStates(statesPerMoment) {
			states++
			blocks := 0
			if _, err := disk.Stat("db"); err == nil {
				all, _ := readBackfilled(t, disk, "db")
				for _, b := range all {
					require.Len(t, b, 3)
					blocks++
				}
			}
			withBlock += blocks
			if m == fsys {
				require.Equal(t, 1, blocks)
			}
			if states%5 == 0 || blocks > 0 {
				requireOpens(t, disk, blocks)
			}
		}
	}
	require.Positive(t, withBlock)
	t.Logf("%d states after %d moments, %d of them with the block", states, len(moments), withBlock)
}

// requireOpens opens what a crash left: as many whole blocks, and nothing to complain of.
func requireOpens(t *testing.T, disk *tsdbtest.MemFS, blocks int) {
	t.Helper()
	db, err := tsdb.Open("db", &tsdb.Options{FS: disk})
	require.NoError(t, err)
	report := db.OpenReport()
	require.True(t, report.Clean(), "%+v", report)
	require.Len(t, db.Blocks(), blocks)
	require.Len(t, dump(t, db, math.MinInt64, math.MaxInt64), 3*blocks)
	entries, err := disk.ReadDir("db")
	require.NoError(t, err)
	for _, e := range entries {
		require.False(t, strings.HasPrefix(e.Name(), "tmp-"), e.Name())
	}
	require.NoError(t, db.Close())
}

// A process that is killed at any moment leaves what the next Open takes away, or a whole
// block.
func TestBlockWriter_Killed_LeavesADirectoryToGoOnWith(t *testing.T) {
	fsys := tsdbtest.NewMemFS()
	var killed []*tsdbtest.MemFS
	fsys.SetHook(func(op tsdbtest.Op) error {
		if op.Kind.Mutates() {
			killed = append(killed, fsys.KillClone())
		}
		return nil
	})
	_, err := flushThree(fsys)
	require.NoError(t, err)
	whole := 0
	for _, disk := range killed {
		blocks := 0
		if ids, err := blockdir.List(disk, "db"); err == nil {
			blocks = len(ids)
		}
		whole += blocks
		requireOpens(t, disk, blocks)
	}
	require.Positive(t, whole)
	require.Less(t, whole, len(killed))
}

// Whatever operation fails: the error is returned, and a block that is there is whole. If
// the disk lets the writer clean up, nothing else is left.
func TestBlockWriter_AnyOperationFails_NothingHalfIsLeft(t *testing.T) {
	failed := errors.New("this one fails")
	for n := int64(1); ; n++ {
		fsys := tsdbtest.NewMemFS()
		hit := false
		fsys.SetHook(func(op tsdbtest.Op) error {
			if op.N == n {
				hit = true
				return failed
			}
			return nil
		})
		flushed, err := flushThree(fsys)
		fsys.SetHook(nil)
		if !hit {
			require.NoError(t, err)
			t.Logf("%d operations", n-1)
			return
		}
		if _, err := fsys.Stat("db"); err != nil {
			continue // it was the first thing to make
		}
		blocks, _ := readBackfilled(t, fsys, "db")
		for _, b := range blocks {
			require.Len(t, b, 3)
		}
		if flushed {
			require.Len(t, blocks, 1)
			continue // what fails now is cleaning up, and Close says so
		}
		require.Error(t, err)
	}
}

func TestBlockWriter_FullDisk_IsErrDiskFullAndLeavesNothing(t *testing.T) {
	for capacity := int64(1); ; capacity += 97 {
		fsys := tsdbtest.NewMemFS()
		fsys.SetCapacity(capacity)
		flushed, err := flushThree(fsys)
		if flushed {
			require.NoError(t, err)
			require.Greater(t, capacity, int64(500))
			return
		}
		require.ErrorIs(t, err, tsdb.ErrDiskFull)
		entries, err := fsys.ReadDir("db")
		require.NoError(t, err)
		require.Empty(t, entries, "%d bytes", capacity)
	}
}
