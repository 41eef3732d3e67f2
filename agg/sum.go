package agg

import "math"

// sum adds values up by the method of Kahan, as Neumaier has it: what is rounded off at each step
// is kept apart, and added at the end. It goes on where a float has no room for it, as the
// mean of such values has.
type sum struct {
	all, off float64
	small    bool // both are of values that were made smaller
}

// smaller is what values are multiplied by when their sum is too large: it leaves room for 2^64.
const smaller = 0x1p-64

func (s *sum) add(vs []float64) {
	next := s.plus(vs)
	if math.IsInf(next.all, 0) && !math.IsInf(s.all, 0) && !s.small {
		s.all, s.off, s.small = s.all*smaller, s.off*smaller, true
		next = s.plus(vs)
	}
	*s = next
}

// plus needs no comparison of what it adds: what is rounded off is what comes out of taking both
// away from the sum again (BenchmarkPoints).
func (s *sum) plus(vs []float64) sum {
	all, off, scale := s.all, s.off, 1.0
	if s.small {
		scale = smaller
	}
	for _, v := range vs {
		v *= scale
		next := all + v
		added := next - all
		off += (all - (next - added)) + (v - added)
		all = next
	}
	return sum{all: all, off: off, small: s.small}
}

// value returns the sum, which may be infinite.
func (s *sum) value() float64 { return s.over(1) }

// over returns the sum divided by n.
func (s *sum) over(n float64) float64 {
	v := s.all / n
	if !math.IsInf(s.all, 0) { // or what is off is no number
		v += s.off / n
	}
	if s.small {
		v /= smaller
	}
	return v
}
