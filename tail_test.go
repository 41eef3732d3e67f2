package tsdb_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/exemplar"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// A program passes on what it stores.
func ExampleTail() {
	db := must(tsdb.Open(must(os.MkdirTemp("", "tsdb")), nil))
	defer db.Close()
	tail := must(tsdb.NewTail(db))
	defer tail.Close()

	app := db.Appender()
	must(app.Append(0, labels.FromStrings(labels.MetricName, "up"), time.Now().UnixMilli(), 1))
	must(app.Commit(context.Background()))

	for commit := must(tail.Next()); commit != nil; commit = must(tail.Next()) {
		for _, s := range commit.Samples {
			ls, _ := tail.Labels(s.Ref)
			fmt.Println(ls, s.V)
		}
	}
	// Output: {__name__="up"} 1
}

func TestTail_ReturnsAllThatACommitHas(t *testing.T) {
	f := newFixture(t, func(o *tsdb.Options) { o.Head.OutOfOrderWindow, o.Head.MaxExemplars = time.Hour, 10 })
	tail, err := tsdb.NewTail(f.db)
	require.NoError(t, err)
	next, err := tail.Next()
	require.NoError(t, err)
	require.Nil(t, next)

	now := testNow.UnixMilli()
	h := &histogram.Histogram{Schema: 1, Count: 3, Sum: 4, PositiveSpans: []histogram.Span{{Offset: 1, Length: 2}}, PositiveBuckets: []int64{1, 1}}
	fh := &histogram.FloatHistogram{Schema: 1, Count: 3, Sum: 4, PositiveSpans: []histogram.Span{{Offset: 1, Length: 2}}, PositiveBuckets: []float64{1, 2}}
	app := f.db.Appender()
	sent := []tsdb.Sample{{T: now, V: 1}, {T: now, ST: now - 5, V: 2}, {T: now, H: h}, {T: now, FH: fh}}
	var refs []tsdb.SeriesRef
	for i, s := range sent {
		ref, err := app.AppendSample(0, labels.FromStrings("a", fmt.Sprint(i)), s)
		require.NoError(t, err)
		refs = append(refs, ref)
	}
	e := exemplar.Exemplar{Labels: labels.FromStrings("trace", "x"), Value: 7, T: now, HasT: true}
	_, err = app.AppendExemplar(refs[0], labels.Labels{}, e)
	require.NoError(t, err)
	meta := tsdb.Metadata{Unit: "s", Help: "what it is"}
	_, err = app.SetMetadata(refs[1], labels.Labels{}, meta)
	require.NoError(t, err)
	_, err = app.Commit(context.Background())
	require.NoError(t, err)
	app = f.db.Appender()
	_, err = app.Append(refs[0], labels.Labels{}, now-1000, 9)
	require.NoError(t, err)
	_, err = app.Commit(context.Background())
	require.NoError(t, err)
	require.EqualValues(t, 2, tail.Behind())

	c, err := tail.Next()
	require.NoError(t, err)
	require.Len(t, c.Samples, len(sent))
	byRef := map[tsdb.SeriesRef]tsdb.TailSample{}
	for _, s := range c.Samples {
		byRef[s.Ref] = s
	}
	for i, want := range sent {
		got := byRef[refs[i]]
		require.Equal(t, want, tsdb.Sample{T: got.T, ST: got.ST, V: got.V, H: got.H, FH: got.FH})
		require.False(t, got.Late)
		ls, ok := tail.Labels(refs[i])
		require.True(t, ok)
		require.Equal(t, fmt.Sprint(i), ls.Get("a"))
	}
	require.Len(t, c.Exemplars, 1)
	require.True(t, c.Exemplars[0].Equal(e))
	require.Equal(t, refs[0], c.Exemplars[0].Ref)
	require.Len(t, c.Metadata, 1)
	require.Equal(t, meta, c.Metadata[0].Metadata)
	got, ok := tail.Metadata(refs[1])
	require.True(t, ok)
	require.Equal(t, meta, got)
	_, ok = tail.Metadata(refs[0])
	require.False(t, ok)
	_, ok = tail.Labels(1 << 20)
	require.False(t, ok)

	c, err = tail.Next()
	require.NoError(t, err)
	require.Equal(t, []tsdb.TailSample{{Ref: refs[0], T: now - 1000, V: 9, Late: true}}, c.Samples)
	require.Zero(t, c.Unread)
	require.NoError(t, tail.Close())
	require.NoError(t, f.db.Close())
	f.db = nil
	_, err = tail.Next()
	require.ErrorIs(t, err, tsdb.ErrClosed)
	require.NoError(t, tail.Close())
}

