package index

import (
	"slices"
	"sort"
)

// Postings goes once through ascending refs of series, without repetition. It belongs
// to one goroutine.
type Postings interface {
	// Next moves to the next ref; false at the end and on an error.
	Next() bool
	// Seek moves forward to the first ref that is not below ref, and stays where it
	// is if it is there already; false at the end and on an error.
	Seek(ref uint64) bool
	// At returns the present ref, after Next or Seek has returned true.
	At() uint64
	// Err returns what ended the postings early.
	Err() error
}

// NewPostings returns postings of ascending refs, which must not change meanwhile.
func NewPostings(refs []uint64) Postings { return &refPostings{rest: refs} }

type refPostings struct {
	rest []uint64
	at   uint64
}

func (p *refPostings) Next() bool {
	if len(p.rest) == 0 {
		return false
	}
	p.at, p.rest = p.rest[0], p.rest[1:]
	return true
}

func (p *refPostings) Seek(ref uint64) bool {
	if p.at >= ref && p.at != 0 {
		return true
	}
	p.rest = p.rest[gallop(p.rest, ref):]
	return p.Next()
}

func (p *refPostings) At() uint64 { return p.at }
func (p *refPostings) Err() error { return nil }

// gallop returns the index of the first of ascending refs that is not below ref: it
// doubles its step from the start, so that a near one is found at once.
func gallop(refs []uint64, ref uint64) int {
	hi := 1
	for hi <= len(refs) && refs[hi-1] < ref {
		hi *= 2
	}
	lo := hi / 2
	return lo + searchRefs(refs[lo:min(hi, len(refs))], ref)
}

func searchRefs(refs []uint64, ref uint64) int {
	i, _ := slices.BinarySearch(refs, ref)
	return i
}

// sortRefs sorts refs and drops repetitions, in place.
func sortRefs(refs []uint64) []uint64 {
	if !sort.SliceIsSorted(refs, func(i, j int) bool { return refs[i] < refs[j] }) {
		slices.Sort(refs)
	}
	return slices.Compact(refs)
}
