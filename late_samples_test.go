package tsdb_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/histtest"
	"github.com/seed347100a3/tsdb/labels"
)

// Writers append in and out of order, each to series of its own, beside queries, deletes of other
// series, flushes and merges; all that was acknowledged is there, once, also after a kill.
func TestLate_BesideEverythingElse(t *testing.T) {
	f := newFixture(t, func(o *tsdb.Options) {
		o.Head.OutOfOrderWindow = time.Hour
		o.Blocks.Range, o.Blocks.Manual = time.Minute, true
		o.Limits.MaxFuture = -1
	})
	const writers, commits = 4, 150
	var want [writers]map[int64]float64
	var wg sync.WaitGroup
	stop := make(chan struct{})
	beside := func(fn func()) {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					fn()
				}
			}
		})
	}
	beside(func() { _ = f.db.Flush(ctx) })
	beside(func() { _ = f.db.Compact(ctx) })
	beside(func() { _ = f.db.Delete(ctx, math.MinInt64, math.MaxInt64, labels.Equal("w", "none")) })
	beside(func() {
		q, err := f.db.Querier(math.MinInt64, math.MaxInt64)
		if err == nil {
			first, err1 := readAll(q)
			second, err2 := readAll(q)
			if err1 == nil && err2 == nil && fmt.Sprint(first) != fmt.Sprint(second) {
				panic("the answer of an open Querier has changed")
			}
			_ = q.Close()
		}
	})
	var writing sync.WaitGroup
	for w := range writers {
		want[w] = map[int64]float64{}
		writing.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 7))
			ls := labels.FromStrings("w", fmt.Sprint(w))
			for n := range commits {
				app := f.db.Appender()
				staged := map[int64]float64{}
				for range 1 + r.IntN(20) {
					at := int64(n)*700 - r.Int64N(120_000)*r.Int64N(2)
					if _, there := want[w][at]; there {
						continue
					}
					v := float64(r.IntN(1000))
					if _, err := app.Append(0, ls, at, v); err == nil {
						if _, again := staged[at]; !again {
							staged[at] = v
						}
					} else if !errors.Is(err, tsdb.ErrDuplicateSample) && !errors.Is(err, tsdb.ErrTooOld) {
						panic(err)
					}
				}
				res, err := app.Commit(context.Background())
				if err != nil {
					panic(err)
				}
				for _, rej := range res.Rejected {
					if !errors.Is(rej.Err, tsdb.ErrDuplicateSample) {
						panic(rej.Err)
					}
				}
				for at, v := range staged {
					want[w][at] = v
				}
			}
		})
	}
	writing.Wait()
	close(stop)
	wg.Wait()
	check := func(what string) {
		all := f.all()
		for w := range writers {
			got := all[fmt.Sprintf(`{w="%d"}`, w)]
			require.Len(t, got, len(want[w]), what)
			for _, p := range got {
				v, there := want[w][p.T]
				require.True(t, there && math.Float64bits(v) == p.V, "%s: writer %d at %d", what, w, p.T)
			}
		}
	}
	check("at the end")
	disk := f.fs.KillClone()
	require.NoError(t, f.db.Close())
	f.fs, f.opts.FS = disk, disk
	f.open()
	check("after a kill")
	require.NoError(t, f.db.Flush(ctx))
	require.NoError(t, f.db.Compact(ctx))
	check("in blocks")
	f.reopen()
	check("opened again")
}

// A float stale marker that comes late for a series of histograms is one of them, whatever becomes
// of it; and it ends nothing that is newer.
// What is known of the times of a steady series does not hide the samples that it has.
func TestLate_AtATimeOfASteadySeries(t *testing.T) {
	f := newFixture(t, withWindow)
	base := testNow.UnixMilli()
	for i := range int64(30) {
		f.commit(sample{`{a="b"}`, base + i*minute, float64(i)})
	}
	app := f.db.Appender()
	for i := range int64(10) { // after the first ones it is known to be steady
		f.commit(sample{`{a="b"}`, base + i*minute + 1, -1})
		at := base + (i+9)*minute
		_, err := app.Append(0, series(t, `{a="b"}`), at, -2)
		require.ErrorIs(t, err, tsdb.ErrDuplicateSample, at)
		_, err = app.Append(0, series(t, `{a="b"}`), at, float64(i+9))
		require.NoError(t, err)
	}
	res, err := app.Commit(ctx)
	require.NoError(t, err)
	require.Zero(t, res.Samples)
	require.Equal(t, 40, f.count())
}

