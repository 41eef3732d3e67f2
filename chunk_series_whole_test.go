package tsdb_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/labels"
)

// With SelectHints.WholeChunks a range selects chunks and does not cut them; what is deleted stays
// deleted.
func TestSelectChunks_WholeChunksAreNotCutToTheRange(t *testing.T) {
	for _, c := range []struct {
		what         string
		mint, maxt   int64
		more         []blockdir.Chunk // of a second block
		gone         []chunkTimes     // from the first block
		stored, made []chunkTimes
		from, to     int64 // times that all chunks lie in
	}{
		{what: "all", mint: math.MinInt64, maxt: math.MaxInt64, from: 0, to: 899,
			stored: []chunkTimes{{0, 99}, {200, 299}, {400, 499}, {600, 699}, {800, 899}}},
		{what: "a range that cuts two chunks", mint: 201, maxt: 698, from: 200, to: 699,
			stored: []chunkTimes{{200, 299}, {400, 499}, {600, 699}}},
		{what: "a range in a chunk", mint: 450, maxt: 451, from: 400, to: 499,
			stored: []chunkTimes{{400, 499}}},
		{what: "a range of the first sample of one and the last of another", mint: 299, maxt: 400, from: 200, to: 499,
			stored: []chunkTimes{{200, 299}, {400, 499}}},
		{what: "a delete outside of the range, in its chunk", mint: 410, maxt: 420, gone: []chunkTimes{{450, 460}}, from: 400, to: 499,
			made: []chunkTimes{{400, 499}}},
		{what: "a delete of a part of the range", mint: 410, maxt: 420, gone: []chunkTimes{{405, 415}}, from: 400, to: 499,
			made: []chunkTimes{{400, 499}}},
		{what: "a delete of the end of a chunk", mint: 410, maxt: 700, gone: []chunkTimes{{480, 699}}, from: 400, to: 699,
			made: []chunkTimes{{400, 479}}},
		{what: "a delete of a whole chunk", mint: 250, maxt: 650, gone: []chunkTimes{{400, 499}}, from: 200, to: 699,
			stored: []chunkTimes{{200, 299}, {600, 699}}},
		{what: "an overlap with a chunk", mint: 260, maxt: 420, more: []blockdir.Chunk{stamped(250, 100)}, from: 200, to: 499,
			stored: []chunkTimes{{400, 499}}, made: []chunkTimes{{200, 319}, {320, 349}}},
		{what: "an overlap beyond the range", mint: 220, maxt: 230, more: []blockdir.Chunk{stamped(250, 100)}, from: 200, to: 299,
			stored: []chunkTimes{{200, 299}}},
	} {
		t.Run(c.what, func(t *testing.T) {
			db, files := openFive(t, c.more, c.gone)
			var reached []blockdir.Chunk
			for _, chunk := range c.more {
				if chunk.MinT <= c.maxt && chunk.MaxT >= c.mint {
					reached = append(reached, chunk)
				}
			}
			want := remaining(c.from, c.to, fiveChunks(), c.gone, reached)
			for _, hints := range []*tsdb.SelectHints{{WholeChunks: true}, {WholeChunks: true, Transient: true}} {
				stored, made, times := chunksOf(t, db, c.mint, c.maxt, hints, files)
				require.Equal(t, c.stored, stored, "as they are in the file")
				require.Equal(t, c.made, made, "encoded again")
				require.Equal(t, want, times)
				hints.MinT, hints.MaxT = c.mint, c.maxt // of a Querier of all times
				_, _, times = chunksOf(t, db, math.MinInt64, math.MaxInt64, hints, files)
				require.Equal(t, want, times)
			}
		})
	}
}

// A series is there if its chunks reach over the range, although no sample is in it, and not if
// none does.
func TestSelectChunks_WholeChunksOverAGap(t *testing.T) {
	m := newMergeTest(t)
	m.block(0, 1000, only(t, `{a="b"}`, ramp(0, 10, 100)))
	db, err := tsdb.Open("data", &tsdb.Options{FS: m.fs, Clock: m.clock, Blocks: tsdb.BlockOptions{Manual: true}})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	q, err := db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	defer func() { require.NoError(t, q.Close()) }()
	found := func(mint, maxt int64, whole bool) (n int) {
		set := q.SelectChunks(ctx, &tsdb.SelectHints{MinT: mint, MaxT: maxt, WholeChunks: whole})
		for set.Next() {
			n++
		}
		require.NoError(t, set.Err())
		return n
	}
	require.Equal(t, []int{0, 1}, []int{found(110, 190, false), found(110, 190, true)}, "between two samples of a chunk")
	require.Equal(t, []int{0, 0}, []int{found(910, 990, false), found(910, 990, true)}, "behind all chunks")
	require.Equal(t, []int{1, 1}, []int{found(100, 100, false), found(100, 100, true)})
	set := q.Select(ctx, &tsdb.SelectHints{MinT: 110, MaxT: 190, WholeChunks: true})
	require.False(t, set.Next(), "samples are those of the range")
	require.NoError(t, set.Err())
}

