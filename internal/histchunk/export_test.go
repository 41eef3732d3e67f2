package histchunk

import "github.com/seed347100a3/tsdb/histogram"

// BeginWithStarts makes the chunk that begins next one with room for start timestamps, even
// if none comes.
func (e *Encoder) BeginWithStarts() { e.st = true }

// Newest makes dst the newest sample, as it is read back but for its hint, which is unknown. There
// is one, and it has integer counts.
func (e *Encoder) Newest(dst *histogram.Histogram) { e.ints(dst, histogram.HintUnknown) }

// NewestFloat is Newest for a sample of any counts.
func (e *Encoder) NewestFloat(dst *histogram.FloatHistogram) {
	e.floats(dst, histogram.HintUnknown, e.float)
}

// GoesOn is what the short way says of a histogram, and Fits what the rules do: that it can be in
// the chunk as it is.
func (e *Encoder) GoesOn(h *histogram.Histogram) bool { return e.num > 0 && e.goesOn(h) }

func (e *Encoder) Fits(h *histogram.Histogram) bool {
	s := fromInts(h)
	v := e.judge(&s)
	return v.fits && !v.other && !v.grown
}
