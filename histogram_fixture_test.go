package tsdb_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/histogram"
)

// bucketed is a histogram of schema 0 with these counts, from the bucket that ends at 1 on.
func bucketed(counts ...int64) *histogram.Histogram {
	h := &histogram.Histogram{PositiveSpans: []histogram.Span{{Length: uint32(len(counts))}}}
	last := int64(0)
	for i, n := range counts {
		h.PositiveBuckets = append(h.PositiveBuckets, n-last)
		h.Count += uint64(n)
		h.Sum += float64(n) * float64(int(1)<<i)
		last = n
	}
	return h
}

// put commits one sample of a series.
func put(t testing.TB, db *tsdb.DB, key string, s tsdb.Sample) {
	t.Helper()
	app := db.Appender()
	_, err := app.AppendSample(0, series(t, key), s)
	require.NoError(t, err)
	res, err := app.Commit(ctx)
	require.NoError(t, err)
	require.Empty(t, res.Rejected)
}
