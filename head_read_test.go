package tsdb_test

import (
	"fmt"
	"math"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
)

// Many transient series of the head are sorted in parts, as the scratch memory of sorting them at
// once would be most of what a query has: their order is that of others.
func TestSelect_ManyTransientSeriesOfTheHead(t *testing.T) {
	const n = 60_000
	db, err := tsdb.Open(t.TempDir(), &tsdb.Options{Blocks: tsdb.BlockOptions{Manual: true}, WAL: tsdb.WALOptions{Sync: tsdb.SyncNever()}})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	app := db.Appender()
	for i := range n {
		at := i * 7919 % n // another order than that of labels
		_, err := app.Append(0, labels.FromStrings("__name__", "m", "id", fmt.Sprint(at), "job", fmt.Sprint(at%7)), 1000, float64(at))
		require.NoError(t, err)
	}
	_, err = app.Commit(ctx)
	require.NoError(t, err)
	q, err := db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	defer func() { require.NoError(t, q.Close()) }()

	allocated := map[bool]uint64{}
	for _, transient := range []bool{true, false} {
		runtime.GC() // what pools keep goes with the second collection
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		set := q.Select(ctx, &tsdb.SelectHints{Transient: transient}, labels.Equal("__name__", "m"))
		runtime.ReadMemStats(&after)
		allocated[transient] = after.TotalAlloc - before.TotalAlloc
		last, count := labels.Labels{}, 0
		for set.Next() {
			ls := set.At().Labels()
			if labels.Compare(last, ls) >= 0 {
				require.Fail(t, "not sorted", "%s after %s", ls, last)
			}
			last = ls
			count++
		}
		require.NoError(t, set.Err())
		require.Equal(t, n, count)
	}
	t.Logf("%d bytes, at once %d", allocated[true], allocated[false])
	require.Less(t, 2*allocated[true], allocated[false])
}
