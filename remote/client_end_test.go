package remote

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/itertest"
	"github.com/seed347100a3/tsdb/labels"
)

// Remote answers of both forms, cut by their range or not: whatever is called, an iterator is its
// slice, and at its end it stays. All sequences of two moves over a few samples, any sequences over
// many.
func TestIterator_AnyMovesOverAnswers_EqualTheSlice(t *testing.T) {
	db := openBlocks(t, 1, 700)
	r := rand.New(rand.NewPCG(26, 26))
	for _, mode := range []Mode{ModeSamples, ModeStreamed} {
		c := clientOf(t, ReadHandler(db, &ReadOptions{FrameBytes: 600}), &ReadClientOptions{Mode: mode})
		for _, cut := range []struct{ first, last int }{{0, 3}, {50, 54}, {0, 699}, {119, 241}} {
			mint, maxt := fixtureStart+int64(cut.first)*fixtureStep-1, fixtureStart+int64(cut.last)*fixtureStep
			want := wantedOf(t, db, mint, maxt)
			require.Len(t, want, cut.last-cut.first+1)
			var it chunkenc.Iterator
			open := func() chunkenc.Iterator {
				set := c.Select(context.Background(), mint, maxt, nil, everyMatcher())
				t.Cleanup(func() { require.NoError(t, set.Close()) })
				require.True(t, set.Next())
				it = set.At().Iterator(it)
				return it
			}
			moves := itertest.Moves(want)
			if len(want) < 10 {
				require.NoError(t, itertest.CheckAll(want, 2, open))
			}
			for range 100 {
				sequence := make([]itertest.Move, 1+r.IntN(10))
				for i := range sequence {
					sequence[i] = moves[r.IntN(len(moves))]
				}
				require.NoError(t, itertest.Check(want, open(), sequence))
			}
		}
	}
}

// wantedOf returns the samples of the only series of a database.
func wantedOf(t *testing.T, db *tsdb.DB, mint, maxt int64) (want []itertest.Sample) {
	for _, s := range stored(t, db, mint, maxt, everyMatcher()) {
		for _, p := range s.samples {
			want = append(want, itertest.Sample{T: p.t, V: math.Float64frombits(p.v)})
		}
	}
	return want
}

// The end of a set is final, as that of an iterator is.
func TestSeriesSet_AtItsEnd_StaysThere(t *testing.T) {
	db := openBlocks(t, 3, 4)
	for _, mode := range []Mode{ModeSamples, ModeStreamed} {
		c := clientOf(t, ReadHandler(db, nil), &ReadClientOptions{Mode: mode})
		set := c.Select(context.Background(), math.MinInt64, math.MaxInt64, &tsdb.SelectHints{Limit: 2}, labels.Equal("job", "api"))
		require.True(t, set.Next())
		require.True(t, set.Next())
		it := set.At().Iterator(nil)
		for range 3 {
			require.False(t, set.Next())
			require.NoError(t, set.Err())
			require.Equal(t, tsdb.Warnings{tsdb.ErrTruncated}, set.Warnings())
			require.NoError(t, set.Close())
			require.Equal(t, chunkenc.ValNone, it.Next())
			require.ErrorIs(t, it.Err(), ErrSeriesPassed)
		}
	}
}
