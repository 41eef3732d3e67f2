// Package tombstones knows which samples are deleted: closed intervals of time by
// series, how they merge, and the tombstones file of a block. It knows neither
// samples nor directories: the caller reads and writes the file's bytes. The format
// is in docs/format/tombstones.md.
//
// Intervals are immutable: what a reader has taken stays as it is while others add.
// A Set has no lock; its owner guards it.
package tombstones

import (
	"cmp"
	"math"
	"slices"
	"sort"
)

// Interval is a closed interval of time in milliseconds; one with Mint > Maxt holds
// nothing.
type Interval struct {
	Mint, Maxt int64
}

// Contains tells whether t lies in the interval.
func (iv Interval) Contains(t int64) bool { return iv.Mint <= t && t <= iv.Maxt }

// Intervals is what is deleted of one series.
//
// Invariant: sorted, and between two neighbours lies at least one millisecond that is
// not deleted. Add and Normalize keep it; nothing in this package changes the array
// of an Intervals that it was given.
type Intervals []Interval

// Normalize returns the union of intervals in any order. It sorts ivs in place.
func Normalize(ivs []Interval) Intervals {
	slices.SortFunc(ivs, func(a, b Interval) int { return cmp.Compare(a.Mint, b.Mint) })
	return merge(make(Intervals, 0, len(ivs)), ivs)
}

// merge appends sorted intervals to dst, joining what overlaps or touches.
func merge(dst Intervals, sorted []Interval) Intervals {
	for _, iv := range sorted {
		if iv.Mint > iv.Maxt {
			continue
		}
		if n := len(dst); n > 0 && !endsBefore(dst[n-1], iv) {
			dst[n-1].Maxt = max(dst[n-1].Maxt, iv.Maxt)
			continue
		}
		dst = append(dst, iv)
	}
	return dst
}

// endsBefore tells whether a lies before b with a gap of at least one millisecond.
func endsBefore(a, b Interval) bool {
	return a.Maxt != math.MaxInt64 && a.Maxt+1 < b.Mint
}

// Add returns the union of ivs and iv: intervals that overlap or touch iv (distance
// one millisecond) become one with it. The result is a new array.
func (ivs Intervals) Add(iv Interval) Intervals {
	if iv.Mint > iv.Maxt {
		return ivs
	}
	first := sort.Search(len(ivs), func(i int) bool { return !endsBefore(ivs[i], iv) })
	last := first
	for last < len(ivs) && !endsBefore(iv, ivs[last]) {
		iv.Mint = min(iv.Mint, ivs[last].Mint)
		iv.Maxt = max(iv.Maxt, ivs[last].Maxt)
		last++
	}
	out := make(Intervals, 0, first+1+len(ivs)-last)
	out = append(append(out, ivs[:first]...), iv)
	return append(out, ivs[last:]...)
}

// Covers tells whether the sample at t is deleted.
func (ivs Intervals) Covers(t int64) bool {
	rest := ivs.From(t)
	return len(rest) > 0 && rest[0].Mint <= t
}

// CoversRange tells whether every sample of the closed range mint..maxt is deleted.
func (ivs Intervals) CoversRange(mint, maxt int64) bool {
	rest := ivs.From(mint)
	return len(rest) > 0 && rest[0].Mint <= mint && maxt <= rest[0].Maxt
}

// Overlaps tells whether any time of the closed range mint..maxt is deleted.
func (ivs Intervals) Overlaps(mint, maxt int64) bool {
	rest := ivs.From(mint)
	return mint <= maxt && len(rest) > 0 && rest[0].Mint <= maxt
}

// From returns the intervals that end at t or later: what is left for a reader that
// goes through samples in time order and has reached t. The result aliases ivs.
func (ivs Intervals) From(t int64) Intervals {
	if len(ivs) == 0 || ivs[0].Maxt >= t {
		return ivs
	}
	return ivs[sort.Search(len(ivs), func(i int) bool { return ivs[i].Maxt >= t }):]
}
