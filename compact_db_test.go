package tsdb_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
)

func TestCompact_MergesWhatIsDueAndKeepsEverything(t *testing.T) {
	f := newFixture(t, func(o *tsdb.Options) {
		manual(o)
		o.Blocks.MaxRange = 18 * time.Hour
	})
	base := testNow.UnixMilli()/(18*hour)*(18*hour) - 18*hour
	for h := int64(-24); h < 12; h += 4 {
		f.scrapes(3, base+h*hour, base+(h+4)*hour)
		require.NoError(t, f.db.Delete(ctx, base+h*hour, base+h*hour+10*minute, labels.Equal("i", "1")))
		want := f.all()
		require.NoError(t, f.db.Compact(ctx))
		require.Equal(t, want, f.all())
	}
	levels := map[int]int{}
	for _, m := range f.db.Blocks() {
		levels[m.Compaction.Level]++
	}
	require.NotZero(t, levels[3], "%v", levels)
	require.LessOrEqual(t, len(f.db.Blocks()), 9)
	want := f.all()
	require.NoError(t, f.db.CleanTombstones(ctx))
	for _, m := range f.db.Blocks() {
		require.Zero(t, m.Stats.NumTombstones)
	}
	require.Equal(t, want, f.all())
	f.reopen()
	require.Equal(t, want, f.all())
}

// A reader that stays open over flushes, merges, deletes and retention sees what it saw.
func TestQuerier_SeesTheSameOverEverythingThatHappens(t *testing.T) {
	f := newFixture(t, func(o *tsdb.Options) {
		manual(o)
		o.Blocks.MaxRange = 18 * time.Hour
		o.Blocks.Retention = 30 * time.Hour
	})
	rng := rand.New(rand.NewPCG(1, 2))
	type held struct {
		q    *tsdb.Querier
		want map[string][]point
	}
	var open []held
	at := testNow.UnixMilli() - 100*hour
	for range 120 {
		switch rng.IntN(6) {
		case 0, 1:
			f.scrapes(1+rng.IntN(4), at, at+hour)
			at += hour
		case 2:
			require.NoError(t, f.db.Compact(ctx))
		case 3:
			if rng.IntN(3) == 0 {
				require.NoError(t, f.db.Flush(ctx))
				at += minute
			}
		case 4:
			from := at - rng.Int64N(40)*hour
			require.NoError(t, f.db.Delete(ctx, from, from+rng.Int64N(3*hour), labels.Equal("i", "0")))
		case 5:
			mint := at - rng.Int64N(60)*hour
			q, err := f.db.Querier(mint, at)
			require.NoError(t, err)
			open = append(open, held{q, dumpQuerier(t, q)})
		}
		for _, h := range open {
			require.Equal(t, h.want, dumpQuerier(t, h.q))
		}
		if len(open) > 4 {
			require.NoError(t, open[0].q.Close())
			open = open[1:]
		}
	}
	for _, h := range open {
		require.NoError(t, h.q.Close())
	}
	want := f.all()
	f.reopen()
	require.Equal(t, want, f.all())
}
