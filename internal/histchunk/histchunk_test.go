package histchunk_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/histchunk"
	"github.com/seed347100a3/tsdb/internal/histtest"
)

var encodings = []histchunk.Encoding{
	histchunk.EncInts, histchunk.EncFloats, histchunk.EncIntsST, histchunk.EncFloatsST,
}

func TestEncodings_HaveTheirNumbers(t *testing.T) {
	require.Equal(t, []histchunk.Encoding{2, 3, 5, 6}, encodings)
	for enc := range histchunk.Encoding(9) {
		require.Equal(t, enc > 1 && enc < 7 && enc != histchunk.Encoding(4), histchunk.Known(enc))
		var d histchunk.Decoder
		if err := d.Reset(enc, []byte{0, 0, 0}); histchunk.Known(enc) {
			require.NoError(t, err)
		} else {
			require.Error(t, err)
			require.Contains(t, err.Error(), fmt.Sprint(int(enc)))
			require.Error(t, d.Err(), "it stays")
			require.False(t, d.Next())
		}
	}
	require.Equal(t, "unknown, not reset, reset, gauge, header 4", fmt.Sprintf("%v, %v, %v, %v, %v",
		histchunk.HeaderUnknown, histchunk.HeaderNotReset, histchunk.HeaderReset, histchunk.HeaderGauge,
		histchunk.Header(4)))
}

// appended is one sample that was given to an encoder.
type appended struct {
	t, st int64
	h     *histogram.Histogram
}

// draw draws the samples of a series.
func draw(pick histtest.Pick, most int64, withStarts bool) (all []appended) {
	s := appended{t: pick(1<<40) - 1<<39, h: histtest.Draw(pick)}
	for range 1 + pick(most) {
		if withStarts && pick(4) == 0 {
			s.st = s.t - pick(1<<30)
		}
		all = append(all, s)
		s.t += pick(1 << (1 + pick(30)))
		s.h = histtest.Follow(pick, s.h)
	}
	return all
}

// encoded is a finished chunk.
type encoded struct {
	enc  histchunk.Encoding
	data []byte
}

// encode makes chunks of samples.
func encode(all []appended, floats bool) (chunks []encoded) {
	var e histchunk.Encoder
	add := func(s appended) (histchunk.Header, bool) {
		if floats {
			return e.AppendFloat(s.t, s.st, histtest.Floats(s.h))
		}
		return e.Append(s.t, s.st, s.h)
	}
	for _, s := range all {
		if next, taken := add(s); !taken {
			chunks = append(chunks, encoded{e.Encoding(), e.AppendTo(nil)})
			e.Reset(next)
			add(s)
		}
	}
	return append(chunks, encoded{e.Encoding(), e.AppendTo(nil)})
}

func pick(t *rapid.T) histtest.Pick {
	return func(n int64) int64 { return rapid.Int64Range(0, n-1).Draw(t, "number") }
}

func TestEncoder_WhatGoesInComesOut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		floats, starts := rapid.Bool().Draw(t, "floats"), rapid.Bool().Draw(t, "starts")
		all := draw(pick(t), 20, starts)
		before := make([]*histogram.Histogram, len(all))
		for i, s := range all {
			before[i] = s.h.Copy()
		}
		chunks := encode(all, floats)
		for i, s := range all {
			require.True(t, s.h.Equal(before[i]), "what is appended stays as it is")
		}
		var d histchunk.Decoder
		for _, c := range chunks {
			require.NoError(t, d.Reset(c.enc, c.data))
			for d.Next() {
				requireSample(t, &d, all[0], floats)
				all = all[1:]
			}
			require.NoError(t, d.Err())
		}
		require.Empty(t, all)
	})
}

// The short way of what most histograms are takes none that the rules do not, and most of those of
// a counter that goes on.
func TestEncoder_TheShortWayIsByTheRules(t *testing.T) {
	short, fits := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		var e histchunk.Encoder
		for _, s := range draw(pick(t), 20, false) {
			if e.NumSamples() > 0 && e.Fits(s.h) {
				fits++
				if e.GoesOn(s.h) {
					short++
				}
			} else {
				require.False(t, e.GoesOn(s.h))
			}
			if next, taken := e.Append(s.t, 0, s.h); !taken {
				e.Reset(next)
				e.Append(s.t, 0, s.h)
			}
		}
	})
	require.Greater(t, 2*short, fits, "%d of %d", short, fits)
}

