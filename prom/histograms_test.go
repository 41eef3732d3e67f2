package prom_test

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/tsdbutil"
	"github.com/stretchr/testify/require"

	ourchunkenc "github.com/seed347100a3/tsdb/chunkenc"
	ourhistogram "github.com/seed347100a3/tsdb/histogram"
	tsdblabels "github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/prom"
)

// mixed is a sample of any kind.
type mixed struct {
	t, st int64
	v     float64
	h     *histogram.Histogram
	fh    *histogram.FloatHistogram
}

func (s *mixed) kind() chunkenc.ValueType {
	switch {
	case s.h != nil:
		return chunkenc.ValHistogram
	case s.fh != nil:
		return chunkenc.ValFloatHistogram
	default:
		return chunkenc.ValFloat
	}
}

// requireSame compares what samples say.
func (s *mixed) requireSame(t testing.TB, got mixed) {
	t.Helper()
	require.Equal(t, [2]int64{s.t, s.st}, [2]int64{got.t, got.st})
	require.Equal(t, s.kind(), got.kind())
	switch {
	case s.h != nil:
		require.True(t, s.h.Equals(got.h), "want %v, got %v", s.h, got.h)
	case s.fh != nil:
		require.True(t, s.fh.Equals(got.fh), "want %v, got %v", s.fh, got.fh)
	default:
		require.Equal(t, math.Float64bits(s.v), math.Float64bits(got.v))
	}
}

// takenAs are kinds of histograms that a series of a test has, made of a number that grows.
var takenAs = map[string]func(n int) mixed{
	"floats": func(n int) mixed { return mixed{v: float64(n)} },
	"ints":   func(n int) mixed { return mixed{h: tsdbutil.GenerateTestHistogram(int64(n))} },
	"counts": func(n int) mixed { return mixed{fh: tsdbutil.GenerateTestFloatHistogram(int64(n))} },
	"gauges": func(n int) mixed { return mixed{h: tsdbutil.GenerateTestGaugeHistogram(int64(n))} },
	"custom": func(n int) mixed { return mixed{h: tsdbutil.GenerateTestCustomBucketsHistogram(int64(n))} },
	"bounds": func(n int) mixed {
		h := tsdbutil.GenerateTestCustomBucketsFloatHistogram(int64(n))
		h.CustomValues = slices.Clone(h.CustomValues)
		h.CustomValues[0] -= float64(n / 40) // now and then other bounds
		return mixed{fh: h}
	},
}

// drawMixed draws samples of a series: of one of the kinds for a while, then of another one, if
// there are several. Counters begin anew now and then, series end and go on.
func drawMixed(r *rand.Rand, started bool, kinds ...string) (all []mixed) {
	kind, n := kinds[0], 0
	for at := dayStart; at < dayStart+400*scrape; at += scrape {
		switch r.IntN(60) {
		case 0:
			n = 0
		case 1:
			at += 10 * scrape
		case 2, 3, 4, 5:
			kind = kinds[r.IntN(len(kinds))]
		}
		n += r.IntN(3)
		s := takenAs[kind](n)
		if r.IntN(50) == 0 {
			setStale(&s)
		}
		s.t = at
		if started && r.IntN(4) > 0 {
			s.st = at - 10
		}
		all = append(all, s)
	}
	return all
}

func setStale(s *mixed) {
	stale := math.Float64frombits(value.StaleNaN)
	switch s.kind() {
	case chunkenc.ValHistogram:
		s.h = &histogram.Histogram{Sum: stale}
	case chunkenc.ValFloatHistogram:
		s.fh = &histogram.FloatHistogram{Sum: stale}
	default:
		s.v = stale
	}
}

// mixedSeries are series of histograms, and of several kinds, by name.
func mixedSeries() map[string][]mixed {
	r := rand.New(rand.NewPCG(3, 14))
	all := map[string][]mixed{
		"all_kinds": drawMixed(r, false, "ints", "floats", "counts", "custom"),
		"started":   drawMixed(r, true, "ints", "floats", "counts"),
	}
	for kind := range takenAs {
		r := rand.New(rand.NewPCG(uint64(kind[0]), uint64(kind[1])))
		all[kind] = drawMixed(r, false, kind)
	}
	return all
}

