package blockmerge_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/blockmerge"
	"github.com/seed347100a3/tsdb/internal/blocktest"
	"github.com/seed347100a3/tsdb/internal/tombstones"
	"github.com/seed347100a3/tsdb/internal/xorchunk"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// Blocks, what is in them, and how it is written down.
var (
	remove      = blocktest.Delete
	blockChunks = blocktest.Chunks
	blockPoints = blocktest.Points
	points      = blocktest.Samples
	floats      = blocktest.Floats
	ramp        = blocktest.Ramp
	only        = blocktest.Only
)

// mergeTest is a directory with blocks.
type mergeTest struct {
	testing.TB
	fs     *tsdbtest.MemFS
	inputs []*blockdir.Dir
	named  int // blocks have names by number
}

func newMergeTest(t testing.TB) *mergeTest {
	m := &mergeTest{TB: t, fs: tsdbtest.NewMemFS()}
	require.NoError(t, m.fs.MkdirAll("data"))
	return m
}

// block adds an input with these half-open bounds.
func (m *mergeTest) block(mint, maxt int64, series ...blocktest.Series) *blockdir.Dir {
	m.Helper()
	m.named++
	d := blocktest.Make(m, m.fs, "data", blocktest.Meta(m.named, mint, maxt), series...)
	m.inputs = append(m.inputs, d)
	return d
}

// reopen opens the inputs anew.
func (m *mergeTest) reopen() {
	m.Helper()
	for i, d := range m.inputs {
		m.inputs[i] = blocktest.Open(m, m.fs, "data", d.Meta().ULID)
		require.NoError(m, d.Close())
	}
}

// write merges all inputs into a block of all their times, which has no name yet.
func (m *mergeTest) write() (blockmerge.Block, error) {
	m.named++
	meta := blocktest.Meta(m.named, math.MaxInt64, math.MinInt64)
	for _, d := range m.inputs {
		meta.MinTime, meta.MaxTime = min(meta.MinTime, d.Meta().MinTime), max(meta.MaxTime, d.Meta().MaxTime)
	}
	blocks, err := blockmerge.Write(context.Background(), blockmerge.Target{FS: m.fs, Dir: "data", SamplesPerChunk: 120}, blockmerge.Whole(m.inputs), meta)
	if err != nil {
		return blockmerge.Block{}, err
	}
	require.Len(m, blocks, 1)
	return blocks[0], nil
}

// merge merges all inputs, and checks all that holds of every result.
func (m *mergeTest) merge() (*blockdir.Dir, blockmerge.Block) {
	m.Helper()
	r, err := m.write()
	require.NoError(m, err)
	require.False(m, r.Empty)
	require.NoError(m, r.Writer.Publish())
	d := blocktest.Open(m, m.fs, "data", r.Meta.ULID)
	require.Equal(m, d.Meta(), r.Meta)
	require.Zero(m, d.Tombstones().Len())
	report, err := blockdir.Verify(context.Background(), d, nil)
	require.NoError(m, err)
	require.Empty(m, report.Problems)
	require.Empty(m, blocktest.Leftovers(m, m.fs, "data"))
	return d, r
}

func TestMerge_Neighbours_KeepTheirChunksByteForByte(t *testing.T) {
	m := newMergeTest(t)
	a := []blockdir.Chunk{ramp(0, 120, 1), ramp(200, 119, 2), ramp(500, 2, 1)}
	b := []blockdir.Chunk{ramp(1000, 119, 1), ramp(1200, 500, 1)}
	m.block(0, 1000, only(t, `{a="1"}`, a...), only(t, `{a="2"}`, ramp(5, 120, 1)))
	m.block(1000, 2000, only(t, `{a="1"}`, b...), only(t, `{b="1"}`, ramp(1005, 120, 1)))
	d, r := m.merge()
	require.Equal(t, map[string][]blockdir.Chunk{
		`{a="1"}`: append(a, b...), `{a="2"}`: {ramp(5, 120, 1)}, `{b="1"}`: {ramp(1005, 120, 1)},
	}, blockChunks(t, d))
	require.Equal(t, blockmerge.Counts{Passed: 7}, r.Counts)
	require.Equal(t, int64(0), r.Meta.MinTime)
	require.Equal(t, int64(2000), r.Meta.MaxTime)
}

