package index

import (
	"context"
	"math/bits"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/seed347100a3/tsdb/labels"
)

const (
	// pollEvery is how many values are matched, or lists read, between two looks at
	// the context.
	pollEvery = 1024

	// holdLists is how many lists are read under the lock in one go.
	holdLists = 128

	// A union is a bitmap when that takes at most this many words, or this many for
	// each byte of its lists; one far sparser is sorted.
	bitmapWords   = 1 << 12
	bitmapPerByte = 1

	// seekRatio is how many bytes of a list a seek must pass over to be cheaper than
	// decoding all of it.
	seekRatio = 24
)

// Select returns the refs of the series that all matchers choose, ascending; without
// matchers it is all series. A series without a label has the empty value there. The
// error is that of the context, which is looked at every thousand values.
//
// A series that is added meanwhile may or may not be there; nothing else differs from
// the result at one moment. The result belongs to the caller.
func (m *MemPostings) Select(ctx context.Context, ms ...*labels.Matcher) ([]uint64, error) {
	defer m.unpin(m.pin())
	s := selectors.Get().(*selection)
	defer s.release()
	s.m, s.ctx = m, ctx

	choosing, excluding, err := s.resolveChoosing(ms)
	if err != nil {
		return nil, err
	}
	refs, err := s.choose(choosing)
	if err != nil || len(refs) == 0 {
		return nil, err
	}
	return s.exclude(refs, excluding)
}

// selection is the scratch memory of one Select.
type selection struct {
	m     *MemPostings
	ctx   context.Context
	polls int
	pairs []Pair
	bits  []uint64
	views []view
}

var selectors = sync.Pool{New: func() any { return new(selection) }}

// keepScratch bounds, in elements, what a selection keeps for the next one.
const keepScratch = 1 << 16

func (s *selection) release() {
	s.m, s.ctx = nil, nil
	s.pairs, s.bits = s.pairs[:0], s.bits[:0]
	clear(s.views[:cap(s.views)])
	s.views = s.views[:0]
	if cap(s.pairs) <= keepScratch && cap(s.bits) <= keepScratch && cap(s.views) <= keepScratch {
		selectors.Put(s)
	}
}

func (s *selection) poll() error {
	if s.polls++; s.polls%pollEvery == 0 {
		return s.ctx.Err()
	}
	return nil
}

// choice is what one matcher chooses: the series of all of its pairs.
type choice struct {
	pairs []Pair
	bytes int // size of their lists: what reading them costs
}

// resolveChoosing finds the pairs of the matchers that need a value, cheapest first,
// and tells the other matchers, which also choose series without the label.
func (s *selection) resolveChoosing(ms []*labels.Matcher) (choosing []choice, excluding []*labels.Matcher, err error) {
	if err := s.ctx.Err(); err != nil {
		return nil, nil, err
	}
	for _, m := range ms {
		if m.MatchesEmpty() {
			excluding = append(excluding, m)
			continue
		}
		begin := len(s.pairs)
		if err := s.addMatching(m); err != nil {
			return nil, nil, err
		}
		choosing = append(choosing, choice{pairs: s.pairs[begin:len(s.pairs):len(s.pairs)]})
	}
	s.measure(choosing)
	slices.SortStableFunc(choosing, func(a, b choice) int { return a.bytes - b.bytes })
	return choosing, excluding, nil
}

func (s *selection) measure(choosing []choice) {
	s.m.mu.RLock()
	defer s.m.mu.RUnlock()
	for i := range choosing {
		for _, p := range choosing[i].pairs {
			choosing[i].bytes += int(s.m.listLocked(p).size) + 1
		}
	}
}

// addMatching adds the pairs that the matcher chooses to s.pairs.
func (s *selection) addMatching(m *labels.Matcher) error {
	group, ok := s.m.names.find(0, m.Name())
	if !ok {
		return nil
	}
	positive := m.Type() == labels.MatchEqual || m.Type() == labels.MatchRegexp
	if set := m.SetMatches(); positive && set != nil {
		s.addValues(group, set)
		return nil
	}
	return s.addBySearch(group, m, positive, true)
}

// addRefused adds the pairs that the matcher, which chooses series without the label,
// does not choose.
func (s *selection) addRefused(m *labels.Matcher) error {
	group, ok := s.m.names.find(0, m.Name())
	if !ok {
		return nil
	}
	negative := m.Type() == labels.MatchNotEqual || m.Type() == labels.MatchNotRegexp
	if set := m.SetMatches(); negative && set != nil {
		s.addValues(group, set)
		return nil
	}
	return s.addBySearch(group, m, negative, false)
}

// addBySearch adds the pairs whose value the matcher chooses or, if that is not
// wanted, refuses. With narrow they all match the right side of the matcher, and so
// begin with its prefix.
func (s *selection) addBySearch(group uint32, m *labels.Matcher, narrow, chosen bool) error {
	vals := s.m.sortedValues(group)
	if narrow {
		vals = s.m.withPrefix(vals, m.Prefix())
	}
	if everyValue(m) {
		if narrow {
			s.pairs = append(s.pairs, vals...)
		}
		return nil
	}
	for _, p := range vals {
		if err := s.poll(); err != nil {
			return err
		}
		if m.Matches(s.m.Value(p)) == chosen {
			s.pairs = append(s.pairs, p)
		}
	}
	return nil
}

// everyValue tells whether the right side of a matcher stands for all values that
// begin with its prefix, so that they need not be looked at.
func everyValue(m *labels.Matcher) bool {
	literal, ok := strings.CutSuffix(m.Value(), ".*")
	return ok && m.Type() >= labels.MatchRegexp && literal == regexp.QuoteMeta(m.Prefix())
}

