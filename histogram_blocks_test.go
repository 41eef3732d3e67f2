package tsdb_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/histtest"
	"github.com/seed347100a3/tsdb/internal/itertest"
	"github.com/seed347100a3/tsdb/internal/sweep"
	"github.com/seed347100a3/tsdb/internal/tombstones"
	"github.com/seed347100a3/tsdb/labels"
)

// Blocks of others may have histograms, and series that have histograms and floats.

// anySample is a sample of whatever kind.
type anySample struct {
	T, ST int64
	V     uint64                    // bits of a float
	H     *histogram.Histogram      // nil: it is none
	FH    *histogram.FloatHistogram // nil: it is none
}

func (s *anySample) kind() chunkenc.ValueType {
	switch {
	case s.H != nil:
		return chunkenc.ValHistogram
	case s.FH != nil:
		return chunkenc.ValFloatHistogram
	default:
		return chunkenc.ValFloat
	}
}

// requireSame compares samples: histograms by what they say, as chunks widen their spans.
func requireSame(t testing.TB, want, got []anySample, what string) {
	t.Helper()
	require.Len(t, got, len(want), what)
	for i := range want {
		w, g := &want[i], &got[i]
		require.Equal(t, [2]int64{w.T, w.ST}, [2]int64{g.T, g.ST}, "%s: sample %d", what, i)
		require.Equal(t, w.kind(), g.kind(), "%s: sample %d", what, i)
		switch {
		case w.H != nil:
			require.True(t, w.H.EqualByIndex(g.H), "%s: sample %d: want %v, got %v", what, i, w.H, g.H)
		case w.FH != nil:
			require.True(t, w.FH.EqualByIndex(g.FH), "%s: sample %d: want %v, got %v", what, i, w.FH, g.FH)
		default:
			require.Equal(t, w.V, g.V, "%s: sample %d", what, i)
		}
	}
}

// anyAt returns the sample on which an iterator stands.
func anyAt(it chunkenc.Iterator, kind chunkenc.ValueType) anySample {
	s := anySample{T: it.AtT(), ST: it.AtST()}
	if s.H, s.FH = itertest.HistogramAt(it, kind); kind == chunkenc.ValFloat {
		_, v := it.At()
		s.V = math.Float64bits(v)
	}
	return s
}

// anyReaders read all of an iterator in different ways.
var anyReaders = map[string]func(it chunkenc.Iterator) []anySample{
	"one by one": func(it chunkenc.Iterator) (all []anySample) {
		for kind := it.Next(); kind != chunkenc.ValNone; kind = it.Next() {
			all = append(all, anyAt(it, kind))
		}
		return all
	},
	"seeking": func(it chunkenc.Iterator) (all []anySample) {
		for kind := it.Seek(math.MinInt64); kind != chunkenc.ValNone; kind = it.Seek(it.AtT() + 1) {
			all = append(all, anyAt(it, kind))
		}
		return all
	},
	"in batches": func(it chunkenc.Iterator) (all []anySample) {
		b := chunkenc.NewBatch(50)
		for kind := it.NextBatch(b); kind != chunkenc.ValNone; kind = it.NextBatch(b) {
			if kind != chunkenc.ValFloat {
				if b.Len() > 0 || it.Next() != kind {
					return nil
				}
				all = append(all, anyAt(it, kind))
			}
			for i, t := range b.T {
				all = append(all, anySample{T: t, ST: b.StartOf(i), V: math.Float64bits(b.V[i])})
			}
		}
		return all
	},
}

// requireAny reads a database, and compares with what is in it.
func requireAny(t testing.TB, db *tsdb.DB, want map[string][]anySample, mint, maxt int64) {
	t.Helper()
	q, err := db.Querier(mint, maxt)
	require.NoError(t, err)
	defer func() { require.NoError(t, q.Close()) }()
	inside := func(key string) (in []anySample) {
		for _, s := range want[key] {
			if mint <= s.T && s.T <= maxt {
				in = append(in, s)
			}
		}
		return in
	}
	seen := map[string]bool{}
	for s, err := range q.Select(ctx, nil).All() {
		require.NoError(t, err)
		key := s.Labels().String()
		for how, read := range anyReaders {
			it := s.Iterator(nil)
			got := read(it)
			require.NoError(t, it.Err())
			requireSame(t, inside(key), got, fmt.Sprintf("%s from %d to %d %s", key, mint, maxt, how))
		}
		seen[key] = true
	}
	for s, err := range q.SelectChunks(ctx, nil).All() {
		require.NoError(t, err)
		var got []anySample
		it := s.Chunks(nil)
		for it.Next() {
			got = append(got, anyReaders["one by one"](it.At().Chunk.Iterator(nil))...)
		}
		require.NoError(t, it.Err())
		requireSame(t, inside(s.Labels().String()), got, s.Labels().String()+" in chunks")
	}
	for key := range want {
		require.True(t, seen[key] || len(inside(key)) == 0, "%s is missing", key)
	}
}

