package index

import (
	"context"
	"strings"

	"github.com/seed347100a3/tsdb/labels"
)

// Select returns the ids of the series that all matchers choose, ascending, which is
// the order of their labels; without matchers it is all series. A series without a
// label has the empty value there. The context is looked at every thousand values. The
// result belongs to the caller.
func (r *Reader) Select(ctx context.Context, ms ...*labels.Matcher) (ids []uint64, err error) {
	s := selectors.Get().(*selection)
	defer s.release()
	s.refs = nil // the caller gets them
	return r.selectWith(ctx, s, ms)
}

// selectWith selects with scratch memory, which what it returns may be a part of.
func (r *Reader) selectWith(ctx context.Context, s *selection, ms []*labels.Matcher) (ids []uint64, err error) {
	err = r.guard(func() error {
		all, err := r.allIDs()
		if err != nil {
			return err
		}
		if all.len() == 0 {
			return ctx.Err()
		}
		s.block = blockSource{r, ctx, all}
		ids, err = s.run(ctx, &s.block, ms)
		return err
	})
	if err != nil {
		return nil, err
	}
	return ids, nil
}

// blockSource is the index of a block as matchers choose from it; its pairs are the
// numbers of entries of the offset table. It is used under a guard.
type blockSource struct {
	*Reader
	ctx context.Context
	all idList // not empty
}

func (r *blockSource) valuesOf(dst []Pair, name string, values []string) ([]Pair, error) {
	rng, ok := r.table.name(name)
	if !ok {
		return dst, nil
	}
	for _, value := range values {
		c, ok := r.table.lowerBound(rng, value)
		if !ok {
			return nil, r.tableCorrupt()
		}
		num := c.num
		if num >= rng.end {
			continue
		}
		e, ok := c.next()
		if !ok {
			return nil, r.tableCorrupt()
		}
		if string(e.value) == value && !isAll(e) {
			dst = append(dst, Pair(num))
		}
	}
	return dst, nil
}

// valueBatch is how many bytes of values are made one string: a value of its own would
// be an allocation each.
const valueBatch = 4 << 10

func (r *blockSource) searchValues(dst []Pair, name, prefix string, keep func(value string) (bool, error)) ([]Pair, error) {
	rng, ok := r.table.name(name)
	if !ok {
		return dst, nil
	}
	c, ok := r.table.lowerBound(rng, prefix)
	if ok && keep != nil {
		return r.matchValues(dst, c, rng.end, prefix, keep)
	}
	if ok {
		dst, ok = c.appendPairs(dst, rng.end, prefix)
	}
	if !ok {
		return nil, r.tableCorrupt()
	}
	return dst, nil
}

// matchValues appends the numbers of the next entries of c below entry end whose values begin with prefix and
// which keep accepts.
func (r *blockSource) matchValues(dst []Pair, c tableCursor, end int, prefix string, keep func(value string) (bool, error)) ([]Pair, error) {
	var text []byte
	var ends []int
	for c.num < end {
		first, ok := c.num, false
		if text, ends, ok = c.values(text[:0], ends[:0], end, prefix); !ok {
			return nil, r.tableCorrupt()
		}
		if len(ends) == 0 {
			break
		}
		from, all := 0, string(text)
		for i, end := range ends {
			wanted, err := keep(all[from:end])
			if err != nil {
				return nil, err
			}
			if wanted && (first+i > 0) {
				dst = append(dst, Pair(first+i))
			}
			from = end
		}
	}
	return dst, nil
}

// appendPairs appends the numbers of the next entries below entry end whose values begin with prefix.
func (c *tableCursor) appendPairs(dst []Pair, end int, prefix string) (_ []Pair, ok bool) {
	for c.num < end {
		e, ok := c.next()
		if !ok {
			return dst, false
		}
		if len(e.value) < len(prefix) || string(e.value[:len(prefix)]) != prefix {
			break
		}
		if c.num > 1 { // the first entry belongs to no label
			dst = append(dst, Pair(c.num-1))
		}
	}
	return dst, true
}

// values appends some of the next values to text and where each ends to ends: those
// below entry end that begin with prefix.
func (c *tableCursor) values(text []byte, ends []int, end int, prefix string) ([]byte, []int, bool) {
	for c.num < end && len(text) < valueBatch {
		e, ok := c.next()
		if !ok {
			return text, ends, false
		}
		if len(e.value) < len(prefix) || string(e.value[:len(prefix)]) != prefix {
			break
		}
		text = append(text, e.value...)
		ends = append(ends, len(text))
	}
	return text, ends, true
}

// cost is the number of series in the lists.
func (r *blockSource) cost(pairs []Pair) (n int, err error) {
	err = r.eachList(pairs, func(ids idList) { n += ids.len() })
	return n, err
}

func (r *blockSource) read(_ context.Context, pairs []Pair, use func(view)) error {
	return r.eachList(pairs, func(ids idList) { use(view{ids: ids}) })
}

// eachList gives the lists of pairs to use.
func (r *blockSource) eachList(pairs []Pair, use func(idList)) error {
	c := r.table.cursor(0)
	for i, p := range pairs {
		if i%pollEvery == 0 && r.ctx.Err() != nil {
			return r.ctx.Err()
		}
		if int(p) < c.num {
			c = r.table.cursor(int(p))
		}
		c.seek(int(p))
		e, ok := c.next()
		if !ok {
			return r.tableCorrupt()
		}
		ids, err := r.list(int(p), e)
		if err != nil {
			return err
		}
		use(ids)
	}
	return nil
}

func (r *blockSource) bounds(one []Pair) (lo, hi uint64, err error) {
	err = r.eachList(one, func(ids idList) {
		if ids.len() > 0 {
			lo, hi = ids.at(0), ids.at(ids.len()-1)
		}
	})
	return lo, hi, err
}

// NumSeries returns how many series there are.
func (r *Reader) NumSeries() (n int, err error) {
	err = r.guard(func() error {
		ids, err := r.allIDs()
		n = ids.len()
		return err
	})
	return n, err
}

// LabelNames returns the names of the labels that series have, sorted.
func (r *Reader) LabelNames(ctx context.Context) ([]string, error) {
	if r.closed.Load() {
		return nil, ErrClosed
	}
	var names []string
	for _, rng := range r.table.names {
		if rng.first > 0 || rng.end > 1 { // the first entry belongs to no label
			names = append(names, rng.name)
		}
	}
	return names, ctx.Err()
}

// LabelValues returns the values of a label that series have, sorted. The context is
// looked at every thousand values.
func (r *Reader) LabelValues(ctx context.Context, name string) (values []string, err error) {
	err = r.guard(func() error {
		n := 0
		_, err := (&blockSource{Reader: r}).searchValues(nil, name, "", func(value string) (bool, error) {
			if value != "" {
				values = append(values, strings.Clone(value))
			}
			if n++; n%pollEvery == 0 {
				return false, ctx.Err()
			}
			return false, nil
		})
		if err == nil {
			err = ctx.Err()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return values, nil
}

// Pairs calls fn for each label pair, in order of name and value, with the number of
// series that have it.
func (r *Reader) Pairs(fn func(name, value string, count int) error) error {
	return r.guard(func() error {
		c := r.table.cursor(0)
		for num := range r.table.count {
			e, ok := c.next()
			if !ok {
				return r.tableCorrupt()
			}
			ids, err := r.list(num, e)
			if err != nil {
				return err
			}
			if num == 0 {
				continue
			}
			if err := fn(string(e.name), string(e.value), ids.len()); err != nil {
				return err
			}
		}
		return nil
	})
}