func (s *selection) addValues(group uint32, values []string) {
	for _, value := range values {
		if p, ok := s.m.values.find(group, value); ok {
			s.pairs = append(s.pairs, Pair(p))
		}
	}
}

// choose returns the refs that every choice has, as a slice of its own.
func (s *selection) choose(choosing []choice) ([]uint64, error) {
	if len(choosing) == 0 {
		return s.m.refsOf(&s.m.mu.all), nil
	}
	refs, err := s.first(choosing[0])
	for _, c := range choosing[1:] {
		if err != nil || len(refs) == 0 {
			return nil, err
		}
		refs, err = s.filter(refs, c.pairs, c.bytes, true)
	}
	return refs, err
}

// first returns all refs of a choice.
func (s *selection) first(c choice) ([]uint64, error) {
	if len(c.pairs) == 1 {
		return s.m.Refs(c.pairs[0]), nil
	}
	lo, hi := s.m.bounds()
	if s.fits(lo, hi, c.bytes) {
		n, err := s.union(c.pairs, lo, hi)
		return s.refs(n, lo), err
	}
	refs := make([]uint64, 0, c.bytes)
	err := s.read(c.pairs, func(v view) { refs = v.appendTo(refs) })
	return sortRefs(refs), err
}

// bounds returns the smallest and the largest ref of all.
func (m *MemPostings) bounds() (lo, hi uint64) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.mu.viewOf(&m.mu.all).first(), m.mu.all.last()
}

// exclude takes away what the matchers refuse. Their pairs are looked up after refs
// were read, so that the labels of each ref are known by then.
func (s *selection) exclude(refs []uint64, ms []*labels.Matcher) ([]uint64, error) {
	for _, m := range ms {
		s.pairs = s.pairs[:0]
		if err := s.addRefused(m); err != nil {
			return nil, err
		}
		if len(refs) == 0 {
			return nil, nil
		}
		refused := []choice{{pairs: s.pairs}}
		s.measure(refused)
		var err error
		if refs, err = s.filter(refs, s.pairs, refused[0].bytes, false); err != nil {
			return nil, err
		}
	}
	return refs, nil
}

// filter keeps the refs that are in any of the lists, or those that are in none. size
// is that of the lists.
func (s *selection) filter(refs []uint64, pairs []Pair, size int, in bool) ([]uint64, error) {
	if len(pairs) == 1 && len(refs) < size/seekRatio {
		return s.filterOne(refs, pairs, in)
	}
	lo, hi := refs[0], refs[len(refs)-1]
	if s.fits(lo, hi, size) {
		_, err := s.union(pairs, lo, hi)
		return s.filterBits(refs, lo, in), err
	}
	var sorted []uint64
	err := s.read(pairs, func(v view) { sorted = v.appendTo(sorted) })
	var other Postings = NewPostings(sortRefs(sorted))
	return slices.DeleteFunc(refs, func(ref uint64) bool {
		return (other.Seek(ref) && other.At() == ref) != in
	}), err
}

// filterBits keeps the refs whose bit is set, or those whose bit is not.
func (s *selection) filterBits(refs []uint64, lo uint64, in bool) []uint64 {
	want := uint64(0)
	if in {
		want = 1
	}
	n := 0
	for _, ref := range refs {
		refs[n] = ref
		if s.bits[(ref-lo)/64]>>((ref-lo)%64)&1 == want {
			n++
		}
	}
	return refs[:n]
}

func (s *selection) filterOne(refs []uint64, p []Pair, in bool) ([]uint64, error) {
	err := s.read(p, func(v view) {
		if in {
			refs = v.intersect(refs)
		} else {
			refs = v.subtract(refs)
		}
	})
	return refs, err
}

// read gives the lists of pairs to use: small ones under the lock, large ones without.
func (s *selection) read(pairs []Pair, use func(view)) error {
	for len(pairs) > 0 {
		if err := s.ctx.Err(); err != nil {
			return err
		}
		batch := pairs[:min(holdLists, len(pairs))]
		pairs = pairs[len(batch):]
		s.views = s.views[:0]
		s.m.mu.RLock()
		for _, p := range batch {
			l := s.m.listLocked(p)
			if v := s.m.mu.viewOf(l); l.class == classBig {
				s.views = append(s.views, v)
			} else {
				use(v)
			}
		}
		s.m.mu.RUnlock()
		for _, v := range s.views {
			use(v)
		}
	}
	return nil
}

// fits tells whether refs of lo..hi, read from so many bytes, go into a bitmap.
func (s *selection) fits(lo, hi uint64, size int) bool {
	return (hi-lo)/64 < uint64(max(bitmapWords, size*bitmapPerByte))
}

// union makes a bitmap of the refs of the lists that lie in lo..hi, and counts them.
func (s *selection) union(pairs []Pair, lo, hi uint64) (n int, err error) {
	words := int((hi-lo)/64) + 1
	s.bits = slices.Grow(s.bits[:0], words)[:words]
	clear(s.bits)
	b := bitmap{words: s.bits, lo: lo, hi: hi}
	err = s.read(pairs, b.mark)
	for _, w := range s.bits {
		n += bits.OnesCount64(w)
	}
	return n, err
}

// refs returns the n refs of the bitmap.
func (s *selection) refs(n int, lo uint64) []uint64 {
	out := make([]uint64, 0, n)
	for i, w := range s.bits {
		for base := lo + uint64(i)*64; w != 0; w &= w - 1 {
			out = append(out, base+uint64(bits.TrailingZeros64(w)))
		}
	}
	return out
}
