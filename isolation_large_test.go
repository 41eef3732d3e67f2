package tsdb_test

import (
	"fmt"
	"math"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/labels"
)

// wholeCommit reads the newest commit that a snapshot has: every series has a sample of it, or
// none has. Commit n is at time n.
func wholeCommit(db *tsdb.DB, series int, after int64) (newest int64, err error) {
	q, err := db.Querier(after, math.MaxInt64)
	if err != nil {
		return 0, err
	}
	defer func() { _ = q.Close() }()
	counts := map[int64]int{}
	var it chunkenc.Iterator
	for s, err := range q.Select(ctx, &tsdb.SelectHints{Transient: true}).All() {
		if err != nil {
			return 0, err
		}
		for it = s.Iterator(it); it.Next() != chunkenc.ValNone; {
			counts[it.AtT()]++
			newest = max(newest, it.AtT())
		}
		if it.Err() != nil {
			return 0, it.Err()
		}
	}
	for at, n := range counts {
		if n != series {
			return 0, fmt.Errorf("commit %d has %d series of %d", at, n, series)
		}
	}
	return newest, nil
}

// Commits that take a while to be applied, and readers that look all the time: what a reader
// sees of a commit is all of it. With the build tag invariants a commit that is published before
// it is applied ends the test for certain, and not only when a reader comes in between.
func TestIsolation_LargeCommitsAreSeenWhole(t *testing.T) {
	watchdog(t)
	const series = 3000
	commits := int64(fewer(400, 100))
	f := newFixture(t, func(o *tsdb.Options) { manual(o); o.WAL.Sync = tsdb.SyncNever(); o.Limits.MaxFuture = -1 })
	refs, values := make([]tsdb.SeriesRef, series), make([]float64, series)
	app := f.db.Appender()
	for i := range refs {
		var err error
		refs[i], err = app.Append(0, labels.FromStrings("i", fmt.Sprint(i)), 1, 0)
		require.NoError(t, err)
	}
	_, err := app.Commit(ctx)
	require.NoError(t, err)

	var done atomic.Bool
	failed := make(chan error, 2)
	for range cap(failed) {
		go func() {
			failed <- neverFalls(&done, func(newest int64) (int64, error) { return wholeCommit(f.db, series, max(newest, 1)) })
		}()
	}
	for n := int64(2); n <= commits; n++ {
		app := f.db.Appender()
		rejected, err := app.AppendBatch(n, refs, values, nil)
		require.NoError(t, err)
		require.Empty(t, rejected)
		_, err = app.Commit(ctx)
		require.NoError(t, err)
	}
	done.Store(true)
	for range cap(failed) {
		require.NoError(t, <-failed)
	}
	newest, err := wholeCommit(f.db, series, 1)
	require.NoError(t, err)
	require.EqualValues(t, commits, newest)
}
