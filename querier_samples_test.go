package tsdb_test

import (
	"context"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/itertest"
	"github.com/seed347100a3/tsdb/labels"
)

// listed is what queries list of series, without a look at samples.
type listed struct {
	series, chunks []string
	names          []string
	values         map[string][]string
	warnings       tsdb.Warnings
}

var worldNames = []string{"all", "n", "own0", "own1", "own2", "none"}

// list asks for everything that can be listed.
func list(t require.TestingT, q *tsdb.Querier, hints *tsdb.SelectHints, ms ...*labels.Matcher) listed {
	l := listed{series: []string{}, chunks: []string{}, names: []string{}, values: map[string][]string{}}
	set := q.Select(context.Background(), hints, ms...)
	for set.Next() {
		l.series = append(l.series, set.At().Labels().String())
	}
	require.NoError(t, set.Err())
	l.warnings = set.Warnings()
	chunks := q.SelectChunks(context.Background(), hints, ms...)
	for chunks.Next() {
		l.chunks = append(l.chunks, chunks.At().Labels().String())
	}
	require.NoError(t, chunks.Err())
	require.Equal(t, l.warnings, chunks.Warnings())
	names, _, err := q.LabelNames(context.Background(), nil, ms...)
	require.NoError(t, err)
	l.names = append(l.names, names...)
	for _, name := range worldNames {
		values, _, err := q.LabelValues(context.Background(), name, nil, ms...)
		require.NoError(t, err)
		if len(values) > 0 {
			l.values[name] = values
		}
	}
	return l
}

// listedOf is what must be listed of series that have samples; a limit cuts series only.
func listedOf(all map[string][]itertest.Sample, limit int) listed {
	l := listed{series: []string{}, names: []string{}, values: map[string][]string{}}
	names := map[string]map[string]bool{}
	for i := range worldSeries {
		if len(all[worldLabels(i).String()]) == 0 {
			continue
		}
		l.series = append(l.series, worldLabels(i).String())
		for label := range worldLabels(i).All() {
			if names[label.Name] == nil {
				names[label.Name] = map[string]bool{}
			}
			names[label.Name][label.Value] = true
		}
	}
	for name, values := range names {
		l.values[name] = slices.Sorted(maps.Keys(values))
	}
	l.names = append(l.names, slices.Sorted(maps.Keys(names))...)
	if limit > 0 && len(l.series) > limit {
		l.series, l.warnings = l.series[:limit], tsdb.Warnings{tsdb.ErrTruncated}
	}
	l.chunks = l.series
	return l
}

// Over head and blocks, with gaps, deletes, overlaps, any range: what is listed is exactly what has
// a sample there; limits count what is listed; a Reader lists the same.
func TestQuerier_ListsOnlySeriesThatHaveSamplesInTheRange(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := drawWorld(t, rt)
		reader, err := tsdb.OpenReadOnly("data", w.opts)
		require.NoError(rt, err)
		defer func() { require.NoError(rt, reader.Close()) }()
		for range 5 {
			mint, maxt := drawRange(rt)
			hints := &tsdb.SelectHints{Transient: rapid.Bool().Draw(rt, "transient"), Limit: rapid.IntRange(0, 4).Draw(rt, "limit")}
			var ms []*labels.Matcher
			if rapid.Bool().Draw(rt, "with a matcher") {
				ms = append(ms, labels.Equal("all", "x"))
			}
			want := listedOf(w.samples(mint, maxt), hints.Limit)
			for _, open := range []func(int64, int64) (*tsdb.Querier, error){w.db.Querier, reader.Querier} {
				q, err := open(mint, maxt)
				require.NoError(rt, err)
				require.Equal(rt, want, list(rt, q, hints, ms...))
				require.NoError(rt, q.Close())
			}
		}
	})
}

// A Select that asks for a part of the range of its Querier gives what a Querier of the overlap
// gives: series, samples, chunks.
func TestSelect_NarrowedByItsHints_IsThatOfANarrowQuerier(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := drawWorld(t, rt)
		wideMint, wideMaxt := drawRange(rt)
		wide, err := w.db.Querier(wideMint, wideMaxt)
		require.NoError(rt, err)
		defer func() { require.NoError(rt, wide.Close()) }()
		for range 5 {
			mint, maxt := drawRange(rt)
			hints := &tsdb.SelectHints{MinT: mint, MaxT: maxt, Transient: rapid.Bool().Draw(rt, "transient")}
			if mint == 0 && maxt == 0 {
				mint, maxt = wideMint, wideMaxt // which is how nothing is asked for
			}
			want := w.samples(max(mint, wideMint), min(maxt, wideMaxt))
			got := map[string][]itertest.Sample{}
			for s, err := range wide.Select(context.Background(), hints).All() {
				require.NoError(rt, err)
				got[s.Labels().String()] = narrowSamples(rt, s.Iterator(nil))
			}
			require.Equal(rt, want, got)
			got = map[string][]itertest.Sample{}
			for s, err := range wide.SelectChunks(context.Background(), hints).All() {
				require.NoError(rt, err)
				for cs := s.Chunks(nil); cs.Next(); {
					c, key := cs.At().Chunk, s.Labels().String()
					got[key] = append(got[key], narrowSamples(rt, c.Iterator(nil))...)
				}
			}
			require.Equal(rt, want, got)
		}
	})
}

