package index

import (
	"context"

	"github.com/seed347100a3/tsdb/labels"
)

// holdLists is how many lists are read under the lock in one go.
const holdLists = 128

// Select returns the refs of the series that all matchers choose, ascending; without
// matchers it is all series. A series without a label has the empty value there. The
// error is that of the context, which is looked at every thousand values.
//
// A series that is added meanwhile may or may not be there; nothing else differs from
// the result at one moment. The result belongs to the caller.
func (m *MemPostings) Select(ctx context.Context, ms ...*labels.Matcher) ([]uint64, error) {
	defer m.unpin(m.pin())
	return selectRefs(ctx, m, ms)
}

// Selected is Select for who looks at each ref once: use is called with all of them, which
// are valid during the call. Its error is returned.
func (m *MemPostings) Selected(ctx context.Context, use func(refs []uint64) error, ms ...*labels.Matcher) error {
	defer m.unpin(m.pin())
	s := selectors.Get().(*selection)
	defer s.release()
	refs, err := s.run(ctx, m, ms)
	if err != nil {
		return err
	}
	if cap(refs) > 0 {
		s.refs = refs[:0] // after use, for the next one
	}
	return use(refs)
}

func (m *MemPostings) valuesOf(dst []Pair, name string, values []string) ([]Pair, error) {
	group, ok := m.names.find(0, name)
	if !ok {
		return dst, nil
	}
	for _, value := range values {
		if p, ok := m.values.find(group, value); ok {
			dst = append(dst, Pair(p))
		}
	}
	return dst, nil
}

func (m *MemPostings) searchValues(dst []Pair, name, prefix string, keep func(value string) (bool, error)) ([]Pair, error) {
	group, ok := m.names.find(0, name)
	if !ok {
		return dst, nil
	}
	vals := m.withPrefix(m.sortedValues(group), prefix)
	if keep == nil {
		return append(dst, vals...), nil
	}
	values := m.values.reader() // of now: it knows all of vals
	for _, p := range vals {
		wanted, err := keep(values.text.at(uint32(values.word(uint32(p)))))
		if err != nil {
			return nil, err
		}
		if wanted {
			dst = append(dst, p)
		}
	}
	return dst, nil
}

// cost is the size of the lists in bytes.
func (m *MemPostings) cost(pairs []Pair) (int, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	bytes := 0
	for _, p := range pairs {
		bytes += int(m.listLocked(p).size) + 1
	}
	return bytes, nil
}

func (m *MemPostings) bounds(one []Pair) (lo, hi uint64, err error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	l := m.anyListLocked(one[0])
	return m.mu.viewOf(l).first(), l.last(), nil
}

// read gives small lists to use under the lock, large ones without.
func (m *MemPostings) read(ctx context.Context, pairs []Pair, use func(view)) error {
	var few [8]view // more of them are on the heap
	big := few[:0]
	for len(pairs) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		batch := pairs[:min(holdLists, len(pairs))]
		pairs = pairs[len(batch):]
		big = m.readBatch(big[:0], batch, use)
		for _, v := range big {
			use(v)
		}
	}
	return nil
}

// anyListLocked returns a list, that of all series too.
func (m *MemPostings) anyListLocked(p Pair) *list {
	if p == 0 {
		return &m.mu.all
	}
	return m.listLocked(p)
}

// readBatch gives the small lists to use and appends the large ones to big.
func (m *MemPostings) readBatch(big []view, pairs []Pair, use func(view)) []view {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, p := range pairs {
		l := m.anyListLocked(p)
		if v := m.mu.viewOf(l); l.class == classBig {
			big = append(big, v)
		} else {
			use(v)
		}
	}
	return big
}
