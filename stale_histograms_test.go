package tsdb_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/histogram"
)

// A stale marker that is a float is a histogram in a series of histograms, of the kind of the one
// before it: with a start timestamp, too, and where it is the first sample behind a chunk that a
// file has.
func TestHistograms_AFloatThatIsAStaleMarkerBecomesOne(t *testing.T) {
	hours := testNow.Truncate(2 * time.Hour).UnixMilli()
	stale, ints := tsdb.StaleMarker(), bucketed(1)
	for name, st := range map[string]int64{"without a start timestamp": 0, "with one": hours - 5000} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, func(o *tsdb.Options) { o.Blocks.Manual, o.Limits.MaxFuture = true, -1 })
			put := func(key string, s tsdb.Sample) { put(t, f.db, key, s) }
			var marker histogram.Histogram
			marker.SetStale()
			want := map[string][]anySample{}
			for key, at := range map[string]int64{`{s="border"}`: hours, `{s="inside"}`: hours - 1000} {
				put(key, tsdb.Sample{T: hours - 2000, ST: st, H: ints})
				put(key, tsdb.Sample{T: at, ST: st, V: stale})
				want[key] = []anySample{{T: hours - 2000, ST: st, H: ints}, {T: at, ST: st, H: &marker}}
			}
			for key, at := range map[string]int64{`{s="border, floats"}`: hours, `{s="inside, floats"}`: hours - 1000} {
				put(key, tsdb.Sample{T: hours - 2000, ST: st, FH: ints.ToFloat(nil)})
				put(key, tsdb.Sample{T: at, ST: st, V: stale})
				want[key] = []anySample{{T: hours - 2000, ST: st, FH: ints.ToFloat(nil)}, {T: at, ST: st, FH: marker.ToFloat(nil)}}
			}
			check := func() {
				t.Helper()
				requireAny(t, f.db, want, math.MinInt64, math.MaxInt64)
			}
			check()
			f.reopen()
			check()
			for f.db.Stats().FullBytes > 0 {
				f.clock.Advance(time.Second)
			}
			f.reopen()
			require.NotZero(t, f.db.OpenReport().HeadChunks, "nothing is in a file")
			check()
			require.NoError(t, f.db.Flush(ctx))
			check()
		})
	}
}

// A stale marker is one NaN, whatever else is one. A database keeps its bits.
func TestStaleMarker_IsOneNaNOnly(t *testing.T) {
	require.True(t, tsdb.IsStale(tsdb.StaleMarker()))
	require.Equal(t, uint64(0x7ff0000000000002), math.Float64bits(tsdb.StaleMarker()))
	for _, v := range []float64{0, 1, math.NaN(), math.Inf(1), math.Float64frombits(0x7ff0000000000001)} {
		require.False(t, tsdb.IsStale(v))
	}
	f := newFixture(t, nil)
	put(t, f.db, `{a="b"}`, tsdb.Sample{T: 1, V: tsdb.StaleMarker()})
	require.True(t, tsdb.IsStale(math.Float64frombits(f.all()[`{a="b"}`][0].V)))
}
