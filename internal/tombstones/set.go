package tombstones

import (
	"maps"
	"slices"
)

// Set holds the deleted intervals of many series by ref. The zero value is an empty
// set. Methods that change it need the caller's lock exclusively, the others need it
// shared; the Intervals that they return need no lock.
type Set struct {
	bySeries map[uint64]Intervals
	n        int // intervals of all series
}

// Add deletes an interval of one series. One with Mint > Maxt is ignored.
func (s *Set) Add(ref uint64, iv Interval) {
	if iv.Mint > iv.Maxt {
		return
	}
	s.put(ref, s.bySeries[ref].Add(iv))
}

// put replaces the intervals of a series; none of them forgets the series.
//
//go:noinline
func (s *Set) put(ref uint64, ivs Intervals) {
	s.n += len(ivs) - len(s.bySeries[ref])
	if len(ivs) == 0 {
		delete(s.bySeries, ref)
		return
	}
	if s.bySeries == nil {
		s.bySeries = make(map[uint64]Intervals)
	}
	s.bySeries[ref] = ivs
}

// Clone returns a copy that may be changed on its own.
//
//go:noinline
func (s *Set) Clone() *Set {
	c := &Set{bySeries: make(map[uint64]Intervals, len(s.bySeries)), n: s.n}
	maps.Copy(c.bySeries, s.bySeries)
	return c
}

// Of returns the deleted intervals of a series; nil if there are none.
func (s *Set) Of(ref uint64) Intervals { return s.bySeries[ref] }

// Remove forgets a series.
func (s *Set) Remove(ref uint64) { s.put(ref, nil) }

// TruncateBefore forgets what is deleted before mint, an instant that stays. An
// interval that reaches over it is kept whole.
func (s *Set) TruncateBefore(mint int64) {
	for ref, ivs := range s.bySeries {
		if rest := ivs.From(mint); len(rest) < len(ivs) {
			s.put(ref, slices.Clone(rest))
		}
	}
}

// Len returns how many intervals the set holds.
func (s *Set) Len() int { return s.n }

// Refs returns the series that have deleted intervals, ascending.
func (s *Set) Refs() []uint64 {
	refs := make([]uint64, 0, len(s.bySeries))
	for ref := range s.bySeries {
		refs = append(refs, ref)
	}
	slices.Sort(refs)
	return refs
}

// Sizes in bytes of what a set holds: the share of one series in the map (key, slice
// header, control byte, slack), and an interval.
const (
	mapEntryBytes = 56
	intervalBytes = 16
)

// SizeBytes estimates the memory that the set holds.
func (s *Set) SizeBytes() int64 {
	return int64(len(s.bySeries))*mapEntryBytes + int64(s.n)*intervalBytes
}
