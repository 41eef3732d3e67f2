package index

import (
	"slices"
	"sort"
	"strings"
)

// nameValues are the values of one label name. The first sorted of them are in order
// of their text; younger ones follow as they came, until somebody asks for the order.
//
// vals[:sorted] is never changed in place, so that readers may use it without the lock.
type nameValues struct {
	vals    []Pair
	sorted  int
	version uint64 // changes when vals is replaced
}

const nameValuesBytes = 48 // of a nameValues on the heap

func (m *MemPostings) addNameLocked(group uint32) {
	if int(group) == len(m.mu.byName) {
		before := cap(m.mu.byName)
		m.mu.byName = append(m.mu.byName, nil)
		m.size.Add(int64(cap(m.mu.byName)-before) * 8)
	}
	m.mu.byName[group] = new(nameValues)
	m.size.Add(nameValuesBytes)
}

func (m *MemPostings) addValueLocked(group uint32, p Pair) {
	nv := m.mu.byName[group]
	before := cap(nv.vals)
	nv.vals = append(nv.vals, p)
	m.size.Add(int64(cap(nv.vals)-before) * 4)
}

// setValuesLocked replaces the values of a name; the first sorted are in order.
func (m *MemPostings) setValuesLocked(nv *nameValues, vals []Pair, sorted int) {
	m.size.Add(int64(cap(vals)-cap(nv.vals)) * 4)
	nv.vals, nv.sorted = vals, sorted
	nv.version++
}

// sortedValues returns the pairs of a name in order of their values. Pairs without
// series may be among them. Sorting is done once for each batch of new values, and
// outside the lock.
func (m *MemPostings) sortedValues(group uint32) []Pair {
	m.mu.RLock()
	nv := m.mu.byName[group]
	if nv == nil {
		m.mu.RUnlock()
		return nil
	}
	vals, sorted, version := nv.vals, nv.sorted, nv.version
	m.mu.RUnlock()
	if sorted == len(vals) {
		return vals[:sorted:sorted]
	}

	merged := m.mergeValues(vals[:sorted], vals[sorted:])
	m.mu.Lock()
	defer m.mu.Unlock()
	if nv.version == version {
		m.setValuesLocked(nv, append(slices.Clone(merged), nv.vals[len(vals):]...), len(merged))
	}
	return merged
}

// mergeValues sorts the tail and merges it with what is sorted, into a new slice.
func (m *MemPostings) mergeValues(sorted, tail []Pair) []Pair {
	type text struct {
		value string
		p     Pair
	}
	young := make([]text, len(tail))
	for i, p := range tail {
		young[i] = text{m.Value(p), p}
	}
	sort.Slice(young, func(i, k int) bool { return young[i].value < young[k].value }) // not by package slices: 15 kB for this type
	out := make([]Pair, 0, len(sorted)+len(tail))
	for _, y := range young {
		n := sort.Search(len(sorted), func(i int) bool { return m.Value(sorted[i]) > y.value })
		out = append(append(out, sorted[:n]...), y.p)
		sorted = sorted[n:]
	}
	return append(out, sorted...)
}

// withPrefix returns the part of sorted values that begins with prefix.
func (m *MemPostings) withPrefix(sorted []Pair, prefix string) []Pair {
	if prefix == "" {
		return sorted
	}
	from := sort.Search(len(sorted), func(i int) bool { return m.Value(sorted[i]) >= prefix })
	sorted = sorted[from:]
	to := sort.Search(len(sorted), func(i int) bool { return !strings.HasPrefix(m.Value(sorted[i]), prefix) })
	return sorted[:to]
}

// LabelNames returns the names of the labels that series have, sorted. keep is asked
// for pairs of a name until it says yes, and nil is yes for each; refs are the series
// of that pair and are valid during the call.
func (m *MemPostings) LabelNames(keep func(p Pair, refs Postings) bool) []string {
	defer m.unpin(m.pin())
	m.mu.RLock()
	groups := len(m.mu.byName)
	m.mu.RUnlock()
	var names []string
	for group := 1; group < groups; group++ {
		if m.anyValue(uint32(group), keep) {
			_, name := m.names.at(uint32(group))
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (m *MemPostings) anyValue(group uint32, keep func(p Pair, refs Postings) bool) bool {
	m.mu.RLock()
	nv := m.mu.byName[group]
	var vals []Pair
	if nv != nil {
		vals = nv.vals
	}
	m.mu.RUnlock()
	found := false
	m.eachValue(vals, keep, func(Pair) bool { found = true; return false })
	return found
}

// LabelValues returns the values of a label that series have, sorted. keep is asked
// for each and nil is yes for each; refs are the series that have the value and are
// valid during the call.
func (m *MemPostings) LabelValues(name string, keep func(p Pair, refs Postings) bool) []string {
	defer m.unpin(m.pin())
	group, ok := m.names.find(0, name)
	if !ok {
		return nil
	}
	var values []string
	m.eachValue(m.sortedValues(group), keep, func(p Pair) bool {
		values = append(values, m.Value(p))
		return true
	})
	return values
}

// eachValue yields the pairs that have series and that keep accepts.
func (m *MemPostings) eachValue(vals []Pair, keep func(Pair, Postings) bool, yield func(Pair) bool) {
	var buf []uint64
	for _, p := range vals {
		m.mu.RLock()
		l := m.listLocked(p)
		empty := l.last() == 0
		if !empty && keep != nil {
			buf = m.mu.viewOf(l).appendTo(buf[:0])
		}
		m.mu.RUnlock()
		if empty || keep != nil && !keep(p, NewPostings(buf)) {
			continue
		}
		if !yield(p) {
			return
		}
	}
}
