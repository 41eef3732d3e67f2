package index

import (
	"context"
	"slices"

	"github.com/seed347100a3/tsdb/labels"
)

// Select returns the refs of the series that all matchers choose, ascending; without
// matchers it is all series. A series without a label has the empty value there. The
// error is that of the context, which is looked at every thousand values.
//
// A series that is added meanwhile may or may not be there; nothing else differs from
// the result at one moment. The result belongs to the caller.
func (m *MemPostings) Select(ctx context.Context, ms ...*labels.Matcher) ([]uint64, error) {
	defer m.pins.release(m.pins.take())
	s := selectors.Get().(*selection)
	defer s.release()
	s.refs = nil // the caller gets them
	return s.run(ctx, &m.values, &m.lists, ms)
}

// Selected is Select for who looks at each ref once: use is called with all of them, which
// are valid during the call. Its error is returned.
func (m *MemPostings) Selected(ctx context.Context, use func(refs []uint64) error, ms ...*labels.Matcher) error {
	defer m.pins.release(m.pins.take())
	s := selectors.Get().(*selection)
	defer s.release()
	refs, err := s.run(ctx, &m.values, &m.lists, ms)
	if err != nil {
		return err
	}
	if cap(refs) > 0 {
		s.refs = refs[:0] // after use, for the next one
	}
	return use(refs)
}

// LabelNames returns the names of the labels that series have, sorted. keep is asked
// for pairs of a name until it says yes, and nil is yes for each; refs are the series
// of that pair and are valid during the call.
func (m *MemPostings) LabelNames(keep func(p Pair, refs Postings) bool) []string {
	defer m.pins.release(m.pins.take())
	var names []string
	for group, end := uint32(1), uint32(m.values.groups()); group < end; group++ {
		m.lists.each(m.values.of(group), keep, func(Pair) bool {
			names = append(names, m.pairs.name(group))
			return false // one is enough
		})
	}
	slices.Sort(names)
	return names
}

// LabelValues returns the values of a label that series have, sorted. keep is asked
// for each and nil is yes for each; refs are the series that have the value and are
// valid during the call.
func (m *MemPostings) LabelValues(name string, keep func(p Pair, refs Postings) bool) []string {
	defer m.pins.release(m.pins.take())
	group, ok := m.pairs.names.find(0, name)
	if !ok {
		return nil
	}
	var values []string
	m.lists.each(m.values.sorted(group), keep, func(p Pair) bool {
		values = append(values, m.pairs.value(p))
		return true
	})
	return values
}
