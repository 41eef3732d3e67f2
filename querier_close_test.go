package tsdb_test

import (
	"math"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/chunkenc"
)

// Close lets go of files, so whoever still has series or iterators of the Querier must get
// an end and never somebody else's data, also when he is in the middle of a call.
func TestQuerier_CloseEndsWhatIsOpenBesideIt(t *testing.T) {
	f := newFixture(t, manual)
	base := testNow.UnixMilli() - 100*hour
	f.scrapes(20, base, base+3*hour)
	require.NoError(t, f.db.Flush(ctx))
	f.scrapes(20, base+3*hour, base+4*hour)
	for range 20 {
		q, err := f.db.Querier(math.MinInt64, math.MaxInt64)
		require.NoError(t, err)
		require.NoError(t, f.db.Delete(ctx, base, base, nil...))
		require.NoError(t, f.db.CleanTombstones(ctx)) // q has the last pin on the block before
		want := map[string]bool{"{}": true}
		for key := range f.all() {
			want[key] = true
		}
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				var it chunkenc.Iterator
				for s, err := range q.Select(ctx, nil).All() {
					if err != nil {
						return
					}
					if key := s.Labels().String(); !want[key] {
						t.Errorf("labels %s", key)
					}
					for it = s.Iterator(it); it.Next() != chunkenc.ValNone; {
					}
				}
			})
		}
		require.NoError(t, q.Close())
		wg.Wait()
	}
}
