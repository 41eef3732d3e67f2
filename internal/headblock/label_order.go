package headblock

import (
	"cmp"
	"sort"

	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/internal/foreground"
	"github.com/seed347100a3/tsdb/internal/memseries"
)

// labelOrder sorts series of the head by their labels: by the first label all of them, by the next
// one those that have the first one in common, and so on. Comparing whole label sets would go
// through memory in all directions: 400,000 series take less than half of the time this way
// (BenchmarkFlush_ManySeries). index.SortByLabels, which has to compare text, needs a third more.
type labelOrder struct {
	series *memseries.Directory
	syms   []index.SymbolPair // of each label pair; numbered in the order of their strings
	way    *foreground.Poll

	few  byLabels // being sorted
	many byKey    // being sorted
}

// keyedSeries is a series with what it is sorted by at the moment.
type keyedSeries struct {
	key uint64
	s   *memseries.Series
}

// cachedSeries are compared whole: they are in the processor's cache.
const cachedSeries = 16

// sort puts series in the order of their labels. Errors are those of the context that way looks at.
func (o *labelOrder) sort(all []*memseries.Series) error {
	keyed := make([]keyedSeries, len(all))
	for i, s := range all {
		keyed[i].s = s
	}
	o.sortFrom(keyed, 0)
	for i := range keyed {
		all[i] = keyed[i].s
	}
	return o.way.Err()
}

// byLabels sorts series by their labels from a place on, and byKey by their keys, without
// instances of the generic sort, which are 14 kB of the least program.
type byLabels struct {
	o      *labelOrder
	all    []keyedSeries
	common int
}

type byKey struct {
	o   *labelOrder
	all []keyedSeries
}

func (f *byLabels) Len() int           { return len(f.all) }
func (f *byLabels) Swap(i, k int)      { f.all[i], f.all[k] = f.all[k], f.all[i] }
func (f *byLabels) Less(i, k int) bool { return f.o.compare(f.all[i].s, f.all[k].s, f.common) < 0 }

func (m *byKey) Len() int      { return len(m.all) }
func (m *byKey) Swap(i, k int) { m.all[i], m.all[k] = m.all[k], m.all[i] }

func (m *byKey) Less(i, k int) bool {
	if !m.o.way.Step(waySteps) {
		return false // the end is near, in whatever order
	}
	return m.all[i].key < m.all[k].key
}

// sortFrom sorts series that have the first labels in common, so many of them.
func (o *labelOrder) sortFrom(all []keyedSeries, common int) {
	for len(all) > cachedSeries && o.sameAt(all, common) {
		if all[0].key == 0 {
			return // they have no more labels
		}
		common++
	}
	if len(all) <= cachedSeries {
		o.few = byLabels{o, all, common}
		sort.Sort(&o.few)
		return
	}
	o.many = byKey{o, all}
	sort.Sort(&o.many)
	for len(all) > 0 && o.way.Err() == nil {
		n := 1
		for n < len(all) && all[n].key == all[0].key {
			n++
		}
		if n > 1 && all[0].key > 0 {
			o.sortFrom(all[:n], common+1)
		}
		all = all[n:]
	}
}

// sameAt gives each series the label at a place as its key, 0 if it has fewer, and tells
// whether all of them have the same.
func (o *labelOrder) sameAt(all []keyedSeries, place int) bool {
	same := true
	for i := range all {
		all[i].key = 0
		if !o.way.Step(waySteps) {
			return false
		}
		if pairs := o.series.Pairs(all[i].s); place < len(pairs) {
			all[i].key = o.keyOf(pairs[place])
		}
		same = same && all[i].key == all[0].key
	}
	return same
}

// keyOf orders label pairs: by name, then by value. It is never 0.
func (o *labelOrder) keyOf(p index.Pair) uint64 {
	sym := o.syms[p]
	return uint64(sym.Name)<<32 + uint64(sym.Value) + 1
}

// compare orders two series from a label on.
func (o *labelOrder) compare(a, b *memseries.Series, from int) int {
	o.way.Step(pollEvery)
	pa, pb := o.series.Pairs(a), o.series.Pairs(b)
	for i := from; i < min(len(pa), len(pb)); i++ {
		if pa[i] != pb[i] {
			return cmp.Compare(o.keyOf(pa[i]), o.keyOf(pb[i]))
		}
	}
	return len(pa) - len(pb)
}
