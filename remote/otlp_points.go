package remote

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/pkg/errors"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/exemplar"
	"github.com/seed347100a3/tsdb/labels"
)

// otlpPoint is the data point under way, of any kind.
type otlpPoint struct {
	sent      attributes
	own       attributes  // labels of these
	labels    []attribute // all of them, sorted, without the name
	t, start  int64       // in milliseconds
	stale     bool        // nothing was recorded
	exemplars []exemplar.Exemplar

	buckets explicitBuckets
	hist    otlpExponentialPoint
	name    []byte
	more    []attribute // scratch
	encoded []byte
	le      []byte
}

// explicitBuckets are those of a histogram with bounds: one more than there are bounds, or none.
type explicitBuckets struct {
	count  uint64
	sum    float64
	summed bool // sum is there
	counts []uint64
	bounds []float64
}

// noRecordedValue is the flag of a point without a value.
const noRecordedValue = 1

// Fields of the kinds of points that have other numbers.
var pointFields = [...]struct{ attributes, exemplars, flags int }{
	otlpGauge:       {7, 5, 8},
	otlpSum:         {7, 5, 8},
	otlpHistogram:   {9, 8, 10},
	otlpExponential: {1, 11, 10},
	otlpSummary:     {7, 0, 8},
}

// dataPoint hands over a point. An error is about the whole request.
func (q *otlpRequest) dataPoint(kind int, message []byte) error {
	p, fields := &q.point, pointFields[kind]
	if len(message) > maxHistogramBytes {
		q.refuse(errors.WithMessagef(errPointSize, "%d bytes, the limit is %d", len(message), maxHistogramBytes))
		return nil
	}
	p.sent.reset()
	p.stale, p.exemplars = false, p.exemplars[:0]
	p.t, p.start = 0, 0
	r := readFields(message)
	for r.next() {
		var err error
		switch int(r.num) {
		case fields.attributes:
			err = p.sent.read(r.bytes())
		case fields.exemplars:
			err = q.readExemplar(r.bytes())
		case fields.flags:
			p.stale = r.varint()&noRecordedValue != 0
		case 2:
			p.start = milliseconds(r.fixed64())
		case 3:
			p.t = milliseconds(r.fixed64())
		}
		if err != nil {
			return err
		}
	}
	if r.err != nil {
		return r.err
	}
	if p.sent.large != nil {
		q.refuse(p.sent.large)
		return nil
	}
	q.settleLabels()
	var err error
	late := len(q.stored.late.list)
	switch kind {
	case otlpHistogram:
		err = q.explicit(message)
	case otlpExponential:
		err = q.exponential(message)
	case otlpSummary:
		err = q.summary(message)
	default:
		err = q.number(message)
	}
	if !q.points[len(q.points)-1] && len(q.stored.late.list) == late {
		q.resource.from, q.resource.to = min(q.resource.from, p.t), max(q.resource.to, p.t)
	}
	return err
}

func milliseconds(nanoseconds uint64) int64 { return int64(nanoseconds / uint64(time.Millisecond)) }

// number hands over a NumberDataPoint:
//
//	4 as_double   6 as_int sfixed64
func (q *otlpRequest) number(message []byte) error {
	var s tsdb.Sample
	r := readFields(message)
	for r.next() {
		switch r.num {
		case 4:
			s.V = math.Float64frombits(r.fixed64())
		case 6:
			s.V = float64(int64(r.fixed64()))
		}
	}
	if r.err != nil {
		return r.err
	}
	if q.point.stale {
		s = stale()
	}
	return q.append("", s, q.point.exemplars)
}

// summary hands over a SummaryDataPoint:
//
//	4 count fixed64   5 sum double   6 quantile_values repeated (1 quantile, 2 value)
func (q *otlpRequest) summary(message []byte) error {
	var count, sum float64
	p := &q.point
	r := readFields(message)
	for r.next() {
		switch r.num {
		case 4:
			count = float64(r.fixed64())
		case 5:
			sum = math.Float64frombits(r.fixed64())
		case 6:
			var quantile, v float64
			f := readFields(r.bytes())
			for f.next() {
				switch f.num {
				case 1:
					quantile = math.Float64frombits(f.fixed64())
				case 2:
					v = math.Float64frombits(f.fixed64())
				}
			}
			if f.err != nil {
				return f.err
			}
			p.le = appendBound(p.le[:0], quantile)
			if err := q.append("", p.sample(v), nil, attribute{quantileLabel, p.le}); err != nil {
				return err
			}
		}
	}
	if r.err != nil {
		return r.err
	}
	if err := q.append("_sum", p.sample(sum), nil); err != nil {
		return err
	}
	return q.append("_count", p.sample(count), nil)
}

// sample is a sample of a value, unless there is none.
func (p *otlpPoint) sample(v float64) tsdb.Sample {
	if p.stale {
		return stale()
	}
	return tsdb.Sample{V: v}
}

