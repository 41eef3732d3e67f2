package blockplan

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed347100a3/tsdb/internal/blockdir"
)

// sized gives blocks sizes, the same to each.
func sized(bytes int64, metas ...blockdir.Meta) (blocks []SizedBlock) {
	for _, m := range metas {
		blocks = append(blocks, SizedBlock{Meta: m, Bytes: bytes})
	}
	return blocks
}

// reasons are those of obsolete blocks by number.
func reasons(s RetentionState, limits RetentionLimits) map[int]Reason {
	out := map[int]Reason{}
	for id, why := range Obsolete(s, limits) {
		out[planned([]blockdir.Meta{{ULID: id}})[0]] = why
	}
	return out
}

// obsolete are the numbers of obsolete blocks.
func obsolete(s RetentionState, limits RetentionLimits) []int {
	return slices.AppendSeq([]int{}, maps.Keys(reasons(s, limits)))
}

// bounded is the meta file of block n with these half-open bounds.
func bounded(n int, mint, maxt int64) blockdir.Meta {
	return blockdir.Meta{ULID: numberedULID(n), MinTime: mint, MaxTime: maxt}
}

// days makes blocks of one day each, numbered from 1, that end at day n.
func days(n int) RetentionState {
	var metas []blockdir.Meta
	for d := range n {
		metas = append(metas, bounded(d+1, int64(d)*24*hour, int64(d+1)*24*hour))
	}
	return RetentionState{Blocks: sized(100, metas...), NewestT: math.MinInt64, NowT: int64(n) * 24 * hour}
}

func TestRetention_ByDefault_NothingIsDeleted(t *testing.T) {
	s := days(40)
	s.HeadBytes, s.NewestT, s.NowT = math.MaxInt64, math.MaxInt64, math.MaxInt64
	require.Empty(t, obsolete(s, RetentionLimits{}))
	require.Empty(t, obsolete(s, RetentionLimits{Duration: -1, Bytes: -1}))
	require.Empty(t, obsolete(RetentionState{}, RetentionLimits{Duration: 1, Bytes: 1}))
}

func TestRetention_ByTime_GoesByTheEndOfABlock(t *testing.T) {
	const day = 24 * time.Hour
	s := days(5)
	require.Equal(t, map[int]Reason{1: ReasonDuration, 2: ReasonDuration}, reasons(s, RetentionLimits{Duration: 3 * day}))
	require.Len(t, obsolete(s, RetentionLimits{Duration: 3*day + time.Millisecond}), 1, "the last sample of block 2 is 3 days old")
	require.Len(t, obsolete(s, RetentionLimits{Duration: 3*day - time.Millisecond}), 2)
	require.Len(t, obsolete(s, RetentionLimits{Duration: time.Nanosecond}), 4, "the newest one stays")

	s.NewestT = 5*24*hour + 24*hour - 1
	s.NowT = s.NewestT
	require.Len(t, obsolete(s, RetentionLimits{Duration: 3 * day}), 3, "the head has a day more")
}

// Bug 47: durations count in nanoseconds, blocks in milliseconds. A retention of d keeps a
// block that ends d minus a millisecond ago, and not one that ends d ago.
func TestRetention_Bug47_Units(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		unit := rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second, time.Minute, time.Hour, 24 * time.Hour, 365 * 24 * time.Hour}).Draw(t, "unit")
		d := time.Duration(rapid.Int64Range(1, 100).Draw(t, "n")) * unit
		end := rapid.Int64Range(-1<<50, 1<<50).Draw(t, "end")
		ago := func(ms int64) int64 { return end - ms }
		s := RetentionState{NewestT: math.MinInt64, NowT: end, Blocks: sized(1,
			bounded(1, ago(d.Milliseconds()+10), ago(d.Milliseconds())),
			bounded(2, ago(d.Milliseconds()-1)-1, ago(d.Milliseconds()-1)),
			bounded(3, end-1, end),
		)}
		require.Equal(t, []int{1}, obsolete(s, RetentionLimits{Duration: d}))
	})
}

