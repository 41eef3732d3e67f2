package tsdb_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
)

// An iterator that is used again takes the next series with the one that it is asked for, as long
// as they come in their order. What it gives never depends on that.
func TestIterator_OfSeriesInAnyOrder(t *testing.T) {
	const n, samples = 200, 3
	f := newFixture(t, nil)
	for k := range samples {
		app := f.db.Appender()
		for i := range n {
			_, err := app.Append(0, numbered(fmt.Sprintf("%04d", i)), testNow.UnixMilli()+int64(k), float64(1000*i+k))
			require.NoError(t, err)
		}
		_, err := app.Commit(ctx)
		require.NoError(t, err)
	}
	q, err := f.db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	defer q.Close()
	set := q.Select(ctx, nil)
	var it chunkenc.Iterator
	read := func(s *tsdb.Series, i int) {
		it = s.Iterator(it)
		for k := range samples {
			require.Equal(t, chunkenc.ValFloat, it.Next())
			_, v := it.At()
			require.Equal(t, float64(1000*i+k), v, "series %d", i)
		}
		require.Equal(t, chunkenc.ValNone, it.Next())
		require.NoError(t, it.Err())
	}
	var all []*tsdb.Series
	for set.Next() { // beside the cursor
		all = append(all, set.At())
		read(set.At(), len(all)-1)
	}
	require.NoError(t, set.Err())
	require.Len(t, all, n)
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	backwards, gaps := slices.Clone(order), slices.Clone(order)
	slices.Reverse(backwards)
	gaps = slices.DeleteFunc(gaps, func(i int) bool { return i%7 == 3 })
	for _, places := range [][]int{order, backwards, gaps, order, rand.New(rand.NewPCG(1, 2)).Perm(n)} {
		for _, i := range places {
			read(all[i], i)
		}
		read(all[places[0]], places[0])
	}
}
