package read_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/read"
)

var ctx = context.Background()

// everything is all that a Query has.
func everything() read.Selection {
	return read.Selection{MinT: math.MinInt64, MaxT: math.MaxInt64}
}

// cursor is a set that keeps the series that it stands on.
type cursor struct {
	*read.Set
	at *read.Series
}

func (c *cursor) Next() bool {
	next, ok := c.Set.Next()
	if ok {
		c.at = &next
		c.Place(c.at)
	}
	return ok
}

func (c *cursor) At() *read.Series { return c.at }

func selected(q *read.Query, s read.Selection) *cursor { return &cursor{Set: q.Select(ctx, &s, nil)} }

func selectedChunks(q *read.Query, s read.Selection) *cursor {
	s.Chunks = true
	return selected(q, s)
}

// point is a sample whose value is compared by bits.
type point struct {
	T int64
	V uint64
}

// dump reads all samples, by labels.
func dump(t *testing.T, q *read.Query) map[string][]point {
	all := map[string][]point{}
	var it chunkenc.Iterator
	set := selected(q, everything())
	for set.Next() {
		it = set.At().Iterator(it)
		addPoints(all, set.At(), it)
		require.NoError(t, it.Err())
	}
	require.NoError(t, set.Err())
	return all
}

// dumpChunks is dump by way of chunks.
func dumpChunks(t *testing.T, q *read.Query) map[string][]point {
	all := map[string][]point{}
	var it *read.ChunkIterator
	s := everything()
	s.Transient = true
	set := selectedChunks(q, s)
	for set.Next() {
		for it = set.At().Chunks(it); it.Next(); {
			addPoints(all, set.At(), it.At().Chunk.Iterator(nil))
		}
		require.NoError(t, it.Err())
	}
	require.NoError(t, set.Err())
	return all
}

func addPoints(all map[string][]point, s *read.Series, it chunkenc.Iterator) {
	for it.Next() != chunkenc.ValNone {
		at, v := it.At()
		all[s.Labels().String()] = append(all[s.Labels().String()], point{at, math.Float64bits(v)})
	}
}