func TestRetention_AClockTenYearsOff_DeletesNothing(t *testing.T) {
	const tenYears = 10 * 365 * 24 * hour
	limits := RetentionLimits{Duration: 30 * 24 * time.Hour}
	s := days(30)
	end := s.NowT
	for _, now := range []int64{end, end - tenYears, end + tenYears, math.MinInt64, math.MaxInt64} {
		s.NowT = now
		require.Empty(t, obsolete(s, limits), "clock at %d", now)
		s.NewestT = end - 1
		require.Empty(t, obsolete(s, limits), "clock at %d", now)
	}
	// A sample from the future, in the head or in a block, makes nothing old either.
	s.NowT, s.NewestT = end, end+tenYears
	require.Empty(t, obsolete(s, limits))
	s.Blocks = append(s.Blocks, sized(1, bounded(31, end+tenYears, end+tenYears+hour))...)
	require.Empty(t, obsolete(s, limits))
	// A clock that is back lets go of nothing that it let go of before, and of the rest.
	s = days(31)
	require.Len(t, obsolete(s, limits), 1)
}

func TestRetention_BySize_CountsTheHeadAndTheNewestFirst(t *testing.T) {
	s := days(5) // of 100 bytes each
	s.HeadBytes = 50
	for limit, want := range map[int64]int{550: 0, 549: 1, 450: 1, 250: 3, 249: 4, 150: 4, 149: 5, 50: 5, 1: 5} {
		got := reasons(s, RetentionLimits{Bytes: limit})
		require.Len(t, got, want, "limit %d", limit)
		for n := range want {
			require.Equal(t, ReasonBytes, got[n+1], "the oldest go")
		}
	}
	s.HeadBytes = math.MaxInt64
	require.Len(t, obsolete(s, RetentionLimits{Bytes: 1}), 5)
}

func TestRetention_ByPercent_ReplacesBytesWhereTheDeviceIsKnown(t *testing.T) {
	type limits struct {
		percent float64
		bytes   int64
	}
	for _, c := range []struct {
		disk int64
		of   limits
		want int64
	}{
		{1000, limits{50, 0}, 500},
		{1000, limits{49.9, 0}, 499},
		{1000, limits{30, 500}, 300},
		{1000, limits{50, 100}, 500},
		{1000, limits{1e-9, 0}, 1},
		{0, limits{30, 0}, 0},
		{0, limits{30, 400}, 400},
		{1000, limits{0, 400}, 400},
		{1000, limits{-1, -1}, -1},
		{math.MaxInt64, limits{100, 0}, math.MaxInt64},
		{math.MaxInt64, limits{1e9, 0}, math.MaxInt64},
	} {
		require.Equal(t, c.want, LimitBytes(c.disk, c.of.percent, c.of.bytes), "%+v", c)
	}
}

func TestRetention_DeletableBlocks_GoAndDoNotCount(t *testing.T) {
	s := days(5)
	s.Blocks[4].Meta.Compaction.Deletable = true
	s.Blocks[0].Meta.Compaction.Deletable = true
	require.Equal(t, map[int]Reason{1: ReasonDeletable, 5: ReasonDeletable}, reasons(s, RetentionLimits{Bytes: 300}))
	require.Equal(t, []string{"replaced", "empty", "duration", "bytes", "none"},
		[]string{fmt.Sprint(ReasonReplaced), fmt.Sprint(ReasonDeletable), fmt.Sprint(ReasonDuration), fmt.Sprint(ReasonBytes), fmt.Sprint(Reason(0))})
}

func TestRetention_OnlyLimitsTakeSamplesThatNoOtherBlockHas(t *testing.T) {
	for why, want := range map[Reason]bool{0: false, ReasonReplaced: false, ReasonDeletable: false, ReasonDuration: true, ReasonBytes: true} {
		require.Equal(t, want, why.ByLimit(), "%s", why)
	}
}

// childOf makes a block of parents.
func childOf(m blockdir.Meta, parents ...blockdir.Meta) blockdir.Meta {
	for _, p := range parents {
		m.Compaction.Parents = append(m.Compaction.Parents, blockdir.Parent{ULID: p.ULID, MinTime: p.MinTime, MaxTime: p.MaxTime})
	}
	return m
}

