package tsdb_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
)

// Nobody calls anything: the database's own loops flush, merge with several workers, and
// remove what is too old.
func TestMaintenance_RunsByItself(t *testing.T) {
	f := newFixture(t, func(o *tsdb.Options) {
		o.Blocks.Range = time.Hour
		o.Blocks.MaxRange = 9 * time.Hour
		o.Blocks.Workers = 2
		o.Blocks.Retention = 30 * time.Hour
		o.Head.SamplesPerChunk = 16
	})
	base := (testNow.UnixMilli() - 60*hour) / (9 * hour) * (9 * hour)
	f.scrapes(3, base, base+40*hour)
	f.clock.Set(time.UnixMilli(base + 40*hour))
	want := f.all()
	require.Eventually(t, func() bool {
		f.clock.Advance(time.Minute)
		st := f.db.Stats()
		return st.Merges > 3 && st.BlocksRemoved > 0 && st.Flushes > 30
	}, patience, time.Millisecond)
	got := f.all()
	for key, ps := range want {
		n := len(ps) - len(got[key])
		require.Positive(t, n, "the oldest are gone")
		require.Equal(t, ps[n:], got[key], "and nothing else")
		require.LessOrEqual(t, ps[n].T, base+10*hour+minute, "nothing that retention keeps is gone")
	}
	metas := f.db.Blocks()
	for i, m := range metas {
		if i > 0 {
			require.LessOrEqual(t, metas[i-1].MaxTime, m.MinTime, "blocks do not overlap")
		}
	}
	require.Zero(t, f.db.Stats().MergeErrors+f.db.Stats().FlushErrors)
}

// When ingestion stops the head becomes blocks after a block range, and goes on where it
// ended.
func TestMaintenance_AHeadThatRestsBecomesBlocks(t *testing.T) {
	f := newFixture(t, nil)
	f.scrapes(3, testNow.UnixMilli()-10*minute, testNow.UnixMilli())
	want := f.all()
	require.Eventually(t, func() bool {
		f.clock.Advance(time.Minute)
		return len(f.db.Blocks()) > 0
	}, patience, time.Millisecond)
	require.Equal(t, want, f.all())
	st := f.db.Stats()
	require.Greater(t, st.MinT, st.MaxT, "the head is empty")
	require.Zero(t, st.Series)
	f.commit(sample{`{i="0"}`, testNow.UnixMilli(), 1})
	f.reopen()
	require.Len(t, f.all(), 3)
}
