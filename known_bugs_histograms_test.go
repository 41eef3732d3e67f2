package tsdb_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/blocktest"
	"github.com/seed347100a3/tsdb/internal/histchunk"
	"github.com/seed347100a3/tsdb/internal/record"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// Bugs that engines of this kind had with histograms, in a whole database.
// docs/design/known-bugs.md lists them.

// resetsOf counts the counter resets of a series as a query does that trusts hints, and holds that
// no hint hides one.
func resetsOf(t testing.TB, db *tsdb.DB, key string) (samples, resets int) {
	t.Helper()
	q, err := db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	defer func() { require.NoError(t, q.Close()) }()
	for s, err := range q.Select(ctx, nil).All() {
		require.NoError(t, err)
		if s.Labels().String() != key {
			continue
		}
		it := s.Iterator(nil)
		var last *histogram.FloatHistogram
		for it.Next() != chunkenc.ValNone {
			h := &histogram.FloatHistogram{}
			at := it.AtFloatHistogram(h)
			fell := last != nil && h.DetectReset(last)
			if h.Hint == histogram.HintNotReset {
				require.False(t, fell, "the hint of the sample at %d hides a reset", at)
			}
			if h.Hint == histogram.HintReset || fell {
				resets++
			}
			last = h
			samples++
		}
		require.NoError(t, it.Err())
	}
	return samples, resets
}

// headersOf returns the counter reset headers of the chunks that blocks have of a series.
func headersOf(t testing.TB, fs tsdb.FS, key string) (headers []histchunk.Header) {
	t.Helper()
	ids, err := blockdir.List(fs, fixtureDir)
	require.NoError(t, err)
	for _, id := range ids {
		d, err := blockdir.Open(fs, blockdir.Path(fixtureDir, id))
		require.NoError(t, err)
		for _, c := range blocktest.Chunks(t, d)[key] {
			var dec histchunk.Decoder
			require.NoError(t, dec.Reset(uint8(c.Encoding), c.Data))
			headers = append(headers, dec.Header())
		}
		require.NoError(t, d.Close())
	}
	return headers
}

// backfill puts samples of one series into blocks of their own.
func backfill(t testing.TB, f *fixture, key string, samples ...tsdb.Sample) {
	t.Helper()
	w, err := tsdb.NewBlockWriter(fixtureDir, &tsdb.BlockWriterOptions{FS: f.fs, Clock: f.clock})
	require.NoError(t, err)
	for _, s := range samples {
		_, err := w.AppendSample(0, series(t, key), s)
		require.NoError(t, err)
	}
	_, err = w.Flush(ctx)
	require.NoError(t, err)
	require.NoError(t, w.Close())
}

// everywhere does a check on what is there, and again when it was opened again, merged, and opened
// again.
func everywhere(f *fixture, check func(when string)) {
	f.t.Helper()
	f.reopen()
	check("opened")
	require.NoError(f.t, f.db.Compact(ctx))
	check("merged")
	f.reopen()
	check("merged and opened")
}

// A reset is seen twice, or not at all, where histograms are backfilled between others, and merging
// changes how often.
func TestHistograms_AResetBetweenBackfilledOnesIsSeenOnce(t *testing.T) {
	f := newFixture(t, manual)
	base := testNow.Truncate(24*time.Hour).UnixMilli() - 24*hour
	at := func(i int64) tsdb.Sample { // the counter begins anew with sample 60
		h := bucketed(i%60+1, 2*(i%60)+1)
		return tsdb.Sample{T: base + i*minute, H: h}
	}
	var late []tsdb.Sample
	for i := range int64(120) {
		if i%3 == 1 {
			late = append(late, at(i))
			continue
		}
		put(t, f.db, `{a="b"}`, at(i))
	}
	require.NoError(t, f.db.Flush(ctx))
	backfill(t, f, `{a="b"}`, late...)
	everywhere(f, func(when string) {
		samples, resets := resetsOf(t, f.db, `{a="b"}`)
		require.Equal(t, [2]int{120, 1}, [2]int{samples, resets}, when)
	})
}