func TestMerge_SmallNeighbours_BecomeOneChunk(t *testing.T) {
	m := newMergeTest(t)
	m.block(0, 100, only(t, `{a="1"}`, ramp(0, 60, 1)), only(t, `{a="2"}`, ramp(0, 1, 1)))
	m.block(100, 200, only(t, `{a="1"}`, ramp(100, 60, 1)))
	m.block(200, 300, only(t, `{a="1"}`, ramp(200, 1, 1), ramp(201, 1, 1)), only(t, `{a="2"}`, ramp(200, 1, 1)))
	d, r := m.merge()
	chunks := blockChunks(t, d)
	require.Equal(t, []int{120, 2}, sampleCounts(chunks[`{a="1"}`]))
	require.Equal(t, []int{2}, sampleCounts(chunks[`{a="2"}`]))
	require.Equal(t, []int64{0, 159}, []int64{chunks[`{a="1"}`][0].MinT, chunks[`{a="1"}`][0].MaxT})
	require.Equal(t, blockmerge.Counts{Joined: 6}, r.Counts)
	requireSamples(t, d, m.inputs...)
}

func sampleCounts(cs []blockdir.Chunk) (counts []int) {
	for _, c := range cs {
		counts = append(counts, c.Num)
	}
	return counts
}

// requireSamples compares a block with inputs that do not overlap.
func requireSamples(t testing.TB, got *blockdir.Dir, inputs ...*blockdir.Dir) {
	t.Helper()
	want := map[string][]blocktest.Point{}
	for _, d := range inputs {
		for key, ps := range blockPoints(t, d) {
			want[key] = append(want[key], ps...)
		}
	}
	require.Equal(t, want, blockPoints(t, got))
}

func TestMerge_OverlappingChunks_AreMergedByTimeAndTheFirstInputWins(t *testing.T) {
	m := newMergeTest(t)
	m.block(0, 1000, only(t, `{a="1"}`, floats(10, 1, 20, 1, 30, 1), ramp(500, 200, 1)))
	m.block(0, 1000, only(t, `{a="1"}`, floats(15, 2, 20, 2, 31, 2), ramp(500, 200, 2)))
	d, r := m.merge()
	ps := blockPoints(t, d)[`{a="1"}`]
	require.Equal(t, points(10, 1, 15, 2, 20, 1, 30, 1, 31, 2), ps[:5])
	require.Equal(t, []int{5, 120, 120, 60}, sampleCounts(blockChunks(t, d)[`{a="1"}`]))
	require.Equal(t, blockmerge.Counts{Reencoded: 4}, r.Counts)
}

// A chunk that begins at the very instant at which another one ends: of the two samples one stays.
func TestMerge_ChunksThatShareOneInstant_KeepTheFirstInputsSample(t *testing.T) {
	for _, n := range []int{1, 2, 60, 120, 130} { // small ones, which are joined, and whole ones
		m := newMergeTest(t)
		m.block(0, 1000, only(t, `{a="1"}`, ramp(500-int64(n)+1, n, 1)))
		m.block(0, 1000, only(t, `{a="1"}`, floats(500, -1, 501, -1), ramp(600, 120, 1)))
		d, _ := m.merge()
		ps := blockPoints(t, d)[`{a="1"}`]
		require.Len(t, ps, n+1+120, "%d samples", n)
		require.Equal(t, points(500, 500, 501, -1), ps[n-1:n+1], "%d samples", n)
	}
}

