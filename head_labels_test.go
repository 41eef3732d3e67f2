package tsdb_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
)

// someLabels selects two series or so of each hundred and requires that their labels are those
// that they were made with. It returns their number.
func someLabels(t require.TestingT, db *tsdb.DB, digits int) (n int) {
	q, err := db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	defer q.Close()
	m, err := labels.Regexp("i", fmt.Sprintf(".*%02d", digits))
	require.NoError(t, err)
	for s, err := range q.Select(ctx, nil, m).All() {
		require.NoError(t, err)
		i := s.Labels().Get("i")
		require.Equal(t, numbered(i), s.Labels())
		require.Equal(t, s.Labels(), labels.New(s.AppendLabels(nil)...))
		n++
	}
	return n
}

// numbered are the labels of a series by its number. One in a hundred has long ones.
func numbered(i string) labels.Labels {
	text := "text-of-" + i
	for i[len(i)-1] == '7' && len(text) < 600 {
		text += text
	}
	return labels.FromStrings("__name__", "up", "i", i, "text", text)
}

// The head keeps the text of labels that were asked for. With a few thousand series the table
// grows twice, and what is asked for is more than it holds.
func TestSelect_LabelsOfTheHeadAreTheSameHoweverOftenTheyAreAsked(t *testing.T) {
	f := newFixture(t, nil)
	made := 0
	for range 4 {
		app := f.db.Appender()
		for range 1000 {
			_, err := app.Append(0, numbered(fmt.Sprintf("%04d", made)), testNow.UnixMilli(), 1)
			require.NoError(t, err)
			made++
		}
		_, err := app.Commit(ctx)
		require.NoError(t, err)
		var readers sync.WaitGroup
		for who := range 4 {
			readers.Go(func() {
				random := rand.New(rand.NewPCG(1, uint64(who)))
				for range 20 {
					if n := someLabels(t, f.db, random.IntN(100)); n != made/100 {
						t.Errorf("%d of %d series", n, made/100)
					}
				}
			})
		}
		readers.Wait()
	}
}

func TestSelect_LabelsOfTheHeadAreKept(t *testing.T) {
	f := threeJobs(t)
	q, err := f.db.Querier(0, 100)
	require.NoError(t, err)
	defer q.Close()
	for s, err := range q.Select(ctx, nil).All() {
		require.NoError(t, err)
		first := s.Labels()
		require.Zero(t, testing.AllocsPerRun(10, func() {
			if s.Labels() != first {
				t.Error("other labels")
			}
		}))
	}
}

// What is kept is counted, and long labels are not kept.
func TestStats_CountLabelsThatAreKept(t *testing.T) {
	const series, size, table = 100, 600, 256 * 16 // bytes; of 256 places
	for name, tc := range map[string]struct{ size, least, most int64 }{
		"kept":     {size, series * size, series*(size+200) + table},
		"too long": {4 << 10, 0, table},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nil)
			app := f.db.Appender()
			for i := range series {
				_, err := app.Append(0, labels.FromStrings("i", fmt.Sprint(i), "text", strings.Repeat("x", int(tc.size))), testNow.UnixMilli(), 1)
				require.NoError(t, err)
			}
			_, err := app.Commit(ctx)
			require.NoError(t, err)
			before := f.db.Stats().HeadSizeBytes
			for range 3 {
				q, err := f.db.Querier(math.MinInt64, math.MaxInt64)
				require.NoError(t, err)
				for s, err := range q.Select(ctx, nil).All() {
					require.NoError(t, err)
					require.Equal(t, int(tc.size), len(s.Labels().Get("text")))
				}
				require.NoError(t, q.Close())
			}
			grown := f.db.Stats().HeadSizeBytes - before
			require.GreaterOrEqual(t, grown, tc.least)
			require.LessOrEqual(t, grown, tc.most)
		})
	}
}

// Labels are asked for in every way, by goroutines that have a series each while the set goes on,
// of series that have nothing in common, more of it than is looked ahead at.
func TestSelect_LabelsOfTheHeadInEveryWay(t *testing.T) {
	f := newFixture(t, nil)
	const series, wide = 300, 12
	app := f.db.Appender()
	want := map[labels.Labels]bool{}
	for i := range series {
		var pairs []string
		for k := range wide {
			pairs = append(pairs, fmt.Sprintf("l%02d", k), fmt.Sprintf("%d of %d", k, i))
		}
		ls := labels.FromStrings(pairs...)
		want[ls] = true
		_, err := app.Append(0, ls, testNow.UnixMilli(), 1)
		require.NoError(t, err)
	}
	_, err := app.Commit(ctx)
	require.NoError(t, err)
	for round := range 2 {
		for _, transient := range []bool{false, true} {
			for _, pieces := range []bool{false, true} {
				q, err := f.db.Querier(math.MinInt64, math.MaxInt64)
				require.NoError(t, err)
				set := q.Select(ctx, &tsdb.SelectHints{Transient: transient}, labels.NotEqual("l00", ""))
				var mu sync.Mutex
				var reading sync.WaitGroup
				got := map[labels.Labels]bool{}
				for set.Next() {
					s := set.At()
					read := func() {
						ls := labels.Labels{}
						if pieces {
							ls = labels.New(s.AppendLabels(nil)...)
						} else {
							ls = s.Labels()
						}
						mu.Lock()
						defer mu.Unlock()
						got[ls] = true
					}
					if transient { // is good until the next one
						read()
					} else {
						reading.Go(read)
					}
				}
				reading.Wait()
				require.NoError(t, set.Err())
				require.NoError(t, q.Close())
				require.Equal(t, want, got, "round %d, transient %v, pieces %v", round, transient, pieces)
			}
		}
	}
}
