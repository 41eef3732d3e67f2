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

	// A union is a bitmap when that takes at most this many words, or this many for each
	// unit of cost of its lists, as sorting a ref costs what some ten words do
	// (BenchmarkReader_Select/prefix_equal); one far sparser is sorted.
	bitmapWords   = 1 << 12
	bitmapPerCost = 8

	// seekRatio is what the part of a list costs that a seek must pass over to be cheaper
	// than decoding all of it.
	seekRatio = 24
)

// pairSource knows which label pairs there are, in the head or in a block. Pairs have
// numbers, which stay good for the time of one selection.
type pairSource interface {
	// valuesOf appends to dst the pairs of a name with these values, as far as they exist.
	valuesOf(dst []Pair, name string, values []string) ([]Pair, error)
	// searchValues appends to dst the pairs of a name whose values begin with prefix and
	// which keep accepts, in order of their values; a nil keep accepts each.
	searchValues(dst []Pair, name, prefix string, keep func(value string) (bool, error)) ([]Pair, error)
}

// listSource has the lists of series of the pairs that a pairSource knows.
type listSource interface {
	// cost returns what reading the lists costs, about in bytes and at least as many as
	// they have refs.
	cost(ctx context.Context, pairs []Pair) (int, error)
	// read gives the lists to use, one after the other; a list is valid during the call.
	// allSeries is the list of all series.
	read(ctx context.Context, pairs []Pair, use func(refList)) error
	// bounds returns the smallest and the largest ref of a list; 0, which is no ref, of an empty
	// one.
	bounds(ctx context.Context, one []Pair) (lo, hi uint64, err error)
}

// allSeries asks listSource.read and listSource.bounds for the list of all series.
var allSeries = []Pair{0}

// run selects. What it returns may be in the memory of s.refs.
func (s *selection) run(ctx context.Context, known pairSource, lists listSource, ms []*labels.Matcher) ([]uint64, error) {
	s.known, s.lists, s.ctx = known, lists, ctx
	choosing, excluding, err := s.resolveChoosing(ms)
	if err != nil {
		return nil, err
	}
	s.pack = s.pack && len(excluding) == 0
	refs, err := s.choose(choosing)
	if err != nil || len(refs) == 0 {
		return nil, err
	}
	return s.exclude(refs, excluding)
}

// selection is the scratch memory of one Select.
type selection struct {
	known pairSource
	lists listSource
	ctx   context.Context
	polls int
	pairs []Pair
	bits  []uint64
	refs  []uint64 // memory for the result; nil if somebody else gets it

	pack   bool // the result may be packed, if nothing more is taken away from it
	packed IDs  // it

	choices []choice
	value   [1]string // of a matcher that stands for one
	got     []uint64  // what add is given
	add     func(refList)

	packList func(refList) // of a block
}

// Selections are used again with all that they have: a query for one series allocates
// nothing here (TestSelect_AllocatesNothingForAFewSeries).
var selectors = sync.Pool{New: func() any {
	s := new(selection)
	s.packList = func(v refList) { s.packed = packIDs(v.ids.len(), v.ids.all) }
	s.add = func(v refList) { s.got = v.appendTo(slices.Grow(s.got, v.count())) }
	return s
}}

// keepScratch and keepRefs bound, in elements, what a selection keeps for the next one.
const (
	keepScratch = 1 << 16
	keepRefs    = 1 << 20 // 8 MiB: of a million series, those of a few metrics, before other labels choose among them
)

