package histogram

import (
	"math"

	"github.com/pkg/errors"
)

// LayoutCheck looks at where a histogram has its buckets, as that is read: at the spans of both
// sides and the bounds of custom buckets, each in their order. The rules are those for what is
// appended. It keeps the first one that is broken. The zero value is ready for exponential buckets.
// It is for one goroutine, and keeps nothing of what it is given.
type LayoutCheck struct {
	Custom bool // buckets are custom ones

	ends   [2]int64 // index behind the last bucket of a side
	begun  [2]bool  // a side has a span
	bounds int64
	last   float64 // bound
	broken error
}

// Span looks at the next span of the positive side, 0, or of the negative one, 1. It is not
// inlined: the least program has little room.
//
//go:noinline
func (c *LayoutCheck) Span(side int, s Span) {
	anywhere := !c.begun[side] && !c.Custom // the first one of exponential buckets
	c.begun[side] = true
	c.ends[side] += int64(s.Offset) + int64(s.Length)
	switch {
	case c.broken != nil:
	case side > 0 && c.Custom:
		c.broken = ErrCustomBucketsNegativeSpans
	case s.Offset < 0 && !anywhere:
		c.broken = ErrSpanNegativeOffset
	case c.ends[side] > math.MaxInt32+1:
		c.broken = ErrSpanOverflow
	}
}

// Bound looks at the next bound. The first one may be -Inf.
func (c *LayoutCheck) Bound(b float64) {
	if b > c.last && b <= math.MaxFloat64 { // most are
		c.last = b
		c.bounds++
		return
	}
	c.oddBound(b)
}

// oddBound looks at a bound that is not above the one before it, or above 0 if it is the first. It
// is rare.
//
//go:noinline
func (c *LayoutCheck) oddBound(b float64) {
	switch {
	case c.broken != nil:
	case math.IsNaN(b):
		c.broken = ErrCustomBucketsNaN
	case math.IsInf(b, 1):
		c.broken = ErrCustomBucketsInfinite
	case c.bounds > 0:
		c.broken = ErrCustomBucketsInvalid
	}
	c.last = b
	c.bounds++
}

// Err returns what is wrong with the layout, when all of it was looked at: a sentinel of this
// package.
func (c *LayoutCheck) Err() error {
	switch {
	case c.broken != nil:
		return c.broken
	case c.Custom && c.ends[0] > c.bounds+1: // the last bucket has no bound
		return ErrCustomBucketsMismatch
	case !c.Custom && c.bounds > 0:
		return ErrExponentialWithCustomBounds
	default:
		return nil
	}
}

// CheckLayout says whether positive and negative spans and bounds make sense, as LayoutCheck does.
// The error wraps a sentinel, and says which numbers do not fit. Whether there is such a schema is
// not looked at.
func CheckLayout(schema int32, spans [2][]Span, bounds []float64) error {
	c := LayoutCheck{Custom: schema == CustomBuckets}
	for side, list := range spans {
		for i, s := range list {
			if c.Span(side, s); c.broken != nil {
				return errors.WithMessagef(c.broken, "%s span %d: offset %d, length %d",
					sides[side], i, s.Offset, s.Length)
			}
		}
	}
	for i, b := range bounds {
		if c.Bound(b); c.broken != nil {
			return errors.WithMessagef(c.broken, "bound %d: %g", i, b)
		}
	}
	if err := c.Err(); err != nil {
		return errors.WithMessagef(err, "schema %d, positive buckets end at index %d, %d bounds",
			schema, c.ends[0], len(bounds))
	}
	return nil
}