// requireSample holds a decoded sample against the one that was appended.
func requireSample(t require.TestingT, d *histchunk.Decoder, want appended, floats bool) {
	require.Equal(t, want.t, d.T())
	require.Equal(t, want.st, d.ST())
	require.Equal(t, floats, d.Floats())
	require.Equal(t, want.h.Stale(), d.Stale())
	gauge := want.h.Hint == histogram.HintGauge && !want.h.Stale()
	require.Equal(t, gauge, d.Hint() == histogram.HintGauge)
	var f histogram.FloatHistogram
	d.FloatHistogram(&f)
	require.Equal(t, d.Hint(), f.Hint)
	if floats {
		require.True(t, f.EqualByIndex(histtest.Floats(want.h)), "%v\n%v", f, *want.h)
		require.NoError(t, f.Validate())
		require.Panics(t, func() { d.Histogram(&histogram.Histogram{}) })
		return
	}
	var h histogram.Histogram
	d.Histogram(&h)
	require.True(t, h.EqualByIndex(want.h), "%v\n%v", h, *want.h)
	require.NoError(t, h.Validate())
	require.True(t, f.Equal(h.ToFloat(nil)))
}

// Of two neighbours in one chunk the later one says that no counter fell, and that is so.
func TestDecoder_PromisesNoResetWhereThereIsNone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var d histchunk.Decoder
		var h, before histogram.FloatHistogram
		for _, c := range encode(draw(pick(t), 20, false), false) {
			require.NoError(t, d.Reset(c.enc, c.data))
			for d.Next() {
				h.CopyTo(&before)
				if d.FloatHistogram(&h); h.Hint == histogram.HintNotReset {
					h.Hint = histogram.HintUnknown
					require.False(t, h.DetectReset(&before))
				}
			}
		}
	})
}

func TestEncoder_NewestIsWhatWasAppended(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var e, f histchunk.Encoder
		var h histogram.Histogram
		var g histogram.FloatHistogram
		for _, s := range draw(pick(t), 9, false) {
			if next, taken := e.Append(s.t, s.st, s.h); !taken {
				e.Reset(next)
				e.Append(s.t, s.st, s.h)
			}
			floats := histtest.Floats(s.h)
			if next, taken := f.AppendFloat(s.t, s.st, floats); !taken {
				f.Reset(next)
				f.AppendFloat(s.t, s.st, floats)
			}
			require.False(t, e.Floats())
			require.True(t, f.Floats())
			e.Newest(&h)
			require.True(t, h.EqualByIndex(s.h))
			e.NewestFloat(&g)
			require.True(t, g.EqualByIndex(s.h.ToFloat(nil)))
			f.NewestFloat(&g)
			require.True(t, g.EqualByIndex(floats))
		}
	})
}

func TestEncoder_AnotherKindIsAnotherChunk(t *testing.T) {
	var e histchunk.Encoder
	h := constant()
	e.Append(1, 0, h)
	for hint, want := range map[histogram.ResetHint]histchunk.Header{
		histogram.HintUnknown: histchunk.HeaderUnknown, histogram.HintNotReset: histchunk.HeaderUnknown,
		histogram.HintReset: histchunk.HeaderReset, histogram.HintGauge: histchunk.HeaderGauge,
	} {
		f := h.ToFloat(nil)
		f.Hint = hint
		next, taken := e.AppendFloat(2, 0, f)
		require.False(t, taken)
		require.Equal(t, want, next, hint)
		require.Equal(t, want, e.HeaderAfterFloat(f))
	}
	require.Equal(t, 1, e.NumSamples())
}

