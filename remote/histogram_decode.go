package remote

import (
	"math"

	"github.com/pkg/errors"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/histogram"
)

// wireHistogram is a histogram of an answer in samples. It keeps its memory; the zero value is
// ready.
type wireHistogram struct {
	kind   chunkenc.ValueType
	t      int64
	st     int64 // of a message of remote write 2.0; others have no place for it
	ints   histogram.Histogram
	floats histogram.FloatHistogram
}

// decode reads a message. Fields of the kind that it is not are ignored, as are those that its
// schema does not have. What no chunk could hold is an error: an unknown schema, buckets that no
// spans are there for, or a layout that makes no sense.
func (w *wireHistogram) decode(message []byte) error {
	err := w.read(message)
	if err == nil {
		if bad := w.settle(); bad != nil {
			err = errors.WithMessage(errMalformed, bad.Error())
		}
	}
	return errors.WithMessage(err, "histogram")
}

// read reads the fields of a message. An error is about its bytes.
func (w *wireHistogram) read(message []byte) error {
	w.kind, w.t, w.st = chunkenc.ValHistogram, 0, 0
	w.ints.Clear()
	w.floats.Clear()
	r := readFields(message)
	for r.next() {
		w.field(&r)
	}
	return r.err
}

// field reads one field. Of two that exclude each other the last one counts.
func (w *wireHistogram) field(r *fieldReader) {
	h, fh := &w.ints, &w.floats
	switch r.num {
	case 1:
		h.Count, w.kind = r.varint(), chunkenc.ValHistogram
	case 2:
		fh.Count, w.kind = math.Float64frombits(r.fixed64()), chunkenc.ValFloatHistogram
	case 3:
		h.Sum = math.Float64frombits(r.fixed64())
	case 4:
		h.Schema = zigZag32(r.varint())
	case 5:
		h.ZeroThreshold = math.Float64frombits(r.fixed64())
	case 6:
		h.ZeroCount, fh.ZeroCount = r.varint(), 0
	case 7:
		h.ZeroCount, fh.ZeroCount = 0, math.Float64frombits(r.fixed64())
	case 8:
		h.NegativeSpans = appendSpan(h.NegativeSpans, r)
	case 9:
		h.NegativeBuckets = appendZigZags(h.NegativeBuckets, r)
	case 10:
		fh.NegativeBuckets = appendDoubles(fh.NegativeBuckets, r)
	case 11:
		h.PositiveSpans = appendSpan(h.PositiveSpans, r)
	case 12:
		h.PositiveBuckets = appendZigZags(h.PositiveBuckets, r)
	case 13:
		fh.PositiveBuckets = appendDoubles(fh.PositiveBuckets, r)
	case 14:
		h.Hint = hintOf(r.varint())
	case 15:
		w.t = int64(r.varint())
	case 16:
		h.CustomValues = appendDoubles(h.CustomValues, r)
	case 17:
		w.st = int64(r.varint())
	}
}

// settle makes the histogram that the fields say. An error is about what they say.
func (w *wireHistogram) settle() error {
	h, fh := &w.ints, &w.floats
	if !histogram.KnownSchema(h.Schema) {
		return errors.WithMessagef(errHistogram, "unknown schema %d", h.Schema)
	}
	positive, negative := len(h.PositiveBuckets), len(h.NegativeBuckets)
	if w.kind == chunkenc.ValFloatHistogram {
		positive, negative = len(fh.PositiveBuckets), len(fh.NegativeBuckets)
	}
	if err := checkSide("positive", h.PositiveSpans, positive); err != nil {
		return err
	}
	if err := checkSide("negative", h.NegativeSpans, negative); err != nil {
		return err
	}
	h.Normalize()
	if err := histogram.CheckLayout(h.Schema, [2][]histogram.Span{h.PositiveSpans, h.NegativeSpans}, h.CustomValues); err != nil {
		return errors.WithMessage(errHistogram, err.Error())
	}
	if w.kind == chunkenc.ValFloatHistogram {
		fh.Hint, fh.Schema, fh.Sum, fh.ZeroThreshold = h.Hint, h.Schema, h.Sum, h.ZeroThreshold
		fh.PositiveSpans = append(fh.PositiveSpans, h.PositiveSpans...)
		fh.NegativeSpans = append(fh.NegativeSpans, h.NegativeSpans...)
		fh.CustomValues = append(fh.CustomValues, h.CustomValues...)
		fh.Normalize()
		if !fh.Custom() && fh.Schema > histogram.MaxSchema {
			return fh.ReduceResolution(histogram.MaxSchema)
		}
		return nil
	}
	if !h.Custom() && h.Schema > histogram.MaxSchema {
		return h.ReduceResolution(histogram.MaxSchema)
	}
	return nil
}

