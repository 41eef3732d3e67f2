package tsdb_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
)

// Where histograms are turned off an Appender takes all but these, no series is made for them, and
// what is there is read, flushed and ended by stale markers as before.
func TestHistograms_TurnedOffAreRefusedAndAllElseIsTaken(t *testing.T) {
	f := newFixture(t, nil)
	put(t, f.db, `{a="old"}`, tsdb.Sample{T: 1000, H: bucketed(1, 2)})
	f.opts.Limits.NoHistograms = true
	f.reopen()
	app := f.db.Appender()
	old, err := app.Append(0, series(t, `{a="old"}`), 2000, tsdb.StaleMarker())
	require.NoError(t, err)
	for i, s := range []tsdb.Sample{{T: 3000, H: bucketed(1)}, {T: 3000, ST: 1, FH: bucketed(1).ToFloat(nil)}} {
		_, err := app.AppendSample(0, series(t, `{a="new"}`), s)
		require.ErrorIs(t, err, tsdb.ErrHistogramsOff, i)
		_, err = app.AppendSample(old, series(t, `{a="old"}`), s)
		require.ErrorIs(t, err, tsdb.ErrHistogramsOff, i)
	}
	for _, s := range []tsdb.Sample{{T: 3000, V: 1}, {T: 4000, V: 2, ST: 2500}} {
		_, err := app.AppendSample(0, series(t, `{a="floats"}`), s)
		require.NoError(t, err)
	}
	require.Equal(t, 2, f.db.Stats().Series)
	res, err := app.Commit(ctx)
	require.NoError(t, err)
	require.Equal(t, tsdb.CommitResult{Samples: 3, Floats: 2, Histograms: 1}, res) // that is the marker
	marker := bucketed()
	marker.SetStale()
	want := map[string][]anySample{
		`{a="old"}`:    {{T: 1000, H: bucketed(1, 2)}, {T: 2000, H: marker}},
		`{a="floats"}`: {{T: 3000, V: math.Float64bits(1)}, {T: 4000, ST: 2500, V: math.Float64bits(2)}},
	}
	requireAny(t, f.db, want, math.MinInt64, math.MaxInt64)
	f.reopen()
	requireAny(t, f.db, want, math.MinInt64, math.MaxInt64)
	require.NoError(t, f.db.Flush(ctx))
	requireAny(t, f.db, want, math.MinInt64, math.MaxInt64)
}
