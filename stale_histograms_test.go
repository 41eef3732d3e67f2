package tsdb_test

import (
	"math"
	"strings"
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

// The block that took the histograms of a series does not take what a stale marker behind them is:
// the log says it, and may have nothing else of the series.
func TestHistograms_AStaleMarkerStaysOneWhenABlockTookWhatItEnds(t *testing.T) {
	hours := testNow.Truncate(2 * time.Hour).UnixMilli()
	ints := bucketed(1)
	var marker histogram.Histogram
	marker.SetStale()
	f := newFixture(t, func(o *tsdb.Options) {
		o.Blocks.Manual, o.Limits.MaxFuture, o.Head.SnapshotThreshold = true, -1, -1
	})
	want := map[string][]anySample{}
	for key, st := range map[string]int64{`{st="none"}`: 0, `{st="some"}`: hours - 5000} {
		of := tsdb.Sample{T: hours - 2000, ST: st, H: ints}
		put(t, f.db, key, of)
		put(t, f.db, key, tsdb.Sample{T: hours, ST: st, V: tsdb.StaleMarker()})
		want[key] = []anySample{{T: of.T, ST: st, H: ints}, {T: hours, ST: st, H: &marker}}
		key = strings.Replace(key, "{", `{counts="floats", `, 1)
		of.H, of.FH = nil, ints.ToFloat(nil)
		put(t, f.db, key, of)
		put(t, f.db, key, tsdb.Sample{T: hours, ST: st, V: tsdb.StaleMarker()})
		want[key] = []anySample{{T: of.T, ST: st, FH: of.FH}, {T: hours, ST: st, FH: marker.ToFloat(nil)}}
	}
	now := hours + 3*time.Hour.Milliseconds() - 1000 // so that what is before hours is due, and no more
	put(t, f.db, `{s="now"}`, tsdb.Sample{T: now, V: 1})
	want[`{s="now"}`] = []anySample{{T: now, V: math.Float64bits(1)}}
	require.NoError(t, f.db.Compact(ctx))
	require.Len(t, f.db.Blocks(), 1)
	require.Equal(t, hours, tsdb.MinValid(f.db))
	for _, again := range []func(){func() {}, f.kill, func() { require.NoError(t, tsdb.Checkpoint(f.db)) }, f.kill, f.reopen} {
		again()
		requireAny(t, f.db, want, math.MinInt64, math.MaxInt64)
	}
	require.Empty(t, f.db.OpenReport().Snapshot)

	// The head has nothing of the series any more, and still knows what it was.
	put(t, f.db, `{s="flushed"}`, tsdb.Sample{T: now + 1000, H: ints})
	require.NoError(t, f.db.Flush(ctx))
	put(t, f.db, `{s="flushed"}`, tsdb.Sample{T: now + 2000, V: tsdb.StaleMarker()})
	want[`{s="flushed"}`] = []anySample{{T: now + 1000, H: ints}, {T: now + 2000, H: &marker}}
	for _, again := range []func(){func() {}, f.kill} {
		again()
		requireAny(t, f.db, want, math.MinInt64, math.MaxInt64)
	}
}

// A stale marker is judged by what is on its way before it, not by what is applied.
func TestHistograms_AStaleMarkerBehindOneThatIsOnItsWay(t *testing.T) {
	hours := testNow.Truncate(2 * time.Hour).UnixMilli()
	ints := bucketed(1)
	var marker histogram.Histogram
	marker.SetStale()
	histogramAt := tsdb.Sample{T: hours - 1000, H: ints}
	floatAt := tsdb.Sample{T: hours - 1000, V: 1}
	for name, c := range map[string]struct{ applied, coming tsdb.Sample }{
		"a histogram behind a float": {tsdb.Sample{T: hours - 2000, V: 1}, histogramAt},
		"a float behind a histogram": {tsdb.Sample{T: hours - 2000, H: ints}, floatAt},
		"a float histogram":          {tsdb.Sample{T: hours - 2000, H: ints}, tsdb.Sample{T: hours - 1000, FH: ints.ToFloat(nil)}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, func(o *tsdb.Options) {
				o.Blocks.Manual, o.Limits.MaxFuture, o.Head.SnapshotThreshold = true, -1, -1
			})
			put(t, f.db, `{a="b"}`, c.applied)
			done := make(chan error, 2)
			both := make(chan struct{}, 2)
			commit := func(s tsdb.Sample, wait func()) {
				app := f.db.Appender()
				_, err := app.AppendSample(0, series(t, `{a="b"}`), s)
				require.NoError(t, err)
				tsdb.HoldApply(app, wait)
				go func() {
					_, err := app.Commit(ctx)
					done <- err
				}()
			}
			written := make(chan struct{})
			commit(c.coming, func() { close(written); <-both })
			<-written
			commit(tsdb.Sample{T: hours, V: tsdb.StaleMarker()}, func() { both <- struct{}{} })
			require.NoError(t, <-done)
			require.NoError(t, <-done)
			want := []anySample{anyOf(c.applied), anyOf(c.coming), {T: hours}}
			switch {
			case c.coming.H != nil:
				want[2].H = &marker
			case c.coming.FH != nil:
				want[2].FH = marker.ToFloat(nil)
			default:
				want[2].V = math.Float64bits(tsdb.StaleMarker())
			}
			requireAny(t, f.db, map[string][]anySample{`{a="b"}`: want}, math.MinInt64, math.MaxInt64)
			put(t, f.db, `{s="now"}`, tsdb.Sample{T: hours + 3*time.Hour.Milliseconds() - 1000, V: 1})
			require.NoError(t, f.db.Compact(ctx))
			f.kill()
			requireAny(t, f.db, map[string][]anySample{`{a="b"}`: want}, math.MinInt64, hours)
		})
	}
}

func anyOf(s tsdb.Sample) anySample {
	if s.H == nil && s.FH == nil {
		return anySample{T: s.T, ST: s.ST, V: math.Float64bits(s.V)}
	}
	return anySample{T: s.T, ST: s.ST, H: s.H, FH: s.FH}
}
