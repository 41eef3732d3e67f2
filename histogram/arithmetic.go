package histogram

import (
	"github.com/pkg/errors"
)

// Add adds o to h, bucket by bucket. Where their layouts differ, both are brought to one
// that either can have: the coarser schema, the wider zero bucket, the bounds that both
// know. o does not change. Custom and exponential buckets cannot be added: then it returns
// ErrIncompatibleSchemas, and h is as before.
//
// The sum is a gauge if one of both is; its hint is that of both if they have the same, and
// unknown otherwise.
func (h *FloatHistogram) Add(o *FloatHistogram) error { return h.combine(o, 1) }

// Sub subtracts o from h. It is Add in everything else.
func (h *FloatHistogram) Sub(o *FloatHistogram) error { return h.combine(o, -1) }

// Scale multiplies all counts and the sum by a factor.
func (h *FloatHistogram) Scale(factor float64) {
	h.ZeroCount *= factor
	h.Count *= factor
	h.Sum *= factor
	for i := range h.PositiveBuckets {
		h.PositiveBuckets[i] *= factor
	}
	for i := range h.NegativeBuckets {
		h.NegativeBuckets[i] *= factor
	}
}

func (h *FloatHistogram) combine(o *FloatHistogram, factor float64) error {
	if h.Custom() != o.Custom() {
		return errors.WithMessagef(ErrIncompatibleSchemas, "schemas %d and %d", h.Schema, o.Schema)
	}
	if !h.Custom() && (!Exponential(h.Schema) || !Exponential(o.Schema)) {
		return errors.WithMessagef(ErrInvalidSchema, "schemas %d and %d", h.Schema, o.Schema)
	}
	if h.Schema != o.Schema || h.ZeroThreshold != o.ZeroThreshold ||
		!equalFloats(h.CustomValues, o.CustomValues) {
		o = o.Copy()
		reconcile(h, o)
	}
	switch {
	case h.Hint == o.Hint:
	case h.Hint == HintGauge || o.Hint == HintGauge:
		h.Hint = HintGauge
	default:
		h.Hint = HintUnknown
	}
	h.ZeroCount += factor * o.ZeroCount
	h.Count += factor * o.Count
	h.Sum += factor * o.Sum
	h.PositiveSpans, h.PositiveBuckets = addCounts(h.PositiveSpans, h.PositiveBuckets,
		o.PositiveSpans, o.PositiveBuckets, factor)
	h.NegativeSpans, h.NegativeBuckets = addCounts(h.NegativeSpans, h.NegativeBuckets,
		o.NegativeSpans, o.NegativeBuckets, factor)
	return nil
}

// DetectReset reports whether the counter that h is the newest value of was reset since
// previous. The hint of h decides if it says so; otherwise it was reset if a count fell, if
// a bucket went, or if h has a finer layout than before. Where the layout of h is coarser,
// previous is compared as if it had that.
func (h *FloatHistogram) DetectReset(previous *FloatHistogram) bool {
	switch {
	case h.Hint == HintReset:
		return true
	case h.Hint == HintNotReset:
		return false
	case h.Stale() != previous.Stale() || h.Custom() != previous.Custom():
		return true
	case h.Count < previous.Count:
		return true
	case h.Schema > previous.Schema || h.ZeroThreshold < previous.ZeroThreshold:
		return true
	}
	if !equalFloats(h.CustomValues, previous.CustomValues) {
		h = h.Copy()
		previous = previous.Copy()
		reconcile(h, previous)
	} else if h.Schema < previous.Schema || h.ZeroThreshold > previous.ZeroThreshold {
		previous = previous.Copy()
		previous.widenZero(h.ZeroThreshold)
		if previous.ZeroThreshold != h.ZeroThreshold {
			return true // it ends inside of a bucket that was in use
		}
		if checkReduction(previous.Schema, h.Schema) != nil {
			return true
		}
		previous.reduce(h.Schema)
	}
	p := previous
	return h.ZeroCount < p.ZeroCount ||
		fell(h.PositiveSpans, h.PositiveBuckets, p.PositiveSpans, p.PositiveBuckets) ||
		fell(h.NegativeSpans, h.NegativeBuckets, p.NegativeSpans, p.NegativeBuckets)
}

// widenZero makes the zero bucket as wide as threshold, and takes the buckets inside of it
// into it. If threshold lies inside of a bucket that is not empty, the zero bucket gets as
// wide as that one.
func (h *FloatHistogram) widenZero(threshold float64) {
	for _, end := range [2]float64{
		endInside(h.Schema, h.PositiveSpans, h.PositiveBuckets, threshold),
		endInside(h.Schema, h.NegativeSpans, h.NegativeBuckets, threshold),
	} {
		threshold = max(threshold, end)
	}
	h.ZeroThreshold = threshold
	h.PositiveSpans, h.PositiveBuckets = h.intoZero(h.PositiveSpans, h.PositiveBuckets)
	h.NegativeSpans, h.NegativeBuckets = h.intoZero(h.NegativeSpans, h.NegativeBuckets)
}

