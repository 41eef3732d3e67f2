package blockplan

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed347100a3/tsdb/internal/blockdir"
)

type metaVectors struct {
	Merges []struct {
		Name   string
		Inputs []string
		Result string
	}
	Plans []struct {
		Name   string
		Blocks []struct {
			Block         int
			Mint, Maxt    int64
			Failed        bool
			Hints         []string
			NumSeries     uint64 `json:"num_series"`
			NumTombstones uint64 `json:"num_tombstones"`
		}
		Ranges []int64
		Plan   []int
	}
}

func loadMetaVectors(t testing.TB) (v metaVectors) {
	t.Helper()
	b, err := os.ReadFile("testdata/meta.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &v))
	return v
}

// numberedULID is a name that sorts by its number.
func numberedULID(n int) (id ulid.ULID) {
	id[14], id[15] = byte(n>>8), byte(n)
	return id
}

// planned returns the numbers of the blocks of a plan.
func planned(plan []blockdir.Meta) []int {
	numbers := []int{}
	for _, m := range plan {
		numbers = append(numbers, int(m.ULID[14])<<8|int(m.ULID[15]))
	}
	return numbers
}

func TestPlan_EqualsTheVectors(t *testing.T) {
	vectors := loadMetaVectors(t)
	require.Len(t, vectors.Plans, 23)
	for _, v := range vectors.Plans {
		t.Run(v.Name, func(t *testing.T) {
			var metas []blockdir.Meta
			for _, b := range v.Blocks {
				metas = append(metas, blockdir.Meta{
					ULID: numberedULID(b.Block), MinTime: b.Mint, MaxTime: b.Maxt,
					Stats:      blockdir.Stats{NumSeries: b.NumSeries, NumTombstones: b.NumTombstones},
					Compaction: blockdir.Compaction{Failed: b.Failed, Hints: b.Hints},
				})
			}
			want := append([]int{}, v.Plan...)
			require.Equal(t, want, planned(next(metas, v.Ranges, nil)))
			slices.Reverse(metas)
			require.Equal(t, want, planned(next(metas, v.Ranges, nil)), "the order of the blocks given says nothing")
		})
	}
}

func TestMergedMeta_EqualsTheVectors(t *testing.T) {
	vectors := loadMetaVectors(t)
	require.Len(t, vectors.Merges, 5)
	for _, v := range vectors.Merges {
		t.Run(v.Name, func(t *testing.T) {
			var inputs []blockdir.Meta
			for _, text := range v.Inputs {
				m, err := blockdir.DecodeMeta([]byte(text))
				require.NoError(t, err)
				inputs = append(inputs, m)
			}
			want, err := blockdir.DecodeMeta([]byte(v.Result))
			require.NoError(t, err)
			got, err := blockdir.EncodeMeta(Merged(want.ULID, inputs))
			require.NoError(t, err)
			require.Equal(t, v.Result, string(got))
		})
	}
}

// next plans blocks that are all behind the head; busy may be nil.
func next(metas []blockdir.Meta, ranges []int64, busy func(ulid.ULID) bool) []blockdir.Meta {
	if busy == nil {
		busy = func(ulid.ULID) bool { return false }
	}
	return Next(blocks(metas), math.MaxInt64, ranges, busy)
}

// blocks are those of metas as plans see them, sorted by start, all marked that lie beside the
// head.
func blocks(metas []blockdir.Meta) []Block {
	sorted := slices.SortedFunc(slices.Values(metas), func(a, b blockdir.Meta) int { return blockdir.CompareStart(&a, &b) })
	list := make([]Block, len(sorted))
	for i, m := range sorted {
		list[i].Meta = m
	}
	return list
}

// spans makes blocks of pairs of hours, numbered from 1.
func spans(hours ...[2]int64) (metas []blockdir.Meta) {
	for i, h := range hours {
		metas = append(metas, blockdir.Meta{
			ULID: numberedULID(i + 1), MinTime: h[0] * hour, MaxTime: h[1] * hour,
			Stats: blockdir.Stats{NumSeries: 100},
		})
	}
	return metas
}

const hour = int64(time.Hour / time.Millisecond)

var levels = []int64{2 * hour, 6 * hour, 18 * hour}

func TestBlockRanges_TripleUpToTheLongest(t *testing.T) {
	require.Equal(t, levels, Ranges(2*time.Hour, 36*time.Hour))
	require.Equal(t, levels, Ranges(2*time.Hour, 18*time.Hour))
	require.Equal(t, levels[:2], Ranges(2*time.Hour, 18*time.Hour-time.Millisecond))
	require.Equal(t, levels[:1], Ranges(2*time.Hour, 0))
	longest := Ranges(time.Minute, math.MaxInt64)
	require.True(t, slices.IsSorted(longest))
	require.Positive(t, longest[0])
}

// Bug 36: a merge that fails must not be tried again and again, nor stop the others.
func TestPlan_Bug36_ABusyBlockStopsItsOwnPlansOnly(t *testing.T) {
	busy := func(numbers ...int) func(ulid.ULID) bool {
		return func(id ulid.ULID) bool {
			return slices.ContainsFunc(numbers, func(n int) bool { return numberedULID(n) == id })
		}
	}
	six := spans([2]int64{0, 2}, [2]int64{2, 4}, [2]int64{4, 6}, [2]int64{6, 8}, [2]int64{8, 10}, [2]int64{10, 12}, [2]int64{12, 14})
	require.Equal(t, []int{1, 2, 3}, planned(next(six, levels, busy())))
	require.Equal(t, []int{4, 5, 6}, planned(next(six, levels, busy(2))))
	require.Empty(t, planned(next(six, levels, busy(2, 4))))

	overlaps := append(spans([2]int64{0, 2}, [2]int64{1, 3}, [2]int64{6, 9}, [2]int64{8, 10}), six[6])
	require.Equal(t, []int{1, 2}, planned(next(overlaps, levels, busy())))
	require.Equal(t, []int{3, 4}, planned(next(overlaps, levels, busy(1))))

	deleted := spans([2]int64{0, 18}, [2]int64{18, 36}, [2]int64{36, 38})
	deleted[0].Stats.NumTombstones, deleted[1].Stats.NumTombstones = 50, 50
	require.Equal(t, []int{2}, planned(next(deleted, levels, busy())))
	require.Equal(t, []int{1}, planned(next(deleted, levels, busy(2))))
}

// Bug 35: what an interrupted merge left, the result beside its inputs, is an overlap that
// goes away by merging even where nobody looks at parents.
func TestPlan_Bug35_ResultBesideItsInputs_IsMerged(t *testing.T) {
	metas := spans([2]int64{0, 2}, [2]int64{2, 4}, [2]int64{4, 6}, [2]int64{0, 6}, [2]int64{6, 8})
	require.Equal(t, []int{1, 4, 2, 3}, planned(next(metas, levels, nil)))
}

func TestPlan_BlocksOfEarlyFlushes_AreMergedLikeOthers(t *testing.T) {
	metas := spans([2]int64{0, 1}, [2]int64{1, 2}, [2]int64{2, 5}, [2]int64{5, 6}, [2]int64{6, 7})
	require.Equal(t, []int{1, 2, 3, 4}, planned(next(metas, levels, nil)))
}

func TestPlan_BlockOverALimitOfItsWindow_StaysAsItIs(t *testing.T) {
	metas := spans([2]int64{-7, -1}, [2]int64{-1, 2}, [2]int64{2, 4}, [2]int64{4, 6}, [2]int64{6, 8}, [2]int64{8, 10})
	require.Equal(t, []int{3, 4}, planned(next(metas, levels, nil)))
}

func TestPlan_StaleAndSelectedSeries_AreTwoClassesAndStaleComesFirst(t *testing.T) {
	metas := spans([2]int64{0, 2}, [2]int64{0, 2}, [2]int64{0, 2}, [2]int64{0, 2})
	for i := range metas {
		metas[i].Compaction.Hints = []string{[]string{blockdir.HintFromSelectedSeries, blockdir.HintFromStaleSeries}[i%2]}
	}
	require.Equal(t, []int{2, 4}, planned(next(metas, levels, nil)))
	require.Equal(t, []int{1, 3}, planned(next(metas[:3], levels, nil)))
	require.Empty(t, next(metas[:2], levels, nil))
}

func TestPlan_ALargeBlock_IsWrittenAnewAboveFivePercentDeleted(t *testing.T) {
	metas := spans([2]int64{0, 18}, [2]int64{18, 20})
	metas[0].Stats = blockdir.Stats{NumSeries: 99, NumTombstones: 5}
	require.Empty(t, next(metas, levels, nil))
	metas[0].Stats.NumTombstones = 6
	require.Equal(t, []int{1}, planned(next(metas, levels, nil)))
}

func TestPlan_AtTheEndsOfTime(t *testing.T) {
	metas := []blockdir.Meta{
		{ULID: numberedULID(1), MinTime: math.MinInt64, MaxTime: math.MinInt64 + 5},
		{ULID: numberedULID(2), MinTime: math.MinInt64 + 5, MaxTime: math.MinInt64 + 9},
		{ULID: numberedULID(3), MinTime: math.MaxInt64 - 9, MaxTime: math.MaxInt64 - 5},
		{ULID: numberedULID(4), MinTime: math.MaxInt64 - 5, MaxTime: math.MaxInt64},
	}
	require.Equal(t, []int{1, 2}, planned(next(metas, levels, nil)))
	whole := []blockdir.Meta{{ULID: numberedULID(1), MinTime: math.MinInt64, MaxTime: math.MaxInt64, Stats: blockdir.Stats{NumTombstones: 1}}, metas[3]}
	whole[1].MinTime = math.MaxInt64
	require.Equal(t, []int{1}, planned(next(whole, levels, nil)))
}

// However blocks lie: merging as planned comes to an end, where nothing overlaps but
// blocks of different classes, and no plan mixes those.
func TestPlan_FollowedToItsEnd_LeavesNoOverlap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var metas []blockdir.Meta
		number := 1
		for last := rapid.IntRange(0, 20).Draw(t, "blocks"); number <= last; number++ {
			m := blockdir.Meta{ULID: numberedULID(number), MinTime: rapid.Int64Range(-60*hour, 60*hour).Draw(t, "mint")}
			m.MaxTime = m.MinTime + rapid.Int64Range(0, 20*hour).Draw(t, "length")
			m.Stats.NumTombstones = rapid.Uint64Range(0, 20).Draw(t, "tombstones")
			m.Stats.NumSeries = 100
			if rapid.IntRange(0, 4).Draw(t, "stale") == 0 {
				m.Compaction.Hints = []string{blockdir.HintFromStaleSeries}
			}
			metas = append(metas, m)
		}
		for steps := 0; ; steps++ {
			plan := next(metas, levels, nil)
			if len(plan) == 0 {
				break
			}
			require.LessOrEqual(t, steps, 40)
			out := Merged(numberedULID(number), plan)
			out.Stats.NumSeries = 100
			number++
			for _, m := range plan {
				require.Equal(t, plan[0].Compaction.Hints, m.Compaction.Hints)
			}
			metas = slices.DeleteFunc(metas, func(m blockdir.Meta) bool { return slices.Contains(planned(plan), planned([]blockdir.Meta{m})[0]) })
			metas = append(metas, out)
		}
		for _, a := range metas {
			for _, b := range metas {
				same := slices.Equal(a.Compaction.Hints, b.Compaction.Hints)
				if a.ULID != b.ULID && same {
					require.False(t, a.MinTime < b.MaxTime && b.MinTime < a.MaxTime && a.MinTime < a.MaxTime && b.MinTime < b.MaxTime)
				}
			}
		}
	})
}

