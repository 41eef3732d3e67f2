package memseries

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/histtest"
	"github.com/seed347100a3/tsdb/internal/record"
	"github.com/seed347100a3/tsdb/labels"
)

// commitWide applies one sample that is not of EncXOR.
func commitWide(d *Directory, seq uint64, s *Series, w WideSample) {
	var beside WideSamples
	at := uint32(0)
	switch w.Encoding {
	case chunkenc.EncHistogram:
		at = beside.AddHistogram(w.ST, w.Ints)
	case chunkenc.EncFloatHistogram:
		at = beside.AddFloatHistogram(w.ST, w.Floats)
	default:
		at = beside.AddStart(w.ST)
	}
	set := Bit(s)
	d.Shards.Lock(set)
	s.Reserve(w.T, w.Sum)
	ReserveKind(s, w.Encoding)
	d.Shards.ApplyLocked([]Sample{{Series: s, T: w.T, Sum: w.Sum, Encoding: w.Encoding, Wide: at}}, &beside, seq, seq, alwaysOpen{})
	d.Shards.Unlock(set)
}

// counting is a histogram with integer counts that grow with n, in as many buckets.
func counting(buckets, n int) *histogram.Histogram {
	h := &histogram.Histogram{Sum: float64(n), PositiveSpans: []histogram.Span{{Length: uint32(buckets)}}}
	r := rand.New(rand.NewPCG(uint64(buckets), 0))
	last := int64(0)
	for range buckets {
		count := int64(n) * (1 + r.Int64N(1000))
		h.PositiveBuckets = append(h.PositiveBuckets, count-last)
		h.Count += uint64(count)
		last = count
	}
	return h
}

// histogramOf returns sample n of a series.
func histogramOf(kind chunkenc.Encoding, buckets, n int) WideSample {
	w := WideSample{T: int64(n) * 15_000, Encoding: kind}
	switch h := counting(buckets, n); kind {
	case chunkenc.EncHistogram:
		w.Sum, w.Ints = h.Digest(), h
	case chunkenc.EncFloatHistogram:
		f := h.ToFloat(nil)
		w.Sum, w.Floats = f.Digest(), f
	default:
		w.Sum, w.ST = math.Float64bits(float64(n)), 1
	}
	return w
}

// What open chunks of histograms and of floats with start timestamps hold is counted, however many
// buckets they have, and while these become more; what is closed is counted no more.
func TestSizeBytes_OfWideChunksIsWithinATenthOfTheHeap(t *testing.T) {
	const n, samples = 1000, 25
	for name, c := range map[string]struct {
		kind    chunkenc.Encoding
		buckets func(k int) int
	}{
		"start timestamps":     {chunkenc.EncXOR2, func(int) int { return 0 }},
		"few buckets":          {chunkenc.EncHistogram, func(int) int { return 8 }},
		"many buckets":         {chunkenc.EncHistogram, func(int) int { return 160 }},
		"floats":               {chunkenc.EncFloatHistogram, func(int) int { return 40 }},
		"buckets that grow":    {chunkenc.EncHistogram, func(k int) int { return 5 + k }},
		"floats that get more": {chunkenc.EncFloatHistogram, func(k int) int { return 5 + k/5 }},
	} {
		t.Run(name, func(t *testing.T) {
			before := heap()
			d := NewDirectory(defaultCutting)
			var all []*Series
			for i := range n {
				s := newSeries(t, d, "i", fmt.Sprint(i))
				s.Unpin()
				all = append(all, s)
			}
			empty, emptySaid := heap(), d.SizeBytes()
			for k := range samples {
				w := histogramOf(c.kind, c.buckets(k), k+1)
				for _, s := range all {
					commitWide(d, uint64(k+1), s, w)
				}
			}
			real, said := float64(heap()-empty), float64(d.SizeBytes()-emptySaid)
			t.Logf("%.0f bytes a series", real/n)
			require.InEpsilon(t, real, said, 0.1, "heap %.0f, says %.0f", real, said)
			require.Positive(t, empty-before)
			for _, s := range all {
				commit(d, 99, 99, s, 10*defaultCutting.Range, 1)
			}
			for i := range d.Shards.all {
				require.Zero(t, d.Shards.all[i].mu.wide.bytes)
			}
			runtime.KeepAlive(d)
		})
	}
}

