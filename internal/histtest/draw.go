package histtest

import (
	"math"

	"github.com/seed347100a3/tsdb/histogram"
)

// Pick returns a number from 0 to n-1: what a property test draws, or a random one. (64 bits
// also where an int has 32.)
type Pick func(n int64) int64

// once is true in one of n cases.
func (p Pick) once(n int64) bool { return p(n) == n-1 }

// count draws the count of a bucket: small ones as often as large ones.
func (p Pick) count() int64 { return p(1 << p(41)) }

func (p Pick) float() float64 {
	if p.once(10) {
		odd := [...]float64{
			0, math.Inf(1), math.Inf(-1), math.NaN(), math.Copysign(0, -1), math.MaxFloat64, 5e-324,
		}
		return odd[p(int64(len(odd)))]
	}
	return float64(p(1<<40)) / float64(1+p(1000))
}

func (p Pick) hint() histogram.ResetHint { return histogram.ResetHint(max(0, p(10)-6)) }

// Draw draws a valid histogram: exponential or custom buckets, spans of any legal form, a
// stale marker now and then.
func Draw(p Pick) *histogram.Histogram {
	h := &histogram.Histogram{Hint: p.hint(), Sum: p.float()}
	if p.once(16) {
		hint := h.Hint
		h.SetStale()
		h.Hint = hint
		return h
	}
	if p.once(4) {
		drawCustom(p, h)
	} else {
		thresholds := [...]float64{0, 1e-128, 0x1p-128, 0.001, 3}
		h.Schema = int32(p(13)) + histogram.MinSchema
		h.ZeroThreshold = thresholds[p(int64(len(thresholds)))]
		h.ZeroCount = uint64(p.count())
		h.PositiveSpans, h.PositiveBuckets = drawSide(p, 20, false)
		h.NegativeSpans, h.NegativeBuckets = drawSide(p, 8, false)
	}
	h.Count = h.ZeroCount + sum(h.PositiveBuckets) + sum(h.NegativeBuckets)
	if math.IsNaN(h.Sum) {
		h.Count += uint64(p(10))
	}
	return h
}

func drawCustom(p Pick, h *histogram.Histogram) {
	h.Schema = histogram.CustomBuckets
	h.PositiveSpans, h.PositiveBuckets = drawSide(p, 20, true)
	last := int64(0)
	for at := histogram.NewIndexes(h.PositiveSpans); ; {
		i, ok := at.Next()
		if !ok {
			break
		}
		last = i
	}
	for _, s := range h.PositiveSpans { // one behind the last bucket may be empty
		last += int64(s.Offset) * int64(1-min(s.Length, 1))
	}
	bound := float64(p(20) - 10)
	for range last + p(4) {
		h.CustomValues = append(h.CustomValues, bound)
		steps := [...]float64{0.005, 0.25, 1, 1.0 / 3}
		bound += steps[p(int64(len(steps)))]
	}
}

// drawSide draws the spans and the deltas of one side.
func drawSide(p Pick, most int64, custom bool) (spans []histogram.Span, deltas []int64) {
	offset := p(10)
	if !custom {
		offset -= 5
		if p.once(10) {
			offset = math.MinInt32 + p(1<<32-1<<10)
		}
	}
	for left := p(most + 1); left > 0; {
		n := p(left + 1)
		spans = append(spans, histogram.Span{Offset: int32(offset), Length: uint32(n)})
		offset = p(5)
		left -= n
	}
	count := int64(0)
	for range histogram.NumBuckets(spans) {
		next := int64(0)
		if p(2) > 0 {
			next = p.count()
		}
		deltas = append(deltas, next-count)
		count = next
	}
	return spans, deltas
}

func sum(deltas []int64) (n uint64) {
	count := int64(0)
	for _, d := range deltas {
		count += d
		n += uint64(count)
	}
	return n
}

// Follow draws a histogram that may well come after h in its series: most often one with the
// same layout whose counts grew, or one with other buckets.
func Follow(p Pick, h *histogram.Histogram) *histogram.Histogram {
	if h.Stale() || p.once(10) {
		return Draw(p)
	}
	next := h.Copy()
	next.Sum = p.float()
	if !h.Custom() {
		next.ZeroCount += uint64(p.growth())
	}
	custom := h.Custom()
	next.PositiveSpans, next.PositiveBuckets = follow(p, h.PositiveSpans, h.PositiveBuckets, custom)
	next.NegativeSpans, next.NegativeBuckets = follow(p, h.NegativeSpans, h.NegativeBuckets, custom)
	if p.once(20) {
		next.Hint = p.hint()
	}
	next.Count = next.ZeroCount + sum(next.PositiveBuckets) + sum(next.NegativeBuckets)
	return next
}

// growth draws by how much a counter grows.
func (p Pick) growth() int64 { return p(2) * p(1000) }

// follow lets the counts of one side grow, and buckets come and empty ones go.
func follow(
	p Pick, spans []histogram.Span, deltas []int64, custom bool,
) ([]histogram.Span, []int64) {
	change := p.once(4)
	at, b := histogram.NewIndexes(spans), histogram.SpanBuilder{}
	var out []int64
	var was, is, behind int64 // counts of the bucket before, and the index behind it
	for i, d := range deltas {
		index, _ := at.Next()
		was += d
		count := was + p.growth()
		if change && was == 0 && p.once(2) {
			continue
		}
		if change && !custom && i > 0 && index > behind && p.once(2) {
			b.Add(behind)
			out, is = append(out, 1-is), 1
		}
		b.Add(index)
		out, is, behind = append(out, count-is), count, index+1
	}
	if !change && p(3) > 0 {
		return append([]histogram.Span(nil), spans...), out
	}
	return b.Spans, out
}

// Floats returns a histogram as one of floats, with counts that are no integers.
func Floats(h *histogram.Histogram) *histogram.FloatHistogram {
	f := h.ToFloat(nil)
	if !f.Stale() {
		f.Scale(1.1)
		f.Sum = h.Sum
	}
	return f
}
