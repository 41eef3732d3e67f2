package tsdb_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
)

// Fence posts: the sample that is exactly where a chunk, a range or a block begins or ends.

// bordered fills a database with series of different lengths, ten milliseconds a step, so that
// there are chunks of one sample, series of one chunk, and series of several.
func bordered(f *fixture, from, to int) {
	f.t.Helper()
	for i := from; i < to; i++ {
		var rows []sample
		for _, n := range []int{1, 2, 16, 17, 40} {
			if i < n {
				rows = append(rows, sample{fmt.Sprintf(`{n="%02d"}`, n), testNow.UnixMilli() + int64(10*i), float64(i)})
			}
		}
		if len(rows) > 0 {
			f.commit(rows...)
		}
	}
}

// chunkBorders returns the first and last times of all chunks and their neighbours.
func chunkBorders(t *testing.T, db *tsdb.DB) []int64 {
	t.Helper()
	q, err := db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	defer func() { require.NoError(t, q.Close()) }()
	near := map[int64]bool{}
	for s, err := range q.SelectChunks(ctx, nil).All() {
		require.NoError(t, err)
		it := s.Chunks(nil)
		for it.Next() {
			for _, border := range []int64{it.At().MinT, it.At().MaxT} {
				near[border-1], near[border], near[border+1] = true, true, true
			}
		}
		require.NoError(t, it.Err())
	}
	return slices.Sorted(maps.Keys(near))
}

// within returns what of samples is in a closed range.
func within(all map[string][]point, mint, maxt int64) map[string][]point {
	some := map[string][]point{}
	for name, ps := range all {
		for _, p := range ps {
			if mint <= p.T && p.T <= maxt {
				some[name] = append(some[name], p)
			}
		}
	}
	return some
}

func TestQuerier_SampleAtTheFirstAndLastInstantOfTheRange(t *testing.T) {
	places := map[string]func(f *fixture){
		"head":               func(f *fixture) { bordered(f, 0, 40) },
		"head with files":    func(f *fixture) { bordered(f, 0, 40); require.NoError(t, tsdb.WriteHeadChunks(f.db)) },
		"head reopened":      func(f *fixture) { bordered(f, 0, 40); f.reopen() },
		"block":              func(f *fixture) { bordered(f, 0, 40); require.NoError(t, f.db.Flush(ctx)) },
		"block and head":     func(f *fixture) { bordered(f, 0, 16); require.NoError(t, f.db.Flush(ctx)); bordered(f, 16, 40) },
		"block and head, 17": func(f *fixture) { bordered(f, 0, 17); require.NoError(t, f.db.Flush(ctx)); bordered(f, 17, 40) },
		"blocks": func(f *fixture) {
			for i := range 4 {
				bordered(f, 10*i, 10*i+10)
				require.NoError(t, f.db.Flush(ctx))
			}
		},
	}
	for name, fill := range places {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, func(o *tsdb.Options) { manual(o); o.Head.SamplesPerChunk = 16 })
			fill(f)
			all := f.all()
			require.Len(t, all, 5)
			require.Len(t, all[series(t, `{n="40"}`).String()], 40)
			borders := chunkBorders(t, f.db)
			for _, mint := range borders {
				for _, maxt := range borders {
					if mint <= maxt {
						requireRange(t, f.db, within(all, mint, maxt), mint, maxt)
					}
				}
			}
		})
	}
}

// requireRange asks for a closed range in each way that there is.
func requireRange(t *testing.T, db *tsdb.DB, want map[string][]point, mint, maxt int64) {
	t.Helper()
	where := fmt.Sprintf("[%d, %d]", mint-testNow.UnixMilli(), maxt-testNow.UnixMilli())
	q, err := db.Querier(mint, maxt)
	require.NoError(t, err)
	defer func() { require.NoError(t, q.Close()) }()
	require.Equal(t, want, dumpQuerier(t, q), where)
	require.Equal(t, want, dumpChunks(t, q), where)
	values, _, err := q.LabelValues(ctx, "n", nil)
	require.NoError(t, err)
	var names []string
	for _, n := range []string{"01", "02", "16", "17", "40"} {
		if len(want[series(t, fmt.Sprintf(`{n="%s"}`, n)).String()]) > 0 {
			names = append(names, n)
		}
	}
	require.ElementsMatch(t, names, values, where)

	// The same range by seeking in a larger one.
	whole, err := db.Querier(math.MinInt64, maxt)
	require.NoError(t, err)
	defer func() { require.NoError(t, whole.Close()) }()
	for s, err := range whole.Select(ctx, nil).All() {
		require.NoError(t, err)
		var got []point
		it := s.Iterator(nil)
		for typ := it.Seek(mint); typ != chunkenc.ValNone; typ = it.Next() {
			ts, v := it.At()
			got = append(got, point{ts, math.Float64bits(v)})
		}
		require.NoError(t, it.Err())
		require.Equal(t, want[s.Labels().String()], got, "%s by seeking", where)
	}
}