// add appends samples of a series.
func add(t testing.TB, to storage.AppendableV2, name string, samples []mixed) {
	t.Helper()
	app := to.AppenderV2(context.Background())
	for _, s := range samples {
		ls := labels.FromStrings("__name__", name)
		_, err := app.Append(0, ls, s.st, s.t, s.v, s.h, s.fh, storage.AppendV2Options{})
		require.NoError(t, err)
	}
	require.NoError(t, app.Commit())
}

// addParts appends samples of series in three parts, by time, and does something behind the first
// one.
func addParts(t testing.TB, to storage.AppendableV2, all map[string][]mixed, first func()) {
	t.Helper()
	begin := int64(0)
	for i, end := range []int64{dayStart + 200*scrape, dayStart + 300*scrape, math.MaxInt64} {
		for name, samples := range all {
			add(t, to, name, slices.DeleteFunc(slices.Clone(samples), func(s mixed) bool {
				return s.t < begin || s.t >= end
			}))
		}
		if begin = end; i == 0 {
			first()
		}
	}
}

// mixedStorage has mixedSeries: some in a block, some in full chunks of the head, some in open
// ones.
func mixedStorage(t testing.TB) (*prom.Storage, map[string][]mixed) {
	s, all := openStorage(t), mixedSeries()
	addParts(t, s, all, func() { require.NoError(t, s.DB().Flush(context.Background())) })
	return s, all
}

// namedSeries selects one series by its name.
func namedSeries(t testing.TB, s storage.Queryable, name string) storage.Series {
	t.Helper()
	q, err := s.Querier(0, math.MaxInt64/2)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, q.Close()) })
	set := q.Select(context.Background(), true, nil, labels.MustNewMatcher(labels.MatchEqual, "__name__", name))
	require.True(t, set.Next())
	return set.At()
}

// at returns the sample that an iterator stands on; into is used again.
func at(it chunkenc.Iterator, kind chunkenc.ValueType, into *mixed) mixed {
	s := mixed{t: it.AtT(), st: it.AtST()}
	switch kind {
	case chunkenc.ValHistogram:
		s.t, into.h = it.AtHistogram(into.h)
		s.h = into.h
	case chunkenc.ValFloatHistogram:
		s.t, into.fh = it.AtFloatHistogram(into.fh)
		s.fh = into.fh
	default:
		s.t, s.v = it.At()
	}
	return s
}

// Every step and every jump meets the sample that was appended, of its kind.
func TestIterator_GivesSamplesOfEveryKind(t *testing.T) {
	s, all := mixedStorage(t)
	r := rand.New(rand.NewPCG(1, 1))
	var reuse chunkenc.Iterator
	for name, want := range all {
		for _, jumps := range []int{0, 2, 20} { // one of so many moves is one
			it := namedSeries(t, s, name).Iterator(reuse)
			reuse = it
			var into mixed
			next := 0
			for next < len(want) {
				var kind chunkenc.ValueType
				if jumps > 0 && r.IntN(jumps) == 0 {
					next = min(next+r.IntN(jumps+1), len(want)-1)
					kind = it.Seek(want[next].t - r.Int64N(2))
					require.Equal(t, kind, it.Seek(want[next].t), "it stays")
				} else {
					kind = it.Next()
				}
				require.Equal(t, want[next].kind(), kind, "%s: sample %d", name, next)
				want[next].requireSame(t, at(it, kind, &into))
				next++
			}
			require.Equal(t, chunkenc.ValNone, it.Next())
			require.Equal(t, chunkenc.ValNone, it.Seek(0))
			require.NoError(t, it.Err())
		}
	}
}

// A histogram of integers is read as one of floats, too, as the engine reads all of them.
func TestIterator_GivesIntegersAsFloats(t *testing.T) {
	s, all := mixedStorage(t)
	it := namedSeries(t, s, "ints").Iterator(nil)
	var reuse *histogram.FloatHistogram
	for _, want := range all["ints"] {
		require.Equal(t, chunkenc.ValHistogram, it.Next())
		var at int64
		at, reuse = it.AtFloatHistogram(reuse)
		require.Equal(t, want.t, at)
		require.True(t, want.h.ToFloat(nil).Equals(reuse))
	}
}

