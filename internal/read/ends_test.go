package read_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/read"
	"github.com/seed347100a3/tsdb/labels"
)

// A flush splits chunks that a range cuts into, after it was seen which there are and before they
// are decoded: bounds and the newest sample are those of all samples, whichever part has them.
func TestSeries_Ends_OfChunksThatAreSplitMeanwhile(t *testing.T) {
	s := read.FakeSeries{Labels: labels.FromStrings("a", "b"), Split: true}
	for i := range int64(11) {
		s.T, s.V = append(s.T, 10*i), append(s.V, float64(i))
	}
	for mint := int64(-5); mint <= 105; mint += 5 {
		for maxt := mint; maxt <= 105; maxt += 5 {
			first, last := int64(math.MaxInt64), int64(math.MinInt64)
			for _, at := range s.T {
				if mint <= at && at <= maxt {
					first, last = min(first, at), max(last, at)
				}
			}
			q := read.Over(mint, maxt, read.FakeSource{s})
			from, to, _, err := q.Bounds(ctx, nil, nil)
			require.NoError(t, err)
			require.Equal(t, []int64{first, last}, []int64{from, to}, "of the query from %d to %d", mint, maxt)
			all := everything()
			set := cursor{Set: q.Select(ctx, &all, nil)}
			require.Equal(t, first <= last, set.Next())
			if first > last {
				continue
			}
			from, to, err = set.At().Bounds()
			require.NoError(t, err)
			require.Equal(t, []int64{first, last}, []int64{from, to}, "from %d to %d", mint, maxt)
			newest, ok, err := set.At().Last()
			require.NoError(t, err)
			require.True(t, ok, "from %d to %d", mint, maxt)
			require.Equal(t, read.Sample{T: last, V: float64(last / 10)}, newest)
		}
	}
}