// Bug 35: a merge that was interrupted after its result was there.
func TestRetention_Bug35_InputsBesideTheirResult_Go(t *testing.T) {
	a, b, c := bounded(1, 0, 10), bounded(2, 10, 20), bounded(3, 20, 30)
	ab := childOf(bounded(4, 0, 20), a, b)
	abc := childOf(bounded(5, 0, 30), ab, c)
	replaced := func(metas ...blockdir.Meta) []int {
		ids := obsolete(RetentionState{Blocks: sized(1, metas...)}, RetentionLimits{})
		slices.Sort(ids)
		return ids
	}
	require.Equal(t, []int{1, 2}, replaced(a, b, c, ab))
	require.Equal(t, []int{1, 2, 3, 4}, replaced(a, b, c, ab, abc))
	require.Equal(t, []int{3}, replaced(a, b, c, abc), "ab is not there to speak for a and b")
	require.Empty(t, replaced(a, b, c))
	require.Empty(t, replaced(ab, bounded(5, 0, 30)))
}

// Whoever says that a block went into another one deletes it: so it must be plausible.
func TestRetention_WrongParents_DeleteNothing(t *testing.T) {
	a, b := bounded(1, 0, 10), bounded(2, 0, 10)
	all := func(metas ...blockdir.Meta) []int {
		return obsolete(RetentionState{Blocks: sized(1, metas...)}, RetentionLimits{})
	}
	require.Empty(t, all(childOf(a, a)))
	require.Empty(t, all(childOf(a, b), childOf(b, a)), "each claims the other")
	require.Empty(t, all(a, childOf(bounded(3, 1, 10), a)), "it does not cover the times")
	require.Empty(t, all(a, childOf(bounded(3, 0, 9), a)), "it does not cover the times")
	require.Empty(t, all(a, childOf(b, blockdir.Meta{})), "the artefact of out-of-order blocks")
	require.NotContains(t, Obsolete(RetentionState{Blocks: sized(1, a)}, RetentionLimits{}), ulid.ULID{})
}

// The rules in other words, for any blocks: nothing goes that is inside all limits, and what
// stays is inside them, as far as blocks can be.
func TestRetention_KeepsWhatIsInsideTheLimits_AndNotMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := RetentionState{
			NewestT:   rapid.SampledFrom([]int64{math.MinInt64, 0, 900, 5000}).Draw(t, "newest"),
			NowT:      rapid.Int64Range(-2000, 6000).Draw(t, "now"),
			HeadBytes: rapid.Int64Range(0, 300).Draw(t, "head"),
		}
		newest := s.NewestT
		for n := range rapid.IntRange(0, 12).Draw(t, "blocks") {
			mint := rapid.Int64Range(-1000, 1000).Draw(t, "mint")
			m := bounded(n+1, mint, mint+rapid.Int64Range(1, 500).Draw(t, "length"))
			s.Blocks = append(s.Blocks, SizedBlock{Meta: m, Bytes: rapid.Int64Range(0, 100).Draw(t, "bytes")})
			newest = max(newest, m.MaxTime-1)
		}
		limits := RetentionLimits{
			Duration: time.Duration(rapid.Int64Range(0, 2000).Draw(t, "ms")) * time.Millisecond,
			Bytes:    rapid.Int64Range(0, 900).Draw(t, "limit"),
		}
		gone := Obsolete(s, limits)
		cutoff := min(newest, s.NowT) - limits.Duration.Milliseconds()
		sum, youngestGone := s.HeadBytes, int64(math.MinInt64)
		for _, b := range s.Blocks {
			if gone[b.Meta.ULID] == 0 {
				sum += b.Bytes
				continue
			}
			youngestGone = max(youngestGone, b.Meta.MaxTime)
			if gone[b.Meta.ULID] == ReasonDuration {
				require.LessOrEqual(t, b.Meta.MaxTime-1, cutoff)
			}
		}
		old := 0
		for _, b := range s.Blocks {
			if gone[b.Meta.ULID] == 0 {
				require.GreaterOrEqual(t, b.Meta.MaxTime, youngestGone, "the oldest go first")
				if limits.Duration > 0 && b.Meta.MaxTime-1 <= cutoff {
					old++
				}
			}
		}
		require.LessOrEqual(t, old, 1, "only the newest block may be older")
		if limits.Bytes > 0 && len(gone) < len(s.Blocks) {
			require.LessOrEqual(t, sum, limits.Bytes)
		}
	})
}