// drawAny makes the samples of some chunks from a time on, three milliseconds apart or more, and
// the chunks.
func drawAny(t testing.TB, r *rand.Rand, at int64) (all []anySample, list []blockdir.Chunk) {
	kind := some(r, chunkenc.ValFloat, chunkenc.ValHistogram, chunkenc.ValFloatHistogram)
	started := r.IntN(3) == 0
	h := histtest.Draw(r.Int64N)
	var enc chunkenc.Encoder
	var c blockdir.Chunk
	end := func() {
		c.Num, c.Encoding, c.Data = enc.Len(), enc.Encoding(), enc.AppendTo(nil)
		list = append(list, c)
		enc.Reset()
	}
	for range some(r, 1, 2, 30, 121) {
		s := anySample{T: at}
		if started && r.IntN(3) > 0 {
			s.ST = at - 10
		}
		put := func() error { return enc.Append(s.T, math.Float64frombits(s.V), s.ST) }
		switch kind {
		case chunkenc.ValFloat:
			s.V = math.Float64bits(float64(at))
		case chunkenc.ValHistogram:
			s.H = h
			put = func() error { return enc.AppendHistogram(s.T, s.H, s.ST) }
		default:
			s.FH = histtest.Floats(h)
			put = func() error { return enc.AppendFloatHistogram(s.T, s.FH, s.ST) }
		}
		if enc.Len() > 0 && put() != nil {
			end()
		} else if enc.Len() > 0 {
			c.MaxT = at
		}
		if enc.Len() == 0 {
			require.NoError(t, put())
			c.MinT, c.MaxT = at, at
		}
		all = append(all, s)
		h = histtest.Follow(r.Int64N, h)
		at += 3 * int64(1+r.IntN(2)*r.IntN(20))
	}
	end()
	return all, list
}

// anyBlocks makes one to three blocks that overlap, with deletes, and returns what they have by
// series. No time is in two blocks.
func anyBlocks(m *mergeTest, r *rand.Rand) map[string][]anySample {
	all := map[string][]anySample{}
	for n := range int64(1 + r.IntN(3)) {
		base := 3 * int64(r.IntN(300))
		var series []blockSeries
		of := map[string][]anySample{}
		for i := range 3 {
			s := only(m, fmt.Sprintf(`{s="%d"}`, i))
			next := base + n
			for range 1 + r.IntN(4) {
				samples, list := drawAny(m, r, next)
				next = samples[len(samples)-1].T + 3*int64(1+r.IntN(50))
				s.Chunks = append(s.Chunks, list...)
				of[s.Labels.String()] = append(of[s.Labels.String()], samples...)
			}
			series = append(series, s)
		}
		d := m.block(base, base+100_000, series...)
		if r.IntN(2) == 0 {
			gone := tombstones.Interval{Mint: base + int64(r.IntN(500)), Maxt: base + 500 + int64(r.IntN(1000))}
			remove(m, d, `{s=~"1|2"}`, gone.Mint, gone.Maxt)
			for _, key := range []string{`{s="1"}`, `{s="2"}`} {
				of[key] = slices.DeleteFunc(of[key], func(s anySample) bool { return gone.Contains(s.T) })
			}
		}
		for key, samples := range of {
			all[key] = append(all[key], samples...)
		}
	}
	for key := range all {
		slices.SortFunc(all[key], func(a, b anySample) int { return int(a.T - b.T) })
	}
	return all
}

// Every reader of blocks, and of what they are merged to, finds each sample as what it is: in
// chunks as they are stored, cut by a range or a delete, and merged with others.
func TestHistograms_OfBlocks_AreRead(t *testing.T) {
	t.Parallel()
	n := 60
	if !sweep.Whole() {
		n = fewer(20, 8)
	}
	for _, seed := range sweep.Seeds(t, n) {
		r := rand.New(rand.NewPCG(seed, 14))
		m := newMergeTest(t)
		want := anyBlocks(m, r)
		opts := &tsdb.Options{FS: m.fs, Clock: m.clock, Blocks: tsdb.BlockOptions{Manual: true}}
		db, err := tsdb.Open("data", opts)
		require.NoError(t, err)
		check := func() {
			requireAny(t, db, want, math.MinInt64, math.MaxInt64)
			requireAny(t, db, want, 200+int64(seed%60), 900)
		}
		check()
		require.NoError(t, db.Delete(ctx, 400, 500, labels.Equal("s", "0")))
		want[`{s="0"}`] = slices.DeleteFunc(want[`{s="0"}`], func(s anySample) bool { return s.T >= 400 && s.T <= 500 })
		check()
		require.NoError(t, db.Compact(ctx))
		check()
		require.NoError(t, db.CleanTombstones(ctx))
		check()
		require.NoError(t, db.Close())
		report, err := tsdb.Verify(ctx, "data", &tsdb.VerifyOptions{FS: m.fs})
		require.NoError(t, err)
		require.Empty(t, report.Findings)
	}
}