// Bug 35: what an interrupted merge leaves is merged again without another byte.
func TestMerge_Bug35_ResultBesideItsInputs_ChangesNothing(t *testing.T) {
	m := newMergeTest(t)
	m.block(0, 1000, only(t, `{a="1"}`, ramp(0, 120, 1), ramp(200, 150, 1)))
	m.block(1000, 2000, only(t, `{a="1"}`, ramp(1000, 130, 1)))
	first, _ := m.merge()
	m.inputs = append(m.inputs, first)
	again, r := m.merge()
	require.Equal(t, blockChunks(t, first), blockChunks(t, again))
	require.Equal(t, blockmerge.Counts{Passed: 3, Dropped: 3}, r.Counts)
}

// Bug 41: a sample in the last millisecond of a block, and one in the first of the next.
func TestMerge_Bug41_SamplesOnTheBoundary_AreKept(t *testing.T) {
	for _, at := range []int64{0, 7_200_000, math.MinInt64 + 10, math.MaxInt64 - 10} {
		m := newMergeTest(t)
		sample := func(ts int64) blockdir.Chunk {
			var enc xorchunk.Encoder
			require.NoError(t, enc.Append(ts, 1))
			return blockdir.Chunk{MinT: ts, MaxT: ts, Num: 1, Encoding: chunkenc.EncXOR, Data: enc.AppendTo(nil)}
		}
		m.block(at-10, at, only(t, `{a="1"}`, sample(at-10), sample(at-1)), only(t, `{a="2"}`, sample(at-1)))
		m.block(at, at+10, only(t, `{a="1"}`, sample(at), sample(at+9)), only(t, `{a="3"}`, sample(at+9)))
		d, r := m.merge()
		requireSamples(t, d, m.inputs...)
		require.Equal(t, uint64(6), r.Meta.Stats.NumSamples)
	}
}

// Bug 45: what is deleted of the inputs is gone from the result, and the sets of deleted
// intervals stay as they are.
func TestMerge_Bug45_DeletedSamples_AreGone(t *testing.T) {
	m := newMergeTest(t)
	a := m.block(0, 1000,
		only(t, `{a="1"}`, ramp(0, 200, 1), ramp(300, 200, 1)), only(t, `{a="2"}`, ramp(0, 10, 1)), only(t, `{a="3"}`, ramp(0, 10, 1)))
	b := m.block(0, 2000, only(t, `{a="1"}`, ramp(1200, 200, 1), ramp(1500, 200, 1)), only(t, `{a="3"}`, ramp(5, 10, 1)))
	remove(t, a, `{a="1"}`, 10, 20)
	remove(t, a, `{a="1"}`, 199, 320)
	remove(t, a, `{a="1"}`, 400, 400)
	remove(t, a, `{a="2"}`, math.MinInt64, math.MaxInt64)
	remove(t, a, `{a="3"}`, 0, 7)
	remove(t, b, `{a="1"}`, 1500, 1699)
	before := tombstones.Encode(a.Tombstones())

	d, r := m.merge()
	require.Equal(t, before, tombstones.Encode(a.Tombstones()))
	require.Equal(t, blockmerge.Counts{Passed: 1, Reencoded: 4, Dropped: 2}, r.Counts)
	got := blockPoints(t, d)
	require.Equal(t, append(blockPoints(t, a)[`{a="1"}`], blockPoints(t, b)[`{a="1"}`]...), got[`{a="1"}`])
	require.Equal(t, points(5, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13, 14, 14), got[`{a="3"}`], "what one input has lost the other one has")
	require.NotContains(t, got, `{a="2"}`)
	require.Equal(t, []int{188, 178, 200}, sampleCounts(blockChunks(t, d)[`{a="1"}`]), "a chunk with a hole stays one chunk")
}

