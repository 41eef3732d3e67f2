package agg

import (
	"cmp"
	"math"
	"slices"
)

// accumulator computes a function of the samples of one window, which come in runs.
type accumulator struct {
	f Func
	q float64 // of a quantile

	n             int
	firstT, lastT int64
	first, last   float64
	best          float64   // the smallest or the largest value
	sum           sum       // of Sum and Avg
	falls         float64   // what a counter had when it was reset, all together
	fallsOften    bool      // as of the samples that were added last
	values        []float64 // of a quantile
}

// reset begins a window. What add sets with the first sample stays as it is.
func (c *accumulator) reset() {
	c.n, c.sum, c.falls, c.values = 0, sum{}, 0, c.values[:0]
}

// add adds samples behind those before. There is one at least.
func (c *accumulator) add(ts []int64, vs []float64) {
	if c.n == 0 {
		c.firstT, c.first, c.last, c.best = ts[0], vs[0], vs[0], vs[0]
	}
	switch c.f {
	case Sum, Avg:
		c.sum.add(vs)
	case Min:
		c.best = smallest(c.best, vs)
	case Max:
		c.best = largest(c.best, vs)
	case Increase, Rate:
		c.addFalls(vs)
	case quantile:
		c.values = append(c.values, vs...)
	}
	c.n += len(ts)
	c.lastT, c.last = ts[len(ts)-1], vs[len(vs)-1]
}

// value returns the function of the samples, of a window of the given length that ends at end;
// false if it has none.
func (c *accumulator) value(end, length int64) (float64, bool) {
	if c.n == 0 {
		return 0, false
	}
	switch c.f {
	case Count:
		return float64(c.n), true
	case Sum:
		return c.sum.value(), true
	case Avg:
		return c.sum.over(float64(c.n)), true
	case First:
		return c.first, true
	case Last:
		return c.last, true
	case Increase:
		return c.increase(end, length), c.n > 1
	case Rate:
		return c.increase(end, length) / (float64(length) / 1000), c.n > 1
	case quantile:
		return c.quantile(), true
	default:
		return c.best, true
	}
}

// smallest returns the smallest value; NaN only if there is nothing else.
func smallest(best float64, vs []float64) float64 {
	best, vs = withoutNaN(best, vs)
	for _, v := range vs {
		if v < best {
			best = v
		}
	}
	return best
}

// largest returns the largest value; NaN only if there is nothing else.
func largest(best float64, vs []float64) float64 {
	best, vs = withoutNaN(best, vs)
	for _, v := range vs {
		if v > best {
			best = v
		}
	}
	return best
}

// withoutNaN returns the best value so far, the first number among values if it is none, and the
// values that are left.
func withoutNaN(best float64, vs []float64) (float64, []float64) {
	for math.IsNaN(best) && len(vs) > 0 {
		best, vs = vs[0], vs[1:]
	}
	return best, vs
}

// addFalls adds what a counter had each time before it fell: it began at 0 again then. A counter
// falls seldom, and a processor foresees that. What falls at any time, as a gauge does, is added
// without a branch: how often it fell in the samples before says which of both (BenchmarkPoints).
func (c *accumulator) addFalls(vs []float64) {
	last, all, fell := c.last, c.falls, uint64(0)
	if c.fallsOften {
		for _, v := range vs {
			mask := uint64(0)
			if v < last {
				mask = math.MaxUint64
			}
			all += math.Float64frombits(math.Float64bits(last) & mask)
			fell += mask & 1
			last = v
		}
	} else {
		for _, v := range vs {
			if v < last {
				all += last
				fell++
			}
			last = v
		}
	}
	c.falls, c.fallsOften = all, fell > uint64(len(vs)/8)
}

// nearEnd says how many mean distances of samples a window's end may be away from the next sample
// so that the counter is thought to have gone on like this up to there. Where it is further, the
// series is thought to have begun, or ended, half a distance away.
const nearEnd = 1.1

// increase is how much a counter grew in the window. What the samples say is stretched to the ends
// of the window, as PromQL does; but never to before the time at which the counter was 0.
func (c *accumulator) increase(end, length int64) float64 {
	grown := c.last - c.first + c.falls
	span := float64(c.lastT-c.firstT) / 1000
	distance := span / float64(c.n-1)
	before := float64(c.firstT-(end-length)) / 1000
	after := float64(end-c.lastT) / 1000
	if before >= nearEnd*distance {
		before = distance / 2
	}
	if grown > 0 && c.first >= 0 {
		before = min(before, span*(c.first/grown))
	}
	if after >= nearEnd*distance {
		after = distance / 2
	}
	return grown * ((span + before + after) / span)
}

// quantile sorts the values, NaN first, and takes what is between the two next to it.
func (c *accumulator) quantile() float64 {
	switch {
	case math.IsNaN(c.q):
		return math.NaN()
	case c.q < 0:
		return math.Inf(-1)
	case c.q > 1:
		return math.Inf(1)
	}
	slices.SortFunc(c.values, cmp.Compare[float64])
	rank := c.q * float64(c.n-1)
	below := int(rank)
	above := min(below+1, c.n-1)
	weight := rank - math.Floor(rank)
	return c.values[below]*(1-weight) + c.values[above]*weight
}
