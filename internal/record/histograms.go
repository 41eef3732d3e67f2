package record

import (
	"math"

	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/encbuf"
)

// Records of histograms. Version 1 has a type for each of integer and float counts and
// exponential and custom buckets; an empty one is the type byte alone:
//
//	+------------+---------------+-------------+--------------------------+
//	| 0x07..0x0a | base_ref be64 | base_t be64 | entries until the end    |
//	+------------+---------------+-------------+--------------------------+
//	entry: ref - base_ref varint | t - base_t varint | histogram
//
// The base need not be that of the first entry.
//
// Version 2 has a type for each of integer and float counts, and start timestamps. Its first
// entry is whole, the others follow from the entry before them (ref) and from the first (t,
// start):
//
//	first: ref varint | t varint | start varint | histogram
//	other: ref - previous ref varint | t - first t varint | start | histogram
//	start: 0 none | 1 the previous entry's | other, then start - first start varint
//
// A histogram is the same in all of them, but for its counts: z, n and buckets are uvarint,
// uvarint and varint differences, or f64, f64 and f64 counts:
//
//	hint u8 | schema varint | threshold f64 | z | n | sum f64
//	positive spans: how many uvarint, each: offset varint, length uvarint
//	negative spans: likewise
//	positive buckets: how many uvarint, each
//	negative buckets: likewise
//	bounds, of schema -53 only: how many uvarint, each f64

// HistogramType returns the type of records of histograms with float or integer counts: of
// version 2, which has start timestamps, or of version 1 for custom or exponential buckets.
func HistogramType(floats, custom, starts bool) Type {
	switch {
	case starts && floats:
		return TypeFloatsV2
	case starts:
		return TypeHistogramsV2
	case custom && floats:
		return TypeCustomFloats
	case custom:
		return TypeCustomHistograms
	case floats:
		return TypeFloatHistograms
	default:
		return TypeHistograms
	}
}

// HistogramEncoder builds one record of histograms entry by entry. The zero value is ready
// for Begin.
type HistogramEncoder struct {
	ref     uint64 // base; version 2: of the previous entry
	t       int64  // base; version 2: of the first entry
	first   int64  // start of the first entry
	start   int64  // start of the previous entry
	v2      bool
	based   bool // the base was named
	started bool
}

// Begin starts a record of a type of histograms at the end of dst. The base of version 1 is
// that of the first Append.
func (e *HistogramEncoder) Begin(dst []byte, typ Type) []byte {
	*e = HistogramEncoder{v2: typ == TypeHistogramsV2 || typ == TypeFloatsV2}
	return append(dst, byte(typ))
}

// BeginAt is Begin with the base named: that of the first histogram of a list from which
// those with other buckets went elsewhere. Version 2 has no base.
func (e *HistogramEncoder) BeginAt(dst []byte, typ Type, ref uint64, t int64) []byte {
	dst = e.Begin(dst, typ)
	e.ref, e.t, e.based = ref, t, true
	return dst
}

// Append appends an entry to the record that dst ends with. body is a histogram of the
// record's kind, from AppendHistogram, AppendFloatHistogram or HistogramDecoder.Entry. st
// is its start timestamp in milliseconds, 0 for none, and lost in version 1.
func (e *HistogramEncoder) Append(dst []byte, ref uint64, t, st int64, body []byte) []byte {
	if e.v2 {
		dst = e.appendV2(dst, ref, t, st)
	} else {
		dst = e.appendV1(dst, ref, t)
	}
	return append(dst, body...)
}

func (e *HistogramEncoder) appendV1(dst []byte, ref uint64, t int64) []byte {
	if !e.started {
		if e.started = true; !e.based {
			e.ref, e.t = ref, t
		}
		dst = encbuf.AppendBE64(dst, e.ref)
		dst = encbuf.AppendBE64(dst, uint64(e.t))
	}
	dst = encbuf.AppendVarint(dst, int64(ref-e.ref))
	return encbuf.AppendVarint(dst, t-e.t)
}