// Two copies of a chunk, of which one has a sample more, are merged to one with a reset where that
// sample brought a bucket.
func TestHistograms_ACopyWithOneMoreSampleAndBucketMergesToTheLongerOne(t *testing.T) {
	base := testNow.Truncate(24*time.Hour).UnixMilli() - 24*hour
	var short []tsdb.Sample
	for i := range int64(10) {
		short = append(short, tsdb.Sample{T: base + i*minute, H: bucketed(i+1, i)})
	}
	longer := append(short[:10:10], tsdb.Sample{T: base + 10*minute, H: bucketed(11, 10, 3)})
	for _, order := range [][][]tsdb.Sample{{short, longer}, {longer, short}} {
		f := newFixture(t, manual)
		for _, samples := range order {
			backfill(t, f, `{a="b"}`, samples...)
		}
		var want []anySample
		for _, s := range longer {
			want = append(want, anySample{T: s.T, H: s.H})
		}
		everywhere(f, func(when string) {
			samples, resets := resetsOf(t, f.db, `{a="b"}`)
			require.Equal(t, [2]int{11, 0}, [2]int{samples, resets}, when)
			requireAny(t, f.db, map[string][]anySample{`{a="b"}`: want}, math.MinInt64, math.MaxInt64)
		})
		require.Equal(t, []histchunk.Header{histchunk.HeaderUnknown}, headersOf(t, f.fs, `{a="b"}`))
	}
}

// A chunk that ends because schema or zero threshold changed says that nothing was reset, although
// nobody has compared.
func TestHistograms_AChunkCutForItsLayoutDoesNotSayNotReset(t *testing.T) {
	for name, change := range map[string]func(h *histogram.Histogram){
		"schema":         func(h *histogram.Histogram) { h.Schema = 1 },
		"zero threshold": func(h *histogram.Histogram) { h.ZeroThreshold = 0.5 },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, manual)
			base := testNow.Truncate(24*time.Hour).UnixMilli() - 24*hour
			var all []tsdb.Sample
			for i := range int64(6) {
				h := bucketed(i+1, 10*i+1)
				if i >= 3 {
					change(h)
				}
				all = append(all, tsdb.Sample{T: base + i*minute, H: h})
				put(t, f.db, `{by="head"}`, all[i])
			}
			require.NoError(t, f.db.Flush(ctx))
			backfill(t, f, `{by="writer"}`, all...)
			want := []histchunk.Header{histchunk.HeaderUnknown, histchunk.HeaderUnknown}
			everywhere(f, func(string) {
				require.Equal(t, want, headersOf(t, f.fs, `{by="head"}`))
				require.Equal(t, want, headersOf(t, f.fs, `{by="writer"}`))
			})
		})
	}
}

// Sums of floats that were added in another order differ in their last bits, and fall by that.
func TestHistograms_NoiseInTheSumIsNoReset(t *testing.T) {
	f := newFixture(t, manual)
	base := testNow.Truncate(24*time.Hour).UnixMilli() - 24*hour
	for i := range int64(10) {
		h := &histogram.Histogram{
			Schema: histogram.CustomBuckets, CustomValues: []float64{0.1, 0.2}, Count: 3, Sum: 0.3,
			PositiveSpans: []histogram.Span{{Length: 3}}, PositiveBuckets: []int64{1, 0, 0},
		}
		if i%2 == 0 {
			h.Sum = math.Nextafter(h.Sum, 1)
		}
		put(t, f.db, `{counts="integers"}`, tsdb.Sample{T: base + i*minute, H: h})
		put(t, f.db, `{counts="floats"}`, tsdb.Sample{T: base + i*minute, FH: h.ToFloat(nil)})
	}
	require.NoError(t, f.db.Flush(ctx))
	everywhere(f, func(when string) {
		for _, key := range []string{`{counts="integers"}`, `{counts="floats"}`} {
			samples, resets := resetsOf(t, f.db, key)
			require.Equal(t, [2]int{10, 0}, [2]int{samples, resets}, when)
			require.Equal(t, []histchunk.Header{histchunk.HeaderUnknown}, headersOf(t, f.fs, key), when)
		}
	})
}

