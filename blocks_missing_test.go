package tsdb_test

import (
	"math"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
)

// warningsOf returns the warnings of a query of a closed range.
func warningsOf(t *testing.T, db *tsdb.DB, mint, maxt int64) tsdb.Warnings {
	t.Helper()
	q, err := db.Querier(mint, maxt)
	require.NoError(t, err)
	defer func() { require.NoError(t, q.Close()) }()
	set := q.Select(ctx, nil)
	for set.Next() {
	}
	require.NoError(t, set.Err())
	_, names, err := q.LabelNames(ctx, nil)
	require.NoError(t, err)
	require.Equal(t, len(set.Warnings()), len(names))
	return set.Warnings()
}

func TestOpen_ABlockInLowerCaseIsNotReadAndThatIsTold(t *testing.T) {
	f := newFixture(t, manual)
	base := testNow.UnixMilli() / (2 * hour) * (2 * hour)
	f.scrapes(2, base-3*hour, base)
	require.NoError(t, f.db.Flush(ctx))
	want := f.all()
	first := f.db.Blocks()[0]
	require.NoError(t, f.db.Close())
	upper := path.Join(fixtureDir, first.ULID.String())
	lower := path.Join(fixtureDir, strings.ToLower(first.ULID.String()))
	require.NoError(t, f.fs.Rename(upper, lower))

	f.open()
	r := f.db.OpenReport()
	require.False(t, r.Clean())
	require.Len(t, r.Damages, 1)
	require.Equal(t, path.Base(lower), r.Damages[0].File)
	require.Contains(t, r.Damages[0].Reason, first.ULID.String())
	require.Less(t, len(f.all()[`{i="0"}`]), len(want[`{i="0"}`]))
	for _, w := range warningsOf(t, f.db, first.MinTime, first.MinTime) {
		require.ErrorIs(t, w, tsdb.ErrMissing)
	}
	require.Len(t, warningsOf(t, f.db, first.MinTime, first.MinTime), 1)
	require.Len(t, warningsOf(t, f.db, math.MinInt64, first.MaxTime-1), 1)
	require.Empty(t, warningsOf(t, f.db, first.MaxTime, math.MaxInt64))

	require.NoError(t, f.db.Close())
	require.NoError(t, f.fs.Rename(lower, upper))
	f.open()
	require.Equal(t, want, f.all())
	require.Empty(t, warningsOf(t, f.db, math.MinInt64, math.MaxInt64))
}
