package tsdb_test

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/faultfs"
	"github.com/seed347100a3/tsdb/labels"
)

// manual keeps the database's own loops from flushing and merging.
func manual(o *tsdb.Options) { o.Blocks.Manual = true }

// scrapes commits a sample of n series every minute of [from, to).
func (f *fixture) scrapes(n int, from, to int64) {
	f.t.Helper()
	for ts := from; ts < to; ts += minute {
		var rows []sample
		for i := range n {
			rows = append(rows, sample{fmt.Sprintf(`{i="%d"}`, i), ts, float64(ts) + float64(i)})
		}
		f.commit(rows...)
	}
}

// What a flush writes is what dashboards ask for next.
func TestFlush_BlockStaysInThePageCache(t *testing.T) {
	fsys := &faultfs.Advised{Direct: true}
	f := newFixture(t, func(o *tsdb.Options) {
		manual(o)
		fsys.FS, o.FS = o.FS, fsys
	})
	f.scrapes(5, testNow.UnixMilli()-hour, testNow.UnixMilli())
	require.NoError(t, f.db.Flush(ctx))
	require.NoError(t, f.db.Close())
	f.db = nil
	require.Equal(t, 1, fsys.Dropped(true), "a checkpoint, which nobody asks for")
	require.Zero(t, fsys.Dropped(false))
	require.NotEmpty(t, fsys.Directly, "the disk was asked for what was written")
}

func TestFlush_BlocksHaveWhatTheHeadHad(t *testing.T) {
	f := newFixture(t, manual)
	base := testNow.UnixMilli() / (2 * hour) * (2 * hour)
	f.scrapes(5, base-5*hour, base)
	before := f.all()
	require.NoError(t, f.db.Flush(ctx))
	require.Equal(t, before, f.all())
	require.Equal(t, before, func() map[string][]point {
		q, err := f.db.Querier(math.MinInt64, math.MaxInt64)
		require.NoError(t, err)
		defer func() { require.NoError(t, q.Close()) }()
		return dumpChunks(t, q)
	}())
	metas := f.db.Blocks()
	require.Len(t, metas, 3)
	samples := uint64(0)
	for i, m := range metas {
		samples += m.Stats.NumSamples
		if i > 0 {
			require.Equal(t, metas[i-1].MaxTime, m.MinTime, "blocks follow each other")
		}
	}
	require.Equal(t, uint64(5*5*60), samples)
	require.Equal(t, base-minute+1, metas[2].MaxTime)

	f.scrapes(7, base, base+hour)
	after := f.all()
	f.reopen()
	require.Equal(t, after, f.all())
	require.Equal(t, 3, f.db.OpenReport().Blocks)
	require.NoError(t, f.db.Flush(ctx))
	require.Equal(t, after, f.all())
	f.reopen()
	require.Equal(t, after, f.all())
	require.True(t, func() bool { r := f.db.OpenReport(); return r.Clean() }())
}

// Ranges that cut chunks of blocks and of the head, that end between the two, and that have
// nothing of one of them, give the samples inside and no other.
func TestQuerier_EveryRangeOverBlocksAndHead(t *testing.T) {
	f := newFixture(t, manual)
	base := testNow.UnixMilli() / (2 * hour) * (2 * hour)
	f.scrapes(2, base-4*hour, base) // chunks of 120 samples
	require.NoError(t, f.db.Flush(ctx))
	f.scrapes(2, base, base+hour)
	require.NoError(t, f.db.Delete(ctx, base-3*hour, base-3*hour+5*minute, labels.Equal("i", "1")))
	all := f.all()
	for from := base - 4*hour - minute; from <= base+hour; from += 13*minute + 1 {
		for _, length := range []int64{0, minute, 40 * minute, 100 * minute, 6 * hour} {
			want := map[string][]point{}
			for name, ps := range all {
				for _, p := range ps {
					if p.T >= from && p.T <= from+length {
						want[name] = append(want[name], p)
					}
				}
			}
			require.Equal(t, want, dump(t, f.db, from, from+length), "from %d, %d ms", from, length)
		}
	}
}