// With LastWriteWins the repeat of a sample in order counts again, if a late one took its place and
// is in a block.
func TestLate_ARepeatOfWhatALateBlockHides(t *testing.T) {
	f := newFixture(t, func(o *tsdb.Options) {
		withWindow(o)
		o.Head.LastWriteWins = true
	})
	base := testNow.UnixMilli()
	f.commit(sample{`{a="b"}`, base, 1})
	f.commit(sample{`{a="b"}`, base, 2})
	require.NoError(t, f.db.Compact(ctx))
	require.Len(t, f.db.Blocks(), 1)
	require.Equal(t, map[string][]point{`{a="b"}`: points(float64(base), 2)}, dump(t, f.db, math.MinInt64, math.MaxInt64))
	f.commit(sample{`{a="b"}`, base, 1})
	require.Equal(t, map[string][]point{`{a="b"}`: points(float64(base), 1)}, dump(t, f.db, math.MinInt64, math.MaxInt64))
}

// A block that a program brings hides what is in order as one of late samples does, and one of
// another time hides nothing: a repeat there is stored nowhere.
func TestLate_ARepeatBesideBlocksThatWereBrought(t *testing.T) {
	f := newFixture(t, func(o *tsdb.Options) {
		withWindow(o)
		o.Head.LastWriteWins = true
	})
	base := testNow.UnixMilli()
	f.commit(sample{`{a="b"}`, base, 1})
	bring := func(at int64, v float64) {
		w, err := tsdb.NewBlockWriter(fixtureDir, &tsdb.BlockWriterOptions{FS: f.fs, Clock: f.clock})
		require.NoError(t, err)
		require.NoError(t, w.Append(series(t, `{a="b"}`), at, v))
		_, err = w.Flush(ctx)
		require.NoError(t, err)
		require.NoError(t, w.Close())
		require.NoError(t, f.db.Compact(ctx))
	}
	bring(base+10*24*hour, 7)
	bring(base-10*24*hour, 7)
	require.True(t, f.db.Blocks()[1].HasHint(fromOutOfOrder))
	f.commit(sample{`{a="b"}`, base, 1})
	require.Zero(t, f.db.Stats().LateSamples)
	bring(base, 2)
	all := func() []point { return dump(t, f.db, base, base)[`{a="b"}`] }
	require.Equal(t, points(float64(base), 2), all())
	f.commit(sample{`{a="b"}`, base, 1})
	require.Equal(t, points(float64(base), 1), all())
}

func TestLate_AStaleMarkerOfHistograms(t *testing.T) {
	f := newFixture(t, func(o *tsdb.Options) { o.Head.OutOfOrderWindow, o.Limits.MaxFuture = time.Hour, -1 })
	h := histtest.Draw(modelPick(1))
	put := func(s anySample) {
		t.Helper()
		app := f.db.Appender()
		_, err := app.AppendSample(0, series(t, `{a="1"}`), s.sample())
		require.NoError(t, err)
		res, err := app.Commit(ctx)
		require.NoError(t, err)
		require.Empty(t, res.Rejected)
	}
	put(anySample{T: 1000, H: h})
	put(anySample{T: 3000, H: h})
	stale := anySample{T: 2000, V: math.Float64bits(tsdb.StaleMarker())}
	check := func(what string) {
		t.Helper()
		q, err := f.db.Querier(math.MinInt64, math.MaxInt64)
		require.NoError(t, err)
		defer q.Close()
		set := q.Select(ctx, nil)
		require.True(t, set.Next())
		it := set.At().Iterator(nil)
		var got histogram.Histogram
		for _, at := range []int64{1000, 2000, 3000} {
			require.Equal(t, chunkenc.ValHistogram, it.Next(), "%s: at %d", what, at)
			require.Equal(t, at, it.AtHistogram(&got))
			require.Equal(t, at == 2000, tsdb.IsStale(got.Sum), "%s: at %d", what, at)
		}
		require.Equal(t, chunkenc.ValNone, it.Next())
	}
	put(stale)
	check("late")
	put(stale) // a repeat
	f.reopen()
	put(stale)
	check("opened again")
	require.NoError(t, f.db.Flush(ctx))
	require.NoError(t, f.db.Compact(ctx))
	check("in blocks")
}

