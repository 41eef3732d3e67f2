package tsdb_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
)

// A delete of late samples hides what was there, and nothing that comes behind it at the same
// times, whatever the log of the delete goes through.
func TestDelete_OfLateSamples_HidesNothingThatComesBehindIt(t *testing.T) {
	for name, restart := range map[string]func(f *fixture){
		"killed": (*fixture).kill,
		"closed": (*fixture).reopen,
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, func(o *tsdb.Options) { withWindow(o); o.WAL.Sync = tsdb.SyncCommit() })
			base := testNow.UnixMilli()
			f.commit(sample{`{i="a"}`, base, 1})
			require.NoError(t, f.db.Delete(ctx, math.MinInt64, math.MaxInt64))
			require.NoError(t, f.db.Flush(ctx))
			f.commit(sample{`{i="b"}`, base - minute, 2}) // late: the head begins behind it
			require.EqualValues(t, 1, f.db.Stats().LateSamples)
			require.NoError(t, f.db.Delete(ctx, math.MinInt64, math.MaxInt64, labels.Equal("i", "b")))
			restart(f)
			require.Empty(t, f.all()[`{i="b"}`])
			f.commit(sample{`{i="b"}`, base - 2*minute, 3})
			require.Len(t, f.all()[`{i="b"}`], 1)
			f.reopen()
			require.Len(t, f.all()[`{i="b"}`], 1)
		})
	}
}

// As above, where a clock was wrong and a query stayed open meanwhile.
func TestDelete_OfLateSamplesOfTheFuture_HidesNothingThatComesBehindIt(t *testing.T) {
	f := newFixture(t, func(o *tsdb.Options) { withWindow(o); o.WAL.Sync = tsdb.SyncCommit() })
	f.commit(sample{`{i="0"}`, testNow.UnixMilli() - 5000, 1})
	require.NoError(t, f.db.Flush(ctx))
	f.clock.Set(testNow.Add(26 * time.Hour))
	ahead := f.clock.Now().UnixMilli()
	f.commit(sample{`{i="0"}`, ahead, 1}, sample{`{i="new"}`, ahead, 1})
	require.NoError(t, f.db.Flush(ctx))
	f.commit(sample{`{i="new"}`, ahead - minute, 1}) // late
	q, err := f.db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	f.clock.Set(testNow)
	require.NoError(t, f.db.Delete(ctx, testNow.UnixMilli()+1, math.MaxInt64, labels.Equal("i", "0")))
	require.NoError(t, f.db.Delete(ctx, math.MinInt64, math.MaxInt64, labels.Equal("i", "new")))
	require.NoError(t, q.Close())
	require.NoError(t, f.db.Flush(ctx))
	f.clock.Advance(time.Second)
	require.NoError(t, f.tries("0", "new"))
	before := f.all()
	require.Len(t, before[`{i="new"}`], 1)
	f.reopen()
	require.Equal(t, before, f.all())
}