func (e *HistogramEncoder) appendV2(dst []byte, ref uint64, t, st int64) []byte {
	if !e.started {
		*e = HistogramEncoder{v2: true, started: true, ref: ref, t: t, first: st, start: st}
		dst = encbuf.AppendVarint(dst, int64(ref))
		dst = encbuf.AppendVarint(dst, t)
		return encbuf.AppendVarint(dst, st)
	}
	dst = encbuf.AppendVarint(dst, int64(ref-e.ref))
	dst = encbuf.AppendVarint(dst, t-e.t)
	switch {
	case st == 0:
		dst = append(dst, startNone)
	case st == e.start:
		dst = append(dst, startSame)
	default:
		dst = encbuf.AppendVarint(append(dst, startOther), st-e.first)
	}
	e.ref, e.start = ref, st
	return dst
}

// AppendHistogram appends the entry of a histogram: all of it but series and time.
func AppendHistogram(dst []byte, h *histogram.Histogram) []byte {
	dst = appendHead(dst, h.Hint, h.Schema, h.ZeroThreshold)
	dst = appendSmall(dst, h.ZeroCount)
	dst = appendSmall(dst, h.Count)
	dst = appendFloat(dst, h.Sum)
	dst = appendSpans(dst, h.PositiveSpans)
	dst = appendSpans(dst, h.NegativeSpans)
	dst = appendDeltas(dst, h.PositiveBuckets)
	dst = appendDeltas(dst, h.NegativeBuckets)
	if h.Custom() {
		dst = appendFloats(dst, h.CustomValues)
	}
	return dst
}

// appendSmall is AppendUvarint for numbers that are small as a rule.
func appendSmall(dst []byte, v uint64) []byte {
	if v < 0x80 {
		return append(dst, byte(v))
	}
	return encbuf.AppendUvarint(dst, v)
}

func appendDeltas(dst []byte, deltas []int64) []byte {
	if dst = appendSmall(dst, uint64(len(deltas))); len(deltas) > 0 {
		dst = encbuf.AppendVarints(dst, deltas)
	}
	return dst
}

// AppendFloatHistogram appends the entry of a float histogram: all of it but series and time.
func AppendFloatHistogram(dst []byte, h *histogram.FloatHistogram) []byte {
	dst = appendHead(dst, h.Hint, h.Schema, h.ZeroThreshold)
	dst = appendFloat(dst, h.ZeroCount)
	dst = appendFloat(dst, h.Count)
	dst = appendFloat(dst, h.Sum)
	dst = appendSpans(dst, h.PositiveSpans)
	dst = appendSpans(dst, h.NegativeSpans)
	dst = appendFloats(dst, h.PositiveBuckets)
	dst = appendFloats(dst, h.NegativeBuckets)
	if h.Custom() {
		dst = appendFloats(dst, h.CustomValues)
	}
	return dst
}

func appendHead(dst []byte, hint histogram.ResetHint, schema int32, threshold float64) []byte {
	dst = append(dst, byte(hint))
	dst = appendSmall(dst, encbuf.Zigzag(int64(schema)))
	return appendFloat(dst, threshold)
}

func appendFloat(dst []byte, f float64) []byte {
	return encbuf.AppendBE64(dst, math.Float64bits(f))
}

func appendFloats(dst []byte, list []float64) []byte {
	dst = encbuf.AppendUvarint(dst, uint64(len(list)))
	for _, f := range list {
		dst = appendFloat(dst, f)
	}
	return dst
}

func appendSpans(dst []byte, spans []histogram.Span) []byte {
	dst = appendSmall(dst, uint64(len(spans)))
	for _, s := range spans {
		dst = encbuf.AppendVarint(dst, int64(s.Offset))
		dst = encbuf.AppendUvarint(dst, uint64(s.Length))
	}
	return dst
}