// intoZero takes the buckets that begin inside of the zero bucket into it.
func (h *FloatHistogram) intoZero(spans []Span, counts []float64) ([]Span, []float64) {
	at, n := NewIndexes(spans), 0
	for ; n < len(counts); n++ {
		index, ok := at.Next()
		if !ok || Bound(h.Schema, index-1) >= h.ZeroThreshold {
			break
		}
		h.ZeroCount += counts[n]
	}
	return cutFront(spans, n), counts[n:]
}

// cutFront returns spans without their first n buckets.
func cutFront(spans []Span, n int) []Span {
	for n > 0 && len(spans) > 0 {
		s := spans[0]
		k := min(uint32(n), s.Length)
		n -= int(k)
		if k < s.Length {
			spans[0] = Span{s.Offset + int32(k), s.Length - k}
			break
		}
		spans = spans[1:]
		if len(spans) > 0 {
			spans[0].Offset += s.Offset + int32(k)
		}
	}
	return spans
}

// endInside returns the end of the bucket that threshold lies inside of, if that has a
// count, and else threshold.
func endInside(schema int32, spans []Span, counts []float64, threshold float64) float64 {
	at := NewIndexes(spans)
	for _, c := range counts {
		index, ok := at.Next()
		if !ok || Bound(schema, index-1) >= threshold {
			break
		}
		if end := Bound(schema, index); c != 0 && end > threshold {
			return end
		}
	}
	return threshold
}

// reconcile brings two histograms, both custom or both exponential, to one layout.
func reconcile(a, b *FloatHistogram) {
	if a.Custom() {
		common := commonBounds(a.CustomValues, b.CustomValues)
		a.joinBounds(common)
		b.joinBounds(common)
		return
	}
	for a.ZeroThreshold < b.ZeroThreshold || b.ZeroThreshold < a.ZeroThreshold {
		if a.ZeroThreshold < b.ZeroThreshold {
			a.widenZero(b.ZeroThreshold)
		} else {
			b.widenZero(a.ZeroThreshold)
		}
	}
	schema := min(a.Schema, b.Schema)
	a.reduce(schema)
	b.reduce(schema)
}

// commonBounds returns the bounds that are in both lists.
func commonBounds(a, b []float64) (common []float64) {
	for _, x := range a {
		for len(b) > 0 && b[0] < x {
			b = b[1:]
		}
		if len(b) > 0 && b[0] == x {
			common = append(common, x)
		}
	}
	return common
}

// joinBounds joins custom buckets to those of fewer bounds.
func (h *FloatHistogram) joinBounds(bounds []float64) {
	had := h.CustomValues
	h.PositiveSpans, h.PositiveBuckets = joinFloats(h.PositiveSpans, h.PositiveBuckets,
		func(index int64) int64 {
			if index < 0 || index >= int64(len(had)) {
				return int64(len(bounds))
			}
			to := 0
			for to < len(bounds) && bounds[to] < had[index] {
				to++
			}
			return int64(to)
		})
	h.CustomValues = append(had[:0:0], bounds...)
}

// addCounts adds factor times the second list of counts to the first one.
func addCounts(
	spans []Span, counts []float64, more []Span, others []float64, factor float64,
) ([]Span, []float64) {
	if EqualSpans(spans, more) && len(counts) == len(others) {
		for i, c := range others {
			counts[i] += factor * c
		}
		return spans, counts
	}
	m := merge{a: newSide(spans, counts), b: newSide(more, others)}
	var b SpanBuilder
	sums := make([]float64, 0, len(counts)+len(others))
	for m.next() {
		b.Add(m.index)
		sums = append(sums, m.x+factor*m.y)
	}
	return b.Spans, sums
}

// fell reports whether a bucket of previous has a smaller count, or none, in the list that
// followed it.
func fell(spans []Span, counts []float64, previous []Span, before []float64) bool {
	m := merge{a: newSide(spans, counts), b: newSide(previous, before)}
	for m.next() {
		if m.x < m.y || m.y != 0 && !m.inA {
			return true
		}
	}
	return false
}

// floatSide walks one list of counts.
type floatSide struct {
	at     Indexes
	counts []float64
	index  int64
	have   bool
}

func newSide(spans []Span, counts []float64) floatSide {
	return floatSide{at: NewIndexes(spans), counts: counts}
}

// look finds the next bucket, if that is not found yet.
func (s *floatSide) look() bool {
	if !s.have && len(s.counts) > 0 {
		s.index, s.have = s.at.Next()
	}
	return s.have
}

func (s *floatSide) take() float64 {
	c := s.counts[0]
	s.counts, s.have = s.counts[1:], false
	return c
}

// merge walks two lists side by side.
type merge struct {
	a, b  floatSide
	index int64   // of the present bucket
	x, y  float64 // its counts in a and in b, 0 where it is not
	inA   bool
}

// next moves to the next bucket of either list.
func (m *merge) next() bool {
	a, b := m.a.look(), m.b.look()
	if !a && !b {
		return false
	}
	inA := a && (!b || m.a.index <= m.b.index)
	inB := b && (!a || m.b.index <= m.a.index)
	m.x, m.y, m.inA = 0, 0, inA
	if inA {
		m.index, m.x = m.a.index, m.a.take()
	}
	if inB {
		m.index, m.y = m.b.index, m.b.take()
	}
	return true
}