// The labels of a series are its own, or none, while series leave the head and others come.
func TestTail_LabelsWhileSeriesGo(t *testing.T) {
	db, err := tsdb.Open(t.TempDir(), &tsdb.Options{Blocks: tsdb.BlockOptions{Range: time.Minute}, Limits: tsdb.Limits{MaxFuture: -1}})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	tail, err := tsdb.NewTail(db)
	require.NoError(t, err)
	var newest atomic.Uint64
	done := make(chan struct{})
	var asking sync.WaitGroup
	asking.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			n := newest.Load()
			for ref := max(n, 2000) - 2000; ref < n; ref++ {
				if ls, ok := tail.Labels(tsdb.SeriesRef(ref)); ok && ls.Get("ref") != fmt.Sprint(ref) {
					t.Errorf("series %d has the labels %s", ref, ls)
					return
				}
			}
		}
	})
	at, next := testNow.UnixMilli(), uint64(1)
	for range 60 {
		app := db.Appender()
		for range 300 {
			ref, err := app.Append(0, labels.FromStrings("ref", fmt.Sprint(next)), at, 1)
			require.NoError(t, err)
			require.EqualValues(t, next, ref)
			next++
		}
		_, err := app.Commit(context.Background())
		require.NoError(t, err)
		newest.Store(next)
		at += time.Minute.Milliseconds()
		require.NoError(t, db.Flush(context.Background()))
	}
	close(done)
	asking.Wait()
	require.NoError(t, tail.Close())
}

// Whoever follows a Tail, and goes on behind a Querier where it is gone, sees each sample once and
// in order, over flushes and restarts.
func TestTail_WithQueriers_MissesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		opts := &tsdb.Options{FS: tsdbtest.NewMemFS(), Clock: tsdbtest.NewClock(testNow)}
		opts.WAL.SegmentSize = 64 << 10
		db, err := tsdb.Open(fixtureDir, opts)
		require.NoError(t, err)
		defer func() { require.NoError(t, db.Close()) }()
		tail, err := tsdb.NewTail(db)
		require.NoError(t, err)
		now, next, seen := testNow.UnixMilli(), 0, 0
		see := func(t0 int64, v float64) {
			require.Equal(t, float64(seen), v)
			require.Equal(t, now+int64(seen), t0)
			seen++
		}
		behind := func() { // sees what the log has no more
			q, err := tail.Querier(now+int64(seen), math.MaxInt64)
			require.NoError(t, err)
			for s, err := range q.Select(context.Background(), nil).All() {
				require.NoError(t, err)
				for at, v := range s.Samples() {
					see(at, v)
				}
			}
			require.NoError(t, q.Close())
		}
		read := func(most int) {
			for range most {
				c, err := tail.Next()
				if err != nil {
					require.ErrorIs(t, err, tsdb.ErrGone)
					behind()
					continue
				}
				if c == nil {
					return
				}
				for _, s := range c.Samples {
					see(s.T, s.V)
				}
			}
		}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0:
				require.NoError(t, db.Flush(context.Background()))
				if rapid.Bool().Draw(t, "checkpoint") {
					require.NoError(t, tsdb.Checkpoint(db))
				}
			case 1:
				at, any := tail.Position(), seen > 0
				require.NoError(t, tail.Close())
				require.NoError(t, db.Close())
				db, err = tsdb.Open(fixtureDir, opts)
				require.NoError(t, err)
				tail, err = tsdb.NewTail(db)
				require.NoError(t, err)
				if err := tail.Resume(at); !any || err != nil {
					if any {
						require.ErrorIs(t, err, tsdb.ErrGone)
					}
					behind()
				}
			case 2:
				read(rapid.IntRange(1, 100).Draw(t, "most"))
			default:
				for range rapid.IntRange(1, 300).Draw(t, "commits") {
					app := db.Appender()
					_, err := app.Append(0, labels.FromStrings("a", "b"), now+int64(next), float64(next))
					require.NoError(t, err)
					_, err = app.Commit(context.Background())
					require.NoError(t, err)
					next++
				}
			}
		}
		read(math.MaxInt)
		require.Equal(t, next, seen)
		require.NoError(t, tail.Close())
	})
}
