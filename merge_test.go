package tsdb_test

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/labels"
)

// Several places with overlapping series and times read as one: the union by labels
// and time, and where two have the same time the first place wins.
func TestMerge_SeveralPlacesReadAsOne(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		places := make([]tsdb.FakeSource, rapid.IntRange(1, 4).Draw(rt, "places"))
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
		q := tsdb.QuerierOver(mint, maxt, places...)
		got := dumpQuerier(t, q)
		require.Equal(t, flatten(want), got)
		require.Equal(t, got, dumpChunks(t, q))
		for s, err := range q.Select(ctx, nil).All() {
			require.NoError(t, err)
			if many == 6 {
				seekEverywhere(t, s, got[s.Labels().String()])
			}
		}
	})
}

func drawSeries(rt *rapid.T, i, place int, ts int64) tsdb.FakeSeries {
	s := tsdb.FakeSeries{Labels: labels.FromStrings("i", fmt.Sprint(i/16), "j", fmt.Sprint(i/4%4), "k", fmt.Sprint(i%4))}
	for range rapid.IntRange(1, 8).Draw(rt, "n") {
		ts += rapid.Int64Range(1, 5).Draw(rt, "step")
		s.T, s.V = append(s.T, ts), append(s.V, float64(place))
	}
	return s
}

func addWanted(want map[string]map[int64]float64, s tsdb.FakeSeries, mint, maxt int64) {
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

func dumpChunks(t *testing.T, q *tsdb.Querier) map[string][]point {
	all := map[string][]point{}
	var it *tsdb.ChunkIterator
	for s, err := range q.SelectChunks(ctx, &tsdb.SelectHints{Transient: true}).All() {
		require.NoError(t, err)
		it = s.Chunks(it)
		for it.Next() {
			samples := it.At().Chunk.Iterator(nil)
			for samples.Next() != chunkenc.ValNone {
				ts, v := samples.At()
				all[s.Labels().String()] = append(all[s.Labels().String()], point{ts, math.Float64bits(v)})
			}
		}
		require.NoError(t, it.Err())
	}
	return all
}

func seekEverywhere(t *testing.T, s *tsdb.Series, want []point) {
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
	place := func(is ...int) (src tsdb.FakeSource) {
		for _, i := range is {
			src = append(src, tsdb.FakeSeries{Labels: labels.FromStrings("i", fmt.Sprint(i)), T: []int64{1}, V: []float64{1}})
		}
		return src
	}
	q := tsdb.QuerierOver(0, 10, place(1, 3), place(2, 3, 4), place())
	require.Len(t, slices.Collect(maps.Keys(dumpQuerier(t, q))), 4)
	set := q.Select(ctx, &tsdb.SelectHints{Limit: 3})
	n := 0
	for ; set.Next(); n++ {
	}
	require.NoError(t, set.Err())
	require.Equal(t, 3, n)
	require.ErrorIs(t, set.Warnings()[0], tsdb.ErrTruncated)
	values, _, err := q.LabelValues(ctx, "i", nil)
	require.NoError(t, err)
	require.Equal(t, []string{"1", "2", "3", "4"}, values)
}

// Blocks have numbers of their own for the same labels, and series come and go: what is
// read is what was written, in order, whether series are held or not.
func TestMerge_BlocksAndHeadWithOtherSymbolsEach(t *testing.T) {
	f := newFixture(t, func(o *tsdb.Options) { o.Blocks.Manual = true })
	const hour = 3_600_000
	start := testNow.UnixMilli() - 8*hour
	start -= start % (2 * hour)
	want := map[string][]point{}
	for place := range int64(4) { // three blocks and the head
		var rows []sample
		for i := range int64(60) {
			if (i+place)%5 == 0 {
				continue
			}
			name := fmt.Sprintf(`{__name__="m%d",host="h%d",only="%d"}`, i%3, i/3, place*(i%7/6))
			at := start + 2*hour*place + 1
			rows = append(rows, sample{name, at, float64(i)}, sample{name, at + hour, float64(place)})
		}
		f.commit(rows...)
		for _, r := range rows {
			key := series(t, r.series).String()
			want[key] = append(want[key], point{r.t, math.Float64bits(r.v)})
		}
		if place < 3 {
			require.NoError(t, f.db.Flush(ctx))
		}
	}
	require.Len(t, f.db.Blocks(), 3)
	q, err := f.db.Querier(start, start+8*hour)
	require.NoError(t, err)
	defer func() { require.NoError(t, q.Close()) }()

	var held []*tsdb.Series
	for s, err := range q.Select(ctx, nil).All() {
		require.NoError(t, err)
		held = append(held, s)
	}
	got, one := map[string][]point{}, map[string][]point{}
	for i, s := range held {
		if i > 0 {
			require.Negative(t, labels.Compare(held[i-1].Labels(), s.Labels()))
		}
		got[s.Labels().String()] = readPoints(t, s)
	}
	for s, err := range q.Select(ctx, &tsdb.SelectHints{Transient: true}).All() {
		require.NoError(t, err)
		one[labels.New(s.AppendLabels(nil)...).String()] = readPoints(t, s)
	}
	require.Equal(t, want, got)
	require.Equal(t, want, one)
	require.Equal(t, want, dumpChunks(t, q))
}

func readPoints(t *testing.T, s *tsdb.Series) (ps []point) {
	it := s.Iterator(nil)
	for it.Next() != chunkenc.ValNone {
		ts, v := it.At()
		ps = append(ps, point{ts, math.Float64bits(v)})
	}
	require.NoError(t, it.Err())
	return ps
}
