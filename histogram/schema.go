package histogram

import (
	"math"

	"github.com/pkg/errors"
)

// factors are 2^(2^-1), 2^(2^-2), and so on. Some are a unit in the last place beside the best
// float, and bounds that are products of them are a few units. But these are the bounds that other
// programs name, and a width of the zero bucket that was taken from one of them has to meet it.
var factors = [...]float64{
	1.414213562373095, 1.189207115002721, 1.0905077326652577, 1.0442737824274138,
	1.0218971486541166, 1.0108892860517005, 1.0054299011128027, 1.0027112750502025,
}

// Bound returns where bucket index of an exponential schema ends: 2^(index * 2^-schema). The
// bucket begins at the bound of index-1.
func Bound(schema int32, index int64) float64 {
	if schema <= 0 {
		return power(index << uint(min(-schema, 32)))
	}
	whole := index >> uint(schema)
	part := uint64(index - whole<<uint(schema)) // of 2^schema
	x := 1.0
	for i := range schema {
		switch {
		case part>>uint(schema-1-i)&1 == 0:
		case int(i) < len(factors):
			x *= factors[i]
		default:
			x *= math.Exp2(math.Ldexp(1, -1-int(i)))
		}
	}
	return math.Ldexp(x, int(max(min(whole, math.MaxInt16), math.MinInt16)))
}

// power returns 2^exp.
func power(exp int64) float64 {
	return math.Ldexp(1, int(max(min(exp, math.MaxInt16), math.MinInt16)))
}

// checkReduction says whether buckets of one schema can be joined to those of another.
func checkReduction(from, to int32) error {
	switch {
	case !Exponential(from) || !Exponential(to):
		return errors.WithMessagef(ErrResolution, "schema %d to %d: not both exponential", from, to)
	case to > from:
		return errors.WithMessagef(ErrResolution, "schema %d to %d: that is finer", from, to)
	default:
		return nil
	}
}

// wider returns which bucket has that of an index, if schemas differ by shift.
func wider(shift int32) func(int64) int64 {
	return func(index int64) int64 { return (index-1)>>uint(shift) + 1 }
}

// joinDeltas moves buckets to new indexes, in place; those that get the same one are added.
// The order of buckets stays.
func joinDeltas(spans []Span, deltas []int64, to func(int64) int64) ([]Span, []int64) {
	at, b := NewIndexes(spans), SpanBuilder{Spans: spans[:0]}
	out := deltas[:0]
	var count, sum, newest int64 // of the bucket that is read; of the one written, and its index
	for _, d := range deltas {
		index, ok := at.Next()
		if !ok {
			break
		}
		count += d
		index = to(index)
		if n := len(out); n > 0 && index == newest {
			out[n-1] += count
			sum += count
			continue
		}
		b.Add(index)
		out = append(out, count-sum)
		sum, newest = count, index
	}
	return b.Spans, out
}

// joinFloats is joinDeltas for float counts.
func joinFloats(spans []Span, counts []float64, to func(int64) int64) ([]Span, []float64) {
	at, b := NewIndexes(spans), SpanBuilder{Spans: spans[:0]}
	out := counts[:0]
	var newest int64
	for _, c := range counts {
		index, ok := at.Next()
		if !ok {
			break
		}
		index = to(index)
		if n := len(out); n > 0 && index == newest {
			out[n-1] += c
			continue
		}
		b.Add(index)
		out = append(out, c)
		newest = index
	}
	return b.Spans, out
}
