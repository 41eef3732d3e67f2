package tsdb_test

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/labels"
)

// threeJobs commits samples at 0, 10, ..., 90 for six series.
func threeJobs(t *testing.T) *fixture {
	f := newFixture(t, nil)
	for k := range 10 {
		var rows []sample
		for i := range 6 {
			rows = append(rows, sample{fmt.Sprintf(`{__name__="up", job="j%d", i="%d"}`, i/2, i), int64(k * 10), float64(k)})
		}
		f.commit(rows...)
	}
	return f
}

func selectLabels(t *testing.T, q *tsdb.Querier, hints *tsdb.SelectHints, selector string) []string {
	ms, err := labels.ParseSelector(selector)
	require.NoError(t, err)
	var got []string
	for s, err := range q.Select(ctx, hints, ms...).All() {
		require.NoError(t, err)
		got = append(got, s.Labels().Get("i"))
	}
	return got
}

func TestSelect_MatchesAndSortsByLabels(t *testing.T) {
	f := threeJobs(t)
	q, err := f.db.Querier(0, 100)
	require.NoError(t, err)
	defer q.Close()
	for selector, want := range map[string][]string{
		`up`:                         {"0", "1", "2", "3", "4", "5"},
		`{}`:                         {"0", "1", "2", "3", "4", "5"},
		`{job="j1"}`:                 {"2", "3"},
		`{job!="j1"}`:                {"0", "1", "4", "5"},
		`{job=~"j[12]", i!="5"}`:     {"2", "3", "4"},
		`{job!~"j.*"}`:               nil,
		`{missing=""}`:               {"0", "1", "2", "3", "4", "5"},
		`{missing!=""}`:              nil,
		`{i=~"0|5|7"}`:               {"0", "5"},
		`{__name__="up",job=~".+2"}`: {"4", "5"},
		`{job="nope"}`:               nil,
	} {
		require.Equal(t, want, selectLabels(t, q, nil, selector), selector)
	}
}

func TestSelect_CutsAtTheLimitAndSaysSo(t *testing.T) {
	f := threeJobs(t)
	q, err := f.db.Querier(0, 100)
	require.NoError(t, err)
	defer q.Close()
	require.Equal(t, []string{"0", "1"}, selectLabels(t, q, &tsdb.SelectHints{Limit: 2}, `up`))
	set := q.Select(ctx, &tsdb.SelectHints{Limit: 2})
	require.Empty(t, set.Warnings(), "nothing was cut yet")
	for set.Next() {
		require.NotNil(t, set.At())
	}
	require.ErrorIs(t, set.Warnings()[0], tsdb.ErrTruncated)
	set = q.Select(ctx, &tsdb.SelectHints{Limit: 6})
	for set.Next() {
		require.NotNil(t, set.At())
	}
	require.Empty(t, set.Warnings())
	values, warnings, err := q.LabelValues(ctx, "i", &tsdb.LabelHints{Limit: 3})
	require.NoError(t, err)
	require.Equal(t, []string{"0", "1", "2"}, values)
	require.Len(t, warnings, 1)
}

func TestSelect_TheRangeIsClosedOnBothSides(t *testing.T) {
	f := threeJobs(t)
	for _, c := range []struct {
		mint, maxt int64
		want       []float64
	}{
		{10, 30, []float64{1, 2, 3}}, {11, 29, []float64{2}}, {90, 90, []float64{9}}, {89, 1000, []float64{9}},
		{math.MinInt64, 0, []float64{0}}, {91, 1000, nil}, {31, 39, nil}, {50, 40, nil}, {math.MinInt64, -1, nil},
	} {
		got := dump(t, f.db, c.mint, c.maxt, labels.Equal("i", "3"))
		var want []point
		for _, v := range c.want {
			want = append(want, points(v*10, v)...)
		}
		require.Equal(t, want, got[`{__name__="up", i="3", job="j1"}`], "%d to %d", c.mint, c.maxt)
	}
}

func TestQuerier_SeesOneSnapshot(t *testing.T) {
	f := threeJobs(t)
	before := f.all()
	q, err := f.db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	set := q.Select(ctx, nil)
	require.True(t, set.Next())
	for k := range 500 { // enough to cut chunks
		f.commit(sample{`{__name__="up", job="j0", i="0"}`, int64(100 + k), 1}, sample{`{new="series"}`, int64(k), 1})
	}
	n := 0
	for it := set.At().Iterator(nil); it.Next() != chunkenc.ValNone; n++ {
	}
	require.Equal(t, 10, n)
	require.Equal(t, before, dumpQuerier(t, q))
	names, _, err := q.LabelNames(ctx, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"__name__", "i", "job"}, names)
	values, _, err := q.LabelValues(ctx, "new", nil)
	require.NoError(t, err)
	require.Empty(t, values)
	require.NoError(t, q.Close())
	require.Len(t, f.all(), 7)
}

