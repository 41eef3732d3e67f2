package index

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strings"
	"sync"
)

// SortByLabels sorts items by the labels that they stand for, as labels.Compare does.
// pairs gives the label pairs of an item, sorted by name; they stay what they are during
// the call. Pairs that may be dropped meanwhile are pinned by the caller.
//
// Series share most of their labels, so text is compared as little as possible. Label by label,
// only the different pairs that series have there are sorted by text, and series by the ranks of
// those. Series that differ already are not looked at again. It costs a few steps for each series
// and label, where comparing series costs that for each comparison (BenchmarkSortByLabels: a
// tenth).
func SortByLabels[T any](m *MemPostings, items []T, pairs func(T) []Pair) {
	sortBy(m, items, pairs, len(items))
}

// sortBy sorts about so many items at once.
func sortBy[T any](m *MemPostings, items []T, pairs func(T) []Pair, atOnce int) {
	if len(items) < 2 {
		return
	}
	o := orders.Get().(*order)
	defer o.release()
	o.of = &m.pairs
	sortParts(o, items, pairs, atOnce)
}

// sortAtOnce sorts with scratch memory for all items.
func sortAtOnce[T any](o *order, items []T, pairs func(T) []Pair) {
	if len(items) < 2 {
		return
	}
	o.most = max(o.most, len(items))
	o.rows = slices.Grow(o.rows[:0], len(items))
	for i, item := range items {
		o.rows = append(o.rows, orderRow{pairs: pairs(item), at: uint32(i)})
	}
	o.sort()
	for i := range items {
		place(o.rows, items, i)
	}
}

// place puts the item that belongs to place i there, the one that was there where it belongs,
// and so on until the circle closes: the rows say where each of them was. Places that are
// filled are done.
func place[T any](rows []orderRow, items []T, i int) {
	first, at := items[i], i
	for from := int(rows[at].at); from != i; from = int(rows[at].at) {
		items[at] = items[from]
		rows[at].at = uint32(at)
		at = from
	}
	items[at] = first
	rows[at].at = uint32(at)
}

// order is the scratch memory of one SortByLabels.
type order struct {
	of     *labelPairs // whose pairs items have
	most   int         // rows at once, of this use
	rows   []orderRow
	spare  []orderRow
	runs   []orderRun // rows that are equal so far, and what comes of them
	next   []orderRun
	slots  []uint32 // hash table: 1 + index in texts
	texts  []orderText
	keys   []numberedKey // the starts of texts
	sorted []numberedKey // room to sort them
	ranks  []uint32      // by number of a text
	ends   []uint32      // of the rows of each rank
	places []uint64      // rank and index of rows
}

// orderRow is one item.
type orderRow struct {
	pairs []Pair
	at    uint32 // where it was
	rank  uint32 // of its pair of the label that is looked at; until there are ranks its pair, then its number
}

// orderRun is a part of the rows.
type orderRun struct{ from, to int }

// orderText is one of the pairs that rows have, with its text.
type orderText struct {
	name, value string
	pair        Pair
}

var orders = sync.Pool{New: func() any { return new(order) }}

// release forgets what points at labels, which is at most what this use had: the memory may be
// of one that sorted a thousand times as much.
func (o *order) release() {
	if cap(o.rows) > keepScratch {
		return
	}
	clear(o.rows[:min(o.most, cap(o.rows))])
	clear(o.spare[:min(o.most, cap(o.spare))])
	clear(o.texts[:min(o.most, cap(o.texts))])
	o.of, o.most, o.rows = nil, 0, o.rows[:0]
	orders.Put(o)
}

// sort sorts the rows label by label.
func (o *order) sort() {
	o.spare = slices.Grow(o.spare[:0], len(o.rows))[:len(o.rows)]
	o.runs = append(o.runs[:0], orderRun{0, len(o.rows)})
	for label := 0; len(o.runs) > 0; label++ {
		if o.alike(label) {
			continue
		}
		o.number(label)
		o.rankTexts()
		o.next = o.next[:0]
		for _, run := range o.runs {
			o.sortRun(run)
		}
		o.runs, o.next = o.next, o.runs
	}
}

// alike reports whether a label tells no rows of any run apart: of ten labels most do not.
func (o *order) alike(label int) bool {
	for _, run := range o.runs {
		rows := o.rows[run.from:run.to]
		if label >= len(rows[0].pairs) {
			return false
		}
		p := rows[0].pairs[label]
		for i := range rows {
			if label >= len(rows[i].pairs) || rows[i].pairs[label] != p {
				return false
			}
		}
	}
	return true
}

// number gives the rows of all runs the numbers of their pairs at a label. Pairs and texts lie all
// over the memory: they are fetched in loops that do nothing else, so that many are on their
// way at once (BenchmarkSelectHead_ManySeries).
func (o *order) number(label int) {
	rows := o.pairsAt(label)
	size := 16
	for size < 2*rows {
		size *= 2
	}
	o.slots = slices.Grow(o.slots[:0], size)[:size]
	clear(o.slots)
	o.texts = slices.Grow(o.texts[:0], min(rows, 2*perPart)) // of more rows most have pairs that others have, too
	last, num := Pair(0), uint32(0)
	for _, run := range o.runs {
		for i := run.from; i < run.to; i++ {
			if p := Pair(o.rows[i].rank); p != last || len(o.texts) == 0 {
				last, num = p, o.numberOf(p)
			}
			o.rows[i].rank = num
		}
	}
	for texts := o.texts; len(texts) > 0; {
		n := min(len(texts), aheadLen)
		if n >= aheadFrom {
			o.textsAhead(texts[:n])
		}
		for i := range texts[:n] {
			t := &texts[i]
			t.name, t.value = o.of.label(t.pair)
		}
		texts = texts[n:]
	}
}

