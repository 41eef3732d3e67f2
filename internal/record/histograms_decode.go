package record

import (
	"math"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/encbuf"
)

// HistogramDecoder is a cursor over a record of histograms, of whatever type. The zero value
// is ready for Reset.
//
//	for d.Next() {
//		if err := d.DecodeInt(&h); err != nil { // or DecodeFloat, if d.Floats()
//			... this entry makes no sense, the next one may
//		}
//	}
//	if d.Err() != nil ...
type HistogramDecoder struct {
	d          encbuf.Dec
	floats, v2 bool
	begun      bool   // the base was read; version 2: the first entry
	ref, base  uint64 // of the present entry; what the next one's is relative to
	t, baseT   int64  // the same of times
	st, first  int64  // starts of the present entry and of the first
	off        int    // where the present histogram begins
	entry      entry  // what Next has seen of it
}

// Reset points the decoder at a record, which must stay unchanged while it is read.
// A record of another type is reported by Err.
func (h *HistogramDecoder) Reset(rec []byte) {
	*h = HistogramDecoder{d: encbuf.NewDec(rec)}
	typ := TypeOf(rec)
	switch typ {
	case TypeHistograms, TypeCustomHistograms:
	case TypeHistogramsV2:
		h.v2 = true
	case TypeFloatHistograms, TypeCustomFloats:
		h.floats = true
	case TypeFloatsV2:
		h.floats, h.v2 = true, true
	default:
		typ = TypeHistograms
	}
	beginRecord(&h.d, typ)
}

// Next moves to the next entry, which is whole: what it says may make no sense, but it is
// known where it ends. False means the end of the record or damage, see Err.
func (h *HistogramDecoder) Next() bool {
	if h.d.Len() == 0 {
		return false
	}
	h.head()
	h.off = h.d.Offset()
	h.entry.skip(&h.d, h.floats)
	return h.d.Err() == nil
}

// head reads what an entry has in front of its histogram.
func (h *HistogramDecoder) head() {
	first := !h.begun
	if h.begun = true; first && !h.v2 {
		h.base, h.baseT = h.d.BE64(), int64(h.d.BE64())
	}
	h.ref = h.base + uint64(varint(&h.d))
	h.t = h.baseT + varint(&h.d)
	if !h.v2 {
		return
	}
	h.base = h.ref
	marker := byte(startOther)
	if !first {
		marker = h.d.Byte()
	}
	switch marker {
	case startNone:
		h.st = 0
	case startSame:
	default:
		h.st = h.first + varint(&h.d)
	}
	if first {
		h.baseT, h.first = h.t, h.st
	}
}

// varint is d.Varint in one place: the least program has it, where there is little room.
//
//go:noinline
func varint(d *encbuf.Dec) int64 { return d.Varint() }

// Ref returns the number of the series of the present entry.
func (h *HistogramDecoder) Ref() uint64 { return h.ref }

// T returns the time of the present entry in milliseconds.
func (h *HistogramDecoder) T() int64 { return h.t }

// ST returns the start timestamp of the present entry in milliseconds, 0 for none.
func (h *HistogramDecoder) ST() int64 { return h.st }

// Floats reports whether the record has float histograms.
func (h *HistogramDecoder) Floats() bool { return h.floats }

// Entry returns the bytes of the present histogram, without series and times, as
// HistogramEncoder.Append takes them. They alias the record.
func (h *HistogramDecoder) Entry() []byte { return h.d.Since(h.off) }

// Check says what of the present histogram makes no sense, by the rules for what is appended. What
// its schema does not have is not looked at, and a schema may be one that only readers take.
func (h *HistogramDecoder) Check() error {
	if err := h.entry.wrong(); err != nil {
		return err
	}
	if err := h.entry.layout.Err(); err != nil {
		return err
	}
	for i, rule := range rules {
		if h.entry.broken&(1<<i) != 0 {
			return rule
		}
	}
	return nil
}

// rules are those of counts, which could be decoded nevertheless, each by the number of its bit.
var rules = [...]error{
	negativeCount: histogram.ErrNegativeCount, negativeBucket: histogram.ErrNegativeBucketCount,
	moreInBuckets: histogram.ErrCountNotBigEnough, fewerInBuckets: histogram.ErrCountMismatch,
}

const (
	negativeCount = iota
	negativeBucket
	moreInBuckets
	fewerInBuckets
)

// DecodeInt makes dst the present histogram, as ReadHistogram does; the record must not be
// one of float histograms.
func (h *HistogramDecoder) DecodeInt(dst *histogram.Histogram) error {
	return ReadHistogram(h.Entry(), dst)
}

