package agg

import "errors"

// ErrHistogram: a series has a histogram in a window. Only floats are aggregated.
var ErrHistogram = errors.New("histograms are not aggregated")
