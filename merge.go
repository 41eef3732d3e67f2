package tsdb

import (
	"slices"
	"strings"

	"github.com/seed347100a3/tsdb/labels"
)

// mergedSeries is one series with all that the sources have of it.
type mergedSeries struct {
	first sourceSeries
	more  []sourceSeries // what further sources have, in their order
}

// mergeSeries merges lists that are sorted by labels into one. With a limit above 0
// it returns at most that many series, and whether there were more.
func mergeSeries(lists [][]sourceSeries, limit int) (merged []mergedSeries, more bool) {
	lists = slices.DeleteFunc(lists, func(l []sourceSeries) bool { return len(l) == 0 })
	if len(lists) == 1 {
		return mergeOne(lists[0], limit)
	}
	heads := make([]mergeHead, len(lists))
	for i := range lists {
		heads[i].take(lists[i])
	}
	for len(heads) > 0 {
		if limit > 0 && len(merged) == limit {
			return merged, true
		}
		// Few sources overlap in time at any moment: a scan beats a heap.
		least := 0
		for i := 1; i < len(heads); i++ {
			if compareLabelSlices(heads[i].labels, heads[least].labels) < 0 {
				least = i
			}
		}
		key := slices.Clone(heads[least].labels)
		m := mergedSeries{}
		for i := range heads {
			if compareLabelSlices(heads[i].labels, key) != 0 {
				continue
			}
			if m.first == nil {
				m.first = heads[i].rest[0]
			} else {
				m.more = append(m.more, heads[i].rest[0])
			}
			heads[i].take(heads[i].rest[1:])
		}
		merged = append(merged, m)
		heads = slices.DeleteFunc(heads, func(h mergeHead) bool { return len(h.rest) == 0 })
	}
	return merged, false
}

func mergeOne(list []sourceSeries, limit int) (merged []mergedSeries, more bool) {
	if limit > 0 && len(list) > limit {
		list, more = list[:limit], true
	}
	merged = make([]mergedSeries, len(list))
	for i, s := range list {
		merged[i].first = s
	}
	return merged, more
}

// mergeHead is the front of one list, its labels looked up.
type mergeHead struct {
	rest   []sourceSeries
	labels []labels.Label
}

func (h *mergeHead) take(rest []sourceSeries) {
	h.rest = rest
	h.labels = h.labels[:0]
	if len(rest) > 0 {
		h.labels = rest[0].appendLabels(h.labels)
	}
}

// compareLabelSlices orders label sets as labels.Compare does.
func compareLabelSlices(a, b []labels.Label) int {
	return slices.CompareFunc(a, b, func(x, y labels.Label) int {
		if c := strings.Compare(x.Name, y.Name); c != 0 {
			return c
		}
		return strings.Compare(x.Value, y.Value)
	})
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
