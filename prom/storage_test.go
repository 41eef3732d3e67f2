package prom_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/exemplar"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/tsdbutil"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	tsdblabels "github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/prom"
)

func openStorage(t testing.TB) *prom.Storage {
	db, err := tsdb.Open(t.TempDir(), &tsdb.Options{Blocks: tsdb.BlockOptions{Manual: true}})
	require.NoError(t, err)
	s := prom.NewStorage(db)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// fill appends samples of ten series at the times 0, 10, ... 990, and makes a block of some of
// them.
func fill(t testing.TB, s *prom.Storage) {
	for _, part := range []struct{ from, to int64 }{{0, 500}, {500, 1000}} {
		app := s.Appender(context.Background())
		for at := part.from; at < part.to; at += 10 {
			for i := range 10 {
				_, err := app.Append(0, labels.FromStrings("__name__", "m", "i", fmt.Sprint(i)), at, float64(at)+float64(i))
				require.NoError(t, err)
			}
		}
		require.NoError(t, app.Commit())
		if part.from == 0 {
			require.NoError(t, s.DB().Flush(context.Background()))
		}
	}
}

func all() *labels.Matcher { return labels.MustNewMatcher(labels.MatchEqual, "__name__", "m") }

// selected returns what a Select gives: times by series.
func selected(t testing.TB, set storage.SeriesSet) map[string][]int64 {
	got := map[string][]int64{}
	var it chunkenc.Iterator
	for set.Next() {
		it = set.At().Iterator(it)
		times := []int64{}
		for it.Next() == chunkenc.ValFloat {
			times = append(times, it.AtT())
		}
		require.NoError(t, it.Err())
		got[set.At().Labels().Get("i")] = times
	}
	require.NoError(t, set.Err())
	return got
}

func TestQuerier_UsesItsHints(t *testing.T) {
	s := openStorage(t)
	fill(t, s)
	q, err := s.Querier(0, 1000)
	require.NoError(t, err)
	defer func() { require.NoError(t, q.Close()) }()
	ctx := context.Background()

	narrow := selected(t, q.Select(ctx, true, &storage.SelectHints{Start: 480, End: 520}, all()))
	require.Len(t, narrow, 10)
	require.Equal(t, []int64{480, 490, 500, 510, 520}, narrow["3"])

	require.Equal(t, map[string][]int64{"0": {}, "1": {}}, selected(t, q.Select(ctx, true, &storage.SelectHints{Start: 0, End: 1000, Func: "series", Limit: 2}, all())))

	set := q.Select(ctx, true, &storage.SelectHints{Start: 0, End: 1000, Limit: 3}, all())
	require.Len(t, selected(t, set), 3)
	require.ErrorIs(t, set.Warnings().AsErrors()[0], tsdb.ErrTruncated)
	require.Equal(t, "results truncated due to limit", set.Warnings().AsErrors()[0].Error())

	require.Len(t, selected(t, q.Select(ctx, false, nil, all())), 10, "hints may be missing")
}

// Shards are disjoint, and together all; a limit counts what is in the shard.
func TestQuerier_ShardsArePartsOfAll(t *testing.T) {
	s := openStorage(t)
	fill(t, s)
	q, err := s.Querier(0, 1000)
	require.NoError(t, err)
	defer func() { require.NoError(t, q.Close()) }()
	seen := map[string]int{}
	for shard := range uint64(3) {
		hints := &storage.SelectHints{Start: 0, End: 1000, ShardCount: 3, ShardIndex: shard}
		found := selected(t, q.Select(context.Background(), true, hints, all()))
		for i := range found {
			seen[i]++
			require.Equal(t, shard, labels.StableHash(labels.FromStrings("__name__", "m", "i", i))%3)
		}
		if len(found) > 1 {
			hints.Limit = 1
			set := q.Select(context.Background(), true, hints, all())
			require.Len(t, selected(t, set), 1)
			require.Len(t, set.Warnings(), 1)
		}
	}
	require.Len(t, seen, 10)
	for i, n := range seen {
		require.Equal(t, 1, n, i)
	}
}

// Chunks hold the same samples, and belong to whoever reads them.
func TestChunkQuerier_GivesChunksThatMayBeKept(t *testing.T) {
	s := openStorage(t)
	fill(t, s)
	q, err := s.ChunkQuerier(5, 995)
	require.NoError(t, err)
	var kept []chunkenc.Chunk
	set := q.Select(context.Background(), true, nil, all())
	series := 0
	for set.Next() {
		series++
		it := set.At().Iterator(nil)
		for it.Next() {
			kept = append(kept, it.At().Chunk)
		}
		require.NoError(t, it.Err())
	}
	require.NoError(t, set.Err())
	require.NoError(t, q.Close())
	require.Equal(t, 10, series)
	n := 0
	for _, c := range kept {
		it := c.Iterator(nil)
		for it.Next() == chunkenc.ValFloat {
			n++
		}
		require.NoError(t, it.Err())
	}
	require.Equal(t, 10*99, n)
}

// Whoever disables trimming gets chunks as they are stored: with the samples around the range, and
// none that is deleted.
func TestChunkQuerier_WholeChunksAsTheyAreStored(t *testing.T) {
	s := openStorage(t)
	fill(t, s)
	require.NoError(t, s.DB().Delete(context.Background(), 100, 190, tsdblabels.Equal("i", "1")))
	times := func(i string, hints *storage.SelectHints) (times []int64, first, last int64) {
		q, err := s.ChunkQuerier(0, 1000)
		require.NoError(t, err)
		defer func() { require.NoError(t, q.Close()) }()
		set := q.Select(context.Background(), true, hints, all(), labels.MustNewMatcher(labels.MatchEqual, "i", i))
		require.True(t, set.Next())
		first = math.MaxInt64
		for it := set.At().Iterator(nil); it.Next(); {
			first, last = min(first, it.At().MinTime), max(last, it.At().MaxTime)
			for samples := it.At().Chunk.Iterator(nil); samples.Next() == chunkenc.ValFloat; {
				times = append(times, samples.AtT())
			}
		}
		require.False(t, set.Next())
		require.NoError(t, set.Err())
		require.Equal(t, []int64{times[0], times[len(times)-1]}, []int64{first, last})
		return times, first, last
	}
	cut, first, last := times("0", &storage.SelectHints{Start: 210, End: 220})
	require.Equal(t, []int64{210, 220}, cut)
	require.Equal(t, []int64{210, 220}, []int64{first, last})

	whole, first, last := times("0", &storage.SelectHints{Start: 210, End: 220, DisableTrimming: true})
	require.Equal(t, []int64{0, 490}, []int64{first, last})
	require.Len(t, whole, 50)

	whole, _, _ = times("1", &storage.SelectHints{Start: 210, End: 220, DisableTrimming: true})
	require.Len(t, whole, 40)
	for _, at := range whole {
		require.False(t, at >= 100 && at <= 190, "%d is deleted", at)
	}
}

func TestAppenders_RefuseWithTheSentinelsOfPackageStorage(t *testing.T) {
	s := openStorage(t)
	ls := labels.FromStrings("__name__", "m")
	app := s.AppenderV2(context.Background())
	ref, err := app.Append(0, ls, 0, 1000, 1, nil, nil, storage.AppendV2Options{Exemplars: []exemplar.Exemplar{{Value: 1}}})
	require.NoError(t, err)
	require.NotZero(t, ref)
	require.NoError(t, app.Commit())
	app = s.AppenderV2(context.Background())
	for _, c := range []struct {
		name string
		ref  storage.SeriesRef
		ls   labels.Labels
		t    int64
		v    float64
		want []error
	}{
		{"an exact repeat", ref, ls, 1000, 1, nil},
		{"another value", ref, ls, 1000, 2, []error{storage.ErrDuplicateSampleForTimestamp, tsdb.ErrDuplicateSample}},
		{"an older one", ref, ls, 999, 1, []error{storage.ErrOutOfOrderSample, tsdb.ErrOutOfOrder}},
		{"the far future", ref, ls, math.MaxInt64 / 2, 1, []error{storage.ErrOutOfBounds, tsdb.ErrOutOfBounds}},
		{"no labels", 0, labels.EmptyLabels(), 1000, 1, []error{prom.ErrInvalidSample}},
		{"a ref that is not known, without labels", 99999, labels.EmptyLabels(), 1000, 1, []error{prom.ErrInvalidSample}},
		{"a label twice", 0, labels.FromStrings("a", "1", "a", "2"), 1000, 1, []error{prom.ErrInvalidSample, tsdb.ErrInvalidLabels}},
		{"a ref that is not known, with labels", 99999, ls, 1001, 1, nil},
	} {
		got, err := app.Append(c.ref, c.ls, 0, c.t, c.v, nil, nil, storage.AppendV2Options{})
		if c.want == nil {
			require.NoError(t, err, c.name)
			require.Equal(t, ref, got, c.name)
			continue
		}
		for _, want := range c.want {
			require.ErrorIs(t, err, want, c.name)
		}
	}
	require.NoError(t, app.Commit())
	require.Error(t, app.Commit(), "it is over")
}

// What is too old for the out-of-order window has a sentinel of its own.
func TestAppenders_TooOldForTheWindow_SaySo(t *testing.T) {
	o := &tsdb.Options{Blocks: tsdb.BlockOptions{Manual: true}, Head: tsdb.HeadOptions{OutOfOrderWindow: time.Second}}
	db, err := tsdb.Open(t.TempDir(), o)
	require.NoError(t, err)
	s := prom.NewStorage(db)
	defer func() { require.NoError(t, s.Close()) }()
	ls := labels.FromStrings("__name__", "m")
	app := s.Appender(t.Context())
	_, err = app.Append(0, ls, 10_000, 1)
	require.NoError(t, err)
	require.NoError(t, app.Commit())
	app = s.Appender(t.Context())
	_, err = app.Append(0, ls, 9000, 2)
	require.NoError(t, err, "the window is closed")
	_, err = app.Append(0, ls, 8999, 3)
	require.ErrorIs(t, err, storage.ErrTooOldSample)
	require.ErrorIs(t, err, tsdb.ErrTooOld)
	require.NotErrorIs(t, err, storage.ErrOutOfBounds)
	require.NoError(t, app.Commit())
	app = s.Appender(t.Context())
	_, err = app.AppendSTZeroSample(0, ls, 10_001, 8000)
	require.ErrorIs(t, err, storage.ErrOutOfOrderST)
	require.NoError(t, app.Rollback())
	q, err := s.Querier(0, 20_000)
	require.NoError(t, err)
	defer func() { require.NoError(t, q.Close()) }()
	require.Equal(t, map[string][]int64{"": {9000, 10_000}}, selected(t, q.Select(t.Context(), true, nil, all())))
}

// Within the window late samples are taken, unless who appends says that they are not to be.
func TestAppenders_LateSamplesThatAreNotWanted(t *testing.T) {
	o := &tsdb.Options{Blocks: tsdb.BlockOptions{Manual: true}, Head: tsdb.HeadOptions{OutOfOrderWindow: time.Hour}}
	db, err := tsdb.Open(t.TempDir(), o)
	require.NoError(t, err)
	s := prom.NewStorage(db)
	defer func() { require.NoError(t, s.Close()) }()
	ls := labels.FromStrings("__name__", "m")
	h := tsdbutil.GenerateTestHistogram(1)
	v1 := s.Appender(t.Context())
	_, err = v1.Append(0, ls, 10_000, 1)
	require.NoError(t, err)
	require.NoError(t, v1.Commit())

	v1 = s.Appender(t.Context())
	v1.SetOptions(&storage.AppendOptions{DiscardOutOfOrder: true})
	_, err = v1.Append(0, ls, 9000, 1)
	require.ErrorIs(t, err, storage.ErrOutOfOrderSample)
	_, err = v1.AppendHistogram(0, ls, 9000, h, nil)
	require.ErrorIs(t, err, storage.ErrOutOfOrderSample)
	_, err = v1.AppendSTZeroSample(0, ls, 10_001, 9500)
	require.ErrorIs(t, err, storage.ErrOutOfOrderST)
	_, err = v1.Append(0, ls, 10_000, 1)
	require.NoError(t, err, "it is there already")
	_, err = v1.Append(0, ls, 11_000, 1)
	require.NoError(t, err)
	v1.SetOptions(&storage.AppendOptions{})
	_, err = v1.Append(0, ls, 8000, 1)
	require.NoError(t, err)
	_, err = v1.AppendSTZeroSample(0, ls, 10_001, 9600)
	require.ErrorIs(t, err, storage.ErrOutOfOrderST, "a zero is never late")
	require.NoError(t, v1.Commit())

	v2 := s.AppenderV2(t.Context())
	_, err = v2.Append(0, ls, 0, 7000, 1, nil, nil, storage.AppendV2Options{RejectOutOfOrder: true})
	require.ErrorIs(t, err, storage.ErrOutOfOrderSample)
	_, err = v2.Append(0, ls, 0, 6000, 1, nil, nil, storage.AppendV2Options{})
	require.NoError(t, err)
	require.NoError(t, v2.Commit())

	v2 = s.AppenderV2(t.Context())
	_, err = v2.Append(0, ls, 0, 5000, 1, nil, nil, storage.AppendV2Options{})
	require.NoError(t, err, "what the one before was told is not told to this one")
	require.NoError(t, v2.Commit())
	q, err := s.Querier(0, 20_000)
	require.NoError(t, err)
	defer func() { require.NoError(t, q.Close()) }()
	require.Equal(t, map[string][]int64{"": {5000, 6000, 8000, 10_000, 11_000}}, selected(t, q.Select(t.Context(), true, nil, all())))
}

func TestAppender_ZeroSamplesAtAStart(t *testing.T) {
	s := openStorage(t)
	ls := labels.FromStrings("__name__", "m")
	app := s.Appender(context.Background())
	_, err := app.AppendSTZeroSample(0, ls, 1000, 1000)
	require.ErrorIs(t, err, storage.ErrSTNewerThanSample)
	ref, err := app.AppendSTZeroSample(0, ls, 1000, 900)
	require.NoError(t, err)
	_, err = app.Append(ref, ls, 1000, 5)
	require.NoError(t, err)
	require.NoError(t, app.Commit())
	app = s.Appender(context.Background())
	_, err = app.AppendSTZeroSample(ref, ls, 1100, 900)
	require.ErrorIs(t, err, storage.ErrOutOfOrderST)
	require.NoError(t, app.Rollback())
	q, err := s.Querier(0, 2000)
	require.NoError(t, err)
	defer func() { require.NoError(t, q.Close()) }()
	require.Equal(t, map[string][]int64{"": {900, 1000}}, selected(t, q.Select(context.Background(), true, nil, all())))
}

func TestStorage_StartTime(t *testing.T) {
	s := openStorage(t)
	start, err := s.StartTime()
	require.NoError(t, err)
	require.Equal(t, int64(math.MaxInt64), start)
	fill(t, s)
	start, err = s.StartTime()
	require.NoError(t, err)
	require.Zero(t, start)
}
