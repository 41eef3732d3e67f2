package read

import (
	"context"
	"slices"

	"github.com/seed347100a3/tsdb/internal/foreground"
	"github.com/seed347100a3/tsdb/labels"
)

// mergedSeries is one series with all that the sources have of it.
type mergedSeries struct {
	first sourceSeries
	more  []sourceSeries // what further sources have, in their order
}

// open returns the chunks of all sources as one. What an earlier call returned may be
// taken again.
func (m *mergedSeries) open(reuse chunkSource) chunkSource {
	switch {
	case len(m.more) == 0:
		return m.first.open(reuse)
	case m.disjoint():
		chained, ok := reuse.(*chainedChunks)
		if !ok {
			chained = &chainedChunks{}
		}
		chained.reset(m)
		return chained
	default:
		merged, ok := reuse.(*mergedChunks)
		if !ok {
			merged = &mergedChunks{}
		}
		merged.reset(m)
		return merged
	}
}

// appendParts appends what sources have, place by place and of each without overlap: the lanes of a
// block that is not in order one by one.
func (m *mergedSeries) appendParts(dst []sourceSeries) []sourceSeries {
	for i := range 1 + len(m.more) {
		s := m.first
		if i > 0 {
			s = m.more[i-1]
		}
		d, ok := s.(*disorderedSeries)
		if !ok {
			dst = append(dst, s)
			continue
		}
		for _, lane := range d.lanes {
			dst = append(dst, lane)
		}
	}
	return dst
}

// present reports whether one source knows that the series has a sample that may be seen.
func (m *mergedSeries) present() bool {
	if m.first.present() {
		return true
	}
	for _, s := range m.more {
		if s.present() {
			return true
		}
	}
	return false
}

// disjoint reports whether each source ends before the next one begins, as blocks and the
// head do.
func (m *mergedSeries) disjoint() bool {
	_, end := m.first.span()
	for _, s := range m.more {
		begin, next := s.span()
		if begin <= end {
			return false
		}
		end = next
	}
	return true
}

// seriesMerger merges cursors that are sorted by labels into one. Nothing is read
// ahead but one series a cursor.
type seriesMerger struct {
	ctx   context.Context
	q     *Query
	heads []mergeHead // of cursors that are not at their end
	own   [1]mergeHead
	limit int  // series that may still be given out; below 0: any number
	most  int  // series that one place may still give, or the limit lets through
	begun bool // a series was chosen
	// warnings of the whole result; cursors add to them.
	warnings []error
	ended    bool // there is nothing more to give; an error may come again

	transient bool           // a series is good until the next one
	look      bool           // not all series are known to be present, and somebody minds
	others    []sourceSeries // of the last series, if it is transient
	twins     *labelTwins    // nil for few series
	pauses    foreground.Pauses
}

// mergeHead is the front of one cursor. Its labels are looked at only when there is
// another to compare with.
type mergeHead struct {
	cursor seriesCursor
	place  PlaceID       // of the cursor
	series sourceSeries  // nil before the first one
	given  bool          // the series was given out
	keys   []uint64      // of its labels; nil: not asked for
	text   labels.Labels // the same, where keys do not do; empty: not asked for
}

// begin makes a merger of the zero value, without cursors yet.
func (m *seriesMerger) begin(ctx context.Context, q *Query, s *Selection) {
	m.ctx, m.q, m.transient, m.warnings = ctx, q, s.Transient, s.Warnings
	m.heads = m.own[:0]
	m.limit = -1
	if s.Limit > 0 {
		m.limit = s.Limit
	}
}

// add adds a cursor, of which nothing is read yet. Of the same labels the first one comes
// first.
func (m *seriesMerger) add(c seriesCursor) {
	m.heads = append(m.heads, mergeHead{cursor: c, place: c.place(), given: true})
	most := c.most()
	if m.limit >= 0 {
		most = min(most, m.limit)
	}
	m.most = max(m.most, most)
}

// next returns the next series; ok is false at the end and on an error. What
// the one before was made of is read over, if series are transient.
func (m *seriesMerger) next() (merged mergedSeries, ok bool, err error) {
	if err = m.advance(); err != nil || len(m.heads) == 0 {
		m.end(err == nil)
		return mergedSeries{}, false, err
	}
	if len(m.heads) == 1 {
		m.heads[0].given = true
		return mergedSeries{first: m.heads[0].series}, true, nil
	}
	n, err := m.choose()
	if err != nil {
		return mergedSeries{}, false, err
	}
	return m.take(n), true, nil
}

// end lets go of what is not needed any more.
//
//go:noinline
func (m *seriesMerger) end(ended bool) {
	m.ended = ended
	if m.twins != nil {
		m.q.labels.keep(m.twins)
		m.twins = nil
	}
}

// admit counts a series that is to be given out; false, with a warning, if the limit does not
// let it through.
func (m *seriesMerger) admit() bool {
	if m.limit == 0 {
		m.end(true)
		m.warnings = append(m.warnings, ErrTruncated)
		return false
	}
	m.limit--
	return true
}

// advance moves the cursors on whose series were given out; at its end one goes.
func (m *seriesMerger) advance() (err error) {
	for i := len(m.heads) - 1; i >= 0; i-- {
		h := &m.heads[i]
		if !h.given {
			continue
		}
		if h.series, err = h.cursor.next(m.ctx); err != nil {
			return err
		}
		h.given, h.keys, h.text = false, h.keys[:0], labels.Labels{}
		if h.series == nil {
			m.heads = slices.Delete(m.heads, i, i+1)
		}
	}
	return nil
}

// choose marks the heads with the smallest labels, and counts them. Few sources overlap
// in time at any moment: a scan beats a heap.
func (m *seriesMerger) choose() (n int, err error) {
	if m.begun && m.twins == nil && m.most > fewSeries { // who only wants the first one gets no table
		m.twins = m.q.labels.labelTwins()
	}
	m.begun = true
	least := &m.heads[0]
	least.given, n = true, 1
	for i := 1; i < len(m.heads); i++ {
		h := &m.heads[i]
		c, err := m.twins.compare(h, least)
		switch {
		case err != nil:
			return 0, err
		case c == 0:
			h.given = true
			n++
		case c < 0:
			for k := range i {
				m.heads[k].given = false
			}
			least, h.given, n = h, true, 1
		}
	}
	return n, nil
}

// take makes one series of the n heads that are marked.
func (m *seriesMerger) take(n int) (merged mergedSeries) {
	if m.transient {
		merged.more = m.others[:0]
	} else if n > 1 {
		merged.more = make([]sourceSeries, 0, n-1)
	}
	for i := range m.heads {
		switch h := &m.heads[i]; {
		case !h.given:
		case merged.first == nil:
			merged.first = h.series
		default:
			merged.more = append(merged.more, h.series)
		}
	}
	if m.transient {
		m.others = merged.more
	}
	return merged
}
