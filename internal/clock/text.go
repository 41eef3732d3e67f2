package clock

import (
	"math"
	"strconv"
	"time"
)

// Text shows a time in milliseconds since 1970 as a number, and as a date if it has one.
func Text(t int64) string {
	text := strconv.FormatInt(t, 10)
	switch d := time.UnixMilli(t).UTC(); {
	case t <= math.MinInt64+1:
		return "the beginning"
	case t >= math.MaxInt64-1:
		return "the end"
	case d.Year() < 1 || d.Year() > 9999:
		return text
	default:
		return text + " (" + d.Format(time.RFC3339) + ")"
	}
}

// OtherUnit says in which unit a number seems to be a time if it is not in milliseconds: one that
// makes it a time within a year of those up to a newest one. Empty: in none.
func OtherUnit(t, to int64) string {
	const year = 365 * 24 * 3600 * 1000
	near := func(t int64) bool { return t > max(to, 0)-year && t < to+year }
	switch {
	case t > 0 && t < math.MaxInt64/1000 && near(t*1000):
		return ", which looks like seconds where milliseconds belong"
	case near(t / 1000):
		return ", which looks like microseconds where milliseconds belong"
	case near(t / 1_000_000):
		return ", which looks like nanoseconds where milliseconds belong"
	default:
		return ""
	}
}
