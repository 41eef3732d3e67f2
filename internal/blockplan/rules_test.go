package blockplan

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed347100a3/tsdb/internal/blockdir"
)

// shared is what blocks by number say of which rules decide about their series; asked counts.
type shared struct {
	of    map[int][]bool
	asked []int
}

func (s *shared) has(id ulid.ULID) []bool {
	n := planned([]blockdir.Meta{{ULID: id}})[0]
	s.asked = append(s.asked, n)
	return s.of[n]
}

func numbers(ids []ulid.ULID) (out []int) {
	for _, id := range ids {
		out = append(out, planned([]blockdir.Meta{{ULID: id}})[0])
	}
	return out
}

func TestByRules_ABlockIsWrittenAnewWhenAllOfARuleIsTooOld(t *testing.T) {
	const day = 24 * time.Hour
	yes, no := true, false
	for name, test := range map[string]struct {
		keep          []time.Duration // of two rules, and the rest
		of            map[int][]bool
		gone, rewrite []int
		asked         []int
	}{
		"no limits": {
			keep: []time.Duration{0, -1, 0},
		},
		"one rule is over for the two oldest": {
			keep: []time.Duration{3 * day, 0, 0}, of: map[int][]bool{1: {yes, yes, yes}, 2: {yes, no, no}},
			gone: []int{2}, rewrite: []int{1}, asked: []int{1, 2},
		},
		"a block without a series of the rule": {
			keep: []time.Duration{3 * day, 0, 0}, of: map[int][]bool{1: {no, yes, yes}, 2: {no, no, yes}},
			asked: []int{1, 2},
		},
		"what no limit keeps goes unasked": {
			keep: []time.Duration{2 * day, day, 4 * day}, of: map[int][]bool{2: {yes, yes, yes}, 3: {yes, no, no}, 4: {yes, no, no}},
			gone: []int{1, 3}, rewrite: []int{2}, asked: []int{2, 3, 4},
		},
		"the rest": {
			keep: []time.Duration{0, 0, 3 * day}, of: map[int][]bool{1: {yes, no, yes}, 2: {no, no, yes}},
			gone: []int{2}, rewrite: []int{1}, asked: []int{1, 2},
		},
		"a block that says nothing": {
			keep: []time.Duration{3 * day, 0, 0}, of: map[int][]bool{1: nil, 2: {yes, no, yes}},
			rewrite: []int{2}, asked: []int{1, 2},
		},
		"the newest stays, unless a part goes": {
			keep: []time.Duration{time.Millisecond, time.Millisecond, 0}, of: map[int][]bool{5: {yes, no, no}, 4: {yes, yes, no}},
			gone: []int{4}, asked: []int{1, 2, 3, 4, 5},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := days(5)
			if name == "the newest stays, unless a part goes" {
				s.NewestT, s.NowT = 6*24*hour, 6*24*hour
			}
			with := shared{of: test.of}
			gone, rewrite := ByRules(&s, s.KeptFrom(test.keep), with.has)
			require.Equal(t, test.gone, numbers(gone))
			require.Equal(t, test.rewrite, numbers(rewrite))
			require.Equal(t, test.asked, with.asked)
		})
	}
}

func TestKeptFrom_IsTheFirstInstantThatIsKept(t *testing.T) {
	s := RetentionState{NewestT: 10_000, NowT: 20_000, Behind: time.Second}
	got := s.KeptFrom([]time.Duration{time.Second, time.Microsecond, 0, -1, math.MaxInt64})
	require.Equal(t, []int64{8001, 9000, math.MinInt64, math.MinInt64, 9000 - math.MaxInt64/1_000_000 + 1}, got)
	s = RetentionState{NewestT: math.MinInt64, NowT: 20_000}
	require.Equal(t, []int64{math.MinInt64}, s.KeptFrom([]time.Duration{time.Second}), "there is no sample")
}

// One rule for everything is the duration of the limits.
func TestAge_ByOneRuleForAll_IsAsByTheDuration(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var metas []blockdir.Meta
		for n := range rapid.IntRange(0, 8).Draw(t, "blocks") {
			mint := rapid.Int64Range(-100, 100).Draw(t, "mint")
			metas = append(metas, bounded(n+1, mint, mint+rapid.Int64Range(1, 50).Draw(t, "long")))
		}
		s := RetentionState{Blocks: sized(10, metas...), NewestT: rapid.Int64Range(-100, 200).Draw(t, "newest"), NowT: rapid.Int64Range(-100, 200).Draw(t, "now")}
		s.Behind = time.Duration(rapid.IntRange(0, 50).Draw(t, "behind")) * time.Millisecond
		d := time.Duration(rapid.IntRange(-1, 200).Draw(t, "duration")) * time.Millisecond
		limits := RetentionLimits{Duration: d, Bytes: rapid.Int64Range(0, 100).Draw(t, "bytes")}
		want := Age(s, limits, []time.Duration{d}, nil)
		require.Equal(t, Obsolete(s, limits), want.Gone)
		got := Age(s, limits, []time.Duration{d, 0}, func(ulid.ULID) []bool { return []bool{true, false} })
		require.Equal(t, want, got)
	})
}

// What is to go is too old by its rule, all of it; and of what is too old nothing stays, but for
// what is in a block with something that is not, and in the newest.
func TestByRules_TakesNothingThatARuleKeeps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const rules = 3
		var metas []blockdir.Meta
		of := map[int][]bool{}
		for n := range rapid.IntRange(1, 8).Draw(t, "blocks") {
			mint := rapid.Int64Range(-100, 100).Draw(t, "mint")
			metas = append(metas, bounded(n+1, mint, mint+rapid.Int64Range(1, 50).Draw(t, "long")))
			of[n+1] = rapid.SliceOfN(rapid.Bool(), rules, rules).Draw(t, "of")
			if !slices.Contains(of[n+1], true) {
				of[n+1][0] = true
			}
		}
		s := RetentionState{Blocks: sized(10, metas...), NewestT: math.MinInt64, NowT: rapid.Int64Range(-100, 200).Draw(t, "now")}
		from := rapid.SliceOfN(rapid.OneOf(rapid.Int64Range(-120, 120), rapid.Just(int64(math.MinInt64))), rules, rules).Draw(t, "from")
		with := shared{of: of}
		gone, rewrite := ByRules(&s, from, with.has)
		newest := slices.MaxFunc(metas, func(a, b blockdir.Meta) int { return newestFirst(&SizedBlock{Meta: b}, &SizedBlock{Meta: a}) })
		for n, m := range metas {
			some, all := false, true
			for k, share := range of[n+1] {
				some = some || share && m.MaxTime <= from[k]
				all = all && (!share || m.MaxTime <= from[k])
			}
			require.Equal(t, all && m.ULID != newest.ULID, slices.Contains(gone, m.ULID))
			require.Equal(t, some && !all, slices.Contains(rewrite, m.ULID))
		}
	})
}

// What goes by a rule does not count against the bytes of what is kept.
func TestAge_CountsOnlyWhatRulesLeave(t *testing.T) {
	const day = 24 * time.Hour
	s := days(3)
	with := shared{of: map[int][]bool{1: {false, true}, 2: {true, false}}}
	a := Age(s, RetentionLimits{Bytes: 250}, []time.Duration{day, 0}, with.has)
	require.Equal(t, map[ulid.ULID]Reason{numberedULID(2): ReasonDuration}, a.Gone)
}