// Copies of a histogram share its bounds. So what is read into it later leaves them as they are.
func TestIterator_NeverWritesToBoundsThatItGave(t *testing.T) {
	s, all := mixedStorage(t)
	it := namedSeries(t, s, "bounds").Iterator(nil)
	var reuse *histogram.FloatHistogram
	copies := map[int]*histogram.FloatHistogram{}
	shared := 0
	for i := range all["bounds"] {
		require.Equal(t, chunkenc.ValFloatHistogram, it.Next())
		_, reuse = it.AtFloatHistogram(reuse)
		copies[i] = reuse.Copy()
		if i > 0 && len(reuse.CustomValues) > 0 && len(copies[i-1].CustomValues) > 0 &&
			&copies[i].CustomValues[0] == &copies[i-1].CustomValues[0] {
			shared++
		}
	}
	for i, want := range all["bounds"] {
		require.True(t, want.fh.Equals(copies[i]), "sample %d: want %v, got %v", i, want.fh, copies[i])
	}
	require.Greater(t, shared, 300, "bounds that stay the same are one slice")
}

// Hints are those of the database.
func TestIterator_GivesHintsAsTheyAre(t *testing.T) {
	s, all := mixedStorage(t)
	theirs := map[ourhistogram.ResetHint]histogram.CounterResetHint{
		ourhistogram.HintUnknown: histogram.UnknownCounterReset, ourhistogram.HintReset: histogram.CounterReset,
		ourhistogram.HintNotReset: histogram.NotCounterReset, ourhistogram.HintGauge: histogram.GaugeType,
	}
	q, err := s.DB().Querier(0, math.MaxInt64/2)
	require.NoError(t, err)
	defer func() { require.NoError(t, q.Close()) }()
	seen := map[histogram.CounterResetHint]bool{}
	for _, name := range []string{"ints", "gauges"} {
		it := namedSeries(t, s, name).Iterator(nil)
		set := q.Select(context.Background(), nil, tsdblabels.Equal("__name__", name))
		require.True(t, set.Next())
		below := set.At().Iterator(nil)
		for range all[name] {
			require.Equal(t, chunkenc.ValHistogram, it.Next())
			require.Equal(t, ourchunkenc.ValHistogram, below.Next())
			var want ourhistogram.Histogram
			below.AtHistogram(&want)
			_, got := it.AtHistogram(nil)
			require.Equal(t, theirs[want.Hint], got.CounterResetHint)
			seen[got.CounterResetHint] = true
		}
	}
	for _, hint := range []histogram.CounterResetHint{histogram.UnknownCounterReset, histogram.NotCounterReset, histogram.GaugeType} {
		require.True(t, seen[hint], "%v is among them", hint)
	}
}

// Chunks of each encoding are read by the reference's decoders.
func TestChunkQuerier_GivesChunksOfEveryEncoding(t *testing.T) {
	s, all := mixedStorage(t)
	q, err := s.ChunkQuerier(0, math.MaxInt64/2)
	require.NoError(t, err)
	defer func() { require.NoError(t, q.Close()) }()
	set := q.Select(context.Background(), true, nil, labels.MustNewMatcher(labels.MatchRegexp, "__name__", ".+"))
	encodings, series := map[chunkenc.Encoding]bool{}, 0
	for set.Next() {
		series++
		want := all[set.At().Labels().Get("__name__")]
		metas, err := storage.ExpandChunks(set.At().Iterator(nil))
		require.NoError(t, err)
		for _, m := range metas {
			encodings[m.Chunk.Encoding()] = true
			require.Equal(t, want[0].t, m.MinTime)
			it := m.Chunk.Iterator(nil)
			for kind := it.Next(); kind != chunkenc.ValNone; kind = it.Next() {
				want[0].requireSame(t, at(it, kind, &mixed{}))
				if want = want[1:]; len(want) == 0 {
					break
				}
			}
			require.NoError(t, it.Err())
		}
		require.Empty(t, want)
	}
	require.NoError(t, set.Err())
	require.Len(t, all, series)
	for e := chunkenc.EncXOR; e <= chunkenc.EncFloatHistogramST; e++ {
		require.True(t, encodings[e], "there is a chunk of %v", e)
	}
}