// DecodeFloat makes dst the present histogram, as ReadFloatHistogram does; the record must
// be one of float histograms.
func (h *HistogramDecoder) DecodeFloat(dst *histogram.FloatHistogram) error {
	return ReadFloatHistogram(h.Entry(), dst)
}

// Err returns nil or the *encbuf.CorruptError that ended the record. Entries before it are
// good.
func (h *HistogramDecoder) Err() error { return h.d.Err() }

// Least bytes of what lists have.
const (
	minSpanBytes = 2
	float64Bytes = 8
)

// skip moves behind a histogram, and notes what Check looks at.
func (e *entry) skip(d *encbuf.Dec, floats bool) {
	*e = entry{}
	d.Byte() // hint
	e.schema = d.Varint()
	custom := e.schema == int64(histogram.CustomBuckets)
	e.layout.Custom = custom
	d.Bytes(float64Bytes) // zero threshold
	var counted, count uint64
	if floats {
		zero, all := d.Float64(), d.Float64()
		e.odds(zero < 0 && !custom, negativeBucket)
		e.odds(all < 0, negativeCount)
	} else if counted, count = d.Uvarint(), d.Uvarint(); custom {
		counted = 0 // there is no zero bucket
	}
	sum := d.Float64()
	for side := range e.spanned {
		e.skipSpans(d, side, side == 0 || !custom)
	}
	for side := range e.buckets {
		counts := side == 0 || !custom
		if floats {
			e.skipFloats(d, side, counts)
			continue
		}
		e.buckets[side] = d.Count(1)
		if all, negative := d.SkipDeltas(e.buckets[side]); counts {
			counted += all
			e.odds(negative, negativeBucket)
		}
	}
	e.odds(counted > count, moreInBuckets)
	e.odds(counted < count && !math.IsNaN(sum), fewerInBuckets) // NaN is in no bucket
	if custom {
		e.skipBounds(d)
	}
}

// odds notes that a rule is broken, if it is.
func (e *entry) odds(broken bool, rule int) {
	if broken {
		e.broken |= 1 << rule
	}
}

// skipSpans moves behind the spans of one side, which the schema has, or does not.
func (e *entry) skipSpans(d *encbuf.Dec, side int, counts bool) {
	n := d.Count(minSpanBytes)
	e.lists = max(e.lists, n)
	for range n {
		if s := e.span(d, side); counts {
			e.layout.Span(side, s)
		}
	}
}

// skipFloats moves behind the counts of one side, which the schema has, or does not.
func (e *entry) skipFloats(d *encbuf.Dec, side int, counts bool) {
	e.buckets[side] = d.Count(float64Bytes)
	for range e.buckets[side] {
		e.odds(d.Float64() < 0 && counts, negativeBucket)
	}
}

// skipBounds moves behind the bounds of custom buckets.
func (e *entry) skipBounds(d *encbuf.Dec) {
	n := d.Count(float64Bytes)
	e.lists = max(e.lists, n)
	for range n {
		e.layout.Bound(d.Float64())
	}
}

// ReadHistogram makes dst the integer histogram that AppendHistogram wrote as body. It
// allocates only what dst has no room for, and never more than body can hold.
//
// The error is damage (*encbuf.CorruptError) or one of package histogram: an unknown schema,
// spans that do not fit the buckets. What it does not look at is whether the counts make
// sense. Schemas above histogram.MaxSchema are reduced to that.
func ReadHistogram(body []byte, dst *histogram.Histogram) error {
	dst.Clear()
	d := encbuf.NewDec(body)
	dst.Hint = readHint(&d)
	var e entry
	e.schema = d.Varint()
	dst.ZeroThreshold = d.Float64()
	dst.ZeroCount, dst.Count = d.Uvarint(), d.Uvarint()
	dst.Sum = d.Float64()
	dst.PositiveSpans = e.spans(&d, 0, dst.PositiveSpans)
	dst.NegativeSpans = e.spans(&d, 1, dst.NegativeSpans)
	dst.PositiveBuckets = e.deltas(&d, 0, dst.PositiveBuckets)
	dst.NegativeBuckets = e.deltas(&d, 1, dst.NegativeBuckets)
	dst.CustomValues = e.bounds(&d, dst.CustomValues)
	if err := e.check(&d); err != nil {
		return err
	}
	dst.Schema = int32(e.schema)
	if dst.Schema > histogram.MaxSchema {
		return dst.ReduceResolution(histogram.MaxSchema)
	}
	return nil
}

