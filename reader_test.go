package tsdb_test

import (
	"io/fs"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
)

func readerDump(t *testing.T, r *tsdb.Reader) map[string][]point {
	t.Helper()
	q, err := r.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	defer func() { require.NoError(t, q.Close()) }()
	return dumpQuerier(t, q)
}

func TestReader_SeesALiveDatabaseAndWritesNothing(t *testing.T) {
	f := newFixture(t, func(o *tsdb.Options) {
		manual(o)
		o.Head.SamplesPerChunk = 16
	})
	base := testNow.UnixMilli() / (2 * hour) * (2 * hour)
	f.scrapes(3, base-5*hour, base)
	require.NoError(t, tsdb.WriteHeadChunks(f.db))
	files := allFiles(t, f.fs)
	r, err := tsdb.OpenReadOnly(fixtureDir, f.opts)
	require.NoError(t, err)
	first := f.all()
	require.Equal(t, first, readerDump(t, r))
	require.Equal(t, files, allFiles(t, f.fs))
	held, err := r.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)

	require.NoError(t, f.db.Compact(ctx))
	require.NoError(t, f.db.Delete(ctx, base-5*hour, base-4*hour, labels.Equal("i", "1")))
	f.scrapes(4, base, base+hour)
	want := f.all()
	files = allFiles(t, f.fs)
	require.Equal(t, first, readerDump(t, r), "until Refresh it sees what it saw")
	require.NoError(t, r.Refresh(ctx))
	require.Equal(t, want, readerDump(t, r))
	require.Equal(t, first, dumpQuerier(t, held), "an open querier sees what it saw")
	require.NoError(t, held.Close())
	require.Equal(t, f.db.Blocks(), r.Blocks())
	require.Equal(t, f.db.Stats().Series, r.Stats().Series)
	require.Equal(t, files, allFiles(t, f.fs))
	require.NoError(t, r.Close())
	require.NoError(t, r.Close())
	_, err = r.Querier(0, 1)
	require.ErrorIs(t, err, tsdb.ErrClosed)
	require.ErrorIs(t, r.Refresh(ctx), tsdb.ErrClosed)
	require.Empty(t, r.Blocks())
}

func TestReader_NamesWhatIsNotThere(t *testing.T) {
	f := newFixture(t, manual)
	_, err := tsdb.OpenReadOnly("nowhere", f.opts)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "nowhere")
}
