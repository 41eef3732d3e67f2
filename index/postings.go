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

// Intersect returns the refs that all of ps have; the shortest should come first. No
// postings at all have no refs in common.
func Intersect(ps ...Postings) Postings {
	switch len(ps) {
	case 0:
		return NewPostings(nil)
	case 1:
		return ps[0]
	default:
		return &intersection{ps: ps}
	}
}

type intersection struct {
	ps []Postings
}

func (x *intersection) Next() bool { return x.ps[0].Next() && x.meet() }

func (x *intersection) Seek(ref uint64) bool { return x.ps[0].Seek(ref) && x.meet() }

// meet moves all forward until they are at the same ref.
func (x *intersection) meet() bool {
	lead := x.ps[0]
	for i := 1; i < len(x.ps); {
		p := x.ps[i]
		if !p.Seek(lead.At()) {
			return false
		}
		if p.At() == lead.At() {
			i++
			continue
		}
		if !lead.Seek(p.At()) {
			return false
		}
		i = 1
	}
	return true
}

func (x *intersection) At() uint64 { return x.ps[0].At() }

func (x *intersection) Err() error {
	for _, p := range x.ps {
		if err := p.Err(); err != nil {
			return err
		}
	}
	return nil
}

// Expand returns the refs that are left of p.
func Expand(p Postings) ([]uint64, error) {
	var refs []uint64
	for p.Next() {
		refs = append(refs, p.At())
	}
	return refs, p.Err()
}

// sortRefs sorts refs and drops repetitions, in place.
func sortRefs(refs []uint64) []uint64 {
	if !sort.SliceIsSorted(refs, func(i, j int) bool { return refs[i] < refs[j] }) {
		slices.Sort(refs)
	}
	return slices.Compact(refs)
}
