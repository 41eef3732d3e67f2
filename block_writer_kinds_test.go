package tsdb_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/blocktest"
	"github.com/seed347100a3/tsdb/internal/histtest"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// keyedSample is a sample of a series.
type keyedSample struct {
	series int
	anySample
}

// drawKinds makes samples of every kind of some series, in the order of time.
func drawKinds(t testing.TB, r *rand.Rand, series int) (all []keyedSample, want map[string][]anySample) {
	want = map[string][]anySample{}
	for i := range series {
		next := r.Int64N(1000) * minute
		for range 1 + r.IntN(8) {
			samples, _ := drawAny(t, r, next)
			next = samples[len(samples)-1].T + 1 + r.Int64N(2)*r.Int64N(10*hour)
			for _, s := range samples {
				all = append(all, keyedSample{i, s})
				want[fmt.Sprintf(`{i="%d"}`, i)] = append(want[fmt.Sprintf(`{i="%d"}`, i)], s)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b keyedSample) int { return int(a.T - b.T) })
	return all, want
}

// Samples of every kind, in any order, with repeats, in one flush or in several that overlap, are
// in blocks that a database reads, merges and finds whole.
func TestBlockWriter_SamplesOfEveryKindInAnyOrder(t *testing.T) {
	spilled := int64(0)
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 77))
		all, want := drawKinds(t, r, 30)
		switch seed % 4 {
		case 1:
			r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		case 2:
			slices.Reverse(all)
		case 3: // late ones now and then
			for range len(all) / 10 {
				i := r.IntN(len(all) - 1)
				all[i], all[i+1] = all[i+1], all[i]
			}
		}
		fs := tsdbtest.NewMemFS()
		w, err := tsdb.NewBlockWriter(fixtureDir, &tsdb.BlockWriterOptions{
			FS: fs, Clock: tsdbtest.NewClock(testNow), MemoryBytes: 1 << 20, OnDuplicate: tsdb.DuplicatesFirst,
			Progress: func(p tsdb.BlockWriterProgress) { spilled += p.SpilledBytes; require.Zero(t, p.Duplicates) },
		})
		require.NoError(t, err)
		refs := make([]tsdb.SeriesRef, 30)
		for n, s := range all {
			for range 1 + r.IntN(20)/19 {
				refs[s.series], err = w.AppendSample(refs[s.series], labels.FromStrings("i", fmt.Sprint(s.series)), s.sample())
				require.NoError(t, err)
			}
			if n == len(all)/3 && seed > 5 {
				_, err := w.Flush(ctx)
				require.NoError(t, err)
			}
		}
		_, err = w.Flush(ctx)
		require.NoError(t, err)
		require.NoError(t, w.Close())
		require.True(t, verify(t, fs).Clean())
		o := &tsdb.Options{FS: fs, Clock: tsdbtest.NewClock(testNow)}
		manual(o)
		db, err := tsdb.Open(fixtureDir, o)
		require.NoError(t, err)
		requireAny(t, db, want, math.MinInt64, math.MaxInt64)
		require.NoError(t, db.Compact(ctx))
		requireAny(t, db, want, math.MinInt64, math.MaxInt64)
		require.NoError(t, db.Close())
	}
	require.Positive(t, spilled, "all samples had room in memory")
}

// What an Appender refuses of a histogram a BlockWriter refuses as well, and the others stay.
func TestBlockWriter_RefusesWhatIsNoHistogram(t *testing.T) {
	fs := tsdbtest.NewMemFS()
	w, err := tsdb.NewBlockWriter(fixtureDir, &tsdb.BlockWriterOptions{FS: fs, Clock: tsdbtest.NewClock(testNow)})
	require.NoError(t, err)
	ls := labels.FromStrings("a", "b")
	h := bucketed(1, 2)
	ref, err := w.AppendSample(0, ls, tsdb.Sample{T: 1, H: h})
	require.NoError(t, err)
	h.PositiveBuckets[0] = 9 // it was copied
	for _, c := range []struct {
		s    tsdb.Sample
		want error
	}{
		{tsdb.Sample{T: 2, H: &histogram.Histogram{Count: 1}}, histogram.ErrCountMismatch},
		{tsdb.Sample{T: 2, FH: &histogram.FloatHistogram{Count: -1}}, histogram.ErrNegativeCount},
		{tsdb.Sample{T: math.MaxInt64, H: bucketed(1)}, tsdb.ErrOutOfBounds},
		{tsdb.Sample{T: 1, H: bucketed(2, 2)}, tsdb.ErrDuplicateSample},
		{tsdb.Sample{T: 1, V: 3}, tsdb.ErrDuplicateSample},
	} {
		_, err := w.AppendSample(ref, labels.Labels{}, c.s)
		require.ErrorIs(t, err, c.want)
	}
	_, err = w.AppendSample(ref, ls, tsdb.Sample{T: 2, H: bucketed(1), FH: bucketed(1).ToFloat(nil)})
	require.ErrorIs(t, err, tsdb.ErrInvalidArgument)
	require.ErrorContains(t, err, "two histograms")
	_, err = w.AppendSample(ref, ls, tsdb.Sample{T: 1, H: bucketed(1, 2)})
	require.NoError(t, err, "an exact repeat")
	_, err = w.AppendRef(ref, ls, 3, tsdb.StaleMarker())
	require.NoError(t, err)
	metas, err := w.Flush(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 2, metas[0].Stats.NumSamples)
	require.EqualValues(t, 2, metas[0].Stats.NumHistogramSamples)
	require.NoError(t, w.Close())
	marker := bucketed()
	marker.SetStale()
	db := openWorld(t, fs)
	requireAny(t, db, map[string][]anySample{`{a="b"}`: {{T: 1, H: bucketed(1, 2)}, {T: 3, H: marker}}}, math.MinInt64, math.MaxInt64)
	require.NoError(t, db.Close())

	w, err = tsdb.NewBlockWriter(fixtureDir, &tsdb.BlockWriterOptions{FS: fs, Limits: tsdb.Limits{NoHistograms: true}})
	require.NoError(t, err)
	_, err = w.AppendSample(0, ls, tsdb.Sample{T: 5, H: bucketed(1)})
	require.ErrorIs(t, err, tsdb.ErrHistogramsOff)
	_, err = w.AppendSample(0, ls, tsdb.Sample{T: 5, ST: 4, V: 1})
	require.NoError(t, err)
	require.NoError(t, w.Close())
}