// Bug 45, the other way: who deletes while a merge runs makes a new set, and the merge goes
// on with the one that it began with.
func TestMerge_Bug45_ADeleteMeanwhile_IsNotAppliedByHalf(t *testing.T) {
	m := newMergeTest(t)
	a := m.block(0, 1000, only(t, `{a="1"}`, ramp(0, 10, 1)), only(t, `{a="2"}`, ramp(0, 10, 1)))
	begun := false
	m.fs.SetHook(func(op tsdbtest.Op) error {
		if op.Kind == tsdbtest.OpCreate && strings.Contains(op.Name, "tmp-block") && !begun {
			begun = true
			remove(t, a, `{a=~".+"}`, 0, 5)
		}
		return nil
	})
	d, _ := m.merge()
	require.True(t, begun)
	ps := blockPoints(t, d)
	require.Equal(t, ps[`{a="1"}`], ps[`{a="2"}`])
	require.Len(t, ps[`{a="1"}`], 10)
}

// Blocks of others may have samples outside of their times; the result has none.
func TestMerge_SamplesOutsideOfTheBlocksTimes_AreDropped(t *testing.T) {
	m := newMergeTest(t)
	d := m.block(0, 2000, only(t, `{a="1"}`, ramp(0, 5, 1), ramp(8, 5, 1), ramp(500, 130, 1), ramp(995, 5, 1), ramp(1000, 5, 1)), only(t, `{a="2"}`, ramp(880, 121, 1)))
	meta := d.Meta()
	meta.MinTime, meta.MaxTime = 10, 1000
	require.NoError(t, blockdir.WriteMeta(m.fs, d.Path(), meta))
	m.reopen()
	got, r := m.merge()
	require.Equal(t, []int{3, 130, 5}, sampleCounts(blockChunks(t, got)[`{a="1"}`]))
	require.Equal(t, []int{120}, sampleCounts(blockChunks(t, got)[`{a="2"}`]))
	require.Equal(t, int64(999), blockChunks(t, got)[`{a="2"}`][0].MaxT)
	require.Equal(t, blockmerge.Counts{Passed: 2, Reencoded: 2, Dropped: 2}, r.Counts)
}

func TestMerge_ChunksThatItCannotDecode_AreCopied(t *testing.T) {
	m := newMergeTest(t)
	foreign := func(mint, maxt int64) blockdir.Chunk {
		return blockdir.Chunk{MinT: mint, MaxT: maxt, Num: 3, Encoding: 7, Data: []byte{0, 3, 0xde, 0xad}}
	}
	a := m.block(0, 100, only(t, `{a="1"}`, ramp(0, 3, 1), foreign(10, 19), ramp(20, 3, 1)))
	m.block(100, 200, only(t, `{a="1"}`, ramp(100, 3, 1), foreign(110, 119), foreign(120, 130)))
	d, r := m.merge()
	chunks := blockChunks(t, d)[`{a="1"}`]
	require.Equal(t, []int{3, 3, 6, 3, 3}, sampleCounts(chunks))
	require.Equal(t, foreign(10, 19), chunks[1])
	require.Equal(t, uint64(9), r.Meta.Stats.NumHistogramSamples)

	// Where it would have to look inside it says so, and leaves everything as it was.
	remove(t, a, `{a="1"}`, 12, 13)
	_, err := m.write()
	require.ErrorIs(t, err, chunkenc.ErrUnknownEncoding)
	require.ErrorContains(t, err, "chunks/000001")
	require.Empty(t, blocktest.Leftovers(t, m.fs, "data"))

	remove(t, a, `{a="1"}`, 10, 19)
	_, r = m.merge()
	require.Equal(t, uint64(6), r.Meta.Stats.NumHistogramSamples, "to drop a whole one it need not")
}

func TestMerge_SeriesWithoutLabelsAndManyInputs(t *testing.T) {
	m := newMergeTest(t)
	const blocks = 40
	for i := range int64(blocks) {
		m.block(i*10, i*10+10, blocktest.Series{Chunks: []blockdir.Chunk{ramp(i*10, 10, 1)}},
			only(t, fmt.Sprintf(`{n="%03d"}`, blocks-i), ramp(i*10, 1, 1)),
			only(t, fmt.Sprintf(`{n="%03d",x="%d"}`, blocks-i, i%2), ramp(i*10, 1, 1)))
	}
	d, r := m.merge()
	require.Equal(t, uint64(2*blocks+1), r.Meta.Stats.NumSeries)
	require.Equal(t, []int{120, 120, 120, 40}, sampleCounts(blockChunks(t, d)[`{}`]))
}

