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

// What is missing is told with its times, by whoever has the directory open.
func TestDB_MissingBlocksHaveNamesAndTimes(t *testing.T) {
	for _, c := range []struct {
		name   string
		damage func(f *fixture, block string) error
		where  string
		known  bool
		gone   bool
	}{
		{"set aside", func(f *fixture, block string) error {
			return f.fs.WriteFile(path.Join(block, "index"), make([]byte, 40))
		}, "quarantine/", true, false},
		{"without a meta file", func(f *fixture, block string) error { return f.fs.WriteFile(path.Join(block, "meta.json"), nil) }, "quarantine/", false, false},
		{"vanished", func(f *fixture, block string) error { return f.fs.Rename(block, "attic") }, "", true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t, manual)
			base := testNow.UnixMilli() / (2 * hour) * (2 * hour)
			f.scrapes(2, base-3*hour, base)
			require.NoError(t, f.db.Flush(ctx))
			require.Empty(t, f.db.MissingBlocks())
			block := f.db.Blocks()[0]
			require.NoError(t, f.db.Close())
			require.NoError(t, c.damage(f, path.Join(fixtureDir, block.ULID.String())))
			f.open()
			want := tsdb.MissingBlock{ULID: block.ULID, Path: c.where + block.ULID.String(), MinTime: block.MinTime, MaxTime: block.MaxTime, Vanished: c.gone}
			if !c.known {
				want.MinTime, want.MaxTime = math.MinInt64, math.MaxInt64
			}
			require.Equal(t, []tsdb.MissingBlock{want}, f.db.MissingBlocks())
			require.Len(t, f.db.MissingBlocks(), f.db.Stats().BlocksMissing)
			r, err := tsdb.OpenReadOnly(fixtureDir, &tsdb.Options{FS: f.fs, Clock: f.clock})
			require.NoError(t, err)
			require.Equal(t, []tsdb.MissingBlock{want}, r.MissingBlocks())
			require.NoError(t, r.Close())
			require.Empty(t, r.MissingBlocks())
		})
	}
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