// A block has what is in its half-open range: of the samples just before, at and just behind
// the end of a block range each is in one block, the one it belongs to.
func TestFlush_SamplesAtTheEndOfABlockRangeAreInTheBlockTheyBelongTo(t *testing.T) {
	base := testNow.UnixMilli() / (2 * hour) * (2 * hour)
	end := base + 2*hour
	for variant := range 4 {
		reopened, far := variant&1 == 1, variant&2 == 2
		for set := 1; set < 8; set++ { // which of the three there are
			f := newFixture(t, func(o *tsdb.Options) { manual(o); o.Limits.MaxFuture = -1 })
			rows := []sample{{`{i="0"}`, base, 1}}
			counts := []uint64{1, 0, 0}
			for k := range 3 {
				if ts := end - 1 + int64(k); set>>k&1 == 1 {
					rows = append(rows, sample{`{i="0"}`, ts, float64(k)}, sample{fmt.Sprintf(`{i="%d"}`, k+1), ts, 2})
					counts[min(k, 1)] += 2
				}
			}
			if far { // so that the chunks that end around the border are full ones
				for _, name := range []string{`{i="0"}`, `{i="1"}`, `{i="2"}`, `{i="3"}`} {
					rows = append(rows, sample{name, end + 3*hour, 3})
					counts[2]++
				}
			}
			f.commit(rows...)
			if reopened {
				f.reopen()
			}
			want := f.all()
			require.NoError(t, f.db.Flush(ctx))
			require.Equal(t, want, f.all(), "set %d", set)
			var got []uint64
			for _, m := range f.db.Blocks() {
				got = append(got, m.Stats.NumSamples)
				if m.MinTime < end {
					require.LessOrEqual(t, m.MaxTime, end, "set %d", set)
				}
			}
			counts = slices.DeleteFunc(counts, func(n uint64) bool { return n == 0 })
			require.Equal(t, counts, got, "set %d: samples of each block", set)
			f.reopen()
			require.Equal(t, want, f.all(), "set %d", set)
		}
	}
}

// A flush that comes by itself takes what is before the border, and leaves what is at it.
func TestFlush_BecomesDueBehindOneAndAHalfRanges(t *testing.T) {
	base := testNow.UnixMilli() / (2 * hour) * (2 * hour)
	f := newFixture(t, func(o *tsdb.Options) { o.Limits.MaxFuture = -1 })
	f.commit(sample{`{i="0"}`, base, 1}, sample{`{i="0"}`, base + 2*hour - 1, 2}, sample{`{i="1"}`, base + 2*hour, 3}, sample{`{i="0"}`, base + 3*hour, 4})
	f.clock.Advance(time.Second)
	f.clock.Advance(time.Second)
	require.Empty(t, f.db.Blocks(), "exactly one and a half")
	f.commit(sample{`{i="0"}`, base + 3*hour + 1, 5})
	want := f.all()
	f.clock.Advance(time.Second)
	f.clock.Advance(time.Second)
	metas := f.db.Blocks()
	require.Len(t, metas, 1)
	require.Equal(t, []int64{base, base + 2*hour, 2}, []int64{metas[0].MinTime, metas[0].MaxTime, int64(metas[0].Stats.NumSamples)})
	require.Equal(t, want, f.all())
}

// A delete takes the samples at both ends of its closed range, in the head, in a block, and where
// one ends and the other begins; the second of several deletes as well as the first.
func TestDelete_TakesTheSamplesAtBothEnds(t *testing.T) {
	var rows []sample
	for at := int64(1); at <= 60; at++ {
		rows = append(rows, sample{`{a="b"}`, at, float64(at)})
	}
	for name, inBlock := range map[string]int{"head": 0, "block": 60, "both": 30, "ends at the border": 20, "begins at the border": 39} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, manual)
			if inBlock > 0 {
				f.commit(rows[:inBlock]...)
				require.NoError(t, f.db.Flush(ctx))
			}
			if inBlock < len(rows) {
				f.commit(rows[inBlock:]...)
			}
			want := f.all()[`{a="b"}`]
			for _, d := range [][2]int64{{10, 21}, {40, 50}, {55, 55}, {30, 31}} {
				require.NoError(t, f.db.Delete(ctx, d[0], d[1]))
				want = slices.DeleteFunc(slices.Clone(want), func(p point) bool { return d[0] <= p.T && p.T <= d[1] })
				require.Equal(t, want, f.all()[`{a="b"}`], "%v", d)
			}
			f.reopen()
			require.Equal(t, want, f.all()[`{a="b"}`])
			require.NoError(t, f.db.Flush(ctx))
			require.NoError(t, f.db.CleanTombstones(ctx))
			require.Equal(t, want, f.all()[`{a="b"}`])
		})
	}
}
