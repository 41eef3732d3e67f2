package tsdb_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/histtest"
)

// Late samples at the bounds of what is accepted, and at both ends of time.

// A head that a wrong clock raised takes late samples up to where it takes any when the clock is
// right again, whatever the window is.
func TestLate_AheadOfTheClock_IsOutOfBounds(t *testing.T) {
	f := newFixture(t, func(o *tsdb.Options) {
		manual(o)
		o.Head.OutOfOrderWindow = 48 * time.Hour
	})
	f.clock.Set(testNow.Add(26 * time.Hour))
	newest := f.clock.Now().UnixMilli()
	f.commit(sample{`{a="b"}`, newest, 1})
	f.clock.Set(testNow)
	to := f.db.Stats().AcceptsTo
	require.Less(t, to, newest-24*hour)
	app := f.db.Appender()
	add := func(name string, s anySample) error {
		_, err := app.AppendSample(0, series(t, name), s.sample())
		return err
	}
	histogram := histtest.Draw(modelPick(1))
	for _, at := range []int64{newest - minute, to + 1} {
		for _, s := range []anySample{{T: at}, {T: at, H: histogram}, {T: at, ST: 5}} {
			err := add(`{a="b"}`, s)
			require.ErrorIs(t, err, tsdb.ErrOutOfBounds, "%+v", s)
			var bounds *tsdb.BoundsError
			require.ErrorAs(t, err, &bounds)
			require.Equal(t, []int64{at, to}, []int64{bounds.T, bounds.To})
		}
	}
	require.NoError(t, add(`{a="b"}`, anySample{T: to}))
	require.NoError(t, add(`{a="b"}`, anySample{T: to - 1, H: histogram}))
	f.clock.Advance(time.Millisecond)
	require.NoError(t, add(`{a="b"}`, anySample{T: to + 1}), "time goes on for an Appender, too")
	require.ErrorIs(t, add(`{a="b"}`, anySample{T: to + 2}), tsdb.ErrOutOfBounds)
	res, err := app.Commit(ctx)
	require.NoError(t, err)
	require.Empty(t, res.Rejected)
	require.EqualValues(t, []uint64{3, 7, 2}, []uint64{f.db.Stats().LateSamplesAppended, f.db.Stats().SamplesOutOfBounds, f.db.Stats().HistogramsOutOfBounds})
	require.Equal(t, 4, f.count())
}

// Windows of every length, behind the first time and the last: nothing wraps, and everything stays.
func TestLate_AtBothEndsOfTime(t *testing.T) {
	const first, last = math.MinInt64 + 1, math.MaxInt64 - 1
	for _, newest := range []int64{first, first + 1000, first + 3*hour, 0, last - 2*hour, last} {
		for _, window := range []time.Duration{time.Millisecond, time.Hour, 10 * time.Hour, math.MaxInt64} {
			t.Run(fmt.Sprint(newest, window), func(t *testing.T) { lateBehind(t, newest, window) })
		}
	}
}

func lateBehind(t *testing.T, newest int64, window time.Duration) {
	f := newFixture(t, func(o *tsdb.Options) {
		manual(o)
		o.Head.OutOfOrderWindow = window
		o.Limits.MaxFuture = -1
	})
	f.commit(sample{`{a="b"}`, newest, 1})
	want := map[string][]point{`{a="b"}`: points(0, 1)}
	want[`{a="b"}`][0].T = newest
	add := func(name string, at int64, v float64) {
		f.commit(sample{name, at, v})
		want[name] = append([]point{{at, math.Float64bits(v)}}, want[name]...)
	}
	for _, back := range []int64{1, 999, hour, hour + 1, 3 * hour, 10 * hour, window.Milliseconds(), window.Milliseconds() + 1} {
		at := newest - back
		if at > newest || at == math.MinInt64 || at == want[`{a="b"}`][0].T || at > want[`{a="b"}`][0].T {
			continue
		}
		if back <= window.Milliseconds() {
			add(`{a="b"}`, at, float64(back))
			add(`{a="late"}`, at, 1)
			continue
		}
		app := f.db.Appender()
		_, err := app.Append(0, series(t, `{a="b"}`), at, 1)
		require.ErrorIs(t, err, tsdb.ErrTooOld, back)
		require.NoError(t, app.Rollback())
	}
	app := f.db.Appender()
	for _, at := range []int64{math.MinInt64, math.MaxInt64} {
		_, err := app.Append(0, series(t, `{a="b"}`), at, 1)
		require.Error(t, err, at)
	}
	require.NoError(t, app.Rollback())
	check := func(what string) {
		t.Helper()
		require.Equal(t, want, f.all(), what)
	}
	check("committed")
	f.reopen()
	check("opened again")
	require.NoError(t, f.db.Flush(ctx))
	check("flushed")
	require.Zero(t, f.db.Stats().LateSamples)
	require.NoError(t, f.db.Compact(ctx))
	check("merged")
	f.reopen()
	check("opened once more")
}
