package tsdb_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// testNow is where the clocks of tests stand: far enough from 0 for negative times.
var testNow = time.UnixMilli(1_700_000_000_000)

// fixture is a database in memory with a clock that a test moves.
type fixture struct {
	t     *testing.T
	fs    *tsdbtest.MemFS
	clock *tsdbtest.Clock
	opts  *tsdb.Options
	db    *tsdb.DB
}

const fixtureDir = "data"

func newFixture(t *testing.T, change func(*tsdb.Options)) *fixture {
	t.Helper()
	f := &fixture{t: t, fs: tsdbtest.NewMemFS(), clock: tsdbtest.NewClock(testNow)}
	f.opts = &tsdb.Options{FS: f.fs, Clock: f.clock}
	if change != nil {
		change(f.opts)
	}
	f.open()
	t.Cleanup(func() {
		if f.db != nil {
			require.NoError(t, f.db.Close())
		}
	})
	return f
}

func (f *fixture) open() {
	f.t.Helper()
	db, err := tsdb.Open(fixtureDir, f.opts)
	require.NoError(f.t, err)
	f.db = db
}

func (f *fixture) reopen() {
	f.t.Helper()
	require.NoError(f.t, f.db.Close())
	f.open()
}

// sample is one row of a test's data.
type sample struct {
	series string // a selector with equalities only: {a="b"}
	t      int64
	v      float64
}

// commit appends rows and requires that all of them are committed.
func (f *fixture) commit(rows ...sample) {
	f.t.Helper()
	app := f.db.Appender()
	for _, r := range rows {
		_, err := app.Append(0, series(f.t, r.series), r.t, r.v)
		require.NoError(f.t, err, "%v", r)
	}
	res, err := app.Commit(context.Background())
	require.NoError(f.t, err)
	require.Empty(f.t, res.Rejected)
}

// point is a sample as it was read; values are compared by bits.
type point struct {
	T int64
	V uint64
}

func points(tv ...float64) []point {
	var ps []point
	for i := 0; i < len(tv); i += 2 {
		ps = append(ps, point{int64(tv[i]), math.Float64bits(tv[i+1])})
	}
	return ps
}

// dump reads everything that matches, by labels.
func dump(t testing.TB, db *tsdb.DB, mint, maxt int64, ms ...*labels.Matcher) map[string][]point {
	t.Helper()
	q, err := db.Querier(mint, maxt)
	require.NoError(t, err)
	defer func() { require.NoError(t, q.Close()) }()
	return dumpQuerier(t, q, ms...)
}

func dumpQuerier(t testing.TB, q *tsdb.Querier, ms ...*labels.Matcher) map[string][]point {
	t.Helper()
	all, err := readAll(q, ms...)
	require.NoError(t, err)
	return all
}

// readAll reads everything that matches, by labels; series without a sample are left
// out.
func readAll(q *tsdb.Querier, ms ...*labels.Matcher) (map[string][]point, error) {
	all := map[string][]point{}
	var it chunkenc.Iterator
	for s, err := range q.Select(context.Background(), nil, ms...).All() {
		if err != nil {
			return nil, err
		}
		it = s.Iterator(it)
		ps, err := pointsOf(it)
		if err != nil {
			return nil, err
		}
		if err := checkEnds(s, ps); err != nil {
			return nil, err
		}
		if len(ps) > 0 {
			all[s.Labels().String()] = ps
		}
	}
	return all, nil
}

// checkEnds says if what a series tells of its ends is not what all its samples tell.
func checkEnds(s *tsdb.Series, ps []point) error {
	last, ok, err := s.Last()
	if err != nil {
		return err
	}
	mint, maxt, err := s.Bounds()
	switch {
	case err != nil:
		return err
	case len(ps) == 0:
		if ok || mint <= maxt {
			return fmt.Errorf("%s has no sample: last %v, bounds %d to %d", s.Labels(), last, mint, maxt)
		}
		return nil
	}
	sample := anySample{T: last.T, ST: last.ST, V: math.Float64bits(last.V), H: last.H, FH: last.FH}
	first, newest := ps[0], ps[len(ps)-1]
	if !ok || sample.point() != newest || mint != first.T || maxt != newest.T {
		return fmt.Errorf("%s: last %v, bounds %d to %d; the samples are from %v to %v", s.Labels(), last, mint, maxt, first, newest)
	}
	return nil
}

func (f *fixture) all() map[string][]point {
	f.t.Helper()
	return dump(f.t, f.db, math.MinInt64, math.MaxInt64)
}

// patience is how long a test waits for what must come: much longer than it takes, so that the load
// of the machine fails no test.
const patience = 2 * time.Minute

// Milliseconds.
const (
	minute = int64(time.Minute / time.Millisecond)
	hour   = int64(time.Hour / time.Millisecond)
)
