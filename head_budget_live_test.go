package tsdb_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
)

// Series of which a sample comes now and then have not ended: nothing is flushed for them, and they
// keep their places when others want some.
func TestMaxSeries_SeriesThatAreSampledSeldom_GoOn(t *testing.T) {
	for name, c := range map[string]struct {
		budget int
		flood  bool
	}{"no budget": {}, "budget": {budget: 100}, "beside new series": {budget: 100, flood: true}} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, 80, tsdb.BlockOptions{Manual: true})
			h.opts.Head.MaxSeries = c.budget
			h.reopen()
			look := tsdb.Flusher(h.db)
			for n := range int(5 * time.Hour / hostInterval) {
				require.NoError(t, h.scrape())
				now := h.clock.Now().UnixMilli()
				for i := range 20 {
					if n%30 == 0 { // every five minutes
						require.NoError(t, appendOne(h.db, labels.FromStrings("__name__", "slow", "i", fmt.Sprint(i)), now))
					}
				}
				if c.flood && n > 0 {
					err := appendOne(h.db, labels.FromStrings("__name__", "flood", "n", fmt.Sprint(n)), now)
					require.ErrorIs(t, err, tsdb.ErrLimit)
				}
				look()
			}
			stats := h.db.Stats()
			require.EqualValues(t, 100, stats.SeriesCreated)
			require.LessOrEqual(t, stats.Flushes, uint64(2), "one for each block range")
		})
	}
}

func TestMaxSeries_AFlush_KeepsSeriesThatGoOn(t *testing.T) {
	for _, budget := range []int{0, 8} {
		h := newHost(t, 8, tsdb.BlockOptions{Manual: true})
		h.opts.Head.MaxSeries = budget
		h.reopen()
		h.run(time.Hour)
		require.NoError(t, h.db.Flush(ctx))
		require.Equal(t, 8, h.db.Stats().Series)
		require.NoError(t, h.scrape())
	}
}
