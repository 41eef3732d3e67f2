package remote

import (
	"context"
	"math"
	"math/rand/v2"
	"net/http/httptest"
	"testing"

	"github.com/golang/snappy"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/histtest"
	"github.com/seed347100a3/tsdb/labels"
)

// madeAny makes samples of some kinds, at times that rise.
func madeAny(seed uint64, n int, kinds ...chunkenc.ValueType) (all []anySample) {
	r := rand.New(rand.NewPCG(seed, 3))
	w := anyWriter{pick: r.Int64N, kinds: kinds}
	at := int64(1000)
	for range n {
		made := w.next(at)
		s := anySample{t: at, kind: w.kind, v: made.V}
		if w.kind != floats {
			s.v = math.NaN()
		}
		if made.H != nil {
			s.h = *made.H
			made.H.ToFloat(&s.fh)
		} else if made.FH != nil {
			s.fh = *made.FH
		}
		all = append(all, s)
		at += 1 + r.Int64N(5)
	}
	return all
}

// fieldOf is the sample as a field of its series.
func (s *anySample) field() []byte {
	switch s.kind {
	case ints:
		return field(4, messageOf(s.t, &s.h))
	case counts:
		return field(4, messageOfFloats(s.t, &s.fh))
	default:
		return appendSample(nil, s.t, math.Float64bits(s.v))
	}
}

// answered reads an answer in samples, of one series with these fields.
func answered(t testing.TB, fields []byte) *SeriesSet {
	t.Helper()
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", samplesContentType)
	name := appendLabels(nil, []labels.Label{{Name: "a", Value: "b"}})
	message := field(1, field(1, name, fields), field(1, name, appendSample(nil, 1, 1)))
	return clientOf(t, answers(w, snappy.Encode(nil, message)), nil).
		Select(context.Background(), 0, math.MaxInt64, nil, everyMatcher())
}

// Other servers have all floats of a series in front of its histograms. What is given is in the
// order of times.
func TestSelect_FloatsInFrontOfHistogramsAreMerged(t *testing.T) {
	for seed := range uint64(10) {
		want := madeAny(seed, 50*int(seed), floats, ints, counts)
		var front, behind, between []byte
		for _, s := range want {
			if s.kind == floats {
				front = append(front, s.field()...)
			} else {
				behind = append(behind, s.field()...)
			}
			between = append(between, s.field()...)
		}
		for _, fields := range [][]byte{append(front, behind...), between} {
			got := collectAny(t, answered(t, fields))
			require.Len(t, got, 2)
			requireSameAll(t, want, got[0].samples, "")
			require.Len(t, got[1].samples, 1)
		}
	}
}

// At one time a series has one sample: the float.
func TestSelect_AHistogramAtTheTimeOfAFloatIsDropped(t *testing.T) {
	s := anySample{t: 5, kind: floats, v: 1}
	h := anySample{t: 5, kind: ints}
	got := collectAny(t, answered(t, append(s.field(), h.field()...)))
	require.Len(t, got[0].samples, 1)
	require.Equal(t, floats, got[0].samples[0].kind)
}

// A series that has as many floats as are held, and older histograms behind them, has an error. The
// next one is read.
func TestSelect_TooManyFloatsInFrontOfHistogramsAreAnErrorOfTheSeries(t *testing.T) {
	h := anySample{t: 5, kind: ints}
	for n, wrong := range map[int]bool{heldSamples - 1: false, heldSamples: true} {
		var fields []byte
		for i := range n {
			fields = appendSample(fields, int64(10+i), 1)
		}
		set := answered(t, append(fields, h.field()...))
		require.True(t, set.Next())
		it := set.At().Iterator(nil)
		got := readAny(it)
		if wrong {
			require.ErrorIs(t, it.Err(), tsdb.ErrUnsupported)
			require.ErrorContains(t, it.Err(), "streamed chunks")
		} else {
			require.NoError(t, it.Err())
			require.Len(t, got, n+1)
			require.EqualValues(t, 5, got[0].t)
		}
		require.True(t, set.Next())
		require.Len(t, readAny(set.At().Iterator(it)), 1)
		require.False(t, set.Next())
		require.NoError(t, set.Err())
	}
}

// chunksOf encodes samples, in chunks of up to n.
func chunksOf(t testing.TB, n int, samples []anySample) (all []tsdb.ChunkMeta) {
	t.Helper()
	var enc chunkenc.Encoder
	var mint int64
	end := func(maxt int64) {
		c, err := chunkenc.FromData(enc.Encoding(), enc.AppendTo(nil))
		require.NoError(t, err)
		all = append(all, tsdb.ChunkMeta{MinT: mint, MaxT: maxt, Chunk: c})
		enc.Reset()
	}
	add := func(s *anySample) error {
		switch s.kind {
		case ints:
			return enc.AppendHistogram(s.t, &s.h, s.st)
		case counts:
			return enc.AppendFloatHistogram(s.t, &s.fh, s.st)
		default:
			return enc.Append(s.t, s.v, s.st)
		}
	}
	for i := range samples {
		if enc.Len() == n {
			end(samples[i-1].t)
		}
		if enc.Len() > 0 && add(&samples[i]) == nil {
			continue
		}
		if enc.Len() > 0 {
			end(samples[i-1].t)
		}
		mint = samples[i].t
		require.NoError(t, add(&samples[i]))
	}
	end(samples[len(samples)-1].t)
	return all
}

