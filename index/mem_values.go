package index

import (
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
)

// labelValues are the pairs of each label name, as matchers look for them. Pairs without
// series may be among them.
//
// Safe for concurrent use; what changes the values of a name belongs to whoever holds
// MemPostings.create.
type labelValues struct {
	pairs *labelPairs   // their strings
	size  *atomic.Int64 // of MemPostings

	mu struct {
		sync.RWMutex
		byName []*nameValues // by number of a name; 0 is unused
	}
}

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

func (lv *labelValues) init(pairs *labelPairs, size *atomic.Int64) {
	lv.pairs, lv.size = pairs, size
	lv.mu.byName = make([]*nameValues, 1)
}

// addName makes a name known that has no values yet.
func (lv *labelValues) addName(group uint32) {
	lv.mu.Lock()
	defer lv.mu.Unlock()
	if int(group) == len(lv.mu.byName) {
		before := cap(lv.mu.byName)
		lv.mu.byName = append(lv.mu.byName, nil)
		lv.size.Add(int64(cap(lv.mu.byName)-before) * 8)
	}
	lv.mu.byName[group] = new(nameValues)
	lv.size.Add(nameValuesBytes)
}

// add gives a name another value.
func (lv *labelValues) add(group uint32, p Pair) {
	lv.mu.Lock()
	defer lv.mu.Unlock()
	nv := lv.mu.byName[group]
	before := cap(nv.vals)
	nv.vals = append(nv.vals, p)
	lv.size.Add(int64(cap(nv.vals)-before) * 4)
}

// setLocked replaces the values of a name; the first sorted are in order.
func (lv *labelValues) setLocked(nv *nameValues, vals []Pair, sorted int) {
	lv.size.Add(int64(cap(vals)-cap(nv.vals)) * 4)
	nv.vals, nv.sorted = vals, sorted
	nv.version++
}

// drop takes pairs out of the values of a name and reports whether that was all
// of them: then the name goes, too.
func (lv *labelValues) drop(group uint32, gone map[Pair]struct{}) (last bool) {
	lv.mu.Lock()
	defer lv.mu.Unlock()
	nv := lv.mu.byName[group]
	left := make([]Pair, 0, len(nv.vals)-len(gone))
	sorted := 0
	for i, p := range nv.vals {
		if _, ok := gone[p]; ok {
			continue
		}
		left = append(left, p)
		if i < nv.sorted {
			sorted++
		}
	}
	lv.setLocked(nv, left, sorted)
	if len(left) > 0 {
		return false
	}
	lv.size.Add(-nameValuesBytes)
	lv.mu.byName[group] = nil
	return true
}

// groups returns a number above those of all names.
func (lv *labelValues) groups() int {
	lv.mu.RLock()
	defer lv.mu.RUnlock()
	return len(lv.mu.byName)
}

// of returns the pairs of a name in no order.
func (lv *labelValues) of(group uint32) []Pair {
	lv.mu.RLock()
	defer lv.mu.RUnlock()
	if nv := lv.mu.byName[group]; nv != nil {
		return nv.vals
	}
	return nil
}

// sorted returns the pairs of a name in order of their values. Sorting is done once for
// each batch of new values, and outside the lock.
func (lv *labelValues) sorted(group uint32) []Pair {
	lv.mu.RLock()
	nv := lv.mu.byName[group]
	if nv == nil {
		lv.mu.RUnlock()
		return nil
	}
	vals, sorted, version := nv.vals, nv.sorted, nv.version
	lv.mu.RUnlock()
	if sorted == len(vals) {
		return vals[:sorted:sorted]
	}

	merged := lv.merge(vals[:sorted], vals[sorted:])
	lv.mu.Lock()
	defer lv.mu.Unlock()
	if nv.version == version {
		lv.setLocked(nv, append(slices.Clone(merged), nv.vals[len(vals):]...), len(merged))
	}
	return merged
}

// merge sorts the tail and merges it with what is sorted, into a new slice.
func (lv *labelValues) merge(sorted, tail []Pair) []Pair {
	type text struct {
		value string
		p     Pair
	}
	young := make([]text, len(tail))
	for i, p := range tail {
		young[i] = text{lv.pairs.value(p), p}
	}
	sort.Slice(young, func(i, k int) bool { return young[i].value < young[k].value }) // not by package slices: 15 kB for this type
	out := make([]Pair, 0, len(sorted)+len(tail))
	for _, y := range young {
		n := sort.Search(len(sorted), func(i int) bool { return lv.pairs.value(sorted[i]) > y.value })
		out = append(append(out, sorted[:n]...), y.p)
		sorted = sorted[n:]
	}
	return append(out, sorted...)
}

// withPrefix returns the part of sorted values that begins with prefix.
func (lv *labelValues) withPrefix(sorted []Pair, prefix string) []Pair {
	if prefix == "" {
		return sorted
	}
	from := sort.Search(len(sorted), func(i int) bool { return lv.pairs.value(sorted[i]) >= prefix })
	sorted = sorted[from:]
	to := sort.Search(len(sorted), func(i int) bool { return !strings.HasPrefix(lv.pairs.value(sorted[i]), prefix) })
	return sorted[:to]
}

// valuesOf is that of pairSource.
func (lv *labelValues) valuesOf(dst []Pair, name string, values []string) ([]Pair, error) {
	group, ok := lv.pairs.names.find(0, name)
	if !ok {
		return dst, nil
	}
	for _, value := range values {
		if p, ok := lv.pairs.values.find(group, value); ok {
			dst = append(dst, Pair(p))
		}
	}
	return dst, nil
}

// searchValues is that of pairSource.
func (lv *labelValues) searchValues(dst []Pair, name, prefix string, keep func(value string) (bool, error)) ([]Pair, error) {
	group, ok := lv.pairs.names.find(0, name)
	if !ok {
		return dst, nil
	}
	vals := lv.withPrefix(lv.sorted(group), prefix)
	if keep == nil {
		return append(dst, vals...), nil
	}
	values := lv.pairs.values.reader() // of now: it knows all of vals
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
