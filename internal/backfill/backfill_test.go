package backfill

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/sweep"
	"github.com/seed347100a3/tsdb/labels"
)

// blockOf is an Output that checks the order it is called in and keeps everything.
type blockOf struct {
	t       *testing.T
	symbols []string
	last    []index.SymbolPair
	chunks  []Chunk
	series  map[string][]sample
	sizes   map[string][]int // samples of each chunk
}

func newBlock(t *testing.T) *blockOf {
	return &blockOf{t: t, series: make(map[string][]sample), sizes: make(map[string][]int)}
}

func (b *blockOf) AddSymbol(s string) error {
	require.Empty(b.t, b.series, "symbols come first")
	if n := len(b.symbols); n > 0 {
		require.Less(b.t, b.symbols[n-1], s)
	}
	b.symbols = append(b.symbols, s)
	return nil
}

func (b *blockOf) AddChunk(c Chunk) error {
	c.Data = slices.Clone(c.Data)
	b.chunks = append(b.chunks, c)
	return nil
}

func (b *blockOf) AddSeries(ls []index.SymbolPair) error {
	compare := func(x, y index.SymbolPair) int {
		if c := int(x.Name) - int(y.Name); c != 0 {
			return c
		}
		return int(x.Value) - int(y.Value)
	}
	require.Negative(b.t, slices.CompareFunc(b.last, ls, compare), "series ascend")
	b.last = slices.Clone(ls)
	var text []string
	for _, l := range ls {
		text = append(text, b.symbols[l.Name], b.symbols[l.Value])
	}
	name := labels.FromStrings(text...).String()
	for _, c := range b.chunks {
		xs := decode(b.t, c.Data)
		require.Len(b.t, xs, c.Num)
		require.Equal(b.t, c.MinT, xs[0].t)
		require.Equal(b.t, c.MaxT, xs[len(xs)-1].t)
		b.series[name] = append(b.series[name], xs...)
		b.sizes[name] = append(b.sizes[name], c.Num)
	}
	b.chunks = nil
	return nil
}

func decode(t *testing.T, data []byte) []sample {
	c, err := chunkenc.FromData(chunkenc.EncXOR, data)
	require.NoError(t, err)
	it := c.Iterator(nil)
	var xs []sample
	for it.Next() != chunkenc.ValNone {
		at, v := it.At()
		xs = append(xs, sample{at, v})
	}
	require.NoError(t, it.Err())
	return xs
}

// blocks reads a store by blocks of a width that divides its windows.
func blocks(t *testing.T, s *Store, width int64) map[int64]*blockOf {
	m, err := s.Merge()
	require.NoError(t, err)
	all := make(map[int64]*blockOf)
	for _, w := range m.Windows() {
		for start := w * s.opts.Range; start < (w+1)*s.opts.Range; start += width {
			b := newBlock(t)
			require.NoError(t, m.Block(context.Background(), w, start, start+width-1, b))
			all[start] = b
		}
	}
	require.NoError(t, m.Close())
	return all
}

func name(i int) labels.Labels {
	return labels.FromStrings("__name__", "m", "series", fmt.Sprint(i), "parity", fmt.Sprint(i%2))
}

// Whatever the order of series, the memory and the width of blocks: each block has the
// samples of its time, all of them, in order.
func TestMerge_AnyInput_EqualsTheModel(t *testing.T) {
	seeds := uint64(30)
	if !sweep.Whole() {
		seeds = 5
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			spills := 0
			s := NewStore(fileutil.OS, t.TempDir(), Options{
				Range:       9000,
				MemoryBytes: int64(r.IntN(1<<20) + 1),
				Spilled:     func(bytes int64) { spills++; require.Positive(t, bytes) },
			})
			model := make(map[string][]sample)
			refs := make([]uint64, r.IntN(300)+1)
			times := make([]int64, len(refs))
			for i := range times {
				times[i] = r.Int64N(40000) - 20000
			}
			at, stay := 0, r.IntN(200)+1
			for n := range 60000 {
				if n%stay == 0 {
					at = r.IntN(len(refs))
				}
				times[at] += r.Int64N(60) + 1
				v := float64(r.IntN(100)) / 8
				var err error
				refs[at], err = s.Append(refs[at], name(at), times[at], v)
				require.NoError(t, err)
				key := name(at).String()
				model[key] = append(model[key], sample{times[at], v})
			}
			require.EqualValues(t, 60000, s.Samples())
			got := make(map[string][]sample)
			all := blocks(t, s, 3000)
			starts := make([]int64, 0, len(all))
			for start := range all {
				starts = append(starts, start)
			}
			slices.Sort(starts)
			for _, start := range starts {
				for key, xs := range all[start].series {
					require.GreaterOrEqual(t, xs[0].t, start)
					require.Less(t, xs[len(xs)-1].t, start+3000)
					got[key] = append(got[key], xs...)
				}
			}
			require.Equal(t, model, got)
			require.NoError(t, s.Drop())
			left, err := fileutil.OS.ReadDir(s.dir)
			require.NoError(t, err)
			require.Empty(t, left)
			t.Logf("%d runs", spills)
		})
	}
}