// ReadFloatHistogram is ReadHistogram of what AppendFloatHistogram wrote.
func ReadFloatHistogram(body []byte, dst *histogram.FloatHistogram) error {
	dst.Clear()
	d := encbuf.NewDec(body)
	dst.Hint = readHint(&d)
	var e entry
	e.schema = d.Varint()
	dst.ZeroThreshold = d.Float64()
	dst.ZeroCount, dst.Count = d.Float64(), d.Float64()
	dst.Sum = d.Float64()
	dst.PositiveSpans = e.spans(&d, 0, dst.PositiveSpans)
	dst.NegativeSpans = e.spans(&d, 1, dst.NegativeSpans)
	dst.PositiveBuckets = e.counts(&d, 0, dst.PositiveBuckets)
	dst.NegativeBuckets = e.counts(&d, 1, dst.NegativeBuckets)
	dst.CustomValues = e.bounds(&d, dst.CustomValues)
	if err := e.check(&d); err != nil {
		return err
	}
	dst.Schema = int32(e.schema)
	if dst.Schema > histogram.MaxSchema {
		return dst.ReduceResolution(histogram.MaxSchema)
	}
	return nil
}

// readHint reads a hint; a number without a meaning says nothing.
func readHint(d *encbuf.Dec) histogram.ResetHint {
	hint := histogram.ResetHint(d.Byte())
	if hint > histogram.HintGauge {
		return histogram.HintUnknown
	}
	return hint
}

// entry is what is checked of a histogram when all of it was read.
type entry struct {
	schema   int64
	spanned  [2]uint64 // buckets that the spans describe
	buckets  [2]int
	lists    int  // the longest list
	overflow bool // a span does not fit 32 bits
	layout   histogram.LayoutCheck
	broken   uint8 // rules, by their bits
}

func (e *entry) spans(d *encbuf.Dec, side int, dst []histogram.Span) []histogram.Span {
	n := d.Count(minSpanBytes)
	e.lists = max(e.lists, n)
	for range n {
		dst = append(dst, e.span(d, side))
	}
	return dst
}

func (e *entry) span(d *encbuf.Dec, side int) histogram.Span {
	offset, length := d.Varint(), d.Uvarint()
	s := histogram.Span{Offset: int32(offset), Length: uint32(length)}
	e.overflow = e.overflow || int64(s.Offset) != offset || uint64(s.Length) != length
	e.spanned[side] += uint64(s.Length)
	return s
}

func (e *entry) deltas(d *encbuf.Dec, side int, dst []int64) []int64 {
	e.buckets[side] = d.Count(1)
	return d.Varints(dst, e.buckets[side])
}

func (e *entry) counts(d *encbuf.Dec, side int, dst []float64) []float64 {
	e.buckets[side] = d.Count(float64Bytes)
	return readFloats(d, e.buckets[side], dst)
}

func (e *entry) bounds(d *encbuf.Dec, dst []float64) []float64 {
	if e.schema != int64(histogram.CustomBuckets) {
		return dst
	}
	n := d.Count(float64Bytes)
	e.lists = max(e.lists, n)
	return readFloats(d, n, dst)
}

func readFloats(d *encbuf.Dec, n int, dst []float64) []float64 {
	for range n {
		dst = append(dst, d.Float64())
	}
	return dst
}

// check says what is wrong with a histogram.
func (e *entry) check(d *encbuf.Dec) error {
	if d.Len() > 0 {
		d.Fail("bytes behind a histogram")
	}
	if d.Err() != nil {
		return d.Err()
	}
	return e.wrong()
}

// wrong says what makes no sense of a histogram that was read.
func (e *entry) wrong() error {
	all := e.buckets[0] + e.buckets[1]
	switch {
	case e.schema != int64(int32(e.schema)) || !histogram.KnownSchema(int32(e.schema)):
		return errors.WithMessagef(histogram.ErrInvalidSchema, "schema %d", e.schema)
	case max(e.lists, all) > histogram.MaxBuckets:
		return errors.WithMessagef(histogram.ErrTooManyBuckets,
			"%d buckets, up to %d spans or bounds", all, e.lists)
	case e.overflow:
		return errors.WithMessage(histogram.ErrSpanOverflow, "span of more than 32 bits")
	}
	for side, spanned := range e.spanned {
		if spanned != uint64(e.buckets[side]) {
			return errors.WithMessagef(histogram.ErrSpansBucketsMismatch,
				"spans of %d buckets, %d buckets", spanned, e.buckets[side])
		}
	}
	return nil
}