// A restored series whose newest sample is a histogram in a full chunk, without an open one, ends
// by a histogram where a float is a stale marker, and goes on with whatever comes.
func TestAppend_ARestoredSeriesKnowsThatItHasHistograms(t *testing.T) {
	stale := math.Float64frombits(histogram.StaleNaN)
	for name, c := range map[string]struct {
		kind chunkenc.ValueType
		v    float64
		want chunkenc.Encoding
	}{
		"stale behind histograms":       {chunkenc.ValHistogram, stale, chunkenc.EncHistogram},
		"stale behind float histograms": {chunkenc.ValFloatHistogram, stale, chunkenc.EncFloatHistogram},
		"stale behind floats":           {chunkenc.ValFloat, stale, chunkenc.EncXOR},
		"a float behind histograms":     {chunkenc.ValHistogram, 1, chunkenc.EncXOR},
	} {
		t.Run(name, func(t *testing.T) {
			d := NewDirectory(defaultCutting)
			s, err := restore(d, 7, labels.FromStrings("a", "b"))
			require.NoError(t, err)
			NewRestoration(d).Attach(s, []Mapped{{Ref: 1, MinT: 0, MaxT: 1000, Num: 2}})
			r := NewRestoration(d).NewRestorer()
			restoreOne(r, 7, 1000, 1) // the chunk has it
			r.Close()
			newest := func(Mapped) (uint64, chunkenc.ValueType, error) { return 1, c.kind, nil }
			require.NoError(t, NewRestoration(d).Finish(1, newest))
			commit(d, 2, 2, s, 2000, c.v)
			require.EqualValues(t, 1, s.enc.Len())
			require.Equal(t, c.want, s.open)
			require.Equal(t, c.want != chunkenc.EncXOR, d.Shards.of(s).mu.wide.open.Find(7) != nil)
			commitWide(d, 3, s, histogramOf(chunkenc.EncHistogram, 3, 1000))
			require.Equal(t, chunkenc.EncHistogram, s.open)
		})
	}
	d := NewDirectory(defaultCutting)
	s, err := restore(d, 7, labels.FromStrings("a", "b"))
	require.NoError(t, err)
	NewRestoration(d).Attach(s, []Mapped{{Ref: 1, MinT: 0, MaxT: 1000, Num: 2}})
	newest := func(Mapped) (uint64, chunkenc.ValueType, error) { return 1, chunkenc.ValHistogram, nil }
	require.NoError(t, NewRestoration(d).Finish(1, newest))
	d.Truncation.DropBefore(5000)
	commit(d, 2, 2, s, 6000, stale)
	require.Equal(t, chunkenc.EncXOR, s.open, "nothing is left of the histograms")
}

// What a series is, is what was reserved last, and what was applied last when that is taken back.
func TestSeries_PendingKindIsThatOfTheNewestReservation(t *testing.T) {
	d := NewDirectory(defaultCutting)
	s := newSeries(t, d, "a", "b")
	require.Equal(t, chunkenc.ValFloat, s.PendingKind())
	commitWide(d, 1, s, histogramOf(chunkenc.EncHistogram, 3, 1000))
	for at, enc := range []chunkenc.Encoding{
		chunkenc.EncXOR, chunkenc.EncFloatHistogram, chunkenc.EncHistogram, chunkenc.EncXOR2, chunkenc.EncFloatHistogram,
	} {
		s.SetLogged(at%2 == 0)
		s.Reserve(int64(2000+at), 0)
		ReserveKind(s, enc)
		require.Equal(t, enc.Kind(), s.PendingKind())
		require.Equal(t, at%2 == 0, s.Logged())
	}
	d.Shards.UnreserveLocked(s)
	require.Equal(t, chunkenc.ValHistogram, s.PendingKind())
	d.Truncation.DropBefore(5000)
	require.Equal(t, chunkenc.ValHistogram, s.PendingKind(), "a block has it")
}

