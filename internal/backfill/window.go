package backfill

import "math"

// WindowOf returns the number of the aligned window of a width in milliseconds that a time
// lies in: the quotient, rounded down for negative times too.
func WindowOf(t, width int64) int64 {
	w := t / width
	if t%width < 0 {
		w--
	}
	return w
}

// FirstOf returns the first time of a window; the first window begins with the least
// number there is.
func FirstOf(window, width int64) int64 {
	if window == WindowOf(math.MinInt64, width) {
		return math.MinInt64
	}
	return window * width
}

// LastOf returns the last time of a window; the last window ends with the greatest number
// there is.
func LastOf(window, width int64) int64 {
	if window == WindowOf(math.MaxInt64, width) {
		return math.MaxInt64
	}
	return window*width + (width - 1)
}