// A flush loses a histogram, or the float behind it, where one commit had both of one series.
func TestHistograms_AHistogramAndAFloatOfOneCommitSurviveTheFlush(t *testing.T) {
	base := testNow.Truncate(2*time.Hour).UnixMilli() - 24*hour
	for _, apart := range []int64{1, hour, 2 * hour} {
		f := newFixture(t, manual)
		app := f.db.Appender()
		for _, s := range []tsdb.Sample{{T: base, H: bucketed(1, 2)}, {T: base + apart, V: 7}, {T: base + 2*apart, FH: bucketed(3).ToFloat(nil)}} {
			_, err := app.AppendSample(0, series(t, `{a="b"}`), s)
			require.NoError(t, err)
		}
		_, err := app.Commit(ctx)
		require.NoError(t, err)
		want := map[string][]anySample{`{a="b"}`: {
			{T: base, H: bucketed(1, 2)}, {T: base + apart, V: math.Float64bits(7)}, {T: base + 2*apart, FH: bucketed(3).ToFloat(nil)},
		}}
		f.reopen()
		requireAny(t, f.db, want, math.MinInt64, math.MaxInt64)
		require.NoError(t, f.db.Flush(ctx))
		everywhere(f, func(string) { requireAny(t, f.db, want, math.MinInt64, math.MaxInt64) })
	}
}

// Blocks that overlap are refused if they have histograms, or only one of them is kept.
func TestHistograms_BlocksThatOverlapAreMerged(t *testing.T) {
	f := newFixture(t, manual)
	base := testNow.Truncate(24*time.Hour).UnixMilli() - 24*hour
	want := map[string][]anySample{}
	var parts [3][]tsdb.Sample
	for i := range int64(90) {
		s := tsdb.Sample{T: base + i*minute, H: bucketed(i, i*i, 5)}
		switch i / 10 % 3 {
		case 1:
			s.H, s.FH = nil, s.H.ToFloat(nil)
		case 2:
			s.H, s.V = nil, float64(i)
		}
		parts[i%3] = append(parts[i%3], s)
		parts[(i+1)%3] = append(parts[(i+1)%3], s) // two of three blocks have it
		want[`{a="b"}`] = append(want[`{a="b"}`], anySample{T: s.T, H: s.H, FH: s.FH, V: math.Float64bits(s.V)})
	}
	for _, part := range parts {
		backfill(t, f, `{a="b"}`, part...)
	}
	f.reopen()
	require.Len(t, f.db.Blocks(), 3)
	everywhere(f, func(string) { requireAny(t, f.db, want, math.MinInt64, math.MaxInt64) })
	require.Len(t, f.db.Blocks(), 1)
	require.EqualValues(t, 90, f.db.Blocks()[0].Stats.NumSamples)
	require.True(t, verify(t, f.fs).Clean())
}

// One histogram of a schema that there is none of keeps the whole log from being read.
func TestHistograms_ASchemaThatDoesNotExistCostsItsSampleOnly(t *testing.T) {
	body := func(h *histogram.Histogram) []byte { return record.AppendHistogram(nil, h) }
	odd := bucketed(1, 2)
	odd.Schema = 99
	var enc record.HistogramEncoder
	typ := record.HistogramType(false, false, false)
	rec := enc.Begin(nil, typ)
	rec = enc.Append(rec, 1, 10, 0, body(bucketed(1)))
	rec = enc.Append(rec, 2, 10, 0, body(odd))
	rec = enc.Append(rec, 1, 20, 0, body(bucketed(2)))
	f := withLog(t, [][]byte{seriesRecord(1, "i", "1"), seriesRecord(2, "i", "2"), rec}, [][]byte{samplesRecord(2, 30, 5)})
	require.EqualValues(t, 1, f.db.OpenReport().SamplesInvalid)
	want := map[string][]anySample{
		`{i="1"}`: {{T: 10, H: bucketed(1)}, {T: 20, H: bucketed(2)}}, `{i="2"}`: {{T: 30, V: math.Float64bits(5)}},
	}
	requireAny(t, f.db, want, math.MinInt64, math.MaxInt64)
	require.NoError(t, f.db.Flush(ctx))
	everywhere(f, func(string) { requireAny(t, f.db, want, math.MinInt64, math.MaxInt64) })
}