// The header that Reset was told is for one sample; another one may know better.
func TestEncoder_HeaderFollowsTheFirstSample(t *testing.T) {
	for _, told := range []histchunk.Header{0, 1, 2, 3} {
		for hint, want := range map[histogram.ResetHint]histchunk.Header{
			histogram.HintUnknown: told, histogram.HintNotReset: told,
			histogram.HintReset: histchunk.HeaderReset, histogram.HintGauge: histchunk.HeaderGauge,
		} {
			if want == histchunk.HeaderGauge && hint != histogram.HintGauge {
				want = histchunk.HeaderUnknown
			}
			var e histchunk.Encoder
			e.Reset(told)
			h := constant()
			h.Hint = hint
			e.Append(1, 0, h)
			require.Equal(t, want, e.Header())
		}
	}
}

// A chunk has as many samples as its header can count, and then ends.
func TestEncoder_EndsAFullChunk(t *testing.T) {
	for _, st := range []int64{0, 1} {
		limit := histchunk.MaxSamples
		if st > 0 {
			limit = histchunk.MaxSamplesST
		}
		var e histchunk.Encoder
		h := constant()
		for i := range limit {
			_, taken := e.Append(int64(i), st, h)
			require.True(t, taken)
		}
		next, taken := e.Append(int64(limit), st, h)
		require.False(t, taken)
		require.Equal(t, histchunk.HeaderNotReset, next)
		h.Count, h.PositiveBuckets = 1, []int64{0, 0, 0}
		next, taken = e.Append(int64(limit), st, h)
		require.False(t, taken)
		require.Equal(t, histchunk.HeaderReset, next)
		var d histchunk.Decoder
		require.NoError(t, d.Reset(e.Encoding(), e.AppendTo(nil)))
		require.Equal(t, limit, d.NumSamples())
		n := 0
		for d.Next() {
			require.EqualValues(t, n, d.T())
			require.Equal(t, st, d.ST())
			n++
		}
		require.NoError(t, d.Err())
		require.Equal(t, limit, n)
	}
}

// Start timestamps that come late change the encoding of what is there, if it has room.
func TestEncoder_MakesRoomForStartTimestamps(t *testing.T) {
	for _, before := range []int{1, 126, 127, 128, 300, histchunk.MaxSamplesST - 1, histchunk.MaxSamplesST} {
		var e histchunk.Encoder
		h := constant()
		for i := range before {
			e.Append(int64(i), 0, h)
		}
		require.Equal(t, histchunk.EncInts, e.Encoding())
		_, taken := e.Append(int64(before), 7, h)
		require.Equal(t, before < histchunk.MaxSamplesST, taken)
		if !taken {
			require.Equal(t, histchunk.EncInts, e.Encoding())
			continue
		}
		require.Equal(t, histchunk.EncIntsST, e.Encoding())
		require.EqualValues(t, 0, e.FirstT())
		require.EqualValues(t, before, e.LastT())
		var d histchunk.Decoder
		require.NoError(t, d.Reset(e.Encoding(), e.AppendTo(nil)))
		for i := 0; d.Next(); i++ {
			want := appended{t: int64(i), h: h}
			if i == before {
				want.st = 7
			}
			requireSample(t, &d, want, false)
		}
		require.NoError(t, d.Err())
	}
}

// Schemas that no database takes are read, and those above 8 as 8.
func TestDecoder_ReadsForeignSchemas(t *testing.T) {
	for schema := int32(-60); schema <= 60; schema++ {
		h := &histogram.Histogram{
			Schema: schema, Count: 3, PositiveSpans: []histogram.Span{{Offset: 1, Length: 2}},
			PositiveBuckets: []int64{1, 1}, CustomValues: []float64{},
		}
		if schema == histogram.CustomBuckets {
			h.CustomValues = []float64{1, 2, 3}
		}
		var e histchunk.Encoder
		e.Append(1, 0, h)
		var d histchunk.Decoder
		err := d.Reset(e.Encoding(), e.AppendTo(nil))
		if !histogram.KnownSchema(schema) {
			require.ErrorIs(t, err, encbuf.ErrCorrupt)
			require.False(t, d.Next())
			continue
		}
		require.NoError(t, err)
		require.True(t, d.Next())
		var got histogram.Histogram
		d.Histogram(&got)
		if schema > histogram.MaxSchema {
			require.NoError(t, h.ReduceResolution(histogram.MaxSchema))
		}
		require.True(t, got.Equal(h), "%v %v", got, *h)
		var f histogram.FloatHistogram
		d.FloatHistogram(&f)
		require.True(t, f.Equal(h.ToFloat(nil)))
	}
}

