package index

import (
	"context"
	"slices"
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

// SelectIDs is Select with a result that is small. It is packed at once where it stands in one list
// or one bitmap: then there is no larger form of it in between.
func (r *Reader) SelectIDs(ctx context.Context, ms ...*labels.Matcher) (IDs, error) {
	s := selectors.Get().(*selection)
	defer s.release()
	s.pack = true
	refs, err := r.selectWith(ctx, s, ms)
	if err != nil || len(refs) == 0 {
		return s.packed, err
	}
	s.refs = refs[:0]
	return packIDs(len(refs), slices.Values(refs)), nil
}

// selectWith selects with scratch memory, which what it returns may be a part of.
func (r *Reader) selectWith(ctx context.Context, s *selection, ms []*labels.Matcher) (ids []uint64, err error) {
	err = r.file.guard(func() error {
		all, err := r.lists.all()
		if err != nil {
			return err
		}
		if all.len() == 0 {
			return ctx.Err()
		}
		ids, err = s.run(ctx, &r.table, &r.lists, ms)
		return err
	})
	if err != nil {
		return nil, err
	}
	return ids, nil
}

// NumSeries returns how many series there are.
func (r *Reader) NumSeries() (n int, err error) {
	err = r.file.guard(func() error {
		ids, err := r.lists.all()
		n = ids.len()
		return err
	})
	return n, err
}

// AllSeries returns the ids of all series, ascending. They end with an error if the
// list is damaged or its memory faults; the reader must stay open meanwhile.
func (r *Reader) AllSeries() Postings {
	p := &allPostings{file: &r.file}
	p.err = r.file.guard(func() (err error) {
		p.ids, err = r.lists.all()
		return err
	})
	return p
}

// LabelNames returns the names of the labels that series have, sorted.
func (r *Reader) LabelNames(ctx context.Context) ([]string, error) {
	if r.file.closed.Load() {
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
	err = r.file.guard(func() error {
		n := 0
		_, err := r.table.searchValues(nil, name, "", func(value string) (bool, error) {
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
	return r.file.guard(func() error {
		c := r.table.cursor(0)
		for num := range r.table.count {
			e, ok := c.next()
			if !ok {
				return r.table.corrupt()
			}
			ids, err := r.lists.get(num, e)
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