// Chunks of the head come whole, full ones and the open one, but nothing of them that was committed
// behind the snapshot, or is deleted.
func TestSelectChunks_WholeChunksOfTheHead(t *testing.T) {
	f := newFixture(t, func(o *tsdb.Options) {
		o.Blocks.Manual = true
		o.Head.SamplesPerChunk = 16
	})
	for at := int64(100); at < 140; at++ {
		f.commit(sample{`{a="b"}`, at, float64(at)}, sample{`{a="deleted"}`, at, float64(at)})
	}
	require.NoError(t, f.db.Delete(ctx, 102, 120, labels.Equal("a", "deleted")))
	q, err := f.db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	defer func() { require.NoError(t, q.Close()) }()
	f.commit(sample{`{a="b"}`, 140, 140})

	chunks := func(series string, mint, maxt int64, whole bool) (times []int64, n int) {
		set := q.SelectChunks(ctx, &tsdb.SelectHints{MinT: mint, MaxT: maxt, WholeChunks: whole}, labels.Equal("a", series))
		require.True(t, set.Next())
		for it := set.At().Chunks(nil); it.Next(); n++ {
			times = append(times, timesOf(t, it.At().Chunk.Iterator(nil))...)
		}
		require.False(t, set.Next())
		require.NoError(t, set.Err())
		return times, n
	}
	all, n := chunks("b", 100, 139, false)
	require.Greater(t, n, 1)
	require.Len(t, all, 40)
	for _, at := range all {
		cut, n := chunks("b", at, at, false)
		require.Equal(t, []int64{at}, cut)
		require.Equal(t, 1, n)
		whole, n := chunks("b", at, at, true)
		require.Equal(t, 1, n)
		require.Greater(t, len(whole), 1)
		require.Contains(t, whole, at)
		require.Equal(t, all[whole[0]-100:whole[len(whole)-1]-99], whole)
		if at < 102 || at > 120 {
			whole, _ = chunks("deleted", at, at, true)
			require.Contains(t, whole, at)
			for _, other := range whole {
				require.False(t, other >= 102 && other <= 120, "%d is deleted", other)
			}
		}
	}
}

// A chunk of the head that reaches into the time of blocks, which have it without what was deleted
// there before, gives nothing of that time.
func TestSelectChunks_WholeChunksOfTheHeadEndWhereBlocksBegin(t *testing.T) {
	f := newFixture(t, func(o *tsdb.Options) {
		o.Blocks.Manual = true
		o.Head.SamplesPerChunk = 16
		o.Head.SnapshotThreshold = -1
	})
	for at := range int64(80) {
		f.commit(sample{`{a="b"}`, at, float64(at)})
	}
	require.NoError(t, f.db.Close())
	makeBlock(t, f.fs, fixtureDir, bounded(1, 0, 10), only(t, `{a="b"}`, ramp(0, 5, 1)))
	f.open()
	require.Len(t, f.db.Blocks(), 1)
	require.Positive(t, f.db.OpenReport().HeadChunks, "the test is about chunks in files")
	q, err := f.db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	defer func() { require.NoError(t, q.Close()) }()
	times := func(hints *tsdb.SelectHints) (times []int64) {
		set := q.SelectChunks(ctx, hints)
		require.True(t, set.Next())
		for it := set.At().Chunks(nil); it.Next(); {
			times = append(times, timesOf(t, it.At().Chunk.Iterator(nil))...)
		}
		require.False(t, set.Next())
		require.NoError(t, set.Err())
		return times
	}
	want := times(nil)
	require.Equal(t, []int64{0, 1, 2, 3, 4, 10, 11}, want[:7])
	require.Equal(t, want, times(&tsdb.SelectHints{WholeChunks: true}))
	whole := times(&tsdb.SelectHints{MinT: 12, MaxT: 12, WholeChunks: true})
	require.Greater(t, len(whole), 1)
	require.EqualValues(t, 10, whole[0])
	whole = times(&tsdb.SelectHints{MinT: 4, MaxT: 12, WholeChunks: true})
	require.Equal(t, want[:len(whole)], whole)
}
