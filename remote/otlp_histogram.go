package remote

import (
	"math"

	"github.com/pkg/errors"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/histogram"
)

// otlpExponentialPoint is an ExponentialHistogramDataPoint.
type otlpExponentialPoint struct {
	scale              int64
	positive, negative exponentialBuckets
	native             histogram.Histogram
}

// exponentialBuckets are neighbours: bucket i has what is above base^(offset+i) and not above
// base^(offset+i+1), where base is 2^(2^-scale).
type exponentialBuckets struct {
	offset int64
	counts []uint64
}

// read reads a Buckets message:
//
//	1 offset sint32   2 bucket_counts repeated uint64
func (b *exponentialBuckets) read(message []byte) error {
	b.offset, b.counts = 0, b.counts[:0]
	r := readFields(message)
	for r.next() {
		switch {
		case r.num == 1:
			b.offset = protowire.DecodeZigZag(r.varint())
		case r.num == 2 && r.typ == protowire.VarintType:
			b.counts = append(b.counts, r.varint())
		case r.num == 2:
			for list := r.bytes(); len(list) > 0; {
				v, n := protowire.ConsumeVarint(list)
				if n < 0 {
					r.malformed("a count is")
					break
				}
				b.counts, list = append(b.counts, v), list[n:]
			}
		}
	}
	return errors.WithMessage(r.err, "buckets")
}

// zeroThreshold is where the zero bucket ends of a histogram that does not say it.
const zeroThreshold = 1e-128

// exponential hands over an ExponentialHistogramDataPoint:
//
//	4 count fixed64        5 sum double       6 scale sint32
//	7 zero_count fixed64   8 positive, 9 negative Buckets   14 zero_threshold double
func (q *otlpRequest) exponential(message []byte) error {
	if err := q.load.add(weightOther, histogramBytes(message)); err != nil {
		return err
	}
	p := &q.point.hist
	h := &p.native
	h.Clear()
	p.scale, p.positive.counts, p.negative.counts = 0, p.positive.counts[:0], p.negative.counts[:0]
	r := readFields(message)
	for r.next() {
		var err error
		switch r.num {
		case 4:
			h.Count = r.fixed64()
		case 5:
			h.Sum = math.Float64frombits(r.fixed64())
		case 6:
			p.scale = protowire.DecodeZigZag(r.varint())
		case 7:
			h.ZeroCount = r.fixed64()
		case 8:
			err = p.positive.read(r.bytes())
		case 9:
			err = p.negative.read(r.bytes())
		case 14:
			h.ZeroThreshold = math.Float64frombits(r.fixed64())
		}
		if err != nil {
			return err
		}
	}
	if r.err != nil {
		return r.err
	}
	if h.ZeroThreshold == 0 {
		h.ZeroThreshold = zeroThreshold
	}
	if p.scale < int64(histogram.MinSchema) {
		q.refuse(errors.WithMessagef(errScale, "%d, the least is %d", p.scale, histogram.MinSchema))
		return nil
	}
	h.Schema = int32(min(p.scale, int64(histogram.MaxSchema)))
	// Two neighbours are one of the next smaller scale.
	halvings := min(p.scale-int64(h.Schema), 63)
	var fits, fit bool
	h.PositiveSpans, h.PositiveBuckets, fits = p.positive.native(h.PositiveSpans, h.PositiveBuckets, halvings)
	h.NegativeSpans, h.NegativeBuckets, fit = p.negative.native(h.NegativeSpans, h.NegativeBuckets, halvings)
	if !fits || !fit {
		q.refuse(errors.WithMessage(errBuckets, "an index beyond 32 bits"))
		return nil
	}
	return q.native(h)
}

// native appends the sample of a native histogram.
func (q *otlpRequest) native(h *histogram.Histogram) error {
	if q.metric.temporality == otlpDelta && q.h.options.Delta == OTLPDeltaStored {
		h.Hint = histogram.HintGauge // its next value need not be larger
	}
	if q.point.stale {
		h.SetStale()
	}
	return q.append("", tsdb.Sample{H: h}, q.point.exemplars)
}

// mostGap is how many empty buckets in a row stand in a span, as they take less room there.
const mostGap = 2

// native appends buckets as native histograms have them: bucket i has what is not above base^i.
// Those of a larger scale are merged. It reports whether their numbers fit.
func (b *exponentialBuckets) native(spans []histogram.Span, deltas []int64, halvings int64) ([]histogram.Span, []int64, bool) {
	before := int64(0) // count of the bucket in front
	next := int64(0)   // index behind it
	add := func(index int64, count uint64) bool {
		if index > math.MaxInt32 || index < math.MinInt32 || count > math.MaxInt64 {
			return false
		}
		gap := index - next
		if len(spans) == 0 || gap > mostGap {
			spans = append(spans, histogram.Span{Offset: int32(gap)})
		} else {
			for range gap {
				deltas, before = append(deltas, -before), 0
			}
			spans[len(spans)-1].Length += uint32(gap)
		}
		spans[len(spans)-1].Length++
		deltas, before, next = append(deltas, int64(count)-before), int64(count), index+1
		return true
	}
	for i := 0; i < len(b.counts); {
		index, count := (b.offset+int64(i))>>halvings, uint64(0)
		for ; i < len(b.counts) && (b.offset+int64(i))>>halvings == index; i++ {
			count += b.counts[i]
		}
		if count > 0 && !add(index+1, count) {
			return spans, deltas, false
		}
	}
	return spans, deltas, true
}

// custom appends the histogram under way as one with custom buckets.
func (q *otlpRequest) custom() error {
	b := &q.point.buckets
	if err := q.load.add(weightOther, histogramMemory+2*bucketMemory*len(b.counts)); err != nil {
		return err
	}
	h := &q.point.hist.native
	h.Clear()
	h.Schema, h.Count, h.Sum = histogram.CustomBuckets, b.count, b.sum
	h.CustomValues = append(h.CustomValues[:0], b.bounds...)
	counts := exponentialBuckets{offset: -1, counts: b.counts} // the first one has index 0
	if len(b.counts) == 0 && b.count > 0 {
		counts.counts = []uint64{b.count}
	}
	var fits bool
	if h.PositiveSpans, h.PositiveBuckets, fits = counts.native(h.PositiveSpans, h.PositiveBuckets, 0); !fits {
		q.refuse(errors.WithMessage(errBuckets, "a count beyond 63 bits"))
		return nil
	}
	return q.native(h)
}