// A chunk does not get more buckets than a decoder takes.
func TestEncoder_GrowsNoFurtherThanADecoderReads(t *testing.T) {
	const n = histogram.MaxBuckets/2 + 1
	h := &histogram.Histogram{
		Count: 1, PositiveSpans: []histogram.Span{{Length: n}}, PositiveBuckets: make([]int64, n),
	}
	h.PositiveBuckets[n-1] = 1
	var e histchunk.Encoder
	e.Append(1, 0, h)
	h.PositiveSpans[0].Offset, h.PositiveSpans[0].Length = n-1, n-1
	h.PositiveBuckets, h.Count = make([]int64, n-1), 2
	h.PositiveBuckets[0] = 2
	h.PositiveBuckets[1] = -2
	_, taken := e.Append(2, 0, h)
	require.True(t, taken, "together as many as there may be")
	h.PositiveSpans[0].Length, h.PositiveBuckets = n, append(h.PositiveBuckets, 0)
	next, taken := e.Append(3, 0, h)
	require.False(t, taken)
	require.Equal(t, histchunk.HeaderNotReset, next)
	var d histchunk.Decoder
	require.NoError(t, d.Reset(e.Encoding(), e.AppendTo(nil)))
	for range 2 {
		require.True(t, d.Next())
	}
	require.NoError(t, d.Err())
}

func TestEncoder_RefusesSpansThatAreNotItsBuckets(t *testing.T) {
	h := constant()
	h.PositiveSpans[0].Length++
	require.Panics(t, func() { (&histchunk.Encoder{}).Append(1, 0, h) })
}

// Once a decoder, an encoder and a histogram have room, nothing is allocated, also where
// each sample lacks buckets that its chunk has.
func TestSteadyState_AllocatesNothing(t *testing.T) {
	wide := ruled(3, 160)
	narrow := &histogram.Histogram{
		Schema: wide.Schema, ZeroThreshold: wide.ZeroThreshold, ZeroCount: 1, Count: wide.Count,
		PositiveSpans:   []histogram.Span{{Offset: 0, Length: 1}, {Offset: 158, Length: 1}},
		PositiveBuckets: []int64{1, 0},
	}
	wide.PositiveBuckets = make([]int64, 160)
	var e histchunk.Encoder
	dst := make([]byte, 0, 1<<16)
	fill := func() {
		e.Reset(histchunk.HeaderUnknown)
		for i := range 20 {
			e.Append(int64(i), 0, wide)
			e.Append(int64(i), 0, narrow)
			wide, narrow = narrow, wide
			e.Append(int64(i), 0, narrow)
			wide, narrow = narrow, wide
		}
		dst = e.AppendTo(dst[:0])
	}
	fill()
	require.Zero(t, testing.AllocsPerRun(5, fill))
	var d histchunk.Decoder
	var h histogram.Histogram
	var f histogram.FloatHistogram
	scan := func() {
		_ = d.Reset(e.Encoding(), dst)
		for d.Next() {
			d.Histogram(&h)
			d.FloatHistogram(&f)
		}
	}
	scan()
	require.Zero(t, testing.AllocsPerRun(5, scan))
	require.NoError(t, d.Err())
	require.Len(t, h.PositiveBuckets, 160)
}

// What is given out is the caller's.
func TestDecoder_SharesNothing(t *testing.T) {
	var e histchunk.Encoder
	h := constant()
	e.Append(1, 0, h)
	e.Append(2, 0, h)
	var d histchunk.Decoder
	require.NoError(t, d.Reset(e.Encoding(), e.AppendTo(nil)))
	require.True(t, d.Next())
	var got histogram.Histogram
	d.Histogram(&got)
	got.PositiveSpans[0].Length, got.PositiveBuckets[0] = 9, 9
	h.PositiveSpans[0].Length, h.PositiveBuckets[0] = 9, 9
	require.True(t, d.Next())
	d.Histogram(&got)
	require.True(t, got.EqualByIndex(constant()))
	_, taken := e.Append(3, 0, constant())
	require.True(t, taken)
}

