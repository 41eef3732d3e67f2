package tsdb_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/labels"
)

// memoryNow returns the bytes that live, and those that were allocated so far.
func memoryNow() (live, all uint64) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc, m.TotalAlloc
}

// Who says beforehand how many samples come has them copied never: 32 bytes each are all they take
// until Commit.
func TestGrow_SparesCopies(t *testing.T) {
	f := newFixture(t, nil)
	const samples = 200_000
	app := f.db.Appender()
	app.Grow(samples)
	app.Grow(0)
	app.Grow(-1)
	ref, err := app.Append(0, labels.FromStrings("a", "b"), 0, 0)
	require.NoError(t, err)
	_, before := memoryNow()
	for i := range int64(samples - 1) {
		if _, err := app.Append(ref, labels.Labels{}, 1+i, 1); err != nil {
			t.Fatal(err)
		}
	}
	_, after := memoryNow()
	require.Less(t, after-before, uint64(samples), "bytes beside the room for all")
	res, err := app.Commit(ctx)
	require.NoError(t, err)
	require.Equal(t, samples, res.Samples)
	app.Grow(samples) // it has ended
}

// What was staged of very many samples is not kept for a few.
func TestAppender_AHugeOneLeavesItsMemory(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // what one processor puts into a pool another does not find
	f := newFixture(t, func(o *tsdb.Options) { o.WAL.Sync = tsdb.SyncNever() })
	stage := func(at int64, floats, histograms int) {
		app := f.db.Appender()
		for i := range floats {
			if _, err := app.Append(0, labels.FromStrings("of", "floats"), at+int64(i), 1); err != nil {
				t.Fatal(err)
			}
		}
		h := &histogram.Histogram{PositiveSpans: []histogram.Span{{Length: 100}}, PositiveBuckets: make([]int64, 100)}
		h.PositiveBuckets[0], h.Count = 1, 100
		for i := range histograms {
			if _, err := app.AppendSample(0, labels.FromStrings("of", "histograms"), tsdb.Sample{T: at + int64(i), H: h}); err != nil {
				t.Fatal(err)
			}
		}
		require.NoError(t, app.Rollback())
	}
	stage(0, 1, 1)
	runtime.GC()
	before, _ := memoryNow()
	stage(1, 1_000_000, 20_000)
	for range 4 { // what nobody takes from a pool for two of them is dropped anyway
		stage(1, 1, 1)
		runtime.GC()
	}
	after, _ := memoryNow()
	require.Less(t, after, before+8<<20)
}
