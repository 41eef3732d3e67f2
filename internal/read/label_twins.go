package read

import (
	"bytes"
	"cmp"

	"github.com/seed347100a3/tsdb/labels"
)

// labelTwins compares the labels of series in different places. A place has its own
// number for each label, so which numbers stand for the same is learned from the text,
// and remembered: series that follow each other share most of their labels, and those of
// different places nearly all (BenchmarkSelectBlocks). The memory is a direct-mapped table
// of fixed size, whatever the number of places and series.
type labelTwins struct {
	labels [manyLabelTwins]twin
	known  [4]labelText // of the second of two labels: others are compared with it next
	text   []byte       // of the first one

	// Neither a block nor a head gives the number of a series to another one, so series that are
	// the same stay so, and are remembered for later queries.
	series  [manySeriesTwins]twin
	learned int // by this query
}

// forget makes the table ready for the next query: of labels it is empty.
func (t *labelTwins) forget() {
	clear(t.labels[:])
	for i := range t.known {
		t.known[i].text = t.known[i].text[:0]
	}
	t.learned = 0
}

// labelText is the text of a label: its name and its value, one behind the other.
type labelText struct {
	place PlaceID
	key   uint64
	text  []byte // empty: none
	name  int    // length
}

// twin says that two labels are the same, or two series: what one place calls a, and another one b.
type twin struct {
	placeA, placeB PlaceID // 0: the slot is empty
	a, b           uint64
}

const oddRatio = 0x9e3779b97f4a7c15 // 2^64 divided by the golden ratio

// hash spreads what one place has; the other one has as many.
func (w *twin) hash() uint64 {
	return (w.a*oddRatio + uint64(w.placeA)<<16 + uint64(w.placeB)) * oddRatio >> 40
}

// How many slots there are, powers of two: 48 and 96 KB, of which a query touches what its
// labels and series need.
const (
	manyLabelTwins  = 1 << 11
	manySeriesTwins = 1 << 12
)

// compare orders the series that two heads stand on by their labels. Without a table, of few
// series and of the first ones, it is done by text.
func (t *labelTwins) compare(a, b *mergeHead) (int, error) {
	if t == nil {
		return labels.Compare(a.known(), b.known()), nil
	}
	want := twin{a.place, b.place, a.series.number(), b.series.number()}
	slot := &t.series[want.hash()%manySeriesTwins]
	if *slot == want {
		return 0, nil
	}
	c, err := t.compareLabels(a, b)
	read := !a.text.IsEmpty() || len(a.keys) > 0 && len(b.keys) > 0 // if not, the query ends
	if c == 0 && err == nil && read && t.learned < manySeriesTwins/2 {
		*slot = want
		t.learned++ // more than half would leave little of what other queries need
	}
	return c, err
}

// compareLabels is compare for series that are not known to be the same.
func (t *labelTwins) compareLabels(a, b *mergeHead) (int, error) {
	if !a.lookUp() || !b.lookUp() {
		return labels.Compare(a.known(), b.known()), nil
	}
	for i := range min(len(a.keys), len(b.keys)) {
		want := twin{a.place, b.place, a.keys[i], b.keys[i]}
		slot := &t.labels[want.hash()%manyLabelTwins]
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
//
//go:noinline
func (h *mergeHead) known() labels.Labels {
	if h.text.IsEmpty() {
		h.text = h.series.labels()
	}
	return h.text
}