// Every cut and every flipped bit of a chunk gives an error or other samples.
func TestDecoder_BearsDamage(t *testing.T) {
	for _, c := range specimens() {
		size := len(c.data)
		for cut := range size {
			n, err := scan(c.enc, c.data[:cut])
			require.ErrorIs(t, err, encbuf.ErrCorrupt, "cut at %d", cut)
			require.Less(t, n, 400)
		}
		for bit := range size * 8 {
			c.data[bit/8] ^= 1 << (bit % 8)
			if _, err := scan(c.enc, c.data); err != nil {
				requirePlace(t, err, size)
			}
			c.data[bit/8] ^= 1 << (bit % 8)
		}
		_, err := scan(c.enc, c.data)
		require.NoError(t, err)
		whole, _ := scan(c.enc, c.data)
		more, err := scan(c.enc, append(c.data[:size:size], 0xff, 0xff, 0xff))
		require.NoError(t, err, "bytes behind the last sample are not looked at")
		require.Equal(t, whole, more)
	}
}

// specimens are small chunks of all encodings.
func specimens() (out []encoded) {
	for i := range 4 {
		var all []appended
		for n := range 4 {
			s := appended{t: int64(n) * 15_000, h: ruled(n, 4+n)}
			s.h.NegativeSpans, s.h.NegativeBuckets = s.h.PositiveSpans, s.h.PositiveBuckets
			if i > 1 {
				s.st = 1000
			}
			all = append(all, s)
		}
		stale := appended{t: 60_000, st: all[0].st, h: &histogram.Histogram{}}
		stale.h.SetStale()
		all = append(all, stale)
		out = append(out, encode(all, i%2 > 0)...)
		custom := histogram.Histogram{
			Schema: histogram.CustomBuckets, Count: 3, PositiveSpans: []histogram.Span{{Length: 2}},
			PositiveBuckets: []int64{1, 1}, CustomValues: []float64{0.5, math.Pi},
		}
		out = append(out, encode([]appended{{1, stale.st, &custom}, {2, stale.st, &custom}}, i%2 > 0)...)
	}
	return out
}

// scan reads a whole chunk and returns how many samples there were.
func scan(enc histchunk.Encoding, data []byte) (n int, err error) {
	var d histchunk.Decoder
	var h histogram.Histogram
	var f histogram.FloatHistogram
	_ = d.Reset(enc, data)
	for d.Next() {
		if n++; !d.Floats() {
			d.Histogram(&h)
		}
		d.FloatHistogram(&f)
	}
	return n, d.Err()
}

func requirePlace(t require.TestingT, err error, size int) {
	var ce *encbuf.CorruptError
	require.ErrorAs(t, err, &ce)
	require.GreaterOrEqual(t, ce.Offset, int64(0))
	require.LessOrEqual(t, ce.Offset, int64(size))
}

// A chunk that promises more than its bytes can hold takes no memory for it.
func TestDecoder_BelievesNoCount(t *testing.T) {
	const (
		threshold = "00000000"
		schema0   = "0"
		custom    = "1110" + "111001011" // -53 in 9 bits
		none      = "0"
		one       = "10" + "001"
		million   = "1111110" + "0000100000000000000000000" // 2^20 in 25 bits
	)
	all := "11111111" + strings.Repeat("1", 64)
	for name, c := range map[string]struct{ bits, reason string }{
		"spans":           {threshold + schema0 + all, "more spans"},
		"a million spans": {threshold + schema0 + million, "more spans"},
		"negative spans":  {threshold + schema0 + none + million, "more spans"},
		"length":          {threshold + schema0 + one + all + "0", "span out of range"},
		"offset":          {threshold + schema0 + one + one + all[:8] + "01" + all[10:], "span out of range"},
		"buckets":         {threshold + schema0 + one + million + "0" + none, "more buckets"},
		"bounds":          {threshold + custom + none + none + million, "more bounds"},
		"more bounds":     {threshold + custom + none + none + all, "more bounds"},
	} {
		for _, enc := range encodings {
			data := append([]byte{0x3f, 0xff, 0}, packed(t, c.bits)...)
			data = append(data, make([]byte, 1000)...)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := scan(enc, data)
			runtime.ReadMemStats(&after)
			require.ErrorIs(t, err, encbuf.ErrCorrupt, name)
			require.Contains(t, err.Error(), c.reason, name)
			requirePlace(t, err, len(data))
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<10), name)
		}
	}
}

