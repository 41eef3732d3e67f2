// Package reftable finds what some series have beside, by their refs. Maps of the language do, too,
// and take a twentieth of an append of histograms or of late samples (BenchmarkAppendHistograms,
// BenchmarkAppendLate).
package reftable

import "iter"

// Table is what series have by their refs, which are not 0: pointers, or something else whose zero
// value stands for nothing. It is a table of open addressing; its zero value is empty. It is not
// safe for concurrent use.
type Table[V any] struct {
	entries []entry[V] // a power of two of them, or none
	used    int        // that are not free
}

type entry[V any] struct {
	ref   uint64 // 0: free
	value V
}

// EntryBytes is about what an entry of a pointer takes, with the room that tables have.
const EntryBytes = 2 * 16

const (
	firstLen         = 4 // entries of an empty table
	loadNum, loadDen = 3, 4
)

// home is where the probing for a ref begins. Refs of a shard are runs of numbers, one run a page,
// that lie far apart: a multiplication by the golden ratio spreads them.
func (t *Table[V]) home(ref uint64) int {
	return int(ref*0x9e3779b97f4a7c15>>32) & (len(t.entries) - 1)
}

func (t *Table[V]) after(i int) int { return (i + 1) & (len(t.entries) - 1) }

// Find returns what a ref has, the zero value if it has nothing.
func (t *Table[V]) Find(ref uint64) (v V) {
	if len(t.entries) == 0 {
		return v
	}
	i := t.home(ref)
	for t.entries[i].ref != ref {
		if t.entries[i].ref == 0 {
			return v
		}
		i = t.after(i)
	}
	return t.entries[i].value
}

// Add gives a ref that has nothing what it has.
func (t *Table[V]) Add(ref uint64, v V) {
	if (t.used+1)*loadDen > len(t.entries)*loadNum {
		old := t.entries
		t.entries = make([]entry[V], max(firstLen, 2*len(old)))
		for i := range old {
			if old[i].ref != 0 {
				t.place(old[i])
			}
		}
	}
	t.place(entry[V]{ref, v})
	t.used++
}

func (t *Table[V]) place(e entry[V]) {
	i := t.home(e.ref)
	for t.entries[i].ref != 0 {
		i = t.after(i)
	}
	t.entries[i] = e
}

// Remove takes what a ref has away; it must have something. Entries behind it that would not be
// found over a gap move up.
func (t *Table[V]) Remove(ref uint64) {
	gap := t.home(ref)
	for t.entries[gap].ref != ref {
		gap = t.after(gap)
	}
	for i := t.after(gap); t.entries[i].ref != 0; i = t.after(i) {
		if t.reaches(t.entries[i].ref, gap, i) {
			t.entries[gap] = t.entries[i]
			gap = i
		}
	}
	t.entries[gap] = entry[V]{}
	t.used--
}

// reaches reports whether the probing for the ref that lies at i comes by at gap.
func (t *Table[V]) reaches(ref uint64, gap, i int) bool {
	mask := len(t.entries) - 1
	return (i-t.home(ref))&mask >= (i-gap)&mask
}

// Keep asks for each ref whether it keeps what it has, and makes a table of those that do. The
// table is not to be used meanwhile.
func (t *Table[V]) Keep(keep func(ref uint64, v V) bool) {
	old := t.entries
	*t = Table[V]{}
	for i := range old {
		if e := &old[i]; e.ref != 0 && keep(e.ref, e.value) {
			t.Add(e.ref, e.value)
		}
	}
}

// All ranges over what refs have, in no order. The table must not change meanwhile.
func (t *Table[V]) All() iter.Seq2[uint64, V] {
	return func(yield func(uint64, V) bool) {
		for i := range t.entries {
			if e := &t.entries[i]; e.ref != 0 && !yield(e.ref, e.value) {
				return
			}
		}
	}
}