// The ends of runs do not become short chunks of a block.
func TestMerge_ShortChunksOfRunsAreJoined(t *testing.T) {
	s := NewStore(fileutil.OS, t.TempDir(), Options{Range: 1 << 40, MemoryBytes: 1})
	for i := range int64(500) {
		_, err := s.Append(0, name(1), i, float64(i))
		require.NoError(t, err)
		if i%7 == 6 {
			require.NoError(t, s.Spill())
		}
	}
	require.Len(t, s.runs, 71)
	b := blocks(t, s, 1<<40)[0]
	require.Equal(t, map[string][]int{name(1).String(): {119, 119, 119, 119, 24}}, b.sizes)
}

func TestStore_LateSamplesAreTaken_OtherValuesAreNot(t *testing.T) {
	s := NewStore(fileutil.OS, t.TempDir(), Options{Range: 1000, MemoryBytes: 1 << 20})
	ref, err := s.Append(0, name(1), 10, 1)
	require.NoError(t, err)
	_, err = s.Append(ref, labels.Labels{}, 10, 2)
	require.ErrorIs(t, err, ErrDuplicate)
	_, err = s.Append(ref, labels.Labels{}, 10, 1)
	require.NoError(t, err, "an exact repeat is dropped")
	_, err = s.Append(77, labels.Labels{}, 10, 1)
	require.ErrorIs(t, err, ErrNotFound)
	_, err = s.Append(ref, labels.Labels{}, 9, 1)
	require.NoError(t, err)
	_, err = s.Append(ref, labels.Labels{}, 10, 2)
	require.ErrorIs(t, err, ErrDuplicate, "the newest time is still known")
	require.NoError(t, s.Spill())
	_, err = s.Append(ref, labels.Labels{}, 10, 2)
	require.ErrorIs(t, err, ErrDuplicate, "a spill forgets no times")
	_, err = s.Append(ref, labels.Labels{}, 8, 1)
	require.NoError(t, err)
	require.EqualValues(t, 3, s.Samples())
	require.Equal(t, map[string][]sample{name(1).String(): {{8, 1}, {9, 1}, {10, 1}}}, blocks(t, s, 1000)[0].series)
}

// orders are ways in which the samples of a series may come.
var orders = map[string]func(r *rand.Rand, n int) []int64{
	"oldest first": func(_ *rand.Rand, n int) (ts []int64) {
		for i := range n {
			ts = append(ts, int64(i))
		}
		return ts
	},
	"newest first": func(_ *rand.Rand, n int) (ts []int64) {
		for i := range n {
			ts = append(ts, int64(n-i))
		}
		return ts
	},
	"days in reverse": func(_ *rand.Rand, n int) (ts []int64) {
		for i := range n {
			ts = append(ts, int64((n-i-1)/100*100+i%100))
		}
		return ts
	},
	"any": func(r *rand.Rand, n int) (ts []int64) {
		for range n {
			ts = append(ts, r.Int64N(int64(n)))
		}
		return ts
	},
	"many of one time": func(r *rand.Rand, n int) (ts []int64) {
		for range n {
			ts = append(ts, r.Int64N(8))
		}
		return ts
	},
}

