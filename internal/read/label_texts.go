package read

import (
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/internal/prefetch"
	"github.com/seed347100a3/tsdb/labels"
)

const (
	// labelWays is how many places a series may have in the table of texts.
	labelWays = 4

	// A head keeps the text of at most one in this many of its series, 44 bytes for each of
	// all when a text has 210, and of no more than manyTexts.
	seriesPerText = 6
	fewTexts      = 1 << 8
	manyTexts     = 1 << 16

	maxKeptText   = 1 << 10 // bytes; a longer one is put together each time
	keptTextBytes = 32      // of an entry beside its text
	tagSizeBits   = 12      // of a tag, below the ref: the bytes of the entry
)

const _ = uint(1<<tagSizeBits - 1 - maxKeptText - keptTextBytes) // an entry's bytes fit a tag

// labelTexts keeps the labels of series of the head that were selected last as text: what is asked
// for is mostly what was asked for a minute ago, and to put it together from numbers costs more
// than all else of a query for labels (BenchmarkSelectHead/labels). The memory is that of a part of
// the series, and it is not taken before anybody asks.
//
// A ref stands for the same labels for as long as a head lives, so nothing in here is ever wrong.
// Safe for concurrent use.
type labelTexts struct{ table atomic.Pointer[textTable] }

// textTable has sets of labelWays places; the number of places is a power of two.
type textTable struct {
	sets  []textSet
	turn  atomic.Uint32 // which place of a full set is next to be taken
	bytes atomic.Int64  // of the entries, as the tags have it
}

// textSet is a line of the cache in all but the smallest tables: texts that are not looked for are
// not looked at, and take another line each.
type textSet struct {
	tags  [labelWays]atomic.Uint64 // where a text may be: the text itself says whose it is
	texts [labelWays]atomic.Pointer[seriesText]
}

type seriesText struct {
	ref  uint64
	text labels.Labels
}

// sizeBytes returns the memory of the table.
func (l *labelTexts) sizeBytes() int64 {
	t := l.table.Load()
	if t == nil {
		return 0
	}
	return int64(len(t.sets))*int64(unsafe.Sizeof(textSet{})) + t.bytes.Load()
}

// of returns the table for a head of so many series.
func (l *labelTexts) of(series int) *textTable {
	want := min(max(1<<(bits.Len(uint(series/seriesPerText)|1)-1), fewTexts), manyTexts) / labelWays
	old := l.table.Load()
	if old != nil && (len(old.sets) == want || len(old.sets) == 2*want) {
		return old // one that should be a little smaller is not thrown away
	}
	l.table.CompareAndSwap(old, &textTable{sets: make([]textSet, want)})
	return l.table.Load()
}

// holds reports whether the labels of so many series are worth keeping: more would only push
// each other out.
func (t *textTable) holds(series int) bool { return series <= len(t.sets)*labelWays/2 }

// set returns the places of a series. Refs that are selected together often have the same
// distance from each other: multiplied by 2^64 divided by the golden ratio they are spread
// evenly whatever it is.
func (t *textTable) set(ref uint64) *textSet {
	const odd = 0x9e3779b97f4a7c15
	at, _ := bits.Mul64(ref*odd, uint64(len(t.sets)))
	return &t.sets[at]
}

// ahead asks for the places of a series.
func (t *textTable) ahead(ref uint64) { prefetch.Line(&t.set(ref).tags[0]) }

// find returns the labels of a series if they are there.
func (t *textTable) find(ref uint64) (labels.Labels, bool) {
	set := t.set(ref)
	for i := range set.tags {
		if set.tags[i].Load()>>tagSizeBits != ref {
			continue
		}
		if e := set.texts[i].Load(); e != nil && e.ref == ref {
			return e.text, true
		}
	}
	return labels.Labels{}, false
}

// keep puts the labels of a series into a free place, or into that of another one. Of two that take
// the same place at once the text of one and the tag of the other may stay: that text is not found
// until the place is taken again.
func (t *textTable) keep(ref uint64, text labels.Labels) {
	if text.SizeBytes() > maxKeptText {
		return
	}
	set, e := t.set(ref), &seriesText{ref, text}
	i := set.free()
	if i < 0 || !set.texts[i].CompareAndSwap(nil, e) {
		i = int(t.turn.Add(1) % labelWays)
		set.texts[i].Store(e)
	}
	size := uint64(text.SizeBytes() + keptTextBytes)
	old := set.tags[i].Swap(ref<<tagSizeBits | size)
	t.bytes.Add(int64(size) - int64(old%(1<<tagSizeBits)))
}

// free returns a place that has no text, -1 if there is none.
func (s *textSet) free() int {
	for i := range s.texts {
		if s.texts[i].Load() == nil {
			return i
		}
	}
	return -1
}

// labelsOf puts the labels of a series together.
func labelsOf(series *memseries.Directory, s *memseries.Series) labels.Labels {
	var few [512]byte
	ls, err := labels.FromEncoded(series.Postings().AppendLabels(few[:0], series.Pairs(s)))
	if err != nil {
		panic("BUG: labels of the head: " + err.Error())
	}
	return ls
}
