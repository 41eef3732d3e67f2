package tsdb

import (
	"bytes"
	"cmp"
	"sync"

	"github.com/seed347100a3/tsdb/labels"
)

// labelTwins compares the labels of series in different places. A place has its own
// number for each label, so which numbers stand for the same is learned from the text,
// and remembered: series that follow each other share most of their labels, and those of
// different places nearly all (BenchmarkSelectBlocks). The memory is a direct-mapped table
// of fixed size, whatever the number of places and series.
type labelTwins struct {
	slots [manyTwins]labelTwin
	known [4]labelText // of the second of two labels: others are compared with it next
	text  []byte       // of the first one
}

// labelText is the text of a label: its name and its value, one behind the other.
type labelText struct {
	key, place uint64
	text       []byte // empty: none
	name       int    // length
}

// labelTwin says that two labels are the same. Keys belong to places.
type labelTwin struct {
	a, b   uint64
	places uint64 // 0: the slot is empty
}

// twinTables are those that no query uses: 50 KB of garbage less for each that has use for one.
var twinTables = sync.Pool{New: func() any { return new(labelTwins) }}

// release gives the table to the next query, empty. Nil is none.
func (t *labelTwins) release() {
	if t == nil {
		return
	}
	clear(t.slots[:])
	for i := range t.known {
		t.known[i].text = t.known[i].text[:0]
	}
	twinTables.Put(t)
}

// manyTwins is the number of slots, a power of two: 48 KB, of which a query touches what its
// labels need.
const manyTwins = 1 << 11

// compare orders the series that two heads stand on by their labels. Without a table, as long
// as there are few series, it is done by text.
func (t *labelTwins) compare(a, b *mergeHead) (int, error) {
	if t == nil || !a.lookUp() || !b.lookUp() {
		return labels.Compare(a.known(), b.known()), nil
	}
	places := (a.place+1)<<32 | b.place
	for i := range min(len(a.keys), len(b.keys)) {
		want := labelTwin{a.keys[i], b.keys[i], places}
		slot := &t.slots[want.hash()%uint64(len(t.slots))]
		if *slot == want {
			continue
		}
		if c, err := t.compareLabel(a, b, i); c != 0 || err != nil {
			return c, err
		}
		*slot = want
	}
	return cmp.Compare(len(a.keys), len(b.keys)), nil
}

// hash spreads the labels of one place; the other one's are as many.
func (w *labelTwin) hash() uint64 {
	const odd = 0x9e3779b97f4a7c15 // 2^64 divided by the golden ratio
	return (w.a ^ w.places<<16) * odd >> 40
}

// compareLabel orders label i of two series by text.
func (t *labelTwins) compareLabel(a, b *mergeHead, i int) (int, error) {
	var name int
	var err error
	if t.text, name, err = a.series.labelText(t.text[:0], a.keys[i]); err != nil {
		return 0, err
	}
	known := &t.known[b.keys[i]%uint64(len(t.known))]
	if known.key != b.keys[i] || known.place != b.place || len(known.text) == 0 {
		known.key, known.place = b.keys[i], b.place
		if known.text, known.name, err = b.series.labelText(known.text[:0], known.key); err != nil {
			return 0, err
		}
	}
	if c := bytes.Compare(t.text[:name], known.text[:known.name]); c != 0 {
		return c, nil
	}
	return bytes.Compare(t.text[name:], known.text[known.name:]), nil
}

// lookUp sets the keys of the labels; false if there are none.
func (h *mergeHead) lookUp() bool {
	if len(h.keys) == 0 {
		h.keys = h.series.labelKeys(h.keys)
	}
	return len(h.keys) > 0
}

// known returns the labels as text.
func (h *mergeHead) known() labels.Labels {
	if h.text.IsEmpty() {
		h.text = h.series.labels()
	}
	return h.text
}
