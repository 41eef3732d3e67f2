// Package agg computes what a series looks like step by step: the smallest, largest and average
// value of each hour, a rate per minute, a quantile. It reads samples in batches and keeps no more
// of them than a window needs.
//
//	hours := agg.Windows{Start: from, End: to, Step: time.Hour.Milliseconds()}
//	rates, err := agg.New(agg.Rate, hours)
//	...
//	for set.Next() {
//		points, err := rates.Points(points[:0], set.At().Iterator(nil))
//		...
//	}
//
// The results are those of the functions of PromQL with the same names (rate, increase,
// min_over_time and so on), which the tests of module prom hold it to: windows are open at their
// begin, stale markers are no samples, a window without a sample has no point, a counter that falls
// has been reset, and rates are extrapolated to the ends of their window.
package agg