// packed turns zeros and ones into bytes.
func packed(t *testing.T, bits string) (out []byte) {
	for ; len(bits)%8 > 0; bits += "0" {
	}
	for ; bits != ""; bits = bits[8:] {
		b, err := strconv.ParseUint(bits[:8], 2, 8)
		require.NoError(t, err)
		out = append(out, byte(b))
	}
	return out
}

func FuzzDecoder(f *testing.F) {
	for _, c := range specimens() {
		f.Add(uint8(c.enc), c.data)
	}
	for _, l := range senseless {
		for _, c := range l.chunks() {
			f.Add(uint8(c.enc), c.data)
		}
	}
	f.Add(uint8(histchunk.EncIntsST), []byte{0xff, 0xff, 0xff, 0})
	f.Fuzz(func(t *testing.T, enc uint8, data []byte) {
		var d histchunk.Decoder
		if d.Reset(histchunk.Encoding(enc), data) != nil {
			if histchunk.Known(histchunk.Encoding(enc)) {
				requirePlace(t, d.Err(), len(data))
			}
			return
		}
		// Whatever comes out goes into an encoder, and comes out again.
		var all []appended
		var floats []*histogram.FloatHistogram
		for d.Next() && len(all) < 100 {
			s := appended{t: d.T(), st: d.ST(), h: &histogram.Histogram{}}
			g := &histogram.FloatHistogram{}
			if d.FloatHistogram(g); !d.Floats() {
				d.Histogram(s.h)
			}
			all, floats = append(all, s), append(floats, g)
		}
		if d.Err() != nil {
			requirePlace(t, d.Err(), len(data))
		}
		again(t, all, floats, d.Floats())
	})
}

// again encodes and decodes samples.
func again(t *testing.T, all []appended, floats []*histogram.FloatHistogram, float bool) {
	var e histchunk.Encoder
	var d histchunk.Decoder
	from := 0
	check := func(to int) {
		require.NoError(t, d.Reset(e.Encoding(), e.AppendTo(nil)))
		for ; d.Next(); from++ {
			require.Equal(t, all[from].t, d.T())
			require.Equal(t, all[from].st, d.ST())
			var g histogram.FloatHistogram
			d.FloatHistogram(&g)
			require.True(t, g.EqualByIndex(floats[from]), "%v\n%v", g, *floats[from])
		}
		require.NoError(t, d.Err())
		require.Equal(t, to, from)
	}
	for i, s := range all {
		add := func() (histchunk.Header, bool) {
			if float {
				return e.AppendFloat(s.t, s.st, floats[i])
			}
			return e.Append(s.t, s.st, s.h)
		}
		if next, taken := add(); !taken {
			check(i)
			e.Reset(next)
			add()
		}
	}
	if len(all) > 0 {
		check(len(all))
	}
}

// The count of samples is in front, big endian; with start timestamps beside the header.
func TestEncoder_HeaderBytes(t *testing.T) {
	for _, header := range []histchunk.Header{0, 1, 2} {
		var e histchunk.Encoder
		e.Reset(header)
		for i := range 300 {
			e.Append(int64(i), 0, constant())
		}
		b := e.AppendTo(nil)
		require.EqualValues(t, 300, binary.BigEndian.Uint16(b))
		require.Equal(t, byte(header)<<6, b[2])
		e.Append(300, 5, constant())
		b = e.AppendTo(nil)
		require.EqualValues(t, int(header)<<14|301, binary.BigEndian.Uint16(b))
		require.EqualValues(t, 127, b[2])
	}
}
