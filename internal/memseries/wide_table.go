package memseries

import "iter"

// wideTable finds the open chunks of wide series by ref: open addressing, with what is found in
// the table. Each sample of such a series asks for its chunk, and a map took a twentieth of an
// append (BenchmarkAppendHistograms). The zero value is an empty table.
type wideTable struct {
	entries []wideEntry // a power of two of them, or none
	used    int
}

type wideEntry struct {
	ref   uint64 // 0: free; refs start at 1
	chunk *wideChunk
}

// home is where the probing for a ref begins. Refs of a shard are runs of numbers, one run a page,
// that lie far apart: a multiplication by the golden ratio spreads them.
func (t *wideTable) home(ref uint64) int {
	return int(ref*0x9e3779b97f4a7c15>>32) & (len(t.entries) - 1)
}

func (t *wideTable) after(i int) int { return (i + 1) & (len(t.entries) - 1) }

// find returns the chunk of a series, nil if there is none.
func (t *wideTable) find(ref uint64) *wideChunk {
	if len(t.entries) == 0 {
		return nil
	}
	i := t.home(ref)
	for t.entries[i].ref != ref {
		if t.entries[i].ref == 0 {
			return nil
		}
		i = t.after(i)
	}
	return t.entries[i].chunk
}

// put adds the chunk of a series that has none.
func (t *wideTable) put(ref uint64, c *wideChunk) {
	if (t.used+1)*tableLoadDen > len(t.entries)*tableLoadNum {
		old := t.entries
		t.entries = make([]wideEntry, max(tableFirstLen, 2*len(old)))
		for _, e := range old {
			if e.ref != 0 {
				t.place(e)
			}
		}
	}
	t.place(wideEntry{ref, c})
	t.used++
}

func (t *wideTable) place(e wideEntry) {
	i := t.home(e.ref)
	for t.entries[i].ref != 0 {
		i = t.after(i)
	}
	t.entries[i] = e
}

// remove takes out the chunk of a series, which must be there. Entries behind it that would not be
// found over a gap move up.
func (t *wideTable) remove(ref uint64) {
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
	t.entries[gap] = wideEntry{}
	t.used--
}

// reaches reports whether the probing for the ref that lies at i comes by at gap.
func (t *wideTable) reaches(ref uint64, gap, i int) bool {
	mask := len(t.entries) - 1
	return (i-t.home(ref))&mask >= (i-gap)&mask
}

// all ranges over the chunks, in no order.
func (t *wideTable) all() iter.Seq2[uint64, *wideChunk] {
	return func(yield func(uint64, *wideChunk) bool) {
		for _, e := range t.entries {
			if e.ref != 0 && !yield(e.ref, e.chunk) {
				return
			}
		}
	}
}
