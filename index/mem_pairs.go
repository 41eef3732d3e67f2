package index

import (
	"cmp"
	"strings"
	"sync/atomic"

	"github.com/seed347100a3/tsdb/internal/prefetch"
)

// labelPairs are the strings of label pairs, each once, and the numbers of names and of
// pairs.
//
// Reading needs no lock. What changes something belongs to whoever holds
// MemPostings.create.
type labelPairs struct {
	names  symbols // groups: always 0
	values symbols // groups: numbers of names; numbers: Pairs
}

func (lp *labelPairs) init(size *atomic.Int64) {
	lp.names.init(size)
	lp.values.init(size)
}

// find returns the number of a pair.
func (lp *labelPairs) find(name, value string) (Pair, bool) {
	group, ok := lp.names.find(0, name)
	if !ok {
		return 0, false
	}
	p, ok := lp.values.find(group, value)
	return Pair(p), ok
}

// label returns the strings of a pair; they stay valid for ever.
func (lp *labelPairs) label(p Pair) (name, value string) {
	group, value := lp.values.at(uint32(p))
	return lp.name(group), value
}

// name returns a name by its number.
func (lp *labelPairs) name(group uint32) string {
	_, name := lp.names.at(group)
	return name
}

// value returns the value of a pair.
func (lp *labelPairs) value(p Pair) string {
	return lp.values.text.at(uint32(lp.values.word(uint32(p))))
}

// appendLabels is MemPostings.AppendLabels.
func (lp *labelPairs) appendLabels(dst []byte, pairs []Pair) []byte {
	names, values := lp.names.reader(), lp.values.reader()
	for _, p := range pairs {
		word := values.word(uint32(p))
		dst = append(dst, names.text.encodedAt(uint32(names.word(uint32(word>>40))))...)
		dst = append(dst, values.text.encodedAt(uint32(word))...)
	}
	return dst
}

// aheadLen is how many places of values are looked up before the values are read.
const aheadLen = 128

// ahead is MemPostings.Ahead.
func (lp *labelPairs) ahead(pairs []Pair) {
	values := lp.values.reader()
	var places [aheadLen]uint32
	for len(pairs) > 0 {
		n := min(len(pairs), len(places))
		for i, p := range pairs[:n] {
			places[i] = uint32(values.word(uint32(p)))
		}
		for _, place := range places[:n] {
			if block, off := values.text.find(place); off < len(block) {
				prefetch.Text(block[off:])
			}
		}
		pairs = pairs[n:]
	}
}

// compare orders label sets as labels.Compare does.
func (lp *labelPairs) compare(a, b []Pair) int {
	for i := range min(len(a), len(b)) {
		if a[i] == b[i] {
			continue
		}
		groupA, valueA := lp.values.at(uint32(a[i]))
		groupB, valueB := lp.values.at(uint32(b[i]))
		if groupA != groupB {
			return strings.Compare(lp.name(groupA), lp.name(groupB))
		}
		return strings.Compare(valueA, valueB)
	}
	return cmp.Compare(len(a), len(b))
}

// room tells whether so many more labels fit, each with a name and a value that nobody has yet.
func (lp *labelPairs) room(labels int) bool {
	return lp.names.text.room(labels) && lp.values.text.room(labels) && int64(lp.names.next)+int64(labels) <= maxGroups
}

// drop makes a pair unfindable and returns the number of its name. It still stands for its
// strings until release.
func (lp *labelPairs) drop(p Pair) (group uint32) {
	group, _ = lp.values.at(uint32(p))
	lp.values.drop(uint32(p))
	return group
}
