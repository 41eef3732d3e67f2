package histchunk

import (
	"math"

	"github.com/seed347100a3/tsdb/histogram"
)

// layout is what all samples of a chunk share. Its slices belong to it.
type layout struct {
	schema    int32
	threshold uint64              // bits of the float
	spans     [2][]histogram.Span // positive, negative
	buckets   [2]int              // how many the spans describe
	custom    []float64
}

// clear makes the layout that of stale markers. It keeps the room of slices.
func (l *layout) clear() {
	*l = layout{
		spans:  [2][]histogram.Span{l.spans[0][:0], l.spans[1][:0]},
		custom: l.custom[:0],
	}
}

// setSpans takes over the spans of one side.
func (l *layout) setSpans(side int, spans []histogram.Span) {
	l.spans[side] = append(l.spans[side][:0], spans...)
	l.buckets[side] = histogram.NumBuckets(spans)
}

// The byte of the zero threshold: 0 for 0, powers of two from 2^-243 to 2^10, or whatever
// follows as 64 bits.
const (
	thresholdZero   = 0
	thresholdRaw    = 255
	thresholdOffset = 244
)

func (l *layout) writeThreshold(w *bitWriter) {
	frac, exp := math.Frexp(math.Float64frombits(l.threshold))
	z := exp - 1 + thresholdOffset
	switch {
	case l.threshold == 0:
		z = thresholdZero
	case frac != 0.5 || z <= thresholdZero || z >= thresholdRaw:
		z = thresholdRaw
	}
	if w.put(uint64(z), 8); z == thresholdRaw {
		w.put(l.threshold, 64)
	}
}

func (l *layout) readThreshold(r *bitReader) {
	switch z := r.take(8); z {
	case thresholdZero:
		l.threshold = 0
	case thresholdRaw:
		l.threshold = r.take(64)
	default:
		l.threshold = math.Float64bits(math.Ldexp(1, int(z)-thresholdOffset))
	}
}

// write writes the layout behind the header.
func (l *layout) write(w *bitWriter) {
	l.writeThreshold(w)
	w.varbit(int64(l.schema))
	for _, spans := range l.spans {
		w.uvarbit(uint64(len(spans)))
		for _, s := range spans {
			w.uvarbit(uint64(s.Length))
			w.varbit(int64(s.Offset))
		}
	}
	if l.schema != histogram.CustomBuckets {
		return
	}
	w.uvarbit(uint64(len(l.custom)))
	for _, b := range l.custom {
		writeBound(w, b)
	}
}

// maxThousandths is the largest bound, in thousandths, that is written as an integer.
const maxThousandths = 33554430

// writeBound writes a bound of custom buckets: in thousandths plus 1 if that is all of it, or
// as a 0 and its bits.
func writeBound(w *bitWriter, b float64) {
	n := math.Round(b * 1000)
	if b*1000 >= 0 && b*1000 <= maxThousandths &&
		math.Float64bits(n/1000) == math.Float64bits(b) {
		w.uvarbit(uint64(n) + 1)
		return
	}
	w.put(0, 1)
	w.put(math.Float64bits(b), 64)
}

func readBound(r *bitReader) float64 {
	if n := r.uvarbit(); n > 0 {
		return float64(n-1) / 1000
	}
	return math.Float64frombits(r.take(64))
}

// Least bits of what lists have.
const (
	minSpanBits  = 2
	minBoundBits = 1
)

// read reads the layout. What it takes memory for is bounded by the bytes that are left, and by
// histogram.MaxBuckets. bucketBits is what a bucket of the first sample takes at least. It
// returns what is wrong with it, or nothing.
func (l *layout) read(r *bitReader, bucketBits int) (wrong string) {
	l.clear()
	l.readThreshold(r)
	schema := r.varbit()
	if schema != int64(int32(schema)) || !histogram.KnownSchema(int32(schema)) {
		return "histogram chunk: unknown schema"
	}
	l.schema = int32(schema)
	check := histogram.LayoutCheck{Custom: l.schema == histogram.CustomBuckets}
	total := uint64(0)
	for side := range l.spans {
		n := r.uvarbit()
		if n > histogram.MaxBuckets || n*minSpanBits > uint64(r.left()) {
			return "histogram chunk: more spans than fit its bytes"
		}
		for range n {
			length, offset := r.uvarbit(), r.varbit()
			if length > histogram.MaxBuckets || offset != int64(int32(offset)) {
				return "histogram chunk: span out of range"
			}
			total += length
			l.buckets[side] += int(length)
			s := histogram.Span{Offset: int32(offset), Length: uint32(length)}
			l.spans[side] = append(l.spans[side], s)
			check.Span(side, s)
		}
	}
	if l.schema == histogram.CustomBuckets {
		n := r.uvarbit()
		if n > histogram.MaxBuckets || n*minBoundBits > uint64(r.left()) {
			return "histogram chunk: more bounds than fit its bytes"
		}
		for range n {
			b := readBound(r)
			l.custom = append(l.custom, b)
			check.Bound(b)
		}
	}
	if total > histogram.MaxBuckets || total*uint64(bucketBits) > uint64(r.left()) {
		return "histogram chunk: more buckets than fit its bytes"
	}
	if err := check.Err(); err != nil {
		return "histogram chunk: " + err.Error()
	}
	return ""
}
