package compat

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/labels"
)

// engine is a database of either side, open.
type engine interface {
	commit(set []series, rows []row)
	dump() data
	query(mint, maxt int64, ms ...matcher) data
	close()
}

// matcher is a matcher for both sides.
type matcher struct {
	op, name, value string
}

// ours is a database of this library.
type ours struct {
	t     testing.TB
	db    *tsdb.DB
	clock *steppedClock // stands still: the loops of the database run when a test says so
	refs  map[string]tsdb.SeriesRef
}

func ourOptions(change ...func(*tsdb.Options)) *tsdb.Options {
	o := tsdb.DefaultOptions()
	o.Limits.MaxFuture = -1
	for _, c := range change {
		c(o)
	}
	return o
}

func openOurs(t testing.TB, dir string, change ...func(*tsdb.Options)) *ours {
	t.Helper()
	opts := ourOptions(change...)
	clock := newSteppedClock(time.UnixMilli(worldEnd))
	opts.Clock = clock
	db, err := tsdb.Open(dir, opts)
	require.NoError(t, err)
	o := &ours{t: t, db: db, clock: clock, refs: map[string]tsdb.SeriesRef{}}
	t.Cleanup(o.close)
	return o
}

// commit appends rows in one commit and requires that all of them are accepted.
func (o *ours) commit(set []series, rows []row) {
	o.t.Helper()
	app := o.db.Appender()
	for _, r := range rows {
		s := set[r.series]
		ref, err := app.Append(o.refs[s.key], s.ours, r.t, r.v)
		require.NoError(o.t, err, "%s at %d", s.key, r.t)
		o.refs[s.key] = ref
	}
	res, err := app.Commit(context.Background())
	require.NoError(o.t, err)
	require.Empty(o.t, res.Rejected)
	require.Equal(o.t, len(rows), res.Samples)
}

// writeChunks lets the database write full chunks into their files.
func (o *ours) writeChunks() {
	for o.db.Stats().FullBytes > 0 {
		o.clock.Advance(time.Second)
	}
}

// dump reads everything.
func (o *ours) dump() data {
	o.t.Helper()
	return o.query(math.MinInt64, math.MaxInt64)
}

func (o *ours) query(mint, maxt int64, ms ...matcher) data {
	o.t.Helper()
	q, err := o.db.Querier(mint, maxt)
	require.NoError(o.t, err)
	return dumpOurs(o.t, q, ms...)
}

// requireSorted requires that a series comes behind the one before, which it becomes. Before the
// first one are no labels.
func requireSorted(t testing.TB, before *labels.Labels, ls labels.Labels) {
	t.Helper()
	require.Negative(t, labels.Compare(*before, ls), "Select is not sorted")
	*before = ls
}

// dumpOurs reads what matches and closes the querier.
func dumpOurs(t testing.TB, q *tsdb.Querier, ms ...matcher) data {
	t.Helper()
	defer func() { require.NoError(t, q.Close()) }()
	all := data{}
	set := q.Select(context.Background(), nil, ourMatchers(t, ms)...)
	require.Empty(t, set.Warnings())
	var it chunkenc.Iterator
	var before labels.Labels
	for set.Next() {
		ls := set.At().Labels()
		requireSorted(t, &before, ls)
		var ps []point
		for it = set.At().Iterator(it); it.Next() != chunkenc.ValNone; {
			ts, v := it.At()
			ps = append(ps, point{ts, math.Float64bits(v)})
		}
		require.NoError(t, it.Err())
		if len(ps) > 0 {
			all[keyOfOurs(ls)] = ps
		}
	}
	require.NoError(t, set.Err())
	return all
}

func ourMatchers(t testing.TB, ms []matcher) []*labels.Matcher {
	types := map[string]labels.MatchType{"=": labels.MatchEqual, "!=": labels.MatchNotEqual, "=~": labels.MatchRegexp, "!~": labels.MatchNotRegexp}
	var out []*labels.Matcher
	for _, m := range ms {
		om, err := labels.NewMatcher(types[m.op], m.name, m.value)
		require.NoError(t, err)
		out = append(out, om)
	}
	return out
}

func (o *ours) close() {
	if o.db == nil {
		return
	}
	require.NoError(o.t, o.db.Close())
	o.db = nil
}

// requireClean requires that recovery lost nothing that was promised; a torn tail is
// allowed.
func (o *ours) requireClean() {
	o.t.Helper()
	r := o.db.OpenReport()
	require.True(o.t, r.Clean(), "%+v", r)
}
