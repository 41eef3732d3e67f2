package tsdb

import (
	"context"
	"slices"

	"github.com/seed347100a3/tsdb/labels"
)

// mergedSeries is one series with all that the sources have of it.
type mergedSeries struct {
	first sourceSeries
	more  []sourceSeries // what further sources have, in their order
	known labels.Labels  // empty if merging did not look them up
}

func (m *mergedSeries) labels() labels.Labels {
	if !m.known.IsEmpty() {
		return m.known
	}
	return m.first.labels()
}

// open returns the chunks of all sources as one. What an earlier call returned may be
// taken again.
func (m *mergedSeries) open(reuse chunkSource) chunkSource {
	if len(m.more) == 0 {
		return m.first.open(reuse)
	}
	merged, ok := reuse.(*mergedChunks)
	if !ok {
		merged = &mergedChunks{}
	}
	merged.reset(m)
	return merged
}

// seriesMerger merges cursors that are sorted by labels into one. Nothing is read
// ahead but one series a cursor.
type seriesMerger struct {
	ctx   context.Context
	heads []mergeHead // those that stand on a series
	limit int         // series that may still be given out; below 0: any number
	more  bool        // the limit was met, and there are more
}

// mergeHead is the front of one cursor. Its labels are looked up only when there is
// another to compare with.
type mergeHead struct {
	cursor seriesCursor
	series sourceSeries
	labels labels.Labels
}

// newSeriesMerger takes the first series of each cursor.
func newSeriesMerger(ctx context.Context, cursors []seriesCursor, limit int) (*seriesMerger, error) {
	m := &seriesMerger{ctx: ctx, limit: -1}
	if limit > 0 {
		m.limit = limit
	}
	for _, c := range cursors {
		h := mergeHead{cursor: c}
		var err error
		if h.series, err = c.next(ctx); err != nil {
			return nil, err
		}
		if h.series != nil {
			m.heads = append(m.heads, h)
		}
	}
	if len(m.heads) > 1 {
		for i := range m.heads {
			m.heads[i].lookUp()
		}
	}
	return m, nil
}

func (h *mergeHead) lookUp() { h.labels = h.series.labels() }

// next returns the next series; ok is false at the end, at the limit and on an error.
func (m *seriesMerger) next() (merged mergedSeries, ok bool, err error) {
	if len(m.heads) == 0 {
		return mergedSeries{}, false, nil
	}
	if m.limit == 0 {
		m.more = true
		return mergedSeries{}, false, nil
	}
	m.limit--
	if len(m.heads) == 1 {
		merged.first = m.heads[0].series
		return merged, true, m.advance(0)
	}
	least := m.least()
	merged.first, merged.known = m.heads[least].series, m.heads[least].labels
	for i := least + 1; i < len(m.heads); i++ {
		if m.heads[i].labels.Equal(m.heads[least].labels) {
			merged.more = append(merged.more, m.heads[i].series)
			m.heads[i].series = nil
		}
	}
	m.heads[least].series = nil
	for i := len(m.heads) - 1; i >= 0; i-- {
		if m.heads[i].series == nil {
			if err := m.advance(i); err != nil {
				return mergedSeries{}, false, err
			}
		}
	}
	return merged, true, nil
}

// least is the first of the heads with the smallest labels. Few sources overlap in
// time at any moment: a scan beats a heap.
func (m *seriesMerger) least() int {
	least := 0
	for i := 1; i < len(m.heads); i++ {
		if labels.Compare(m.heads[i].labels, m.heads[least].labels) < 0 {
			least = i
		}
	}
	return least
}

// advance moves one cursor on; at its end it goes.
func (m *seriesMerger) advance(i int) (err error) {
	h := &m.heads[i]
	if h.series, err = h.cursor.next(m.ctx); err != nil {
		return err
	}
	if h.series == nil {
		m.heads = slices.Delete(m.heads, i, i+1)
	} else if len(m.heads) > 1 {
		h.lookUp()
	}
	return nil
}

// mergeStrings returns the union of two sorted lists, each without repeats.
func mergeStrings(a, b []string) []string {
	switch {
	case len(a) == 0:
		return b
	case len(b) == 0:
		return a
	}
	all := make([]string, 0, len(a)+len(b))
	all = append(append(all, a...), b...)
	slices.Sort(all)
	return slices.Compact(all)
}