// What a log has from others may break every rule for histograms. Such an entry costs itself: it is
// left out and counted, and Verify names it.
func TestHistograms_WhatMakesNoSenseInALogCostsItsSampleOnly(t *testing.T) {
	for name, change := range map[string]func(h *histogram.Histogram){
		"a count below 0":         func(h *histogram.Histogram) { h.PositiveBuckets[0] = -5 },
		"a count that is too low": func(h *histogram.Histogram) { h.Count = 0 },
		"a span that goes back":   func(h *histogram.Histogram) { h.PositiveSpans = []histogram.Span{{Length: 1}, {Offset: -1, Length: 1}} },
		"a span beyond all":       func(h *histogram.Histogram) { h.PositiveSpans[0].Offset = math.MaxInt32 },
		"custom bounds that fall": func(h *histogram.Histogram) { h.Schema, h.CustomValues = histogram.CustomBuckets, []float64{2, 1} },
		"more buckets than bounds": func(h *histogram.Histogram) {
			h.Schema, h.PositiveSpans[0].Offset, h.CustomValues = histogram.CustomBuckets, 7, []float64{2}
		},
	} {
		odd := bucketed(1, 2)
		change(odd)
		var enc record.HistogramEncoder
		rec := enc.Begin(nil, record.HistogramType(false, odd.Custom(), false))
		rec = enc.Append(rec, 2, 10, 0, record.AppendHistogram(nil, odd))
		rec = enc.Append(rec, 2, 20, 0, record.AppendHistogram(nil, bucketed(2)))
		f := withLog(t, [][]byte{seriesRecord(2, "i", "2"), rec})
		rep := f.db.OpenReport()
		require.EqualValues(t, 1, rep.SamplesInvalid, name)
		require.False(t, rep.Clean(), name)
		requireAny(t, f.db, map[string][]anySample{`{i="2"}`: {{T: 20, H: bucketed(2)}}}, math.MinInt64, math.MaxInt64)
		require.False(t, verify(t, f.fs).Clean(), name)
	}
}

// Each record that makes no sense is reported, also if several come with one commit, and what is
// left out of it is counted by the entry.
func TestHistograms_EachRecordThatMakesNoSenseIsReported(t *testing.T) {
	odd := bucketed(1, 2)
	odd.Schema = 99
	rec := func(times ...int64) []byte {
		var enc record.HistogramEncoder
		rec := enc.Begin(nil, record.HistogramType(false, false, false))
		for _, at := range times {
			rec = enc.Append(rec, 2, at, 0, record.AppendHistogram(nil, odd))
		}
		return enc.Append(rec, 2, times[len(times)-1]+1, 0, record.AppendHistogram(nil, bucketed(2)))
	}
	torn := rec(50)
	f := withLog(t, [][]byte{seriesRecord(2, "i", "2"), rec(10, 11, 12), rec(20), torn[:len(torn)-3], rec(30, 31)})
	rep := f.db.OpenReport()
	require.EqualValues(t, 7, rep.SamplesInvalid)
	require.Len(t, rep.Damages, 4)
	all := f.all()[`{i="2"}`]
	require.Len(t, all, 3, "what stands behind them is read")

	var what []string
	for _, found := range verify(t, f.fs).Findings {
		if found.Severity == tsdb.SeverityDamage {
			what = append(what, found.What)
			if strings.Contains(found.What, "make no sense") {
				require.Equal(t, "these are lost, and the rest of the record is read", found.Meaning)
			}
		}
	}
	require.Len(t, what, 5, "%q: four records, one of which is torn, too", what)
	require.Contains(t, what[0], "3 of 4 histograms make no sense, the first: ")
}

// However many they are, a report is no list without an end.
func TestHistograms_AReportHasABoundedNumberOfRecords(t *testing.T) {
	odd := bucketed(1, 2)
	odd.Schema = 99
	recs := [][]byte{seriesRecord(2, "i", "2")}
	for i := range int64(1500) {
		var enc record.HistogramEncoder
		rec := enc.Begin(nil, record.HistogramType(false, false, false))
		recs = append(recs, enc.Append(rec, 2, i, 0, record.AppendHistogram(nil, odd)))
	}
	rep := withLog(t, recs).db.OpenReport()
	require.EqualValues(t, 1500, rep.SamplesInvalid)
	require.Len(t, rep.Damages, 1000)
	require.Equal(t, "this record and 500 more make no sense", rep.Damages[999].Reason)
}

