package read_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/read"
	"github.com/seed347100a3/tsdb/labels"
)

// Several places with overlapping series and times read as one: the union by labels
// and time, and where two have the same time the first place wins.
func TestMerge_SeveralPlacesReadAsOne(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		places := make([]read.FakeSource, rapid.IntRange(1, 4).Draw(rt, "places"))
		want := map[string]map[int64]float64{}
		mint := rapid.Int64Range(-5, 5).Draw(rt, "mint")
		maxt := rapid.Int64Range(0, 130).Draw(rt, "maxt")
		many := rapid.SampledFrom([]int{6, 40}).Draw(rt, "series") // few are compared by text, and the first ones of many
		apart := int64(0)
		if rapid.Bool().Draw(rt, "one after the other") {
			apart = 42 // no series has a longer time
		}
		for p := range places {
			for i := range many {
				if rapid.Bool().Draw(rt, "has") {
					s := drawSeries(rt, i, p, apart*int64(p))
					places[p] = append(places[p], s)
					addWanted(want, s, mint, maxt)
				}
			}
		}
		q := read.Over(mint, maxt, places...)
		got := dump(t, q)
		require.Equal(t, flatten(want), got)
		require.Equal(t, got, dumpChunks(t, q))
		for set := selected(q, everything()); many == 6 && set.Next(); {
			seekEverywhere(t, set.At(), got[set.At().Labels().String()])
		}
	})
}

func drawSeries(rt *rapid.T, i, place int, ts int64) read.FakeSeries {
	s := read.FakeSeries{Labels: labels.FromStrings("i", fmt.Sprint(i/16), "j", fmt.Sprint(i/4%4), "k", fmt.Sprint(i%4))}
	for range rapid.IntRange(1, 8).Draw(rt, "n") {
		ts += rapid.Int64Range(1, 5).Draw(rt, "step")
		s.T, s.V = append(s.T, ts), append(s.V, float64(place))
	}
	return s
}

func addWanted(want map[string]map[int64]float64, s read.FakeSeries, mint, maxt int64) {
	key := s.Labels.String()
	if want[key] == nil {
		want[key] = map[int64]float64{}
	}
	for k, ts := range s.T {
		if _, taken := want[key][ts]; !taken && ts >= mint && ts <= maxt {
			want[key][ts] = s.V[k]
		}
	}
}

func flatten(want map[string]map[int64]float64) map[string][]point {
	all := map[string][]point{}
	for key, samples := range want {
		for ts, v := range samples {
			all[key] = append(all[key], point{ts, math.Float64bits(v)})
		}
		slices.SortFunc(all[key], func(a, b point) int { return cmp.Compare(a.T, b.T) })
	}
	return all
}

func seekEverywhere(t *testing.T, s *read.Series, want []point) {
	for start := int64(-1); start < 175; start++ {
		it := s.Iterator(nil)
		i, _ := slices.BinarySearchFunc(want, start, func(p point, t int64) int { return cmp.Compare(p.T, t) })
		if i == len(want) {
			require.Equal(t, chunkenc.ValNone, it.Seek(start))
			continue
		}
		require.Equal(t, chunkenc.ValFloat, it.Seek(start))
		require.Equal(t, want[i].T, it.AtT())
		n := 1
		for ; it.Next() != chunkenc.ValNone; n++ {
			require.Equal(t, want[i+n].T, it.AtT())
		}
		require.Equal(t, len(want)-i, n)
	}
}

func TestMerge_LimitsAndLabelsSpanAllPlaces(t *testing.T) {
	place := func(is ...int) (src read.FakeSource) {
		for _, i := range is {
			src = append(src, read.FakeSeries{Labels: labels.FromStrings("i", fmt.Sprint(i)), T: []int64{1}, V: []float64{1}})
		}
		return src
	}
	q := read.Over(0, 10, place(1, 3), place(2, 3, 4), place())
	require.Len(t, dump(t, q), 4)
	three := everything()
	three.Limit = 3
	set := selected(q, three)
	n := 0
	for ; set.Next(); n++ {
	}
	require.NoError(t, set.Err())
	require.Equal(t, 3, n)
	require.ErrorIs(t, set.Warnings()[0], read.ErrTruncated)
	values, _, err := q.LabelValues(ctx, "i", 0, nil, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"1", "2", "3", "4"}, values)
}
