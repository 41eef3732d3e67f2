package tsdb_test

import (
	"bytes"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/labels"
)

// stamped is a chunk of n samples from a time on, one a millisecond, that says whether it was
// encoded again: behind its last bit is a byte that nobody reads.
func stamped(t int64, n int) blockdir.Chunk {
	c := ramp(t, n, 1)
	c.Data = append(c.Data, 0xaa)
	return c
}

// chunkTimes is the times of the first and the last sample of a chunk.
type chunkTimes struct{ mint, maxt int64 }

// fiveChunks have gaps as long as they are.
func fiveChunks() []blockdir.Chunk {
	return []blockdir.Chunk{stamped(0, 100), stamped(200, 100), stamped(400, 100), stamped(600, 100), stamped(800, 100)}
}

// openFive opens a database with fiveChunks of a series, of which some is deleted, in a block, and
// with more of them in another one. It returns all chunks that files have.
func openFive(t *testing.T, more []blockdir.Chunk, gone []chunkTimes) (*tsdb.DB, []blockdir.Chunk) {
	t.Helper()
	m := newMergeTest(t)
	d := m.block(0, 1000, only(t, `{a="b"}`, fiveChunks()...), only(t, `{a="other"}`, fiveChunks()...))
	files := fiveChunks()
	if len(more) > 0 {
		m.block(0, 1000, only(t, `{a="b"}`, more...))
		files = append(files, more...)
	}
	for _, g := range gone {
		remove(t, d, `{a="b"}`, g.mint, g.maxt)
	}
	db, err := tsdb.Open("data", &tsdb.Options{FS: m.fs, Clock: m.clock, Blocks: tsdb.BlockOptions{Manual: true}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db, files
}

// SelectChunks gives the bytes that are in the file wherever a range, a delete and another block
// allow it, and makes chunks of what they leave of the others.
func TestSelectChunks_BytesAreThoseOfTheFileUnlessAChunkIsCut(t *testing.T) {
	for _, c := range []struct {
		what       string
		mint, maxt int64
		more       []blockdir.Chunk // of a second block
		gone       []chunkTimes     // from the first block
		stored     []chunkTimes     // chunks that must come as they are
		made       []chunkTimes     // chunks that must have been made, others than these
	}{
		{what: "all", mint: math.MinInt64, maxt: math.MaxInt64,
			stored: []chunkTimes{{0, 99}, {200, 299}, {400, 499}, {600, 699}, {800, 899}}},
		{what: "a range that ends with its chunks", mint: 200, maxt: 699,
			stored: []chunkTimes{{200, 299}, {400, 499}, {600, 699}}},
		{what: "a range that cuts two chunks", mint: 201, maxt: 698,
			stored: []chunkTimes{{400, 499}}, made: []chunkTimes{{201, 299}, {600, 698}}},
		{what: "a range in a chunk", mint: 450, maxt: 451,
			made: []chunkTimes{{450, 451}}},
		{what: "a delete in a chunk", mint: math.MinInt64, maxt: math.MaxInt64, gone: []chunkTimes{{250, 320}},
			stored: []chunkTimes{{0, 99}, {400, 499}, {600, 699}, {800, 899}}, made: []chunkTimes{{200, 249}}},
		{what: "a delete between chunks", mint: math.MinInt64, maxt: math.MaxInt64, gone: []chunkTimes{{100, 199}},
			stored: []chunkTimes{{0, 99}, {200, 299}, {400, 499}, {600, 699}, {800, 899}}},
		{what: "a delete of a whole chunk and of a sample of another one", mint: math.MinInt64, maxt: math.MaxInt64, gone: []chunkTimes{{200, 299}, {699, 699}},
			stored: []chunkTimes{{0, 99}, {400, 499}, {800, 899}}, made: []chunkTimes{{600, 698}}},
		{what: "a delete and a range", mint: 210, maxt: 880, gone: []chunkTimes{{430, 440}},
			stored: []chunkTimes{{600, 699}}, made: []chunkTimes{{210, 299}, {400, 499}, {800, 880}}},
		{what: "an overlap with a chunk", mint: math.MinInt64, maxt: math.MaxInt64, more: []blockdir.Chunk{stamped(250, 100)},
			stored: []chunkTimes{{0, 99}, {400, 499}, {600, 699}, {800, 899}}, made: []chunkTimes{{200, 319}, {320, 349}}},
		{what: "an overlap of blocks, not of chunks", mint: math.MinInt64, maxt: math.MaxInt64, more: []blockdir.Chunk{stamped(120, 50), stamped(950, 20)},
			stored: []chunkTimes{{0, 99}, {120, 169}, {200, 299}, {400, 499}, {600, 699}, {800, 899}, {950, 969}}},
		{what: "an overlap, a delete and a range", mint: 10, maxt: 899, more: []blockdir.Chunk{stamped(450, 30)}, gone: []chunkTimes{{700, 850}},
			stored: []chunkTimes{{200, 299}, {600, 699}}, made: []chunkTimes{{10, 99}, {400, 499}, {851, 899}}},
	} {
		t.Run(c.what, func(t *testing.T) {
			db, files := openFive(t, c.more, c.gone)
			want := remaining(c.mint, c.maxt, fiveChunks(), c.gone, c.more)
			for _, hints := range []*tsdb.SelectHints{nil, {Transient: true}} {
				stored, made, times := chunksOf(t, db, c.mint, c.maxt, hints, files)
				require.Equal(t, c.stored, stored, "as they are in the file")
				require.Equal(t, c.made, made, "encoded again")
				require.Equal(t, want, times)
			}
		})
	}
}

// remaining returns the times in a range that a block has after its deletes, or another one.
func remaining(mint, maxt int64, block []blockdir.Chunk, gone []chunkTimes, other []blockdir.Chunk) (times []int64) {
	in := func(chunks []blockdir.Chunk, at int64) bool {
		return slices.ContainsFunc(chunks, func(c blockdir.Chunk) bool { return c.MinT <= at && at <= c.MaxT })
	}
	for at := max(mint, 0); at <= min(maxt, 1000); at++ {
		isGone := slices.ContainsFunc(gone, func(g chunkTimes) bool { return g.mint <= at && at <= g.maxt })
		if in(block, at) && !isGone || in(other, at) {
			times = append(times, at)
		}
	}
	return times
}

// chunksOf returns the chunks of the series in a range that are bytes of a file, the others, and
// the times of the samples of all of them.
func chunksOf(t *testing.T, db *tsdb.DB, mint, maxt int64, hints *tsdb.SelectHints, files []blockdir.Chunk) (stored, made []chunkTimes, times []int64) {
	t.Helper()
	q, err := db.Querier(mint, maxt)
	require.NoError(t, err)
	defer func() { require.NoError(t, q.Close()) }()
	set := q.SelectChunks(ctx, hints, labels.Equal("a", "b"))
	require.True(t, set.Next())
	for it := set.At().Chunks(nil); it.Next(); {
		c := it.At()
		ts := timesOf(t, c.Chunk.Iterator(nil))
		require.NotEmpty(t, ts)
		at := chunkTimes{c.MinT, c.MaxT}
		require.Equal(t, chunkTimes{ts[0], ts[len(ts)-1]}, at)
		times = append(times, ts...)
		isStored := false
		for _, file := range files {
			isStored = isStored || file.Encoding == c.Chunk.Encoding() && bytes.Equal(file.Data, c.Chunk.Bytes())
		}
		if isStored {
			stored = append(stored, at)
		} else {
			require.NotEqual(t, byte(0xaa), c.Chunk.Bytes()[len(c.Chunk.Bytes())-1], "neither stored nor made")
			made = append(made, at)
		}
	}
	require.False(t, set.Next())
	require.NoError(t, set.Err())
	return stored, made, times
}

// timesOf returns the times of samples, which are their values, too.
func timesOf(t *testing.T, it chunkenc.Iterator) (ts []int64) {
	t.Helper()
	for it.Next() == chunkenc.ValFloat {
		at, v := it.At()
		require.Equal(t, float64(at), v)
		ts = append(ts, at)
	}
	require.NoError(t, it.Err())
	return ts
}

func TestChunkIterator_ZeroValue_IsAtItsEnd(t *testing.T) {
	var it tsdb.ChunkIterator
	require.False(t, it.Next())
	require.NoError(t, it.Err())
	require.Zero(t, it.At())
}
