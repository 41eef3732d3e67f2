package histchunk

import (
	"math"

	"github.com/seed347100a3/tsdb/histogram"
)

// verdict is what the rules say of a sample behind the newest one of a chunk.
type verdict struct {
	fits   bool   // it can be in the same chunk
	other  bool   // but its buckets are not those of the chunk: Encoder.other has both
	grown  bool   // and some are new, so the chunk is to be encoded again
	header Header // of the next chunk, if it does not fit
}

func cut(h Header) verdict { return verdict{header: h} }

// judge says whether a sample can be in the chunk. The order of the rules
// is that of the format: the first one that holds decides the header.
func (e *Encoder) judge(s *sample) verdict {
	v := e.judgeKind(s)
	if !v.fits {
		v.header = byHint(s.hint, v.header)
	}
	return v
}

// byHint returns the header that the hint of a chunk's first sample asks for, or else header.
func byHint(hint histogram.ResetHint, header Header) Header {
	switch hint {
	case histogram.HintGauge:
		return HeaderGauge
	case histogram.HintReset:
		return HeaderReset
	default:
		return header
	}
}

func (e *Encoder) judgeKind(s *sample) verdict {
	switch gauge := s.hint == histogram.HintGauge; {
	case e.float != s.float:
		return cut(HeaderUnknown)
	case gauge && e.header == HeaderGauge:
		return e.judgeGauge(s)
	case gauge:
		return cut(HeaderGauge)
	case e.header == HeaderGauge && s.float:
		return cut(HeaderUnknown)
	case e.header == HeaderGauge:
		return cut(HeaderNotReset)
	default:
		return e.judgeCounter(s)
	}
}

// judgeGauge judges a gauge behind a gauge: what matters is the layout.
func (e *Encoder) judgeGauge(s *sample) verdict {
	switch l := &e.layout; {
	case s.stale:
		return verdict{fits: true}
	case e.stale(), l.schema != s.schema, l.threshold != s.threshold,
		!sameBounds(l.custom, s.custom):
		return cut(HeaderGauge)
	}
	return e.judgeBuckets(s, true)
}

// judgeCounter judges a counter behind a counter.
func (e *Encoder) judgeCounter(s *sample) verdict {
	switch l := &e.layout; {
	case s.hint == histogram.HintReset:
		return cut(HeaderReset)
	case s.stale:
		return verdict{fits: true}
	case e.stale():
		return cut(HeaderUnknown)
	case s.less(s.count, e.count().v):
		return cut(HeaderReset)
	case l.schema != s.schema, l.threshold != s.threshold:
		return cut(HeaderUnknown)
	case !sameBounds(l.custom, s.custom), s.less(s.zero, e.zero().v):
		return cut(HeaderReset)
	}
	return e.judgeBuckets(s, false)
}

// judgeBuckets compares the buckets. Counters must not fall; gauges may.
func (e *Encoder) judgeBuckets(s *sample, gauge bool) verdict {
	if !e.sameSpans(s) {
		return e.judgeOthers(s, gauge)
	}
	if !gauge && e.fell(s) {
		return cut(HeaderReset)
	}
	return verdict{fits: true}
}

// judgeOthers is judgeBuckets of a sample that has not literally the spans of the chunk.
func (e *Encoder) judgeOthers(s *sample, gauge bool) verdict {
	if e.other == nil {
		e.other = &another{}
	}
	o := e.other
	cols := e.cols
	for side := range s.spans {
		n := e.layout.buckets[side]
		o.sides[side].compare(e.layout.spans[side], cols[:n], s, side)
		cols = cols[n:]
	}
	switch a, b := &o.sides[0], &o.sides[1]; {
	case !gauge && (a.fell || b.fell):
		return cut(HeaderReset)
	case a.size()+b.size() > histogram.MaxBuckets:
		return cut(HeaderNotReset)
	}
	return verdict{fits: true, other: true, grown: o.sides[0].added || o.sides[1].added}
}

// goesOn reports whether an integer histogram is what most are: a counter that goes on, with the
// layout of the chunk. It says of them what judge does, in fewer steps (BenchmarkEncoder).
func (e *Encoder) goesOn(h *histogram.Histogram) bool {
	l := &e.layout
	return !e.float && e.header != HeaderGauge && (h.Hint == histogram.HintUnknown || h.Hint == histogram.HintNotReset) &&
		!h.Stale() && !e.stale() && h.Count >= e.count().v && h.ZeroCount >= e.zero().v &&
		h.Schema == l.schema && math.Float64bits(h.ZeroThreshold) == l.threshold && sameBounds(l.custom, h.CustomValues) &&
		len(h.PositiveBuckets) == l.buckets[0] && len(h.NegativeBuckets) == l.buckets[1] &&
		histogram.EqualSpans(l.spans[0], h.PositiveSpans) && histogram.EqualSpans(l.spans[1], h.NegativeSpans) &&
		!fewer(e.cols, h.PositiveBuckets) && !fewer(e.cols[l.buckets[0]:], h.NegativeBuckets)
}

// fewer reports whether a bucket counts less than it did, by the columns and deltas of one side.
func fewer(cols []column, deltas []int64) bool {
	cols = cols[:len(deltas)]
	var was, is, signs int64
	for i, d := range deltas {
		was, is = was+int64(cols[i].v), is+d
		// The sign of the difference, put right where that overflows: counts of hostile chunks.
		more := is - was
		signs |= more ^ (is^was)&(more^is)
	}
	return signs < 0
}

// follow returns the header of a chunk that s begins although the rules may let it be in this
// one. A counter that could go on was not reset. Of floats that is said whatever else keeps
// it from going on, as other writers do; readers do not rely on it.
func (e *Encoder) follow(v verdict, s *sample) Header {
	switch {
	case e.num == 0:
		return byHint(s.hint, e.header)
	case s.hint == histogram.HintGauge:
		return HeaderGauge
	case v.fits, s.float && e.float && v.header != HeaderReset:
		return HeaderNotReset
	default:
		return v.header
	}
}

func (n *newest) sameSpans(s *sample) bool {
	return histogram.EqualSpans(n.layout.spans[0], s.spans[0]) &&
		histogram.EqualSpans(n.layout.spans[1], s.spans[1])
}

// fell reports whether a count is lower than in the newest sample, which has the same
// buckets.
func (n *newest) fell(s *sample) bool {
	cols := n.cols
	for side := range s.spans {
		if fewer(cols, s.ints[side]) {
			return true
		}
		for i, f := range s.floats[side] {
			if f < math.Float64frombits(cols[i].v) {
				return true
			}
		}
		cols = cols[len(s.ints[side])+len(s.floats[side]):]
	}
	return false
}

// sameBounds compares bounds by their bits: those of the first sample are read back for all.
func sameBounds(a, b []float64) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if math.Float64bits(a[i]) != math.Float64bits(b[i]) {
			return false
		}
	}
	return true
}