func TestQuerier_LabelNamesAndValues(t *testing.T) {
	f := threeJobs(t)
	f.commit(sample{`{other="x"}`, 95, 1})
	q, err := f.db.Querier(0, 94)
	require.NoError(t, err)
	defer q.Close()
	names, _, err := q.LabelNames(ctx, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"__name__", "i", "job"}, names, "other has no sample in the range")
	values, _, err := q.LabelValues(ctx, "job", nil)
	require.NoError(t, err)
	require.Equal(t, []string{"j0", "j1", "j2"}, values)
	values, _, err = q.LabelValues(ctx, "i", nil, labels.NotEqual("job", "j1"))
	require.NoError(t, err)
	require.Equal(t, []string{"0", "1", "4", "5"}, values)
	names, _, err = q.LabelNames(ctx, nil, labels.Equal("job", "nope"))
	require.NoError(t, err)
	require.Empty(t, names)
}

func TestQuerier_AfterCloseEverythingSaysSo(t *testing.T) {
	f := threeJobs(t)
	q, err := f.db.Querier(0, 100)
	require.NoError(t, err)
	set := q.Select(ctx, nil)
	require.True(t, set.Next())
	s := set.At()
	require.NoError(t, q.Close())
	require.NoError(t, q.Close())
	it := s.Iterator(nil)
	require.Equal(t, chunkenc.ValNone, it.Next())
	require.ErrorIs(t, it.Err(), tsdb.ErrClosed)
	require.False(t, set.Next())
	require.ErrorIs(t, set.Err(), tsdb.ErrClosed)
	require.ErrorIs(t, q.Select(ctx, nil).Err(), tsdb.ErrClosed)
	_, _, err = q.LabelNames(ctx, nil)
	require.ErrorIs(t, err, tsdb.ErrClosed)
}

func TestQuerier_SurvivesCloseOfTheDatabase(t *testing.T) {
	f := newFixture(t, nil)
	for k := range 600 {
		f.commit(sample{`{a="b"}`, int64(k) * 1000, float64(k)})
	}
	f.reopen() // full chunks are in files now
	want := f.all()
	q, err := f.db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	require.NoError(t, f.db.Close())
	require.Equal(t, want, dumpQuerier(t, q))
	require.NoError(t, q.Close())
	f.open()
}

func TestSelect_AnEndedContextIsAnError(t *testing.T) {
	f := threeJobs(t)
	q, err := f.db.Querier(0, 100)
	require.NoError(t, err)
	defer q.Close()
	ended, cancel := context.WithCancel(ctx)
	cancel()
	require.ErrorIs(t, q.Select(ended, nil).Err(), context.Canceled)
}

func TestSelectChunks_GivesTheSameSamplesAndReencodesOnlyWhatIsCut(t *testing.T) {
	f := newFixture(t, nil)
	for k := range 500 {
		f.commit(sample{`{a="b"}`, int64(k) * 1000, float64(k)})
	}
	for _, r := range [][2]int64{{math.MinInt64, math.MaxInt64}, {100_500, 333_000}, {0, 0}, {499_000, 600_000}} {
		q, err := f.db.Querier(r[0], r[1])
		require.NoError(t, err)
		var got []point
		last := int64(math.MinInt64)
		set := q.SelectChunks(ctx, nil)
		for set.Next() {
			it := set.At().Chunks(nil)
			for it.Next() {
				c := it.At()
				require.Greater(t, c.MinT, last)
				last = c.MaxT
				samples := c.Chunk.Iterator(nil)
				for samples.Next() != chunkenc.ValNone {
					ts, v := samples.At()
					got = append(got, point{ts, math.Float64bits(v)})
				}
				require.Equal(t, c.MaxT, got[len(got)-1].T)
			}
			require.NoError(t, it.Err())
		}
		require.NoError(t, set.Err())
		require.Equal(t, dumpQuerier(t, q)[`{a="b"}`], got)
		require.NoError(t, q.Close())
	}
}

func TestIterator_SeekAndBatchesAgreeWithNext(t *testing.T) {
	f := newFixture(t, nil)
	for k := range 1000 {
		f.commit(sample{`{a="b"}`, int64(k) * 10, float64(k)})
	}
	all := f.all()[`{a="b"}`]
	q, err := f.db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	defer q.Close()
	set := q.Select(ctx, nil)
	require.True(t, set.Next())
	var it chunkenc.Iterator
	for _, start := range []int64{-5, 0, 1, 1195, 1200, 5555, 9990} {
		it = set.At().Iterator(it)
		require.Equal(t, chunkenc.ValFloat, it.Seek(start))
		i := int(max(0, start+9) / 10)
		require.Equal(t, all[i].T, it.AtT())
		require.Equal(t, chunkenc.ValFloat, it.Seek(start-100), "never backwards")
		require.Equal(t, all[i].T, it.AtT())
		var got []int64
		batch := chunkenc.NewBatch(7)
		for it.NextBatch(batch) != chunkenc.ValNone {
			got = append(got, batch.T...)
		}
		require.Len(t, got, len(all)-i-1, "from %d", start)
		require.NoError(t, it.Err())
	}
	it = set.At().Iterator(it)
	require.Equal(t, chunkenc.ValNone, it.Seek(9991))
}