// However the inputs lie, and whatever is deleted: the result has what a reader of the inputs
// sees, in a good block.
func TestMerge_EqualsTheObviousOne(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := newMergeTest(t)
		want := map[string]map[int64]uint64{}
		for n := range rapid.IntRange(1, 4).Draw(rt, "blocks") {
			base := rapid.Int64Range(0, 400).Draw(rt, "base")
			var all []blocktest.Series
			for s := range 3 {
				at := base
				bs := only(t, fmt.Sprintf(`{s="%d"}`, s))
				for range rapid.IntRange(0, 4).Draw(rt, "chunks") {
					at += rapid.Int64Range(0, 60).Draw(rt, "gap")
					k := rapid.SampledFrom([]int{1, 2, 30, 119, 120, 121, 300}).Draw(rt, "samples")
					step := rapid.Int64Range(1, 2).Draw(rt, "step")
					var tv []float64
					for i := range int64(k) {
						tv = append(tv, float64(at+i*step), float64(n))
					}
					bs.Chunks = append(bs.Chunks, floats(tv...))
					at += int64(k) * step
				}
				if len(bs.Chunks) > 0 {
					all = append(all, bs)
				}
			}
			if len(all) == 0 {
				continue
			}
			d := m.block(base, base+4000, all...)
			for range rapid.IntRange(0, 3).Draw(rt, "deletes") {
				from := base + rapid.Int64Range(0, 600).Draw(rt, "from")
				remove(t, d, rapid.SampledFrom([]string{`{s=~".+"}`, all[0].Labels.String()}).Draw(rt, "of"), from, from+rapid.Int64Range(0, 300).Draw(rt, "length"))
			}
			for key, ps := range blockPoints(t, d) {
				if want[key] == nil {
					want[key] = map[int64]uint64{}
				}
				for _, p := range ps {
					if _, taken := want[key][p.T]; !taken {
						want[key][p.T] = p.V
					}
				}
			}
		}
		if len(m.inputs) == 0 {
			return
		}
		if len(want) == 0 {
			r, err := m.write()
			require.NoError(t, err)
			require.True(t, r.Empty)
			return
		}
		d, _ := m.merge()
		sorted := map[string][]blocktest.Point{}
		for key, ps := range want {
			for ts, v := range ps {
				sorted[key] = append(sorted[key], blocktest.Point{T: ts, V: v})
			}
			slices.SortFunc(sorted[key], func(a, b blocktest.Point) int { return int(a.T - b.T) })
		}
		require.Equal(t, sorted, blockPoints(t, d))
		for _, cs := range blockChunks(t, d) {
			for i := 1; i < len(cs); i++ {
				require.Greater(t, cs[i].Num+cs[i-1].Num, 120)
			}
		}
		for _, d := range m.inputs {
			require.NoError(t, d.Close())
		}
	})
}

// However many labels: they are compared as numbers, and the order is that of the strings.
func TestMerge_OrderOfSeries_IsThatOfTheirLabels(t *testing.T) {
	m := newMergeTest(t)
	names := []string{"", "a", "aa", "b", "\xff", "é", "z", "B"}
	next := 0
	for i := range int64(3) {
		var all []blocktest.Series
		for _, x := range names[1:] {
			for _, y := range names {
				if next++; next%3 == int(i) || next%5 == 0 {
					all = append(all, blocktest.Series{Labels: labels.FromStrings("a", y, "b", x), Chunks: []blockdir.Chunk{ramp(i*10, 10, 1)}})
				}
			}
		}
		m.block(i*10, i*10+10, all...)
	}
	d, _ := m.merge() // blockdir.Verify compares the order with that of the strings
	requireSamples(t, d, m.inputs...)
}