func (s *selection) release() {
	s.known, s.lists, s.ctx, s.got = nil, nil, nil, nil
	s.pack, s.packed = false, IDs{}
	s.value[0] = ""
	clear(s.choices[:cap(s.choices)])
	s.pairs, s.bits = s.pairs[:0], s.bits[:0]
	if max(cap(s.pairs), cap(s.bits)) <= keepScratch && cap(s.refs) <= keepRefs {
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
	cost  int // of reading their lists
}

// resolveChoosing finds the pairs of the matchers that need a value, cheapest first,
// and tells the other matchers, which also choose series without the label.
func (s *selection) resolveChoosing(ms []*labels.Matcher) (choosing []choice, excluding []*labels.Matcher, err error) {
	if err := s.ctx.Err(); err != nil {
		return nil, nil, err
	}
	choosing = s.choices[:0]
	for _, m := range ms {
		if m.MatchesEmpty() {
			excluding = append(excluding, m)
			continue
		}
		begin := len(s.pairs)
		if err := s.addMatching(m); err != nil {
			return nil, nil, err
		}
		pairs := s.pairs[begin:len(s.pairs):len(s.pairs)]
		c := choice{pairs: pairs}
		if len(ms) > 1 || len(pairs) > 1 { // or nobody asks what it costs
			if c.cost, err = s.lists.cost(s.ctx, pairs); err != nil {
				return nil, nil, err
			}
		}
		choosing = append(choosing, c)
	}
	s.choices = choosing[:0]
	sortByCost(choosing)
	return choosing, excluding, nil
}

// sortByCost sorts few choices, the cheapest first. Package slices would make 8 KiB for the type,
// and package sort would allocate.
func sortByCost(choices []choice) {
	for i := range choices {
		for k := i; k > 0 && choices[k].cost < choices[k-1].cost; k-- {
			choices[k], choices[k-1] = choices[k-1], choices[k]
		}
	}
}

// addMatching adds the pairs that the matcher chooses to s.pairs.
func (s *selection) addMatching(m *labels.Matcher) error {
	positive := m.Type() == labels.MatchEqual || m.Type() == labels.MatchRegexp
	if set := s.setOf(m); positive && set != nil {
		return s.addValues(m.Name(), set)
	}
	return s.addBySearch(m, positive, true)
}

// addRefused adds the pairs that the matcher, which chooses series without the label,
// does not choose.
func (s *selection) addRefused(m *labels.Matcher) error {
	negative := m.Type() == labels.MatchNotEqual || m.Type() == labels.MatchNotRegexp
	if set := s.setOf(m); negative && set != nil {
		return s.addValues(m.Name(), set)
	}
	return s.addBySearch(m, negative, false)
}

// setOf is m.SetMatches, good until the next one is asked for.
func (s *selection) setOf(m *labels.Matcher) []string {
	if m.Type() > labels.MatchNotEqual {
		return m.SetMatches()
	}
	s.value[0] = m.Value()
	return s.value[:]
}

// addBySearch adds the pairs whose value the matcher chooses or, if that is not
// wanted, refuses. With narrow they all match the right side of the matcher, and so
// begin with its prefix.
func (s *selection) addBySearch(m *labels.Matcher, narrow, chosen bool) (err error) {
	if everyValue(m) && !narrow {
		return nil
	}
	keep := func(value string) (bool, error) { return m.Matches(value) == chosen, s.poll() }
	prefix := ""
	if narrow {
		prefix = m.Prefix()
	}
	if everyValue(m) {
		keep = nil
	}
	s.pairs, err = s.known.searchValues(s.pairs, m.Name(), prefix, keep)
	return err
}

// everyValue tells whether the right side of a matcher stands for all values that
// begin with its prefix, so that they need not be looked at.
func everyValue(m *labels.Matcher) bool {
	literal, ok := strings.CutSuffix(m.Value(), ".*")
	return ok && m.Type() >= labels.MatchRegexp && literal == regexp.QuoteMeta(m.Prefix())
}

func (s *selection) addValues(name string, values []string) (err error) {
	s.pairs, err = s.known.valuesOf(s.pairs, name, values)
	return err
}

// choose returns the refs that every choice has, as a slice of its own; nothing, if they
// were packed.
func (s *selection) choose(choosing []choice) ([]uint64, error) {
	if s.pack = s.pack && len(choosing) <= 1; len(choosing) == 0 {
		return s.refsOf(allSeries)
	}
	refs, rest, err := s.begin(choosing)
	for _, c := range rest {
		if err != nil || len(refs) == 0 {
			return nil, err
		}
		refs, err = s.filter(refs, c, true)
	}
	return refs, err
}

// begin returns the refs that the first choice has, or the first two, and the choices that
// are left.
func (s *selection) begin(choosing []choice) (refs []uint64, rest []choice, err error) {
	c, rest := choosing[0], choosing[1:]
	if len(c.pairs) == 1 {
		refs, err = s.refsOf(c.pairs)
		return refs, rest, err
	}
	lo, hi, err := s.common(rest)
	if err != nil || lo > hi {
		return nil, rest, err
	}
	if !s.fits(lo, hi, c.cost) {
		refs, err = s.sortedOf(c)
		return refs, rest, err
	}
	n, err := s.union(c.pairs, lo, hi)
	if s.pack && err == nil {
		b := bitmap{words: s.bits, lo: lo, hi: hi}
		s.packed = packIDs(n, b.all)
		return nil, nil, nil
	}
	if err != nil || len(rest) == 0 || len(rest[0].pairs) != 1 || n < rest[0].cost/seekRatio {
		return s.marked(n, lo), rest, err
	}
	refs, err = s.markedOf(rest[0].pairs, n, lo, hi)
	return refs, rest[1:], err
}

// common returns bounds of the series that all choices of one list have. Series of a block are in
// the order of their labels, so those of a metric lie next to each other, and of the lists of
// other labels little is read (BenchmarkReader_Select/prefix_equal).
func (s *selection) common(choices []choice) (lo, hi uint64, err error) {
	lo, hi, err = s.lists.bounds(s.ctx, allSeries)
	for _, c := range choices {
		if len(c.pairs) == 1 && err == nil {
			var from, to uint64
			from, to, err = s.lists.bounds(s.ctx, c.pairs)
			lo, hi = max(lo, from), min(hi, to)
		}
	}
	return lo, hi, err
}

// markedOf returns those of one list whose bits are among the n that are set: one pass over the
// list instead of a bitmap of it and two passes over what was found
// (BenchmarkMemPostings_Select/prefix_equal).
func (s *selection) markedOf(one []Pair, n int, lo, hi uint64) (refs []uint64, err error) {
	b := bitmap{words: s.bits, lo: lo, hi: hi}
	err = s.lists.read(s.ctx, one, func(v refList) { refs = b.appendSet(slices.Grow(s.refs[:0], n+wordRefs), v) })
	return refs, err
}

// sortedOf returns the refs that a choice has.
func (s *selection) sortedOf(c choice) ([]uint64, error) {
	s.got = slices.Grow(s.refs[:0], c.cost)
	err := s.lists.read(s.ctx, c.pairs, s.add)
	return sortRefs(s.got), err
}

// refsOf returns the refs of one list.
func (s *selection) refsOf(one []Pair) (refs []uint64, err error) {
	if s.pack {
		return nil, s.lists.read(s.ctx, one, s.packList)
	}
	s.got = s.refs[:0]
	err = s.lists.read(s.ctx, one, s.add)
	return s.got, err
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
		cost, err := s.lists.cost(s.ctx, s.pairs)
		if err != nil {
			return nil, err
		}
		if refs, err = s.filter(refs, choice{s.pairs, cost}, false); err != nil {
			return nil, err
		}
	}
	return refs, nil
}

