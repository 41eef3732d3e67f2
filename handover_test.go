package tsdb_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/labels"
)

// Sets of one Querier in several goroutines, series that are read after their set has moved on and
// by somebody else, any reuse: iterators that a set has begun to read go to their own series only.
func TestSets_OfOneQuerierAtOnce_GiveEachSeriesItsOwnSamples(t *testing.T) {
	f := newFixture(t, nil)
	const num = 50
	name := func(i int) labels.Labels { return labels.FromStrings("n", fmt.Sprintf("%02d", i)) }
	for at := range int64(40) {
		app := f.db.Appender()
		for i := range num {
			if at == 20 && i%3 == 0 {
				continue // a gap
			}
			_, err := app.Append(0, name(i), at*10, float64(i))
			require.NoError(t, err)
		}
		_, err := app.Commit(ctx)
		require.NoError(t, err)
	}
	check := func(q *tsdb.Querier) {
		for i := range 2 * num {
			read := make(chan *tsdb.Series, num)
			var readers sync.WaitGroup
			readers.Go(func() {
				var it chunkenc.Iterator
				for s := range read {
					it = s.Iterator(it)
					requireOnly(t, s.Labels(), it)
					requireOnly(t, s.Labels(), s.Iterator(nil))
				}
			})
			var it chunkenc.Iterator
			n := 0
			for s, err := range q.Select(ctx, &tsdb.SelectHints{Transient: i%2 == 0}).All() {
				require.NoError(t, err)
				n++
				if i%2 == 1 {
					read <- s
				}
				if n%3 > 0 {
					it = s.Iterator(it)
					requireOnly(t, s.Labels(), it)
				}
			}
			close(read)
			readers.Wait()
			require.Equal(t, num-(num+2)/3, n)
			var cs *tsdb.ChunkIterator
			for s, err := range q.SelectChunks(ctx, &tsdb.SelectHints{Transient: i%2 == 0}).All() {
				require.NoError(t, err)
				cs = s.Chunks(cs)
				require.True(t, cs.Next())
				requireOnly(t, s.Labels(), cs.At().Chunk.Iterator(nil))
				require.False(t, cs.Next())
			}
		}
	}
	for _, place := range []string{"head", "block"} {
		q, err := f.db.Querier(195, 205)
		require.NoError(t, err)
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() { check(q) })
		}
		all.Wait()
		require.NoError(t, q.Close())
		if place == "head" {
			require.NoError(t, f.db.Flush(ctx))
		}
	}
}

// requireOnly requires the one sample of a series in the range.
func requireOnly(t *testing.T, ls labels.Labels, it chunkenc.Iterator) {
	t.Helper()
	require.Equal(t, chunkenc.ValFloat, it.Next())
	at, v := it.At()
	require.Equal(t, []any{int64(200), ls.Get("n")}, []any{at, fmt.Sprintf("%02.0f", v)})
	require.Equal(t, chunkenc.ValNone, it.Next())
	require.NoError(t, it.Err())
}