// Between samples of one time is chosen whatever they are, and wherever it is found out: at once,
// when samples are sorted, or when runs are merged.
func TestBlockWriter_ChoosesBetweenSamplesOfEveryKind(t *testing.T) {
	one, other := bucketed(1, 2), bucketed(2, 3)
	kinds := []tsdb.Sample{{H: one}, {H: other}, {FH: one.ToFloat(nil)}, {V: 1}, {V: 2, ST: 5}}
	for _, policy := range []tsdb.DuplicatePolicy{tsdb.DuplicatesFirst, tsdb.DuplicatesLast} {
		for _, between := range []int64{0, 1, 20_000} { // samples in between
			fs := tsdbtest.NewMemFS()
			w, err := tsdb.NewBlockWriter(fixtureDir, &tsdb.BlockWriterOptions{
				FS: fs, Clock: tsdbtest.NewClock(testNow), MemoryBytes: 1 << 20, OnDuplicate: policy,
			})
			require.NoError(t, err)
			want := map[string][]anySample{}
			for i, first := range kinds {
				for j, later := range kinds {
					if i == j {
						continue
					}
					key := fmt.Sprintf(`{i="%d", j="%d"}`, i, j)
					first.T, later.T = 1000, 1000
					put := func(s tsdb.Sample) {
						_, err := w.AppendSample(0, series(t, key), s)
						require.NoError(t, err)
					}
					kept := first
					if policy == tsdb.DuplicatesLast {
						kept = later
					}
					put(first)
					want[key] = []anySample{{T: 1000, ST: kept.ST, V: math.Float64bits(kept.V), H: kept.H, FH: kept.FH}}
					for n := range between / 20 {
						put(tsdb.Sample{T: 2000 + n, H: histtest.Draw(rand.New(rand.NewPCG(uint64(n), 1)).Int64N)})
					}
					if between > 0 {
						put(tsdb.Sample{T: 9000, V: 3})
					}
					put(later)
				}
			}
			_, err = w.Flush(ctx)
			require.NoError(t, err)
			require.NoError(t, w.Close())
			db := openWorld(t, fs)
			requireAny(t, db, want, math.MinInt64, 1000)
			require.NoError(t, db.Close())
		}
	}
}

// Chunks of histograms are cut by their size, with ten samples at least, and where the layout or a
// reset wants it.
func TestBlockWriter_CutsChunksOfHistogramsAsTheHeadDoes(t *testing.T) {
	fs := tsdbtest.NewMemFS()
	w, err := tsdb.NewBlockWriter(fixtureDir, &tsdb.BlockWriterOptions{FS: fs, Clock: tsdbtest.NewClock(testNow)})
	require.NoError(t, err)
	r := rand.New(rand.NewPCG(5, 5))
	many, few := make([]int64, 400), make([]int64, 4)
	for i := range int64(300) {
		for _, counts := range [][]int64{many, few} {
			for j := range counts {
				counts[j] += r.Int64N(1000)
			}
			if i == 150 {
				clear(counts) // a reset
			}
			_, err := w.AppendSample(0, labels.FromStrings("buckets", fmt.Sprint(len(counts))), tsdb.Sample{T: i * 15_000, H: bucketed(counts...)})
			require.NoError(t, err)
		}
	}
	metas, err := w.Flush(ctx)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.Len(t, metas, 1)
	d, err := blockdir.Open(fs, blockdir.Path(fixtureDir, metas[0].ULID))
	require.NoError(t, err)
	chunks := blocktest.Chunks(t, d)
	for _, c := range chunks[`{buckets="400"}`] {
		require.Equal(t, 10, c.Num, "each sample is large")
	}
	small := chunks[`{buckets="4"}`]
	require.Greater(t, len(small), 3)
	for i, c := range small {
		require.Less(t, len(c.Data), 2100)
		require.True(t, c.Num > 20 || i == len(small)-1 || small[i+1].MinT == 150*15_000, "chunk %d has %d samples", i, c.Num)
	}
	require.True(t, slices.ContainsFunc(small, func(c blockdir.Chunk) bool { return c.MinT == 150*15_000 }), "the reset begins no chunk")
	require.NoError(t, d.Close())
}