// filter keeps the refs that are in any list of the choice, or those that are in none.
func (s *selection) filter(refs []uint64, c choice, in bool) ([]uint64, error) {
	if len(c.pairs) == 1 && len(refs) < c.cost/seekRatio {
		return s.filterOne(refs, c.pairs, in)
	}
	lo, hi := refs[0], refs[len(refs)-1]
	if s.fits(lo, hi, c.cost) {
		_, err := s.union(c.pairs, lo, hi)
		return s.filterBits(refs, lo, in), err
	}
	var sorted []uint64
	err := s.lists.read(s.ctx, c.pairs, func(v refList) { sorted = v.appendTo(sorted) })
	var other Postings = NewPostings(sortRefs(sorted))
	return slices.DeleteFunc(refs, func(ref uint64) bool {
		return (other.Seek(ref) && other.At() == ref) != in
	}), err
}

// filterBits keeps the refs whose bit is set, or those whose bit is not. One outside of
// the bitmap is dropped: its list is in a file that has changed since it was checked.
func (s *selection) filterBits(refs []uint64, lo uint64, in bool) []uint64 {
	want := uint64(0)
	if in {
		want = 1
	}
	n := 0
	for _, ref := range refs {
		word := (ref - lo) / 64
		if word >= uint64(len(s.bits)) {
			continue
		}
		refs[n] = ref
		if s.bits[word]>>((ref-lo)%64)&1 == want {
			n++
		}
	}
	return refs[:n]
}

func (s *selection) filterOne(refs []uint64, p []Pair, in bool) ([]uint64, error) {
	err := s.lists.read(s.ctx, p, func(v refList) {
		if in {
			refs = v.intersect(refs)
		} else {
			refs = v.subtract(refs)
		}
	})
	return refs, err
}

// fits tells whether refs of lo..hi, read at that cost, go into a bitmap.
func (s *selection) fits(lo, hi uint64, cost int) bool {
	return (hi-lo)/64 < uint64(max(bitmapWords, cost*bitmapPerCost))
}

// union makes a bitmap of the refs of the lists that lie in lo..hi, and counts them.
func (s *selection) union(pairs []Pair, lo, hi uint64) (n int, err error) {
	words := int((hi-lo)/64) + 1
	s.bits = slices.Grow(s.bits[:0], words)[:words]
	clear(s.bits)
	b := bitmap{words: s.bits, lo: lo, hi: hi}
	err = s.lists.read(s.ctx, pairs, b.mark)
	for _, w := range s.bits {
		n += bits.OnesCount64(w)
	}
	return n, err
}

// marked returns the n refs of the bitmap.
func (s *selection) marked(n int, lo uint64) []uint64 {
	out := slices.Grow(s.refs[:0], n)
	b := bitmap{words: s.bits, lo: lo}
	for ref := range b.all {
		out = append(out, ref)
	}
	return out
}