// A block beside the head, which ends after the head begins, is merged with its like only; one
// whose mark could not be written, with nothing.
func TestPlan_BlocksBesideTheHead_AreMergedWithEachOtherOnly(t *testing.T) {
	plan := func(start int64, list []Block) []int {
		return planned(Next(list, start, levels, func(ulid.ULID) bool { return false }))
	}
	metas := spans([2]int64{0, 2}, [2]int64{0, 2}, [2]int64{1, 3}, [2]int64{1, 3}, [2]int64{6, 8})
	for i := range metas {
		if i%2 == 1 {
			metas[i].Compaction.Hints = []string{blockdir.HintFromOutOfOrder}
		}
	}
	list := blocks(metas)
	require.Equal(t, []int{1, 2, 3, 4}, plan(3*hour, list), "all are behind the head")
	require.Equal(t, []int{1, 2, 3}, plan(2*hour, list), "one is beside it, and waits")
	require.Equal(t, []int{1, 3}, plan(0, list))
	require.Equal(t, []int{2, 4}, plan(0, slices.DeleteFunc(slices.Clone(list), func(b Block) bool { return b.Meta.ULID == numberedULID(1) })))
	list[3].Unmarked = true
	require.Empty(t, plan(0, []Block{list[1], list[3]}))
}