// checkSide checks that spans describe so many buckets.
func checkSide(side string, spans []histogram.Span, buckets int) error {
	n := uint64(0)
	for _, s := range spans {
		n += uint64(s.Length)
	}
	if n != uint64(buckets) {
		return errors.WithMessagef(errHistogram, "%s spans of %d buckets, %d buckets", side, n, buckets)
	}
	return nil
}

func zigZag32(v uint64) int32 { return int32(protowire.DecodeZigZag(v & math.MaxUint32)) }

// hintOf returns a hint of the wire, whose numbers are those of package histogram. One that is not
// known says nothing.
func hintOf(v uint64) histogram.ResetHint {
	if v > uint64(histogram.HintGauge) {
		return histogram.HintUnknown
	}
	return histogram.ResetHint(v)
}

// appendSpan reads a BucketSpan message.
func appendSpan(dst []histogram.Span, r *fieldReader) []histogram.Span {
	var s histogram.Span
	span := readFields(r.bytes())
	for span.next() {
		switch span.num {
		case 1:
			s.Offset = zigZag32(span.varint())
		case 2:
			s.Length = uint32(span.varint())
		}
	}
	if r.err == nil {
		r.err = span.err
	}
	return append(dst, s)
}

// appendZigZags reads a repeated sint64, packed or one by one.
func appendZigZags(dst []int64, r *fieldReader) []int64 {
	return appendRepeated(dst, r, protowire.VarintType, "a packed number is", protowire.ConsumeVarint, protowire.DecodeZigZag)
}

// appendDoubles reads a repeated double, packed or one by one.
func appendDoubles(dst []float64, r *fieldReader) []float64 {
	return appendRepeated(dst, r, protowire.Fixed64Type, "a packed float is", protowire.ConsumeFixed64, math.Float64frombits)
}

// appendRepeated reads a repeated number, packed or one by one: those that stand alone have typ.
func appendRepeated[T any](dst []T, r *fieldReader, typ protowire.Type, what string, consume func([]byte) (uint64, int), value func(uint64) T) []T {
	if r.typ == typ {
		return append(dst, value(r.v))
	}
	for b := r.bytes(); len(b) > 0; {
		v, n := consume(b)
		if n < 0 {
			r.malformed(what)
			return dst
		}
		dst, b = append(dst, value(v)), b[n:]
	}
	return dst
}

// T implements otherSample.
func (w *wireHistogram) T() int64 { return w.t }

// ST implements otherSample: the message has no place for a start timestamp.
func (w *wireHistogram) ST() int64 { return 0 }

// Histogram implements otherSample.
func (w *wireHistogram) Histogram(dst *histogram.Histogram) {
	if w.kind != chunkenc.ValHistogram {
		dst.Clear()
		return
	}
	w.ints.CopyTo(dst)
}

// FloatHistogram implements otherSample.
func (w *wireHistogram) FloatHistogram(dst *histogram.FloatHistogram) {
	switch w.kind {
	case chunkenc.ValHistogram:
		w.ints.ToFloat(dst)
	case chunkenc.ValFloatHistogram:
		w.floats.CopyTo(dst)
	default:
		dst.Clear()
	}
}