func TestDelete_HoldsInHeadAndBlocksOverFlushAndReopen(t *testing.T) {
	f := newFixture(t, manual)
	base := testNow.UnixMilli() / (2 * hour) * (2 * hour)
	f.scrapes(4, base-3*hour, base-hour)
	require.NoError(t, f.db.Flush(ctx))
	f.scrapes(4, base-hour, base)
	old, err := f.db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	want := f.all()
	require.NoError(t, f.db.Delete(ctx, base-2*hour, base-30*minute, labels.Equal("i", "2")))
	require.Equal(t, want, dumpQuerier(t, old), "an open querier sees what it saw")
	require.NoError(t, old.Close())
	key := series(t, `{i="2"}`).String()
	var kept []point
	for _, p := range want[key] {
		if p.T < base-2*hour || p.T > base-30*minute {
			kept = append(kept, p)
		}
	}
	require.NotEqual(t, len(kept), len(want[key]))
	want[key] = kept
	for range 3 {
		require.Equal(t, want, f.all())
		f.reopen()
		require.Equal(t, want, f.all())
		require.NoError(t, f.db.Flush(ctx))
	}
}

// The matchers of a delete, and of queries beside it, stay in the order of the caller, to whom they
// belong: many goroutines may use the same ones.
func TestDelete_LeavesItsMatchersAsTheyAre(t *testing.T) {
	f := newFixture(t, manual)
	base := testNow.UnixMilli() / (2 * hour) * (2 * hour)
	f.scrapes(4, base-5*hour, base-hour)
	require.NoError(t, f.db.Flush(ctx))
	f.scrapes(4, base-hour, base)
	want := f.all()
	excluding, err := labels.NewMatcher(labels.MatchNotRegexp, "none", "3|")
	require.NoError(t, err)
	ms := []*labels.Matcher{labels.NotEqual("i", "9"), labels.Equal("none", ""), excluding} // nothing has the last
	before := slices.Clone(ms)
	var all sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		all.Go(func() { errs[i] = f.db.Delete(ctx, math.MinInt64, math.MaxInt64, ms...) })
	}
	require.Empty(t, dump(t, f.db, math.MinInt64, math.MaxInt64, ms...))
	all.Wait()
	require.Equal(t, make([]error, len(errs)), errs)
	require.Equal(t, before, ms)
	require.Equal(t, want, f.all())
}

// A head that takes too much memory is flushed before its range is over; the end is chosen
// first, so late samples within the margin are still taken, and nothing is lost or doubled.
func TestFlush_EarlyWithAMarginForLateSamples(t *testing.T) {
	f := newFixture(t, func(o *tsdb.Options) {
		o.Head.FlushBytes = 1 // always
		o.Head.SamplesPerChunk = 16
	})
	base := testNow.UnixMilli() / (2 * hour) * (2 * hour)
	f.scrapes(2, base-20*minute, base)
	f.clock.Advance(time.Second) // the end is chosen
	f.clock.Advance(time.Second)
	require.Empty(t, f.db.Blocks(), "nothing is newer than the margin")
	f.commit(sample{`{i="0"}`, base, 1})
	f.commit(sample{`{i="1"}`, base - 30_000, 2}) // late, and still taken
	f.commit(sample{`{i="0"}`, base + minute, 3})
	want := f.all()
	require.Eventually(t, func() bool {
		f.clock.Advance(time.Second)
		return len(f.db.Blocks()) == 1
	}, patience, time.Millisecond)
	require.Equal(t, base-minute+1, f.db.Blocks()[0].MaxTime, "what the head had when it was too large")
	require.Equal(t, want, f.all())
	f.reopen()
	require.Equal(t, want, f.all())
}

// Series of all shapes, some being the begin of others, and many with the same first labels,
// come into a block in the order of their labels; a block in any other order is refused.
func TestFlush_SeriesOfEveryShape_AreSorted(t *testing.T) {
	f := newFixture(t, manual)
	base := testNow.UnixMilli() / (2 * hour) * (2 * hour)
	var rows []sample
	for i := range 4096 {
		text, values := "", i
		for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
			if v := values % 4; v > 0 { // 0: it has no such label
				text += fmt.Sprintf(`,%s="%d"`, name, v*v*v)
			}
			values /= 4
		}
		if text != "" {
			rows = append(rows, sample{"{" + text[1:] + "}", base, float64(i)})
		}
	}
	f.commit(rows...)
	before := f.all()
	require.Len(t, before, 4095)
	require.NoError(t, f.db.Flush(ctx))
	require.Len(t, f.db.Blocks(), 1)
	require.Equal(t, before, f.all())
}