// A stale marker becomes what it ends, with its start timestamp, and nothing else becomes anything.
func TestWideSamples_EndMakesStaleMarkersHistograms(t *testing.T) {
	for _, st := range []int64{0, 77} {
		for kind, want := range map[chunkenc.ValueType]chunkenc.Encoding{
			chunkenc.ValHistogram: chunkenc.EncHistogram, chunkenc.ValFloatHistogram: chunkenc.EncFloatHistogram,
		} {
			var wide WideSamples
			marker := Sample{T: 5, Sum: histogram.StaleNaN, Encoding: FloatEncoding(st), Wide: wide.AddStart(st)}
			wide.End(&marker, kind)
			require.Equal(t, want, marker.Encoding)
			require.Equal(t, uint64(histogram.StaleNaN), marker.Sum)
			var got WideSample
			wide.Fill(&got, &marker)
			require.Equal(t, st, got.ST)
			if got.Floats != nil {
				require.True(t, got.Floats.Stale())
				require.Equal(t, marker.Sum, got.Floats.Digest())
			} else {
				require.True(t, got.Ints.Stale())
				require.Equal(t, marker.Sum, got.Ints.Digest())
			}
			again := marker
			wide.End(&again, kind)
			require.Equal(t, marker, again)
			float := Sample{T: 5, Sum: 1, Encoding: FloatEncoding(st), Wide: wide.AddStart(st)}
			same := float
			wide.End(&same, kind)
			require.Equal(t, float, same)
		}
	}
}

// Histograms come back as they were added, also from memory that had others before.
func TestWideSamples_KeepWhatWasAdded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var wide WideSamples
		pick := func(n int64) int64 { return rapid.Int64Range(0, n-1).Draw(t, "n") }
		for range 3 {
			wide.Reset()
			require.Zero(t, wide.Bytes())
			type added struct {
				s  Sample
				st int64
				h  *histogram.Histogram
			}
			var all []added
			for range pick(8) {
				before := wide.Bytes()
				a := added{st: pick(100), h: histtest.Draw(pick)}
				from := a.h.Copy()
				switch a.s.Encoding = []chunkenc.Encoding{chunkenc.EncXOR2, chunkenc.EncHistogram, chunkenc.EncFloatHistogram}[pick(3)]; a.s.Encoding {
				case chunkenc.EncXOR2:
					a.s.Wide = wide.AddStart(a.st)
				case chunkenc.EncHistogram:
					a.s.Wide = wide.AddHistogram(a.st, from)
				default:
					a.s.Wide = wide.AddFloatHistogram(a.st, histtest.Floats(from))
				}
				for i := range from.PositiveBuckets {
					from.PositiveBuckets[i] = -1 // it is a copy that is kept
				}
				if pick(4) == 0 {
					wide.Cut()
					require.Equal(t, before, wide.Bytes())
					continue
				}
				require.Greater(t, wide.Bytes(), before)
				all = append(all, a)
			}
			require.Equal(t, len(all), wide.Len())
			for i := range all {
				a := &all[i]
				var w WideSample
				wide.Fill(&w, &a.s)
				require.Equal(t, a.st, w.ST)
				require.Equal(t, a.st, wide.Start(&a.s))
				switch a.s.Encoding {
				case chunkenc.EncHistogram:
					require.True(t, a.h.Equal(w.Ints) && a.h.Hint == w.Ints.Hint && w.Floats == nil)
					require.Equal(t, record.AppendHistogram(nil, a.h), wide.AppendBody(nil, &a.s))
					require.Equal(t, a.h.Custom(), wide.Custom(&a.s))
				case chunkenc.EncFloatHistogram:
					f := histtest.Floats(a.h)
					require.True(t, f.Equal(w.Floats) && w.Ints == nil)
					require.Equal(t, record.AppendFloatHistogram(nil, f), wide.AppendBody(nil, &a.s))
					require.Equal(t, a.h.Custom(), wide.Custom(&a.s))
				default:
					require.True(t, w.Ints == nil && w.Floats == nil)
				}
			}
		}
	})
}