// A merge of twice as many series makes no more garbage, but for the tables of symbols.
func TestMerge_Series_AllocateNothing(t *testing.T) {
	allocs := func(series int, overlap int64) float64 {
		m := newMergeTest(t)
		for n := range int64(2) {
			var all []blocktest.Series
			for i := range series {
				at := n * (1000 - overlap)
				all = append(all, only(t, fmt.Sprintf(`{i="%06d"}`, i), ramp(at, 50, 1), ramp(at+60, 50, 1), ramp(at+200, 130, 1)))
			}
			m.block(0, 3000, all...)
		}
		return testing.AllocsPerRun(1, func() {
			_, err := m.write()
			require.NoError(t, err)
		})
	}
	for _, overlap := range []int64{0, 999} {
		require.Less(t, allocs(3000, overlap)-allocs(1500, overlap), 300.0)
	}
}

// Symbols are read in batches; there are several of them here, of blocks that share some.
func TestMerge_SymbolsOfManyBatches(t *testing.T) {
	m := newMergeTest(t)
	want := map[string][]blocktest.Point{}
	for n, step := range []int{1, 3} {
		var all []blocktest.Series
		for i := 0; i < 3000; i += step {
			ls := fmt.Sprintf(`{a="%d%s"}`, i, strings.Repeat("x", i%40))
			all = append(all, only(t, ls, floats(float64(1000*n), float64(i))))
			want[ls] = append(want[ls], points(float64(1000*n), float64(i))...)
		}
		m.block(int64(1000*n), int64(1000*n+1000), all...)
	}
	d, _ := m.merge()
	require.Equal(t, want, blockPoints(t, d))
}

// What a series is kept from leaves out chunks that end before, and cuts none.
func TestMerge_SeriesThatAreKeptFromATimeOn_LoseWholeChunks(t *testing.T) {
	m := newMergeTest(t)
	a := m.block(0, 1000,
		blocktest.Only(t, `{a="1"}`, blocktest.Ramp(0, 150, 1), blocktest.Ramp(300, 150, 1)),
		blocktest.Only(t, `{a="2"}`, blocktest.Ramp(0, 150, 1)),
		blocktest.Only(t, `{a="3"}`, blocktest.Ramp(0, 150, 1)))
	b := m.block(1000, 2000, blocktest.Only(t, `{a="1"}`, blocktest.Ramp(1000, 150, 1)), blocktest.Only(t, `{a="3"}`, blocktest.Ramp(1000, 150, 1)))
	from := map[string]int64{`{a="1"}`: 400, `{a="2"}`: 150, `{a="3"}`: 149}
	keepFrom := func(d *blockdir.Dir) func(id uint64) int64 {
		return func(id uint64) int64 {
			pairs, err := d.Index().SeriesLabels(id, nil)
			require.NoError(t, err)
			value, err := d.Index().Symbol(pairs[0].Value)
			require.NoError(t, err)
			return from[`{a="`+value+`"}`]
		}
	}
	m.named++
	blocks, err := blockmerge.Write(context.Background(), blockmerge.Target{FS: m.fs, Dir: "data", SamplesPerChunk: 120},
		[]blockmerge.Input{{Dir: a, KeepFrom: keepFrom(a)}, {Dir: b, KeepFrom: keepFrom(b)}}, blocktest.Meta(m.named, 0, 2000))
	require.NoError(t, err)
	require.NoError(t, blocks[0].Writer.Publish())
	require.Equal(t, blockmerge.Counts{Passed: 4, Dropped: 2}, blocks[0].Counts)
	d := blocktest.Open(t, m.fs, "data", blocks[0].Meta.ULID)
	got := blocktest.Points(t, d)
	require.Len(t, got, 2)
	require.Len(t, got[`{a="1"}`], 300)
	require.Equal(t, int64(300), got[`{a="1"}`][0].T)
	require.Len(t, got[`{a="3"}`], 300)
	require.Equal(t, uint64(2), d.Meta().Stats.NumSeries)
}
