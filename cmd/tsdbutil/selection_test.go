package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
)

// openTest opens a database of lines and a querier over all of it.
func openTest(t *testing.T, text string) *tsdb.Querier {
	t.Helper()
	db, err := tsdb.Open(database(t, text), nil)
	require.NoError(t, err)
	q, err := db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, q.Close())
		require.NoError(t, db.Close())
	})
	return q
}

func TestSamples_StepKeepsTheNewestOfEachStep(t *testing.T) {
	var text strings.Builder
	var times []int64
	random := rand.New(rand.NewPCG(1, 2))
	at := int64(-4000)
	for range 1000 { // several batches, on both sides of 1970
		times = append(times, at)
		_, _ = fmt.Fprintf(&text, "{__name__=\"x\"} %d %d\n", at*2, at)
		at += 1 + random.Int64N(20)
	}
	set := openTest(t, text.String()).Select(t.Context(), nil)
	require.True(t, set.Next())
	for _, step := range []int64{1, 2, 3, 7, 20, 50, 1000, 1 << 40} {
		var want, got []int64
		for i, at := range times {
			if i+1 == len(times) || math.Floor(float64(times[i+1])/float64(step)) != math.Floor(float64(at)/float64(step)) {
				want = append(want, at)
			}
		}
		require.NoError(t, newSamples(step).each(t.Context(), set.At(), floatsOnly(func(ts []int64, vs []float64) error {
			require.NotEmpty(t, ts)
			for i := range ts {
				require.Equal(t, float64(ts[i]*2), vs[i])
			}
			got = append(got, ts...)
			return nil
		})))
		require.Equal(t, want, got, "step %d", step)
	}
}

func TestDigest_LeavesNaNsOut(t *testing.T) {
	d := newDigest()
	d.add([]int64{1, 2}, []float64{math.NaN(), 4})
	d.add([]int64{3}, []float64{2})
	require.Equal(t, []float64{2, 3, 4, 2}, []float64{d.min(), d.mean(), d.max(), d.lastV})
	d = newDigest()
	d.add([]int64{1}, []float64{math.NaN()})
	require.True(t, math.IsNaN(d.min()) && math.IsNaN(d.mean()) && math.IsNaN(d.max()))
}

func TestSeriesName_ReadsBackAsASelector(t *testing.T) {
	for _, ls := range []labels.Labels{
		labels.FromStrings("__name__", "up", "job", "a\"b"), labels.FromStrings("__name__", "up"),
		labels.FromStrings("__name__", "with space", "é", "x"), labels.FromStrings("job", "x"),
	} {
		ms, err := labels.ParseSelector(seriesName(ls))
		require.NoError(t, err, seriesName(ls))
		for _, m := range ms {
			require.True(t, m.Matches(ls.Get(m.Name())))
		}
		require.Len(t, ms, ls.Len())
	}
}

// What a dump needs does not grow with the samples of a series: it could not, as it
// keeps none.
func TestDump_MemoryDoesNotGrowWithSamples(t *testing.T) {
	measure := func(samples int) float64 {
		var text strings.Builder
		for i := range samples {
			_, _ = fmt.Fprintf(&text, "{__name__=\"x\"} %d.5 %d\n", i, i)
		}
		q := openTest(t, text.String())
		return testing.AllocsPerRun(5, func() {
			d := &dumpCommand{format: "prom"}
			c := newTestConsole()
			u := newUnion([]*tsdb.SeriesSet{q.Select(context.Background(), nil)})
			require.NoError(t, d.write(context.Background(), &c.console, u, d.writer(&c.console, bufio.NewWriter(io.Discard))))
		})
	}
	require.Less(t, measure(5_000), measure(500)+20)
}

func TestUnion_EndsWithTheErrorOfASet(t *testing.T) {
	q := openTest(t, `{__name__="x"} 1 1`)
	set := q.Select(t.Context(), nil)
	require.NoError(t, q.Close())
	u := newUnion([]*tsdb.SeriesSet{set})
	require.False(t, u.next())
	require.ErrorIs(t, u.err, tsdb.ErrClosed)
}

func openAppender(t *testing.T) *tsdb.Appender {
	t.Helper()
	db, err := tsdb.Open(t.TempDir(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db.Appender()
}