// Samples in any order, in memory and over many runs, are the same blocks as a map that
// keeps the first or the last of each time.
func TestMerge_AnyOrderOfTime_EqualsTheModel(t *testing.T) {
	for order, make := range orders {
		for _, policy := range []Duplicates{KeepFirst, KeepLast} {
			for _, memory := range []int64{1, 1 << 12} {
				for _, every := range []int{60, math.MaxInt} {
					t.Run(fmt.Sprint(order, policy, memory, every), func(t *testing.T) {
						checkOrder(t, make, policy, memory, every)
					})
				}
			}
		}
	}
}

func checkOrder(t *testing.T, make func(*rand.Rand, int) []int64, policy Duplicates, memory int64, every int) {
	r := rand.New(rand.NewPCG(1, uint64(memory)))
	s := NewStore(fileutil.OS, t.TempDir(), Options{Range: 900, MemoryBytes: memory, Duplicates: policy})
	model := map[string]map[int64]float64{}
	n := 600
	if memory == 1 { // each sample is a run: no series is remembered
		n = 30
	}
	times := [][]int64{make(r, n), make(r, n), make(r, n)}
	for n := range times[0] {
		for i := range times {
			at, v, key := times[i][n], float64(r.IntN(3)), name(i).String()
			_, err := s.Append(0, name(i), at, v)
			require.NoError(t, err)
			if model[key] == nil {
				model[key] = map[int64]float64{}
			}
			if _, ok := model[key][at]; !ok || policy == KeepLast {
				model[key][at] = v
			}
		}
		if n%every == every-1 {
			require.NoError(t, s.Spill())
		}
	}
	got := map[string]map[int64]float64{}
	for start, b := range blocks(t, s, 300) {
		for key, xs := range b.series {
			if got[key] == nil {
				got[key] = map[int64]float64{}
			}
			for i, x := range xs {
				require.True(t, x.t >= start && x.t < start+300 && (i == 0 || xs[i-1].t < x.t))
				got[key][x.t] = x.v
			}
		}
	}
	require.Equal(t, model, got)
}

// Newest first costs no decoding of what is in the runs: their chunks are those of the
// blocks.
func TestMerge_NewestFirst_PassesChunksThrough(t *testing.T) {
	s := NewStore(fileutil.OS, t.TempDir(), Options{Range: 1 << 40, MemoryBytes: 1})
	for i := range int64(480) {
		_, err := s.Append(0, name(1), 1000-i, float64(i))
		require.NoError(t, err)
		if i%120 == 119 {
			require.NoError(t, s.Spill())
		}
	}
	require.Len(t, s.runs, 4)
	b := blocks(t, s, 1<<40)[0]
	require.Equal(t, map[string][]int{name(1).String(): {120, 120, 120, 120}}, b.sizes)
	require.Nil(t, s.sorter.scratch)
}

// A series that is not in order is sorted in pieces, which take a share of the memory.
func TestStore_UnorderedSeries_SpillsBeforeSortingTakesMuchMemory(t *testing.T) {
	spills, most := 0, 0
	var s *Store
	s = NewStore(fileutil.OS, t.TempDir(), Options{Range: 1 << 40, MemoryBytes: 8 << 20, Spilled: func(int64) {
		spills++
		most = max(most, len(s.sorter.scratch))
	}})
	for i := range int64(300_000) {
		_, err := s.Append(0, name(1), -i, 1)
		require.NoError(t, err)
	}
	require.Equal(t, 4, spills)
	require.InDelta(t, 1<<16, most, maxBlock)
}

// One late sample behind a long run in order does not make all of the run be copied and sorted.
func TestStore_ALateSampleBehindALongRun_SpillsItAsItIs(t *testing.T) {
	spills := 0
	s := NewStore(fileutil.OS, t.TempDir(), Options{Range: 1 << 40, MemoryBytes: 8 << 20, Spilled: func(int64) { spills++ }})
	const n = 400_000
	for i := range int64(n) {
		_, err := s.Append(0, name(1), i*10, 1)
		require.NoError(t, err)
	}
	require.Zero(t, spills)
	_, err := s.Append(0, name(1), 5, 2)
	require.NoError(t, err)
	require.Equal(t, 1, spills)
	m, err := s.Merge()
	require.NoError(t, err)
	require.NoError(t, m.Close())
	require.Less(t, cap(s.sorter.scratch), 1<<16)
	got := blocks(t, s, 1<<40)[0].series[name(1).String()]
	require.Len(t, got, n+1)
	require.Equal(t, []sample{{0, 1}, {5, 2}, {10, 1}}, got[:3])
}