// streamed reads an answer in frames, of one series with these chunks.
func streamed(t testing.TB, chunks []tsdb.ChunkMeta) *SeriesSet {
	t.Helper()
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", chunksContentType)
	var body []byte
	for _, c := range chunks {
		name := appendLabels(nil, []labels.Label{{Name: "a", Value: "b"}})
		body = append(body, framed(field(1, name, field(2, appendInt(nil, 1, c.MinT), appendInt(nil, 2, c.MaxT),
			appendInt(nil, 3, int64(c.Chunk.Encoding())), field(4, c.Chunk.Bytes()))))...)
	}
	return clientOf(t, answers(w, body), nil).Select(context.Background(), 0, math.MaxInt64, nil, everyMatcher())
}

// Chunks of histograms that overlap are merged. A hint that is true in a chunk says nothing of a
// sample between.
func TestSelect_ChunksOfHistogramsThatOverlapAreMerged(t *testing.T) {
	for seed := range uint64(10) {
		kinds := kindsOfSeries[1+seed%5]
		a, b := madeAny(seed, 300, kinds...), madeAny(seed+100, 300, kinds...)
		chunks := append(chunksOf(t, 40, a), chunksOf(t, 30, b)...)
		byStart(chunks)
		got := collectAny(t, streamed(t, chunks))
		require.Len(t, got, 1)
		at := map[int64][]anySample{}
		for _, s := range append(a, b...) {
			at[s.t] = append(at[s.t], s)
		}
		require.Len(t, got[0].samples, len(at))
		for i, s := range got[0].samples {
			if s.fh.Hint == histogram.HintNotReset {
				before := got[0].samples[i-1]
				require.Equal(t, s.kind, before.kind)
				require.False(t, resetBetween(&before.fh, &s.fh), "at %d", s.t)
				require.Equal(t, s.fh.Schema, before.fh.Schema)
			}
			same := false
			for _, w := range at[s.t] {
				same = same || w.kind == s.kind && math.Float64bits(w.v) == math.Float64bits(s.v) && w.fh.EqualByIndex(&s.fh)
			}
			require.True(t, same, "at %d", s.t)
		}
	}
}

func byStart(chunks []tsdb.ChunkMeta) {
	for i := range chunks {
		for k := i; k > 0 && chunks[k].MinT < chunks[k-1].MinT; k-- {
			chunks[k], chunks[k-1] = chunks[k-1], chunks[k]
		}
	}
}

// What a chunk has memory for when it is decoded is bounded, for all that are open at one time.
func TestSelect_OverlappingChunksWithTooManyBucketsAreRefused(t *testing.T) {
	h := histogram.Histogram{PositiveSpans: []histogram.Span{{Length: histogram.MaxBuckets / 8}}, PositiveBuckets: make([]int64, histogram.MaxBuckets/8)}
	var chunks []tsdb.ChunkMeta
	for i := range int64(40) {
		c := chunksOf(t, 1, []anySample{{t: i, kind: ints, h: h}})[0]
		require.GreaterOrEqual(t, 8*len(c.Chunk.Bytes()), histogram.MaxBuckets/8)
		c.MaxT = 1000
		chunks = append(chunks, c)
	}
	// They do not overlap, but for what is said of their ends, which nobody trusts.
	require.Len(t, collectAny(t, streamed(t, chunks[:5]))[0].samples, 5)
	long := chunksOf(t, 2, []anySample{{t: 0, kind: ints, h: h}, {t: 100, kind: ints, h: h}})
	for i := int64(1); i < 40; i++ {
		long = append(long, chunksOf(t, 2, []anySample{{t: i, kind: ints, h: h}, {t: 100 + i, kind: ints, h: h}})...)
	}
	_, err := readAll(streamed(t, long))
	require.ErrorIs(t, err, tsdb.ErrLimit)
	require.ErrorContains(t, err, "buckets")
}

