package read_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/itertest"
	"github.com/seed347100a3/tsdb/internal/read"
	"github.com/seed347100a3/tsdb/labels"
)

// samplesAt are samples whose values are their times.
func samplesAt(times ...int64) (list []itertest.Sample) {
	for _, at := range times {
		list = append(list, itertest.Sample{T: at, V: float64(at)})
	}
	return list
}

// one is a series of one label that a place has; chunks are of two samples.
func one(times ...int64) read.FakeSource {
	s := read.FakeSeries{Labels: labels.FromStrings("a", "b"), T: times}
	for _, at := range times {
		s.V = append(s.V, float64(at))
	}
	return read.FakeSource{s}
}

// One place, places one behind the other, places that overlap; each of them cut by the range or
// not.
func TestSeriesIterator_AllSequencesOfThreeMoves_EqualTheSlice(t *testing.T) {
	all := samplesAt(10, 13, 16, 19, 22)
	for name, c := range map[string]struct {
		mint, maxt int64
		places     []read.FakeSource
		want       []itertest.Sample
	}{
		"one place":                {math.MinInt64, math.MaxInt64, []read.FakeSource{one(10, 13, 16, 19, 22)}, all},
		"one place, cut":           {11, 21, []read.FakeSource{one(10, 13, 16, 19, 22)}, all[1:4]},
		"one sample of a chunk":    {19, 19, []read.FakeSource{one(10, 13, 16, 19, 22)}, all[3:4]},
		"one behind the other":     {math.MinInt64, math.MaxInt64, []read.FakeSource{one(10, 13), one(16), one(19, 22)}, all},
		"one behind another, cut":  {13, 19, []read.FakeSource{one(10, 13, 16), one(19, 22)}, all[1:4]},
		"overlapping":              {math.MinInt64, math.MaxInt64, []read.FakeSource{one(10, 16, 22), one(13, 19)}, all},
		"overlapping, with twins":  {math.MinInt64, math.MaxInt64, []read.FakeSource{one(10, 13, 16), one(13, 16, 19), one(10, 22)}, all},
		"overlapping, cut":         {12, 20, []read.FakeSource{one(10, 16, 22), one(13, 16, 19)}, all[1:4]},
		"overlapping, and in line": {math.MinInt64, 20, []read.FakeSource{one(10, 13, 16), one(16, 19), one(22)}, all[:4]},
	} {
		q := read.Over(c.mint, c.maxt, c.places...)
		set := selected(q, everything())
		require.True(t, set.Next())
		var it chunkenc.Iterator
		require.NoError(t, itertest.CheckAll(c.want, 3, func() chunkenc.Iterator {
			it = set.At().Iterator(it)
			return it
		}), name)
		require.False(t, set.Next())
	}
}