// Of every sample that goes because of its time it is counted that it did, wherever it
// turns out; exact repeats are no matter.
func TestMerge_DuplicatesAreCountedOrNamed(t *testing.T) {
	values := []sample{{5, 1}, {9, 1}, {5, 1}, {5, 2}, {9, 1}, {3, 1}, {9, 4}}
	for _, every := range []int{1, 2, 3, 100} {
		for _, policy := range []Duplicates{KeepFirst, KeepLast, DuplicatesError} {
			s := NewStore(fileutil.OS, t.TempDir(), Options{Range: 1000, MemoryBytes: 1, Duplicates: policy})
			refused := 0
			for n, x := range values {
				if _, err := s.Append(0, name(1), x.t, x.v); err != nil {
					require.ErrorIs(t, err, ErrDuplicate)
					refused++
				}
				if n%every == every-1 {
					require.NoError(t, s.Spill())
				}
			}
			m, err := s.Merge()
			b := newBlock(t)
			if err == nil {
				err = m.Block(context.Background(), 0, 0, 999, b)
				require.NoError(t, m.Close())
			}
			if policy == DuplicatesError {
				require.ErrorIs(t, err, ErrDuplicate, every)
				require.Regexp(t, "at time [59]", err.Error())
				require.ErrorContains(t, err, `series="1"`)
				continue
			}
			require.NoError(t, err)
			want := []sample{{3, 1}, {5, 1}, {9, 1}}
			if policy == KeepLast {
				want = []sample{{3, 1}, {5, 2}, {9, 4}}
			}
			require.Equal(t, want, b.series[name(1).String()])
			require.Positive(t, s.Duplicates())
			require.Zero(t, refused)
		}
	}
}

// A series that was forgotten comes again: its samples find their places.
func TestMerge_LateSamplesOfForgottenSeriesFindTheirPlaces(t *testing.T) {
	for _, c := range []struct {
		t    int64
		v    float64
		want error
	}{{99, 1, nil}, {100, 2, ErrDuplicate}, {100, 1, nil}, {101, 2, nil}} {
		s := NewStore(fileutil.OS, t.TempDir(), Options{Range: 1000, MemoryBytes: 1})
		ref, err := s.Append(0, name(1), 100, 1)
		require.NoError(t, err)
		require.NoError(t, s.Spill())
		_, err = s.Append(ref, labels.Labels{}, 101, 1)
		require.ErrorIs(t, err, ErrNotFound)
		_, err = s.Append(0, name(1), c.t, c.v)
		require.NoError(t, err)
		m, err := s.Merge()
		require.NoError(t, err)
		err = m.Block(context.Background(), 0, math.MinInt64, math.MaxInt64, newBlock(t))
		require.ErrorIs(t, err, c.want)
		if c.want != nil {
			require.ErrorContains(t, err, fmt.Sprintf(`series {__name__="m", parity="1", series="1"} at time %d`, c.t))
		}
		require.NoError(t, m.Close())
	}
}

func TestStore_TimesAtTheEnds(t *testing.T) {
	s := NewStore(fileutil.OS, t.TempDir(), Options{Range: 1000, MemoryBytes: 1 << 20})
	times := []int64{math.MinInt64 + 1, -1001, -1000, -1, 0, 999, 1000, math.MaxInt64 - 1}
	for _, at := range times {
		_, err := s.Append(0, name(1), at, 1)
		require.NoError(t, err)
	}
	m, err := s.Merge()
	require.NoError(t, err)
	var got []int64
	for _, w := range m.Windows() {
		b := newBlock(t)
		require.NoError(t, m.Block(context.Background(), w, math.MinInt64, math.MaxInt64, b))
		for _, x := range b.series[name(1).String()] {
			require.Equal(t, w, WindowOf(x.t, 1000))
			got = append(got, x.t)
		}
	}
	require.Equal(t, times, got)
}

