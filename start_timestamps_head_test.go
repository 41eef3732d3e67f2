package tsdb_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
)

// Chunks are of the usual encoding unless a start timestamp is there.
func TestStartTimestamps_CostNothingElsewhere(t *testing.T) {
	f := newFixture(t, func(o *tsdb.Options) { o.Blocks.Manual = true })
	base := testNow.UnixMilli()
	for i := range int64(300) {
		app := f.db.Appender()
		for key, st := range map[string]int64{`{s="plain"}`: 0, `{s="started"}`: base} {
			_, err := app.AppendSample(0, series(t, key), tsdb.Sample{T: base + i*1000, ST: st, V: float64(i)})
			require.NoError(t, err)
		}
		_, err := app.Commit(ctx)
		require.NoError(t, err)
	}
	want := map[string]chunkenc.Encoding{`{s="plain"}`: chunkenc.EncXOR, `{s="started"}`: chunkenc.EncXOR2}
	check := func() {
		t.Helper()
		q, err := f.db.Querier(math.MinInt64, math.MaxInt64)
		require.NoError(t, err)
		defer func() { require.NoError(t, q.Close()) }()
		for s, err := range q.SelectChunks(ctx, nil).All() {
			require.NoError(t, err)
			n := 0
			it := s.Chunks(nil)
			for ; it.Next(); n++ {
				require.Equal(t, want[s.Labels().String()], it.At().Chunk.Encoding())
				require.LessOrEqual(t, it.At().Chunk.NumSamples(), 240)
			}
			require.NoError(t, it.Err())
			require.Greater(t, n, 1)
		}
	}
	check()
	f.reopen()
	check()
	require.NoError(t, f.db.Flush(ctx))
	check()
}

// Two samples of one time and one value are the same sample, whatever their start timestamps.
func TestStartTimestamps_OfARepeat_DoNotCount(t *testing.T) {
	f := newFixture(t, nil)
	at := testNow.UnixMilli()
	put := func(st int64, v float64) error {
		app := f.db.Appender()
		_, err := app.AppendSample(0, series(t, `{a="b"}`), tsdb.Sample{T: at, ST: st, V: v})
		if err != nil {
			require.NoError(t, app.Rollback())
			return err
		}
		_, err = app.Commit(ctx)
		return err
	}
	require.NoError(t, put(at-5, 1))
	require.NoError(t, put(at-7, 1))
	require.NoError(t, put(0, 1))
	require.ErrorIs(t, put(at-5, 2), tsdb.ErrDuplicateSample)
	requireStarted(t, f.db, map[string][]started{`{a="b"}`: {{T: at, ST: at - 5, V: math.Float64bits(1)}}}, math.MinInt64, math.MaxInt64)
}