// The newest block of all is left alone, also where it lies beside the head: then the newest of the
// ordinary ones takes part.
func TestPlan_TheNewestBlockBesideTheHead_LetsAllOrdinaryOnesBeMerged(t *testing.T) {
	metas := spans([2]int64{0, 2}, [2]int64{2, 4}, [2]int64{4, 6}, [2]int64{6, 8})
	idle := func(ulid.ULID) bool { return false }
	require.Empty(t, Next(blocks(metas[:3]), 6*hour, levels, idle))
	metas[3].Compaction.Hints = []string{blockdir.HintFromOutOfOrder}
	require.Equal(t, []int{1, 2, 3}, planned(Next(blocks(metas), 6*hour, levels, idle)))
	require.Empty(t, Next(blocks(metas), 6*hour, levels, func(id ulid.ULID) bool { return id == numberedULID(2) }))
}

func TestOutside_TakesWhatReachesOverTheResult(t *testing.T) {
	result := blockdir.Meta{MinTime: 10, MaxTime: 20}
	hints := blockdir.Compaction{Hints: []string{blockdir.HintFromOutOfOrder}}
	early, late := blockdir.Meta{MinTime: 9, MaxTime: 10, Compaction: hints}, blockdir.Meta{MinTime: 20, MaxTime: 21, Compaction: hints}
	require.Empty(t, Outside(result, 10, 20))
	require.Equal(t, []blockdir.Meta{early}, Outside(result, 9, 20))
	require.Equal(t, []blockdir.Meta{late}, Outside(result, 10, 21))
	require.Equal(t, []blockdir.Meta{early, late}, Outside(result, 9, 21))
}
