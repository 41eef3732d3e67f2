package tsdb_test

import (
	"context"
	"errors"
	"math"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/faultfs"
	"github.com/seed347100a3/tsdb/internal/sweep"
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

// ruledHistory is a directory with ten hours of data, to which no rule was applied yet.
func ruledHistory(t *testing.T, fs tsdb.FS, clock *tsdbtest.Clock) (whole map[string][]point) {
	t.Helper()
	db, err := tsdb.Open("data", ruledOptions(fs, clock))
	require.NoError(t, err)
	for i := range 10 * 20 {
		clock.Advance(3 * time.Minute)
		scrapeRuled(t, db, clock.Now().UnixMilli())
		if i%20 == 0 {
			require.NoError(t, db.Compact(ctx))
		}
	}
	require.NoError(t, db.Compact(ctx))
	whole = dump(t, db, math.MinInt64, math.MaxInt64)
	require.NoError(t, db.Close())
	return whole
}

// threeRules rewrite blocks of the history, and remove some.
func threeRules(opts *tsdb.Options) {
	opts.Blocks.RetentionRules = []tsdb.RetentionRule{rule(`{job="debug"}`, time.Hour), rule(`{job="bill",i="0"}`, 5*time.Hour)}
	opts.Blocks.Retention = 7 * time.Hour
}

// kept is what of samples rules keep at a time.
func keptOf(opts *tsdb.Options, whole map[string][]point, newest int64) map[string][]point {
	kept := map[string][]point{}
	for _, ls := range ruledSeries() {
		d := durationOf(opts, ls).Milliseconds()
		for _, p := range whole[ls.String()] {
			if d <= 0 || p.T > newest-d {
				kept[ls.String()] = append(kept[ls.String()], p)
			}
		}
	}
	return kept
}

// Wherever power is cut while rules are applied: what they keep is there, and nothing that is gone
// from a block on stable storage is twice there or half.
func TestRetentionRules_CutAnywhere_LoseNothingThatIsKept(t *testing.T) {
	t.Parallel()
	fs, clock := tsdbtest.NewMemFS(), tsdbtest.NewClock(testNow)
	whole := ruledHistory(t, fs, clock)
	opts := ruledOptions(fs, clock)
	threeRules(opts)
	db, err := tsdb.Open("data", opts)
	require.NoError(t, err)
	kept := keptOf(opts, whole, clock.Now().UnixMilli())
	states := disksDuring(fs, func() { require.NoError(t, db.Compact(ctx)) })
	want := dump(t, db, math.MinInt64, math.MaxInt64)
	require.Greater(t, db.Stats().Merges, uint64(2))
	require.Greater(t, db.Stats().TimeRetentions, uint64(0))
	require.NoError(t, db.Close())
	require.Empty(t, atLeast(want, kept))
	require.False(t, sameData(want, whole))
	for _, i := range sweep.Of(t, 1, 7).Below(len(states)) {
		o := *opts
		o.FS = states[i]
		db, err := tsdb.Open("data", &o)
		require.NoError(t, err)
		rep := db.OpenReport()
		require.True(t, rep.Clean(), "state %d: %+v", i, rep)
		got := dump(t, db, math.MinInt64, math.MaxInt64)
		require.Empty(t, atLeast(got, kept), "state %d", i)
		require.Empty(t, atLeast(whole, got), "state %d", i)
		require.NoError(t, db.Compact(ctx))
		require.Equal(t, want, dump(t, db, math.MinInt64, math.MaxInt64), "state %d", i)
		require.NoError(t, db.Close())
		requireNoDebris(t, states[i])
	}
}

// Whatever fails while rules are applied: it is an error, nothing that is kept is lost, and the
// next time it goes on.
func TestRetentionRules_AFailureAnywhere_IsToldAndGoneOnFrom(t *testing.T) {
	t.Parallel()
	disk, clock := tsdbtest.NewMemFS(), tsdbtest.NewClock(testNow)
	whole := ruledHistory(t, disk, clock)
	var want, kept map[string][]point
	var operations int64
	try := func(nth int64, sticky bool) {
		fs := faultfs.New(disk.KillClone())
		opts := ruledOptions(fs, clock)
		threeRules(opts)
		db, err := tsdb.Open("data", opts)
		require.NoError(t, err)
		if nth == 0 {
			before := fs.Ops()
			require.NoError(t, db.Compact(ctx))
			operations = fs.Ops() - before
			want, kept = dump(t, db, math.MinInt64, math.MaxInt64), keptOf(opts, whole, clock.Now().UnixMilli())
			require.NoError(t, db.Close())
			return
		}
		fs.Inject(faultfs.Fault{Nth: nth, Sticky: sticky})
		failed := db.Compact(ctx)
		fs.Lift()
		got := dump(t, db, math.MinInt64, math.MaxInt64)
		require.Empty(t, atLeast(got, kept), "operation %d, %v", nth, failed)
		require.Empty(t, atLeast(whole, got), "operation %d, %v", nth, failed)
		if sticky {
			require.Error(t, failed)
		}
		_ = db.Close() // a sync that failed is told again
		db, err = tsdb.Open("data", opts)
		require.NoError(t, err, "operation %d, %v", nth, failed)
		require.NoError(t, db.Compact(ctx), "operation %d, %v", nth, failed)
		require.Equal(t, want, dump(t, db, math.MinInt64, math.MaxInt64), "operation %d, %v", nth, failed)
		require.NoError(t, db.Close())
	}
	try(0, false)
	require.Greater(t, operations, int64(300))
	for _, i := range sweep.Of(t, 1, 23).Below(int(operations)) {
		try(int64(i)+1, i%2 == 0 && i < int(operations)-20)
	}
}

// A block of which nobody can tell whether rules take a part stays as it is, and only that one.
func TestRetentionRules_ABlockThatCannotBeRead_KeepsTheOthersFromNothing(t *testing.T) {
	disk, clock := tsdbtest.NewMemFS(), tsdbtest.NewClock(testNow)
	ruledHistory(t, disk, clock)
	try := func(damage string, at int) (old, now []tsdb.BlockMeta, merges uint64, err error) {
		fs := disk.KillClone()
		opts := ruledOptions(fs, clock, rule(`{job="debug"}`, time.Hour), rule(`{job="bill"}`, 5*time.Hour))
		opts.Blocks.Retention = 7 * time.Hour
		if damage != "" {
			flipByte(t, fs, path.Join("data", damage, "index"), at)
		}
		db, failed := tsdb.Open("data", opts)
		require.NoError(t, failed)
		old = db.Blocks()
		err = db.Compact(ctx)
		now, merges = db.Blocks(), db.Stats().Merges
		require.NoError(t, db.Close())
		return old, now, merges, err
	}
	old, whole, merges, err := try("", 0)
	require.NoError(t, err)
	require.Less(t, len(whole), len(old), "some are gone as a whole")
	middle := old[len(old)/2].ULID.String()
	index, err := disk.ReadFile(path.Join("data", middle, "index"))
	require.NoError(t, err)
	hits := 0
	for at := 0; at < len(index); at += 5 {
		was, now, done, err := try(middle, at)
		if !errors.Is(err, tsdb.ErrCorrupt) || !strings.Contains(err.Error(), "apply retention rules to block "+middle) {
			continue // other damage: nothing needs it, or Open has set the block aside
		}
		hits++
		require.Len(t, was, len(old))
		require.Len(t, now, len(whole))
		require.Equal(t, merges-1, done)
	}
	require.Greater(t, hits, 5)
}

// What goes whole needs no room, and is not written.
func TestRetentionRules_OnAFullDisk_WholeBlocksGo(t *testing.T) {
	fs, clock := tsdbtest.NewMemFS(), tsdbtest.NewClock(testNow)
	whole := ruledHistory(t, fs, clock)
	opts := ruledOptions(fs, clock, rule(`{job=~"debug|bill"}`, 5*time.Hour), rule(`{job="app"}`, 4*time.Hour))
	db, err := tsdb.Open("data", opts)
	require.NoError(t, err)
	blocks := len(db.Blocks())
	fs.SetCapacity(fs.Used())
	_ = db.Compact(ctx) // blocks of which a part goes have no room yet
	require.Less(t, len(db.Blocks()), blocks-1)
	require.Empty(t, atLeast(dump(t, db, math.MinInt64, math.MaxInt64), keptOf(opts, whole, clock.Now().UnixMilli())))
	fs.SetCapacity(0)
	require.NoError(t, db.Compact(ctx))
	require.NoError(t, db.Close())
}

// What was wrong with the clock holds rules back as it does the retention of all.
func TestRetentionRules_AWrongClock_TakesNothingThatAnHonestOneKeeps(t *testing.T) {
	fs, clock := tsdbtest.NewMemFS(), tsdbtest.NewClock(testNow)
	ruledHistory(t, fs, clock)
	opts := ruledOptions(fs, clock, rule(`{job="debug"}`, 2*time.Hour))
	db, err := tsdb.Open("data", opts)
	require.NoError(t, err)
	require.NoError(t, db.Compact(ctx))
	want := dump(t, db, math.MinInt64, math.MaxInt64)
	right := clock.Now()
	clock.Set(right.Add(10 * year))
	scrapeRuled(t, db, clock.Now().UnixMilli())
	require.NoError(t, db.Compact(ctx))
	require.Empty(t, atLeast(dump(t, db, math.MinInt64, math.MaxInt64), want))
	require.ErrorIs(t, db.Health(), tsdb.ErrClock)
	require.Equal(t, 10*year, db.Stats().RetentionBehind.Round(time.Hour))
	require.NoError(t, db.Close())
	db, err = tsdb.Open("data", opts)
	require.NoError(t, err)
	require.NoError(t, db.Compact(ctx))
	require.Empty(t, atLeast(dump(t, db, math.MinInt64, math.MaxInt64), want), "a restart knows it")
	clock.Set(right)
	require.NoError(t, db.Delete(ctx, right.UnixMilli()+1, math.MaxInt64))
	require.NoError(t, db.Health())
	require.NoError(t, db.Compact(ctx))
	require.Equal(t, want, dump(t, db, math.MinInt64, math.MaxInt64))
	require.NoError(t, db.Close())
}

// Keep is asked about a block before a part of it goes, by a merge or alone.
func TestRetentionRules_AskKeepFirst(t *testing.T) {
	fs, clock := tsdbtest.NewMemFS(), tsdbtest.NewClock(testNow)
	whole := ruledHistory(t, fs, clock)
	opts := ruledOptions(fs, clock)
	threeRules(opts)
	asked, keep := map[string]bool{}, true
	opts.Blocks.Keep = func(m tsdb.BlockMeta) bool {
		asked[m.ULID.String()] = true
		return keep
	}
	db, err := tsdb.Open("data", opts)
	require.NoError(t, err)
	for range 30 {
		clock.Advance(3 * time.Minute)
		scrapeRuled(t, db, clock.Now().UnixMilli())
		require.NoError(t, db.Compact(ctx))
	}
	require.Greater(t, len(asked), 5)
	require.Empty(t, atLeast(dump(t, db, math.MinInt64, math.MaxInt64), whole))
	keep = false
	require.NoError(t, db.Compact(ctx))
	require.NotEmpty(t, atLeast(dump(t, db, math.MinInt64, math.MaxInt64), whole))
	require.NoError(t, db.Close())
}

// When SetRetention has returned nothing goes by the limits before, nor by a merge that has begun,
// one that would leave nothing of its blocks among them.
func TestRetentionRules_SetRetentionDuringAMerge_TakesNothingByTheLimitsBefore(t *testing.T) {
	for _, nothingElse := range []bool{false, true} {
		fs, clock := tsdbtest.NewMemFS(), tsdbtest.NewClock(testNow)
		whole := ruledHistory(t, fs, clock)
		opts := ruledOptions(fs, clock, rule(`{job="debug"}`, 0))
		opts.Blocks.Retention = 2 * time.Hour
		db, err := tsdb.Open("data", opts)
		require.NoError(t, err)
		if nothingElse {
			require.NoError(t, db.Delete(ctx, math.MinInt64, math.MaxInt64, labels.Equal("job", "debug")))
			whole = dump(t, db, math.MinInt64, math.MaxInt64)
		}
		changed := 0
		var then map[string][]point
		fs.SetHook(func(op tsdbtest.Op) error {
			if strings.HasPrefix(op.Name, "data/tmp-block-") && op.Kind.Mutates() && changed == 0 {
				changed++
				then = dump(t, db, math.MinInt64, math.MaxInt64)
				return db.SetRetention(tsdb.RetentionLimits{})
			}
			return nil
		})
		require.NoError(t, db.Compact(ctx))
		fs.SetHook(nil)
		require.Equal(t, 1, changed)
		require.Equal(t, whole, then)
		require.Equal(t, whole, dump(t, db, math.MinInt64, math.MaxInt64))
		require.NoError(t, db.SetRetention(tsdb.RetentionLimits{Duration: 2 * time.Hour}))
		require.NoError(t, db.Compact(ctx))
		require.NotEmpty(t, atLeast(dump(t, db, math.MinInt64, math.MaxInt64), whole))
		require.NoError(t, db.Close())
	}
}

// Nobody has to ask for it.
func TestRetentionRules_AreAppliedByTheirOwn(t *testing.T) {
	fs, clock := tsdbtest.NewMemFS(), tsdbtest.NewClock(testNow)
	whole := ruledHistory(t, fs, clock)
	opts := ruledOptions(fs, clock)
	threeRules(opts)
	opts.Blocks.Manual = false
	opts.Blocks.Workers = 3
	db, err := tsdb.Open("data", opts)
	require.NoError(t, err)
	clock.Advance(time.Minute)
	gone := labels.Equal("job", "debug")
	require.Eventually(t, func() bool {
		left := dump(t, db, math.MinInt64, clock.Now().Add(-4*time.Hour).UnixMilli(), gone)
		return len(left) == 0
	}, patience, time.Millisecond)
	require.NoError(t, db.Close())
	db, err = tsdb.Open("data", opts)
	require.NoError(t, err)
	require.Empty(t, atLeast(dump(t, db, math.MinInt64, math.MaxInt64), keptOf(opts, whole, clock.Now().UnixMilli())))
	require.NoError(t, db.Close())
}

// Blocks of other writers in which nothing is in order.
func TestRetentionRules_OfBlocksThatAreNotInOrder_LoseNothingThatIsKept(t *testing.T) {
	for seed := range uint64(20) {
		w := newDisorderWorld(seed)
		fs := w.disk(t)
		o := &tsdb.Options{FS: fs, Clock: tsdbtest.NewClock(testNow)}
		manual(o)
		o.Blocks.RetentionRules = []tsdb.RetentionRule{rule(`{job="b"}`, time.Hour)}
		db, err := tsdb.Open(fixtureDir, o)
		require.NoError(t, err)
		before := dump(t, db, math.MinInt64, math.MaxInt64, labels.NotEqual("job", "b"))
		end := w.blocks[len(w.blocks)-1].maxt
		require.NoError(t, db.Compact(ctx))
		require.Empty(t, atLeast(dump(t, db, math.MinInt64, math.MaxInt64), before), "seed %d", seed)
		if len(w.blocks) > 1 {
			require.Empty(t, dump(t, db, math.MinInt64, end-3*disorderRange, labels.Equal("job", "b")), "seed %d", seed)
		}
		require.NoError(t, db.Close())
	}
}

// The plan is what Compact takes, if no merge is due.
func TestReader_RetentionPlanIsWhatRetentionTakes(t *testing.T) {
	fs, clock := tsdbtest.NewMemFS(), tsdbtest.NewClock(testNow)
	whole := ruledHistory(t, fs, clock)
	opts := ruledOptions(fs, clock)
	threeRules(opts)
	r, err := tsdb.OpenReadOnly("data", opts)
	require.NoError(t, err)
	plan, err := r.RetentionPlan(ctx, opts.Blocks.RetentionRules, opts.Blocks.Retention)
	require.NoError(t, err)
	blocks := r.Blocks()
	none, err := r.RetentionPlan(ctx, nil, 0)
	require.NoError(t, err)
	require.Equal(t, tsdb.RetentionPlan{NewestT: plan.NewestT, Shares: make([]tsdb.RetentionShare, 1)}, none)
	_, err = r.RetentionPlan(ctx, []tsdb.RetentionRule{{Matchers: []*labels.Matcher{nil}}}, 0)
	require.ErrorIs(t, err, tsdb.ErrInvalidArgument)
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	_, err = r.RetentionPlan(canceled, opts.Blocks.RetentionRules, 0)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, r.Close())
	_, err = r.RetentionPlan(ctx, nil, 0)
	require.ErrorIs(t, err, tsdb.ErrClosed)

	db, err := tsdb.Open("data", opts)
	require.NoError(t, err)
	require.NoError(t, db.Compact(ctx))
	left := dump(t, db, math.MinInt64, math.MaxInt64)
	require.Equal(t, clock.Now().UnixMilli(), plan.NewestT)
	require.Equal(t, plan.Removed, len(blocks)-len(db.Blocks()))
	require.Equal(t, uint64(plan.Rewritten), db.Stats().Merges)
	want := make([]uint64, 3)
	for _, ls := range ruledSeries() {
		rule := map[string]int{"debug0": 0, "debug1": 0, "bill0": 1, "bill1": 2, "app0": 2, "app1": 2}[ls.Get("job")+ls.Get("i")]
		want[rule] += uint64(len(whole[ls.String()]) - len(left[ls.String()]))
	}
	for i, s := range plan.Shares {
		require.Equal(t, want[i], s.Samples, "rule %d", i)
		require.Equal(t, uint64([]int{2, 1, 3}[i]), s.Series, "rule %d", i)
		require.Greater(t, s.Bytes, s.Samples/2)
		require.Positive(t, s.Blocks)
	}
	require.NoError(t, db.Close())
}

func TestOptions_RetentionRulesAreCheckedAndCopied(t *testing.T) {
	fs, clock := tsdbtest.NewMemFS(), tsdbtest.NewClock(testNow)
	opts := ruledOptions(fs, clock, tsdb.RetentionRule{Matchers: []*labels.Matcher{nil}})
	_, err := tsdb.Open("data", opts)
	require.ErrorContains(t, err, "Blocks.RetentionRules: rule 0")
	opts.Blocks.RetentionRules[0] = rule(`{a="b"}`, time.Hour)
	db, err := tsdb.Open("data", opts)
	require.NoError(t, err)
	opts.Blocks.RetentionRules[0].Matchers[0] = nil
	got := db.Options()
	require.NotNil(t, got.Blocks.RetentionRules[0].Matchers[0])
	require.Contains(t, got.String(), "retention 1 rules")
	require.NoError(t, db.Close())
}
