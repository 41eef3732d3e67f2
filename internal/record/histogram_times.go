package record

import "math"

// Histograms are not read yet, but when they are from: what is older than all that the head takes
// is in a block, and nothing is lost without it.

// NewestHistogram returns the time in milliseconds of the newest sample of a record of histograms,
// of whatever type; of none math.MinInt64. ok is false if the record is of another type, or
// makes no sense.
func NewestHistogram(rec []byte) (newest int64, ok bool) {
	newest = math.MinInt64
	var d HistogramDecoder
	for d.Reset(rec); d.Next(); {
		newest = max(newest, d.T())
	}
	return newest, d.Err() == nil
}
