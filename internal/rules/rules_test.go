package rules_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/blocktest"
	"github.com/seed347100a3/tsdb/internal/rules"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

func rule(t *testing.T, selector string, d time.Duration) rules.RetentionRule {
	ms, err := labels.ParseSelector(selector)
	require.NoError(t, err)
	return rules.RetentionRule{Matchers: ms, Duration: d}
}

// block has series a="1" to a="4", the even ones with b="x".
func block(t *testing.T) *blockdir.Dir {
	fs := tsdbtest.NewMemFS()
	require.NoError(t, fs.MkdirAll("data"))
	var series []blocktest.Series
	for _, s := range []string{`{a="1"}`, `{a="2",b="x"}`, `{a="3"}`, `{a="4",b="x"}`} {
		series = append(series, blocktest.Only(t, s, blocktest.Floats(5, 1)))
	}
	return blocktest.Make(t, fs, "data", blocktest.Meta(1, 0, 10), series...)
}

func TestDecide_TheFirstRuleThatChoosesASeriesDecides(t *testing.T) {
	d := block(t)
	ids, err := d.Index().Select(context.Background())
	require.NoError(t, err)
	for _, test := range []struct {
		selectors []string
		want      []int
	}{
		{nil, []int{0, 0, 0, 0}},
		{[]string{`{a="2"}`, `{b="x"}`, `{a=~"1|2"}`}, []int{2, 0, 3, 1}},
		{[]string{`{b=""}`, `{}`, `{a="1"}`}, []int{0, 1, 0, 1}},
		{[]string{`{c="1"}`, `{a!="1",b=""}`}, []int{2, 2, 1, 2}},
	} {
		var list []rules.RetentionRule
		for _, s := range test.selectors {
			list = append(list, rule(t, s, time.Hour))
		}
		decided, err := rules.Decide(context.Background(), d, list)
		require.NoError(t, err)
		shares, from := make([]bool, len(list)+1), make([]int64, len(list)+1)
		for i, id := range ids {
			require.Equal(t, test.want[i], decided.Rule(id), "%v, series %d", test.selectors, i)
			shares[test.want[i]] = true
		}
		got, err := rules.NewShares(list).Of(context.Background(), d)
		require.NoError(t, err)
		require.Equal(t, shares, got, "%v", test.selectors)
		for i := range from {
			from[i] = math.MinInt64
		}
		require.Nil(t, decided.KeepFrom(from))
		for i := range from {
			from[i] = int64(i)
		}
		for i, id := range ids {
			require.Equal(t, int64(test.want[i]), decided.KeepFrom(from)(id))
		}
	}
}

func TestShares_AskABlockOnce(t *testing.T) {
	d := block(t)
	s := rules.NewShares([]rules.RetentionRule{rule(t, `{b="x"}`, time.Hour)})
	ctx, cancel := context.WithCancel(context.Background())
	want, err := s.Of(ctx, d)
	require.NoError(t, err)
	cancel()
	got, err := s.Of(ctx, d)
	require.NoError(t, err, "it is remembered")
	require.Equal(t, want, got)
	s.Forget(func(id ulid.ULID) bool { return id == d.Meta().ULID })
	_, err = s.Of(ctx, d)
	require.NoError(t, err)
	s.Forget(func(ulid.ULID) bool { return false })
	_, err = s.Of(ctx, d)
	require.ErrorIs(t, err, context.Canceled)
}

func TestCheck_RefusesWhatCannotBeApplied(t *testing.T) {
	require.NoError(t, rules.Check([]rules.RetentionRule{{}, rule(t, `{a="1"}`, -1)}, "rules"))
	require.EqualError(t, rules.Check([]rules.RetentionRule{{}, {Matchers: []*labels.Matcher{nil}}}, "rules"), "rules: rule 1 has a matcher that is nil")
	require.ErrorContains(t, rules.Check(make([]rules.RetentionRule, 257), "rules"), "257 rules")
	require.Equal(t, []time.Duration{time.Hour, 5}, rules.Durations([]rules.RetentionRule{{Duration: time.Hour}}, 5))
	require.Equal(t, time.Hour, rules.Longest([]rules.RetentionRule{{}, {Duration: time.Hour}, {Duration: -1}}, 5))
	require.Zero(t, rules.Longest([]rules.RetentionRule{{Duration: -5}}, -1))
}
