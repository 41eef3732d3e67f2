package tsdb_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// rule makes a retention rule of a selector.
func rule(selector string, d time.Duration) tsdb.RetentionRule {
	ms, err := labels.ParseSelector(selector)
	if err != nil {
		panic(err)
	}
	return tsdb.RetentionRule{Matchers: ms, Duration: d}
}

// ruledSeries are those of the tests: three jobs with two instances each.
func ruledSeries() (all []labels.Labels) {
	for _, job := range []string{"debug", "app", "bill"} {
		for _, i := range []string{"0", "1"} {
			all = append(all, labels.FromStrings("__name__", "m", "job", job, "i", i))
		}
	}
	return all
}

// ruledOptions are small blocks, and maintenance by hand.
func ruledOptions(fs tsdb.FS, clock tsdb.Clock, list ...tsdb.RetentionRule) *tsdb.Options {
	return &tsdb.Options{FS: fs, Clock: clock, WAL: tsdb.WALOptions{SegmentSize: 1 << 15},
		Blocks: tsdb.BlockOptions{Manual: true, Range: 10 * time.Minute, MaxRange: 90 * time.Minute, RetentionRules: list}}
}

// durationOf returns for how long a series is kept: the first rule that chooses it decides.
func durationOf(opts *tsdb.Options, ls labels.Labels) time.Duration {
	for _, r := range opts.Blocks.RetentionRules {
		if !slices.ContainsFunc(r.Matchers, func(m *labels.Matcher) bool { return !m.Matches(ls.Get(m.Name())) }) {
			return r.Duration
		}
	}
	return opts.Blocks.Retention
}

// scrapeRuled commits a sample of each series.
func scrapeRuled(t require.TestingT, db *tsdb.DB, now int64) {
	app := db.Appender()
	for i, ls := range ruledSeries() {
		_, err := app.AppendSample(0, ls, sampleAt(i, now).sample())
		require.NoError(t, err)
	}
	_, err := app.Commit(ctx)
	require.NoError(t, err)
}

func TestRetentionRules_TheFirstThatMatchesDecides(t *testing.T) {
	fs, clock := tsdbtest.NewMemFS(), tsdbtest.NewClock(testNow)
	opts := ruledOptions(fs, clock, rule(`{job="debug",i="1"}`, 0), rule(`{job="debug"}`, time.Hour), rule(`{job=~"bill|debug"}`, 12*time.Hour))
	opts.Blocks.Retention = 4 * time.Hour
	db, err := tsdb.Open("data", opts)
	require.NoError(t, err)
	begin, merges, newest := clock.Now().UnixMilli(), 0, int64(0)
	for range 16 * 60 {
		clock.Advance(time.Minute)
		newest = clock.Now().UnixMilli()
		scrapeRuled(t, db, newest)
		if newest/minute%7 == 0 {
			require.NoError(t, db.Compact(ctx))
		}
	}
	require.NoError(t, db.Compact(ctx))
	merges = int(db.Stats().Merges)
	for name, want := range map[string]struct{ atLeast, atMost time.Duration }{
		`{__name__="m", i="0", job="debug"}`: {time.Hour, time.Hour},
		`{__name__="m", i="1", job="debug"}`: {16 * time.Hour, 16 * time.Hour},
		`{__name__="m", i="0", job="bill"}`:  {12 * time.Hour, 12 * time.Hour},
		`{__name__="m", i="1", job="bill"}`:  {12 * time.Hour, 12 * time.Hour},
		`{__name__="m", i="0", job="app"}`:   {4 * time.Hour, 4 * time.Hour},
	} {
		ps := dump(t, db, math.MinInt64, math.MaxInt64)[name]
		require.NotEmpty(t, ps, name)
		oldest := max(begin+minute, newest-want.atLeast.Milliseconds()+1)
		require.LessOrEqual(t, ps[0].T, oldest, name)
		require.GreaterOrEqual(t, ps[0].T, newest-want.atMost.Milliseconds()-90*minute, name)
		n := 0
		for _, p := range ps {
			if p.T >= oldest {
				n++
			}
		}
		require.Equal(t, int((newest-oldest)/minute)+1, n, "%s: nothing that is kept is missing", name)
	}
	// Sixteen hours have eleven blocks of the longest kind, and each is made by at most thirteen
	// merges. Three rules and the rest may write each once more, once it is long enough, or before.
	require.Less(t, merges, 11*13+3*(11+32))
	require.NoError(t, db.Compact(ctx))
	require.NoError(t, db.Compact(ctx))
	require.Equal(t, uint64(merges), db.Stats().Merges, "what was written anew is not written again")
	require.NoError(t, db.Close())
}