// A sample that was stored with the buckets of those before it is another one than the same sample
// sent again without them, so an honest retry is refused.
func TestHistograms_ARetryOfANarrowerFormIsARepeat(t *testing.T) {
	f := newFixture(t, manual)
	spans := []histogram.Span{{Length: 1}, {Offset: 1, Length: 1}}
	narrow := &histogram.Histogram{Count: 2, Sum: 5, PositiveSpans: spans, PositiveBuckets: []int64{1, 0}}
	put(t, f.db, `{a="b"}`, tsdb.Sample{T: 10, H: bucketed(1, 0, 1)})
	put(t, f.db, `{a="b"}`, tsdb.Sample{T: 20, H: narrow})
	for range 2 {
		app := f.db.Appender()
		for _, form := range []*histogram.Histogram{narrow, bucketed(1, 0, 1)} {
			_, err := app.AppendSample(0, series(t, `{a="b"}`), tsdb.Sample{T: 20, H: form})
			require.NoError(t, err)
		}
		res, err := app.Commit(ctx)
		require.NoError(t, err)
		require.Equal(t, tsdb.CommitResult{}, res)
		other := f.db.Appender()
		_, err = other.AppendSample(0, series(t, `{a="b"}`), tsdb.Sample{T: 20, H: bucketed(1, 1)})
		require.ErrorIs(t, err, tsdb.ErrDuplicateSample)
		require.NoError(t, other.Rollback())
		f.reopen()
	}
	w, err := tsdb.NewBlockWriter(fixtureDir, &tsdb.BlockWriterOptions{FS: f.fs, Clock: tsdbtest.NewClock(testNow)})
	require.NoError(t, err)
	for _, form := range []*histogram.Histogram{bucketed(1, 0, 1), narrow} {
		_, err := w.AppendSample(0, series(t, `{c="d"}`), tsdb.Sample{T: 20, H: form})
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
}

// Two blocks have a histogram in turns: what the chunk of one says of its own histogram before is
// not said of the one between, which a Seek has passed over.
func TestHistograms_SeekAmongOverlappingBlocks_NoHintOfAnotherBlock(t *testing.T) {
	f := newFixture(t, manual)
	var low, high []tsdb.Sample
	for i := range int64(40) {
		low = append(low, tsdb.Sample{T: i * 1000, H: bucketed(i + 1)})
		if i < 10 {
			high = append(high, tsdb.Sample{T: i*1000 + 500, H: bucketed(1000 + i)})
		}
	}
	backfill(t, f, `{a="b"}`, low...)
	backfill(t, f, `{a="b"}`, high...)
	f.reopen()
	require.Len(t, f.db.Blocks(), 2)
	q, err := f.db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	defer func() { require.NoError(t, q.Close()) }()
	for s, err := range q.Select(ctx, nil).All() {
		require.NoError(t, err)
		for i := int64(1); i <= 10; i++ { // behind the last one nothing of the other block is left
			it := s.Iterator(nil)
			require.Equal(t, chunkenc.ValHistogram, it.Seek(i*1000))
			var h histogram.Histogram
			var fh histogram.FloatHistogram
			it.AtHistogram(&h)
			it.AtFloatHistogram(&fh)
			require.Equal(t, bucketed(i+1).PositiveBuckets, h.PositiveBuckets)
			require.NotEqual(t, histogram.HintNotReset, h.Hint, "the one before it is higher: %d", i)
			require.NotEqual(t, histogram.HintNotReset, fh.Hint)
		}
	}
}

// The samples with which a chunk begins are deleted, and with them the reset that it began with.
// What the chunk says of the sample behind them is not said of the one before the chunk.
func TestHistograms_AResetBehindDeletedSamplesIsSeen(t *testing.T) {
	f := newFixture(t, manual)
	for i, n := range []int64{90, 100, 5, 6, 7, 8} {
		put(t, f.db, `{a="b"}`, tsdb.Sample{T: int64(i) * minute, H: bucketed(n)})
	}
	left := 6
	check := func(when string) {
		samples, resets := resetsOf(t, f.db, `{a="b"}`)
		require.Equal(t, [2]int{left, 1}, [2]int{samples, resets}, when)
	}
	remove := func(from, to int64) {
		require.NoError(t, f.db.Delete(ctx, from*minute, to*minute))
		left -= int(to - from + 1)
	}
	check("before")
	remove(2, 2)
	check("deleted in the head")
	require.NoError(t, f.db.Flush(ctx))
	check("flushed")
	remove(3, 4)
	check("deleted in a block")
	require.NoError(t, f.db.CleanTombstones(ctx))
	everywhere(f, check)
}