// aheadFrom is how many texts it takes: the processor asks for fewer at once by itself.
const aheadFrom = 16

// textsAhead asks for texts that are read next.
func (o *order) textsAhead(texts []orderText) {
	var pairs [aheadLen]Pair
	for i := range texts {
		pairs[i] = texts[i].pair
	}
	o.of.ahead(pairs[:len(texts)])
}

// pairsAt gives the rows of all runs their pair at a label for a rank, and counts them.
func (o *order) pairsAt(label int) (count int) {
	for _, run := range o.runs {
		rows := o.rows[run.from:run.to]
		for i := range rows {
			p := Pair(0) // a set that ends here is before those that go on
			if label < len(rows[i].pairs) {
				p = rows[i].pairs[label]
			}
			rows[i].rank = uint32(p)
		}
		count += len(rows)
	}
	return count
}

// numberOf returns the number of a pair, which is new or has been seen.
func (o *order) numberOf(p Pair) uint32 {
	mask := uint32(len(o.slots) - 1)
	for i := uint32(p) * 0x9e3779b1 & mask; ; i = (i + 1) & mask {
		switch num := o.slots[i]; {
		case num == 0:
			num = uint32(len(o.texts))
			o.texts = append(o.texts, orderText{pair: p})
			o.slots[i] = num + 1
			return num
		case o.texts[num-1].pair == p:
			return num - 1
		}
	}
}

// rankTexts sorts the pairs by text and notes the rank of each number. Where one name has
// all the values, as is usual, most are told apart by eight bytes behind what they have in
// common.
func (o *order) rankTexts() {
	o.keys = o.keys[:0]
	skip, same := o.common()
	for i := range o.texts {
		key := uint64(0)
		if same {
			key = leadingBytes(o.texts[i].value[skip:])
		}
		o.keys = append(o.keys, numberedKey{key, uint32(i)})
	}
	o.sorted = slices.Grow(o.sorted[:0], len(o.keys))[:len(o.keys)]
	sortKeys(o.keys, o.sorted, func(a, b numberedKey) bool {
		x, y := &o.texts[a.num], &o.texts[b.num]
		return cmp.Or(strings.Compare(x.name, y.name), strings.Compare(x.value, y.value)) < 0
	})
	o.ranks = slices.Grow(o.ranks[:0], len(o.keys))[:len(o.keys)]
	for rank, k := range o.keys {
		o.ranks[k.num] = uint32(rank)
	}
}

// common returns how many bytes all values begin with in common, and whether all have the
// same name.
func (o *order) common() (n int, same bool) {
	first := &o.texts[0]
	n = len(first.value)
	for i := range o.texts {
		t := &o.texts[i]
		if t.name != first.name {
			return 0, false
		}
		n = min(n, len(t.value))
		for t.value[:n] != first.value[:n] {
			n--
		}
	}
	return n, true
}

// leadingBytes returns the first eight bytes as a number that is ordered like them; what
// is missing counts as zero.
func leadingBytes(s string) uint64 {
	if len(s) >= 8 {
		return binary.BigEndian.Uint64([]byte(s[:8]))
	}
	key := uint64(0)
	for i := range len(s) {
		key |= uint64(s[i]) << (56 - 8*i)
	}
	return key
}

// sortRun sorts one run by rank. Of what is equal then, and has more labels, come the
// runs of the next label.
func (o *order) sortRun(run orderRun) {
	rows := o.rows[run.from:run.to]
	same := true
	for i := range rows {
		rows[i].rank = o.ranks[rows[i].rank]
		same = same && rows[i].rank == rows[0].rank
	}
	switch {
	case same:
	case len(o.texts) <= 2*len(rows):
		o.countingSort(rows, o.spare[run.from:run.to])
	default:
		o.sortFew(rows, o.spare[run.from:run.to])
	}
	from := 0
	for i := 1; i <= len(rows); i++ {
		if i < len(rows) && rows[i].rank == rows[from].rank {
			continue
		}
		if i-from > 1 && o.texts[o.keys[rows[from].rank].num].pair != 0 {
			o.next = append(o.next, orderRun{run.from + from, run.from + i})
		}
		from = i
	}
}

// sortFew sorts rows when there are many more ranks: numbers are moved about for less than rows
// are.
func (o *order) sortFew(rows, spare []orderRow) {
	o.places = o.places[:0]
	for i := range rows {
		o.places = append(o.places, uint64(rows[i].rank)<<32|uint64(i))
	}
	slices.Sort(o.places)
	for to, from := range o.places {
		spare[to] = rows[uint32(from)]
	}
	copy(rows, spare)
}

// countingSort sorts rows when there are about as many ranks as rows, or fewer.
func (o *order) countingSort(rows, spare []orderRow) {
	n := len(o.texts)
	o.ends = slices.Grow(o.ends[:0], n)[:n]
	clear(o.ends)
	for i := range rows {
		o.ends[rows[i].rank]++
	}
	sum := uint32(0)
	for rank, count := range o.ends {
		o.ends[rank] = sum
		sum += count
	}
	for i := range rows {
		end := &o.ends[rows[i].rank]
		spare[*end] = rows[i]
		*end++
	}
	copy(rows, spare)
}