// Where nothing else becomes a block the log is shortened behind late samples, too, and series that
// have no others leave the head.
func TestLate_Alone_TheLogDoesNotGrowForEver(t *testing.T) {
	f := newFixture(t, func(o *tsdb.Options) {
		o.Head.OutOfOrderWindow, o.Limits.MaxFuture = 24*time.Hour, -1
		o.WAL.SegmentSize, o.Blocks.Manual = 32<<10, true
	})
	f.commit(sample{`{a="steady"}`, 20 * hour, 1})
	require.NoError(t, f.db.Flush(ctx))
	logSize := func() (size int64) {
		segments, err := f.fs.ReadDir(fixtureDir + "/wal")
		require.NoError(t, err)
		for _, segment := range segments {
			info, err := segment.Info()
			require.NoError(t, err)
			size += info.Size()
		}
		return size
	}
	most := int64(0)
	for round := range int64(8) {
		app := f.db.Appender()
		for i := range int64(5000) {
			_, err := app.Append(0, series(t, fmt.Sprintf(`{a="%d"}`, i%50)), round*hour+i*100, float64(i))
			require.NoError(t, err)
		}
		_, err := app.Commit(ctx)
		require.NoError(t, err)
		require.NoError(t, f.db.Flush(ctx))
		if size := logSize(); round < 4 {
			most = max(most, size)
		} else {
			require.Less(t, size, most+most/2, "round %d", round)
		}
	}
	require.LessOrEqual(t, f.db.Stats().Series, 1, "series that have no sample in the head")
	got := f.all()
	for i := range 50 {
		require.Len(t, got[fmt.Sprintf(`{a="%d"}`, i)], 8*100)
	}
	require.NoError(t, f.db.Close())
	require.ErrorIs(t, f.db.SetOutOfOrderWindow(time.Hour), tsdb.ErrClosed)
	f.open()
	require.Equal(t, got, f.all())
}

// RefuseLate is of its Appender. A sample that another commit makes late between Append and Commit
// is refused, too.
func TestRefuseLate_WhateverTheWindow(t *testing.T) {
	f := newFixture(t, func(o *tsdb.Options) { o.Head.OutOfOrderWindow = time.Hour })
	const newest = 10_000
	ls := labels.FromStrings("__name__", "m")
	first, overtaken := f.db.Appender(), f.db.Appender()
	overtaken.RefuseLate(true)
	_, err := overtaken.Append(0, ls, newest-2, 1)
	require.NoError(t, err)
	_, err = first.Append(0, ls, newest, 1)
	require.NoError(t, err)
	_, err = first.Commit(ctx)
	require.NoError(t, err)
	_, err = overtaken.Append(0, ls, newest-1, 1)
	require.ErrorIs(t, err, tsdb.ErrOutOfOrder)
	res, err := overtaken.Commit(ctx)
	require.NoError(t, err)
	require.Len(t, res.Rejected, 1)
	require.ErrorIs(t, res.Rejected[0].Err, tsdb.ErrOutOfOrder)
	overtaken.RefuseLate(true) // it has ended: nothing happens

	for range 20 { // whoever has the memory of the one before
		app := f.db.Appender()
		_, err = app.Append(0, ls, newest-3, 1)
		require.NoError(t, err)
		_, err = app.Commit(ctx)
		require.NoError(t, err)
	}
}
