package tsdb_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// An entry of a series in a block's index that is damaged costs that series. The others are
// there, in every kind of query, and the warning names block and place.
func TestSelect_ADamagedEntryOfAnIndex_IsLeftOutWithAWarning(t *testing.T) {
	f := newFixture(t, manual)
	base := testNow.UnixMilli() - hour
	f.scrapes(40, base, base+10*minute)
	require.NoError(t, f.db.Flush(ctx))
	want := f.all()
	id := f.db.Blocks()[0].ULID.String()
	require.NoError(t, f.db.Close())
	f.db = nil
	index, err := f.fs.ReadFile("data/" + id + "/index")
	require.NoError(t, err)
	leftOut := 0
	for at := 0; at < len(index); at += 7 {
		fs := f.fs.KillClone()
		flipByte(t, fs, "data/"+id+"/index", at)
		o := *f.opts
		o.FS = fs
		db, err := tsdb.Open(fixtureDir, &o)
		require.NoError(t, err)
		if checkLeftOut(t, db, id, want) {
			leftOut++
		}
		require.NoError(t, db.Close())
	}
	require.Greater(t, leftOut, 20)
}

// checkLeftOut reports whether a query of everything lacks a series.
func checkLeftOut(t *testing.T, db *tsdb.DB, id string, want map[string][]point) bool {
	t.Helper()
	got, warnings, err := tryRead(t, db, math.MinInt64, math.MaxInt64)
	if err != nil || len(warnings) == 0 || len(db.Blocks()) == 0 {
		return false // damage of something else, which is an error or set aside by Open
	}
	require.Len(t, got, len(want)-1)
	require.Len(t, warnings, 1)
	require.ErrorIs(t, warnings[0], tsdb.ErrMissing)
	require.ErrorIs(t, warnings[0], tsdb.ErrCorrupt)
	require.ErrorContains(t, warnings[0], id)
	var place *tsdb.CorruptError
	require.ErrorAs(t, warnings[0], &place)
	require.Positive(t, place.Offset)
	gone := -1
	for i := range 40 {
		ps, ok := got[fmt.Sprintf(`{i="%d"}`, i)]
		if !ok {
			gone = i
			continue
		}
		require.Equal(t, want[fmt.Sprintf(`{i="%d"}`, i)], ps)
	}

	q, err := db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	defer func() { require.NoError(t, q.Close()) }()
	every, err := labels.Regexp("i", ".+")
	require.NoError(t, err)
	chunks := q.SelectChunks(ctx, &tsdb.SelectHints{Transient: true}, every)
	n := 0
	for chunks.Next() {
		n++
	}
	require.NoError(t, chunks.Err())
	require.Equal(t, 39, n)
	require.Len(t, chunks.Warnings(), 1)
	values, labelWarnings, err := q.LabelValues(ctx, "i", nil, every)
	require.NoError(t, err)
	require.Len(t, values, 39)
	require.Len(t, labelWarnings, 1)
	c, err := db.Cardinality(ctx, tsdb.CardinalityOptions{})
	require.NoError(t, err)
	require.EqualValues(t, 39, c.Series)
	require.Len(t, c.Warnings, 1)

	// Who asks for others is not told of it; who asks for it is.
	set := q.Select(ctx, nil, labels.Equal("i", fmt.Sprint((gone+1)%40)))
	require.True(t, set.Next())
	require.False(t, set.Next())
	require.NoError(t, set.Err())
	require.Empty(t, set.Warnings())
	set = q.Select(ctx, nil, labels.Equal("i", fmt.Sprint(gone)))
	require.False(t, set.Next())
	require.NoError(t, set.Err())
	require.Len(t, set.Warnings(), 1)

	err = db.Delete(ctx, math.MinInt64, math.MaxInt64)
	require.ErrorIs(t, err, tsdb.ErrCorrupt)
	require.ErrorContains(t, err, id)
	rest, _, err := tryRead(t, db, math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	require.Empty(t, rest, "all else is deleted")
	return true
}

// What cannot be read for another reason than damage of the entry is an error, as a second look
// may find it well.
func TestSelect_AnIndexThatCannotBeReadIsAnError(t *testing.T) {
	f := newFixture(t, manual)
	base := testNow.UnixMilli() - hour
	f.scrapes(3, base, base+minute)
	require.NoError(t, f.db.Flush(ctx))
	f.fs.SetHook(func(op tsdbtest.Op) error {
		if op.Kind == tsdbtest.OpMapRead {
			return fileutil.ErrMemoryFault
		}
		return nil
	})
	_, _, err := tryRead(t, f.db, math.MinInt64, math.MaxInt64)
	f.fs.SetHook(nil)
	require.Error(t, err)
}