func TestMerge_StopsWhenItIsCancelled(t *testing.T) {
	s := NewStore(fileutil.OS, t.TempDir(), Options{Range: 1000, MemoryBytes: 1 << 20})
	_, err := s.Append(0, name(1), 1, 1)
	require.NoError(t, err)
	m, err := s.Merge()
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, m.Block(ctx, 0, 0, 999, newBlock(t)), context.Canceled)
}

// A disk that changes a byte of a scratch file, or loses its end, makes the merge fail.
func TestMerge_DamagedScratchFiles_AreNoticed(t *testing.T) {
	dir := t.TempDir()
	s := NewStore(fileutil.OS, dir, Options{Range: 1000, MemoryBytes: 1 << 20})
	for i := range int64(300) {
		_, err := s.Append(0, name(int(i%3)), i*10, float64(i*i))
		require.NoError(t, err)
		if i == 150 {
			require.NoError(t, s.Spill())
		}
	}
	require.NoError(t, s.Spill())
	require.Len(t, s.runs, 2)
	readAll := func() error {
		m, err := s.Merge()
		if err != nil {
			return err
		}
		for _, w := range m.Windows() {
			if err := m.Block(context.Background(), w, math.MinInt64, math.MaxInt64, discard{}); err != nil {
				require.NoError(t, m.Close())
				return err
			}
		}
		return m.Close()
	}
	require.NoError(t, readAll())
	damages := 0
	check := func(file string, data []byte) {
		require.NoError(t, os.WriteFile(file, data, 0o600))
		damages++
		err := readAll()
		require.ErrorIs(t, err, encbuf.ErrCorrupt)
		require.ErrorContains(t, err, dir)
	}
	for _, r := range s.runs {
		for _, file := range []string{r.symbols, r.series, r.chunks} {
			good, err := os.ReadFile(file)
			require.NoError(t, err)
			for i := range good {
				bad := slices.Clone(good)
				bad[i] ^= 1 << (i % 8)
				check(file, bad)
			}
			check(file, good[:len(good)-1])
			check(file, nil)
			require.NoError(t, os.WriteFile(file, good, 0o600))
		}
	}
	require.NoError(t, readAll())
	t.Logf("%d damages", damages)
}

// A block reads its series twice. What changes in between is noticed as well.
func TestMerge_DamageBetweenTheTwoReadings_IsNoticed(t *testing.T) {
	s := NewStore(fileutil.OS, t.TempDir(), Options{Range: 1000, MemoryBytes: 1 << 20})
	for i := range int64(3) {
		_, err := s.Append(0, name(1), i, 1)
		require.NoError(t, err)
		_, err = s.Append(0, name(2), i, 1)
		require.NoError(t, err)
		require.NoError(t, s.Spill())
	}
	file := s.runs[1].series
	good, err := os.ReadFile(file)
	require.NoError(t, err)
	for i := range 2 * len(good) {
		bad := slices.Clone(good)
		bad[i/2] ^= 1 << (i % 2 * (i / 2 % 8)) // the lowest bit, and another one
		m, err := s.Merge()
		require.NoError(t, err)
		err = m.Block(context.Background(), 0, 0, 999, onSymbol{func() { require.NoError(t, os.WriteFile(file, bad, 0o600)) }})
		require.ErrorIs(t, err, encbuf.ErrCorrupt, "byte %d", i/2)
		require.NoError(t, m.Close())
		require.NoError(t, os.WriteFile(file, good, 0o600))
	}
}

// onSymbol is an Output that calls f for each symbol, and keeps nothing.
type onSymbol struct{ f func() }

func (o onSymbol) AddSymbol(string) error           { o.f(); return nil }
func (onSymbol) AddChunk(Chunk) error               { return nil }
func (onSymbol) AddSeries([]index.SymbolPair) error { return nil }

// discard is an Output that keeps nothing.
type discard struct{}

func (discard) AddSymbol(string) error             { return nil }
func (discard) AddChunk(Chunk) error               { return nil }
func (discard) AddSeries([]index.SymbolPair) error { return nil }
