package remote

import (
	"crypto/sha256"
	"hash/maphash"
	"slices"
	"strings"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/marks"
	"github.com/seed347100a3/tsdb/labels"
)

// shippedSeries is a series that a Writer has met.
type shippedSeries struct {
	id      uint32 // of its mark
	skipped bool   // it is not sent
	hasMeta bool
	ref     tsdb.SeriesRef // it is known by, 0: none
	newest  int64          // time of the newest sample that was given to a shard
	doubt   int64          // time up to which samples may be there that an earlier process sent
	// doubtGroup is what those were on their way with.
	doubtGroup uint32
	hash       uint64   // chooses its shard
	symbols    []uint32 // names and values of its labels
	encoded    []byte   // the labels in a message of 1.0, once that was spoken
	meta       shippedMetadata

	batch uint64 // number of the last batch that has it
	group int32  // its place there
}

// shippedMetadata is metadata with texts as symbols.
type shippedMetadata struct {
	kind       tsdb.MetricType
	unit, help uint32
}

// seriesTable has the series that a Writer has met. One goroutine uses it.
type seriesTable struct {
	opts    *WriterOptions
	marks   *marks.Store
	byRef   map[tsdb.SeriesRef]*shippedSeries
	byID    map[uint32]*shippedSeries
	symbols symbols
	encoded []byte
	list    []labels.Label
	seed    maphash.Seed
}

func newSeriesTable(opts *WriterOptions, store *marks.Store) *seriesTable {
	return &seriesTable{
		opts: opts, marks: store, seed: maphash.MakeSeed(),
		byRef: map[tsdb.SeriesRef]*shippedSeries{}, byID: map[uint32]*shippedSeries{},
		symbols: symbols{of: map[string]uint32{"": 0}, text: []string{""}},
	}
}

// of returns a series by its ref. nil: nobody knows its labels any more.
func (st *seriesTable) of(ref tsdb.SeriesRef, tail *tsdb.Tail) *shippedSeries {
	if s := st.byRef[ref]; s != nil {
		return s
	}
	ls, ok := tail.Labels(ref)
	if !ok {
		return nil
	}
	s := st.byLabels(ls)
	s.ref = ref
	st.byRef[ref] = s
	if m, ok := tail.Metadata(ref); ok {
		st.setMetadata(s, m)
	}
	return s
}

// byLabels returns a series by its labels.
func (st *seriesTable) byLabels(ls labels.Labels) *shippedSeries {
	st.encoded = ls.AppendEncoded(st.encoded[:0])
	sum := sha256.Sum256(st.encoded)
	id, m := st.marks.Of(marks.Key(sum[:len(marks.Key{})]))
	if s := st.byID[id]; s != nil {
		return s
	}
	s := &shippedSeries{id: id, newest: m.Sent, doubt: m.Doubt, doubtGroup: m.Group, hash: maphash.Bytes(st.seed, st.encoded)}
	if s.skipped = st.opts.Keep != nil && !st.opts.Keep(ls); !s.skipped {
		st.name(s, ls)
	}
	st.byID[id] = s
	return s
}

// name gives a series its labels and those from outside, in order.
func (st *seriesTable) name(s *shippedSeries, ls labels.Labels) {
	st.list = ls.AppendTo(st.list[:0])
	for l := range st.opts.ExternalLabels.All() {
		if !ls.Has(l.Name) {
			st.list = append(st.list, l)
		}
	}
	slices.SortStableFunc(st.list, func(a, b labels.Label) int { return strings.Compare(a.Name, b.Name) })
	s.symbols = make([]uint32, 0, 2*len(st.list))
	for _, l := range st.list {
		s.symbols = append(s.symbols, st.symbols.add(l.Name), st.symbols.add(l.Value))
	}
}

func (st *seriesTable) setMetadata(s *shippedSeries, m tsdb.Metadata) {
	if st.opts.NoMetadata {
		return
	}
	s.hasMeta = true
	s.meta = shippedMetadata{kind: m.Type, unit: st.symbols.add(m.Unit), help: st.symbols.add(m.Help)}
}

// forget forgets series that the head does not have any more and that nothing needs, when marks
// before a floor go. It returns whether the mark of an ID may.
func (st *seriesTable) forget(floor int64, tail *tsdb.Tail) func(id uint32) bool {
	for id, s := range st.byID {
		if s.newest >= floor || s.doubt >= floor {
			continue
		}
		if s.ref != 0 {
			if _, ok := tail.Labels(s.ref); ok {
				continue
			}
			delete(st.byRef, s.ref)
		}
		delete(st.byID, id)
	}
	for ref, s := range st.byRef {
		if s.ref != ref { // it came back under another one
			delete(st.byRef, ref)
		}
	}
	return func(id uint32) bool { return st.byID[id] == nil }
}

// symbols are the texts of labels and metadata, each once.
type symbols struct {
	text []string
	of   map[string]uint32
}

func (s *symbols) add(text string) uint32 {
	n, ok := s.of[text]
	if !ok {
		text = string([]byte(text)) // not a part of something larger
		n = uint32(len(s.text))
		s.text, s.of[text] = append(s.text, text), n
	}
	return n
}

// leastSymbols is how many there may be without asking who needs them.
const leastSymbols = 1 << 12

// isWasteful reports whether many are not used any more.
func (s *symbols) isWasteful(all map[uint32]*shippedSeries) bool {
	if len(s.text) < leastSymbols {
		return false
	}
	used, n := make([]bool, len(s.text)), 0
	for _, w := range all {
		for _, symbol := range append(w.symbols, w.meta.unit, w.meta.help) {
			if !used[symbol] {
				used[symbol] = true
				n++
			}
		}
	}
	return n < len(s.text)/2
}

// without returns the symbols that series need, and gives them their new numbers.
func (s *symbols) without(all map[uint32]*shippedSeries) symbols {
	c := symbols{of: map[string]uint32{"": 0}, text: []string{""}}
	for _, w := range all {
		for i, symbol := range w.symbols {
			w.symbols[i] = c.add(s.text[symbol])
		}
		w.meta.unit, w.meta.help = c.add(s.text[w.meta.unit]), c.add(s.text[w.meta.help])
	}
	return c
}