// requireMoves moves an iterator at random, which gives samples by the rules of chunkenc.Iterator.
func requireMoves(t *testing.T, r *rand.Rand, want []anySample, it chunkenc.Iterator) {
	t.Helper()
	at := -1 // the sample that it stands on
	stands := func(kind chunkenc.ValueType) {
		t.Helper()
		if at >= len(want) {
			require.Equal(t, chunkenc.ValNone, kind)
			return
		}
		require.Equal(t, want[at].kind, kind)
		requireSame(t, want[at], sampleAt(it, kind), "")
	}
	for step := 0; at < len(want) || step < 20; step++ {
		switch r.IntN(4) {
		case 0, 1:
			at = min(at+1, len(want))
			stands(it.Next())
		case 2:
			to := max(at, 0) + r.IntN(9) - 1
			if r.IntN(20) > 0 {
				to = min(to, len(want)-1)
			}
			seek := int64(math.MaxInt64)
			if to >= 0 && to < len(want) {
				seek = want[to].t - r.Int64N(2)
			}
			at = max(at, 0)
			for at < len(want) && want[at].t < seek {
				at++
			}
			stands(it.Seek(seek))
		case 3:
			b := chunkenc.NewBatch(1 + r.IntN(20))
			kind := it.NextBatch(b)
			switch next := min(at+1, len(want)); {
			case next == len(want):
				at = next
				require.Equal(t, chunkenc.ValNone, kind)
			case want[next].kind != floats:
				require.Equal(t, want[next].kind, kind)
				require.Equal(t, want[next].kind, it.NextBatch(b), "it stays there")
				require.Zero(t, b.Len())
				at = next
				stands(it.Next())
			default:
				require.Equal(t, floats, kind)
				require.Positive(t, b.Len())
				for i := range b.T {
					require.Equal(t, want[next+i].t, b.T[i])
					require.Equal(t, want[next+i].v, b.V[i])
				}
				at = next + b.Len() - 1
				stands(floats)
			}
		}
	}
	require.NoError(t, it.Err())
}

// The iterators of both forms, and that of namesakes, keep the rules for every kind.
func TestIterators_KeepTheRulesForEveryKind(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	for seed := range uint64(40) {
		want := madeAny(seed, 200, kindsOfSeries[seed%6]...)
		var fields []byte
		for i := range want {
			fields = append(fields, want[i].field()...)
		}
		set := answered(t, fields)
		require.True(t, set.Next())
		given := clone(want)
		requireMoves(t, r, given, set.At().Iterator(nil))
		require.NoError(t, set.Close())

		chunks := chunksOf(t, 37, want)
		set = streamed(t, chunks)
		require.True(t, set.Next())
		given = forgetHints(given)
		requireMoves(t, r, given, &hintless{set.At().Iterator(nil)})
		require.NoError(t, set.Close())

		var parts [2][]anySample
		for i := range want {
			parts[i%2] = append(parts[i%2], want[i])
		}
		requireMoves(t, r, given, &hintless{newUnion(chunked(t, parts[0]), chunked(t, parts[1]))})
	}
}

// clone copies samples.
func clone(all []anySample) []anySample { return append([]anySample(nil), all...) }

// forgetHints is samples without hints, which chunks have of their own.
func forgetHints(all []anySample) []anySample {
	all = clone(all)
	for i := range all {
		all[i].h.Hint, all[i].fh.Hint = 0, 0
	}
	return all
}

// hintless is an iterator without hints.
type hintless struct{ chunkenc.Iterator }

func (h *hintless) AtHistogram(dst *histogram.Histogram) int64 {
	t := h.Iterator.AtHistogram(dst)
	dst.Hint = histogram.HintUnknown
	return t
}

func (h *hintless) AtFloatHistogram(dst *histogram.FloatHistogram) int64 {
	t := h.Iterator.AtFloatHistogram(dst)
	dst.Hint = histogram.HintUnknown
	return t
}

// chunked is an iterator over the chunks of a series.
func chunked(t testing.TB, samples []anySample) chunkenc.Iterator {
	t.Helper()
	set := streamed(t, chunksOf(t, 20, samples))
	t.Cleanup(func() { require.NoError(t, set.Close()) })
	require.True(t, set.Next())
	return set.At().Iterator(nil)
}

// What stood on a histogram when its set went on has none any more.
func TestSeries_AnIteratorBehindItsSetHasNoHistogram(t *testing.T) {
	s := anySample{t: 7, kind: ints, h: *histtest.Draw(rand.New(rand.NewPCG(1, 1)).Int64N)}
	for name, set := range map[string]*SeriesSet{
		"samples":  answered(t, s.field()),
		"streamed": streamed(t, chunksOf(t, 9, []anySample{s})),
	} {
		require.True(t, set.Next(), name)
		it := set.At().Iterator(nil)
		require.Equal(t, ints, it.Next(), name)
		got := sampleAt(it, ints)
		require.True(t, s.h.EqualByIndex(&got.h), name)
		for set.Next() {
		}
		require.NoError(t, set.Err(), name)
		got = sampleAt(it, ints)
		require.True(t, got.h.Equal(&histogram.Histogram{}), name)
		require.True(t, got.fh.Equal(&histogram.FloatHistogram{}), name)
	}
}
