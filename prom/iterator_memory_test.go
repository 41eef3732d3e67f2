package prom_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/tsdbutil"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/prom"
)

// seriesOf returns the series of fill.
func seriesOf(t *testing.T, q storage.Querier) (all []storage.Series) {
	set := q.Select(context.Background(), true, nil, labels.MustNewMatcher(labels.MatchEqual, "__name__", "m"))
	for set.Next() {
		all = append(all, set.At())
	}
	require.NoError(t, set.Err())
	return all
}

// newQuerier returns one of all samples of fill.
func newQuerier(t *testing.T, s *prom.Storage) storage.Querier {
	q, err := s.Querier(0, 1000)
	require.NoError(t, err)
	return q
}

func TestIterator_OfAClosedQuerier_KeepsWhatItStandsOn(t *testing.T) {
	s := openStorage(t)
	fill(t, s)
	q := newQuerier(t, s)
	series := seriesOf(t, q)

	unread, standing, over := series[0].Iterator(nil), series[1].Iterator(nil), series[2].Iterator(nil)
	require.Equal(t, chunkenc.ValFloat, standing.Seek(333))
	for over.Next() != chunkenc.ValNone {
	}
	require.NoError(t, q.Close())

	at, v := standing.At()
	require.Equal(t, []float64{340, 341}, []float64{float64(at), v})
	require.Equal(t, chunkenc.ValFloat, standing.Seek(340), "it stands there")
	require.Equal(t, chunkenc.ValNone, standing.Next())
	require.ErrorIs(t, standing.Err(), tsdb.ErrClosed)

	require.Equal(t, chunkenc.ValNone, unread.Seek(0))
	require.ErrorIs(t, unread.Err(), tsdb.ErrClosed)
	require.Equal(t, chunkenc.ValNone, over.Next())
	require.NoError(t, over.Err(), "nothing was left to be read")

	late := series[3].Iterator(over)
	require.Equal(t, chunkenc.ValNone, late.Next())
	require.ErrorIs(t, late.Err(), tsdb.ErrClosed)
}

func TestIterator_EndsWithTheContextOfItsSelect(t *testing.T) {
	s := openStorage(t)
	fill(t, s)
	q := newQuerier(t, s)
	defer func() { require.NoError(t, q.Close()) }()
	ctx, cancel := context.WithCancel(t.Context())
	set := q.Select(ctx, true, nil, labels.MustNewMatcher(labels.MatchEqual, "__name__", "m"))
	require.True(t, set.Next())
	it := set.At().Iterator(nil)
	require.Equal(t, chunkenc.ValFloat, it.Next())
	cancel()
	n := 0
	for ; it.Next() != chunkenc.ValNone; n++ {
	}
	require.Less(t, n, 99, "no more than a run")
	require.ErrorIs(t, it.Err(), context.Canceled)
}

func TestIterator_OfAClosedQuerier_KeepsItsHistogram(t *testing.T) {
	s := openStorage(t)
	app := s.Appender(context.Background())
	want := tsdbutil.GenerateTestHistogram(3)
	_, err := app.AppendHistogram(0, labels.FromStrings("__name__", "m"), 10, want, nil)
	require.NoError(t, err)
	require.NoError(t, app.Commit())
	q := newQuerier(t, s)
	it := seriesOf(t, q)[0].Iterator(nil)
	require.Equal(t, chunkenc.ValHistogram, it.Next())
	require.NoError(t, q.Close())
	fillAgain := newQuerier(t, s)
	other := seriesOf(t, fillAgain)[0].Iterator(nil)
	require.Equal(t, chunkenc.ValHistogram, other.Next())
	require.NoError(t, fillAgain.Close())

	at, h := it.AtHistogram(nil)
	require.EqualValues(t, 10, at)
	require.Equal(t, want.PositiveBuckets, h.PositiveBuckets)
}

// An iterator of one querier that is offered to another one stays the first one's.
func TestIterator_OfAnotherQuerier_IsNotTaken(t *testing.T) {
	s := openStorage(t)
	fill(t, s)
	first, second := newQuerier(t, s), newQuerier(t, s)
	it := seriesOf(t, first)[0].Iterator(nil)
	require.Equal(t, chunkenc.ValFloat, it.Next())
	other := seriesOf(t, second)[1].Iterator(it)
	require.Equal(t, chunkenc.ValFloat, other.Next())
	require.NoError(t, first.Close())
	for at := int64(0); at < 1000; at += 10 {
		require.Equal(t, at, other.AtT())
		require.Equal(t, at < 990, other.Next() == chunkenc.ValFloat)
	}
	require.NoError(t, other.Err())
	require.NoError(t, second.Close())
}

// Queriers come and go while iterators of others are read: what one gave back must not be seen
// by another one.
func TestIterator_ManyQueriers_ReadWhatIsTheirs(t *testing.T) {
	s := openStorage(t)
	fill(t, s)
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 1))
	type reading struct {
		it      chunkenc.Iterator
		series  int
		at      int64 // of the next sample
		querier int
	}
	queriers := make([]storage.Querier, 4)
	var readings []*reading
	for step := range 3000 {
		what := fmt.Sprintf("seed %d, step %d", seed, step)
		n := rnd.IntN(len(queriers))
		switch {
		case queriers[n] == nil:
			queriers[n] = newQuerier(t, s)
			for i, of := range seriesOf(t, queriers[n]) {
				if rnd.IntN(2) == 0 {
					readings = append(readings, &reading{it: of.Iterator(nil), series: i, querier: n})
				}
			}
		case rnd.IntN(20) == 0:
			require.NoError(t, queriers[n].Close(), what)
			queriers[n] = nil
			left := readings[:0]
			for _, r := range readings {
				if r.querier != n {
					left = append(left, r)
				}
			}
			readings = left
		case len(readings) > 0:
			r := readings[rnd.IntN(len(readings))]
			for range rnd.IntN(60) {
				if r.at == 1000 {
					require.Equal(t, chunkenc.ValNone, r.it.Next(), what)
					require.NoError(t, r.it.Err(), what)
					break
				}
				require.Equal(t, chunkenc.ValFloat, r.it.Next(), what)
				at, v := r.it.At()
				require.Equal(t, r.at, at, what)
				require.Equal(t, float64(at)+float64(r.series), v, what)
				r.at += 10
			}
		}
	}
	for _, q := range queriers {
		if q != nil {
			require.NoError(t, q.Close())
		}
	}
}