// Where empty series are taken, all that have samples are there with the same samples, in order; of
// others only their labels.
func TestSelect_MayBeEmpty_GivesTheSameSamples(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := drawWorld(t, rt)
		mint, maxt := drawRange(rt)
		q, err := w.db.Querier(mint, maxt)
		require.NoError(rt, err)
		defer func() { require.NoError(rt, q.Close()) }()
		hints := &tsdb.SelectHints{MayBeEmpty: true, Transient: rapid.Bool().Draw(rt, "transient")}
		got, order := map[string][]itertest.Sample{}, []labels.Labels{}
		for s, err := range q.Select(context.Background(), hints).All() {
			require.NoError(rt, err)
			order = append(order, s.Labels())
			if all := narrowSamples(rt, s.Iterator(nil)); len(all) > 0 {
				got[s.Labels().String()] = all
			}
		}
		require.Equal(rt, w.samples(mint, maxt), got)
		require.True(rt, slices.IsSortedFunc(order, labels.Compare))
		chunks := []labels.Labels{}
		for s, err := range q.SelectChunks(context.Background(), hints).All() {
			require.NoError(rt, err)
			chunks = append(chunks, s.Labels())
		}
		require.Equal(rt, order, chunks)
	})
}

// A chunk around a gap has no sample of the gap: its series is there only where empty ones are
// taken.
func TestSelect_MayBeEmpty_TakesASeriesWithAGap(t *testing.T) {
	m := newMergeTest(t)
	m.block(0, 100, blockSeries{Labels: worldLabels(0), Chunks: []blockdir.Chunk{floats(10, 1, 90, 2)}})
	db, err := tsdb.Open("data", &tsdb.Options{FS: m.fs, Clock: m.clock, Blocks: tsdb.BlockOptions{Manual: true}})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	q, err := db.Querier(40, 60)
	require.NoError(t, err)
	defer func() { require.NoError(t, q.Close()) }()
	for _, mayBeEmpty := range []bool{false, true} {
		found := 0
		for s, err := range q.Select(context.Background(), &tsdb.SelectHints{MayBeEmpty: mayBeEmpty}).All() {
			require.NoError(t, err)
			require.Empty(t, narrowSamples(t, s.Iterator(nil)))
			found++
		}
		require.Equal(t, mayBeEmpty, found == 1)
	}
}

func narrowSamples(t require.TestingT, it chunkenc.Iterator) (all []itertest.Sample) {
	for it.Next() == chunkenc.ValFloat {
		at, v := it.At()
		all = append(all, itertest.Sample{T: at, V: v})
	}
	require.NoError(t, it.Err())
	return all
}

// Warnings of a narrowed Select are about its range only.
func TestSelect_NarrowedByItsHints_WarnsOfItsRangeOnly(t *testing.T) {
	m := newMergeTest(t)
	m.block(0, 100, blockSeries{Labels: worldLabels(0), Chunks: []blockdir.Chunk{floats(10, 1)}})
	m.block(100, 200, blockSeries{Labels: worldLabels(0), Chunks: []blockdir.Chunk{floats(110, 2)}})
	opts := &tsdb.Options{FS: m.fs, Clock: m.clock, Blocks: tsdb.BlockOptions{Manual: true}}
	db, err := tsdb.Open("data", opts)
	require.NoError(t, err)
	gone := db.Blocks()[0]
	require.NoError(t, db.Close())
	require.NoError(t, fileutil.RemoveAll(m.fs, "data/"+gone.ULID.String()))
	db, err = tsdb.Open("data", opts)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	q, err := db.Querier(0, 200)
	require.NoError(t, err)
	defer func() { require.NoError(t, q.Close()) }()
	for _, c := range []struct {
		mint, maxt int64
		warns      bool
	}{{0, 0, true}, {0, 99, true}, {99, 150, true}, {100, 150, false}, {-9, -1, false}} {
		set := q.Select(context.Background(), &tsdb.SelectHints{MinT: c.mint, MaxT: c.maxt})
		for set.Next() {
		}
		require.NoError(t, set.Err())
		require.Equal(t, c.warns, len(set.Warnings()) == 1, "[%d, %d]: %v", c.mint, c.maxt, set.Warnings())
	}
}