// appendBound appends a bound of a bucket, or a quantile, as a label has it.
func appendBound(dst []byte, v float64) []byte {
	if math.IsInf(v, 1) {
		return append(dst, "+Inf"...)
	}
	return strconv.AppendFloat(dst, v, 'f', -1, 64)
}

// explicit hands over a HistogramDataPoint:
//
//	4 count fixed64   5 sum double   6 bucket_counts repeated fixed64
//	7 explicit_bounds repeated double
func (q *otlpRequest) explicit(message []byte) error {
	p := &q.point
	b := &p.buckets
	b.count, b.sum, b.summed = 0, 0, false
	b.counts, b.bounds = b.counts[:0], b.bounds[:0]
	r := readFields(message)
	for r.next() {
		switch r.num {
		case 4:
			b.count = r.fixed64()
		case 5:
			b.sum, b.summed = math.Float64frombits(r.fixed64()), true
		case 6:
			eachFixed(&r, func(v uint64) { b.counts = append(b.counts, v) })
		case 7:
			eachFixed(&r, func(v uint64) { b.bounds = append(b.bounds, math.Float64frombits(v)) })
		}
	}
	if r.err != nil {
		return r.err
	}
	if n := len(b.bounds); n > 0 && math.IsInf(b.bounds[n-1], 1) && len(b.counts) == n {
		b.bounds = b.bounds[:n-1] // said although it is always there
	}
	if len(b.counts) > 0 && len(b.counts) != len(b.bounds)+1 || len(b.counts) == 0 && len(b.bounds) > 0 ||
		!slices.IsSorted(b.bounds) || slices.ContainsFunc(b.bounds, math.IsNaN) {
		q.refuse(errors.WithMessagef(errBuckets, "%d counts, %d bounds", len(b.counts), len(b.bounds)))
		return nil
	}
	if q.h.options.CustomBuckets {
		return q.custom()
	}
	if b.summed {
		if err := q.append("_sum", p.sample(b.sum), nil); err != nil {
			return err
		}
	}
	if err := q.append("_count", p.sample(float64(b.count)), nil); err != nil {
		return err
	}
	// An exemplar belongs to the first bucket that its value is in.
	slices.SortStableFunc(p.exemplars, func(a, b exemplar.Exemplar) int { return cmp.Compare(a.Value, b.Value) })
	exemplars, below := p.exemplars, uint64(0)
	for i, bound := range b.bounds {
		below += b.counts[i]
		n := 0
		for n < len(exemplars) && !(exemplars[n].Value > bound) { // NaN, which comes first, is nowhere
			n++
		}
		p.le = appendBound(p.le[:0], bound)
		if err := q.append("_bucket", p.sample(float64(below)), exemplars[:n], attribute{bucketLabel, p.le}); err != nil {
			return err
		}
		exemplars = exemplars[n:]
	}
	return q.append("_bucket", p.sample(float64(b.count)), exemplars, attribute{bucketLabel, infinite})
}

// eachFixed reads repeated numbers of eight bytes, packed or one by one.
func eachFixed(r *fieldReader, yield func(uint64)) {
	if r.typ == protowire.Fixed64Type {
		yield(r.fixed64())
		return
	}
	b := r.bytes()
	if len(b)%8 != 0 {
		r.malformed("a list of numbers is")
		return
	}
	for ; len(b) > 0; b = b[8:] {
		yield(binary.LittleEndian.Uint64(b))
	}
}

// readExemplar reads an Exemplar message:
//
//	2 time_unix_nano fixed64   3 as_double   6 as_int sfixed64   4 span_id bytes   5 trace_id bytes
//	7 filtered_attributes repeated KeyValue
func (q *otlpRequest) readExemplar(message []byte) error {
	if q.h.opts.NoExemplars {
		q.refused.count(itemExemplar, reasonOff)
		return nil
	}
	if err := q.load.add(weightExemplar, exemplarMemory); err != nil {
		return err
	}
	e := exemplar.Exemplar{HasT: true}
	var b labels.Builder
	var filtered attributes
	r := readFields(message)
	for r.next() {
		switch r.num {
		case 2:
			e.T = milliseconds(r.fixed64())
		case 3:
			e.Value = math.Float64frombits(r.fixed64())
		case 6:
			e.Value = float64(int64(r.fixed64()))
		case 4:
			b.Set("span_id", hex.EncodeToString(r.bytes()))
		case 5:
			b.Set("trace_id", hex.EncodeToString(r.bytes()))
		case 7:
			if err := filtered.read(r.bytes()); err != nil {
				return err
			}
		}
	}
	if r.err != nil {
		return errors.WithMessage(r.err, "exemplar")
	}
	if e.T > q.maxT {
		q.refused.count(itemExemplar, reasonFuture)
		return nil
	}
	ids := b.Labels()
	for _, at := range filtered.list {
		name := string(q.h.options.Names.appendLabelName(nil, at.name))
		if !ids.Has(name) {
			b.Set(name, string(at.value))
		}
	}
	if e.Labels = b.Labels(); e.Validate() != nil {
		e.Labels = ids // rather than nothing of it
	}
	q.point.exemplars = append(q.point.exemplars, e)
	return nil
}