// Series whose samples are all deleted are in no list, in the head and in a block; the others stay.
func TestQuerier_SeriesWhoseSamplesAreDeleted_AreNotListed(t *testing.T) {
	f := newFixture(t, nil)
	for i := range int64(10) {
		f.commit(sample{`{__name__="m", code="200"}`, 1000 + i, 1}, sample{`{__name__="m", code="500", own="x"}`, 1000 + i, 1})
	}
	codes := func(mint, maxt int64) []string {
		q, err := f.db.Querier(mint, maxt)
		require.NoError(t, err)
		defer func() { require.NoError(t, q.Close()) }()
		var list []string
		for _, transient := range []bool{false, true} {
			list = nil
			for s, err := range q.Select(ctx, &tsdb.SelectHints{Transient: transient}, labels.Equal("__name__", "m")).All() {
				require.NoError(t, err)
				list = append(list, s.Labels().Get("code"))
			}
		}
		values, _, err := q.LabelValues(ctx, "code", nil)
		require.NoError(t, err)
		require.Equal(t, list, values)
		names, _, err := q.LabelNames(ctx, nil)
		require.NoError(t, err)
		require.Equal(t, slices.Contains(list, "500"), slices.Contains(names, "own"))
		return list
	}
	require.Equal(t, []string{"200", "500"}, codes(0, 5000))
	require.NoError(t, f.db.Delete(ctx, math.MinInt64, math.MaxInt64, labels.Equal("code", "500")))
	require.Equal(t, []string{"200"}, codes(0, 5000))
	require.Empty(t, codes(0, 999))
	f.commit(sample{`{__name__="m", code="500", own="x"}`, 1020, 1})
	require.Equal(t, []string{"200", "500"}, codes(0, 5000))
	require.Equal(t, []string{"200"}, codes(0, 1019))
	require.Equal(t, []string{"500"}, codes(1010, 1020))
	require.NoError(t, f.db.Flush(ctx))
	require.Equal(t, []string{"200"}, codes(0, 1019))
	require.NoError(t, f.db.Delete(ctx, 1000, 1009, labels.Equal("code", "200")))
	require.Equal(t, []string{"500"}, codes(0, 5000))
	require.NoError(t, f.db.CleanTombstones(ctx))
	require.Equal(t, []string{"500"}, codes(0, 5000))
}

// A snapshot lists what it sees: neither a series whose first sample is newer, nor one that has
// newer samples only in the range.
func TestQuerier_SeriesWithNewerSamplesOnly_AreNotListed(t *testing.T) {
	f := newFixture(t, nil)
	f.commit(sample{`{a="old"}`, 1000, 1})
	before, err := f.db.Querier(1500, 5000)
	require.NoError(t, err)
	defer func() { require.NoError(t, before.Close()) }()
	f.commit(sample{`{a="old"}`, 2000, 1}, sample{`{a="new"}`, 2000, 1})
	f.commit(sample{`{a="old"}`, 6000, 1}, sample{`{a="new"}`, 6000, 1})
	require.Empty(t, list(t, before, nil).series)
	require.Empty(t, list(t, before, nil).names)
	gap, err := f.db.Querier(2001, 5999)
	require.NoError(t, err)
	defer func() { require.NoError(t, gap.Close()) }()
	require.Equal(t, listed{series: []string{}, chunks: []string{}, names: []string{}, values: map[string][]string{}}, list(t, gap, nil))
	after, err := f.db.Querier(1500, 5000)
	require.NoError(t, err)
	defer func() { require.NoError(t, after.Close()) }()
	require.Equal(t, []string{`{a="new"}`, `{a="old"}`}, list(t, after, nil).series)
}

// What may be in a chunk that cannot be read is not left out: the series is listed, and its
// iterator says what is wrong.
func TestQuerier_ChunkThatCannotBeRead_IsListedAndItsIteratorFails(t *testing.T) {
	m := newMergeTest(t)
	cut := ramp(0, 100, 1)
	cut.Data = cut.Data[:10]
	m.block(0, 1000, only(t, `{a="1"}`, cut), only(t, `{a="2"}`, floats(0, 0, 99, 99)), only(t, `{a="3"}`, floats(0, 0, 50, 50, 99, 99)))
	db, err := tsdb.Open("data", &tsdb.Options{FS: m.fs, Clock: m.clock, Blocks: tsdb.BlockOptions{Manual: true}})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	q, err := db.Querier(50, 60)
	require.NoError(t, err)
	defer func() { require.NoError(t, q.Close()) }()
	require.Equal(t, []string{`{a="1"}`, `{a="3"}`}, list(t, q, nil).series)
	values, _, err := q.LabelValues(ctx, "a", nil)
	require.NoError(t, err)
	require.Equal(t, []string{"1", "3"}, values)
	for _, transient := range []bool{false, true} {
		set := q.Select(ctx, &tsdb.SelectHints{Transient: transient})
		require.True(t, set.Next())
		it := set.At().Iterator(nil)
		require.Equal(t, chunkenc.ValNone, it.Next())
		require.ErrorIs(t, it.Err(), tsdb.ErrCorrupt)
	}
}
