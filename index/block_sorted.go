package index

import (
	"cmp"
	"context"
	"slices"
	"sort"

	"github.com/seed347100a3/tsdb/internal/minheap"
)

// Sorted are series of a block in the order of their labels, whatever order they stand in, with
// their labels put right: names ascend, each once, and no value is empty. Series whose labels are
// the same then are one. It is how a block is read that breaks the order which others keep; it
// holds the labels of all series, eight bytes for each label. It belongs to one goroutine.
type Sorted struct {
	pairs   []SymbolPair
	entries []sortedEntry
	ids     []uint64 // of the series it stands on
	labels  []SymbolPair
	next    int
}

// sortedEntry is one series: its labels are pairs[first:end].
type sortedEntry struct {
	id         uint64
	first, end int
}

// read adds the labels of series, put right.
func (s *Sorted) read(ctx context.Context, r *Reader, ids func() (id uint64, ok bool), damaged func(id uint64, err error) error) error {
	for n := 0; ; n++ {
		if n%pollEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		id, ok := ids()
		if !ok {
			return nil
		}
		first := len(s.pairs)
		pairs, err := r.SeriesLabels(id, s.pairs)
		if err != nil {
			if err = damaged(id, err); err != nil {
				return err
			}
			continue
		}
		s.pairs = putRight(pairs, first, r.symbols.empty)
		s.entries = append(s.entries, sortedEntry{id, first, len(s.pairs)})
	}
}

// putRight puts the labels from first on in order. Of several of one name the first one stays.
// An empty value is symbol 0, if there is one.
func putRight(ls []SymbolPair, first int, hasEmpty bool) []SymbolPair {
	own := ls[first:]
	sort.SliceStable(own, func(i, k int) bool { return own[i].Name < own[k].Name })
	kept := ls[:first]
	for _, l := range own {
		repeated := len(kept) > first && kept[len(kept)-1].Name == l.Name
		if !repeated && (l.Value > 0 || !hasEmpty) {
			kept = append(kept, l)
		}
	}
	return kept
}

func (s *Sorted) sort() {
	sort.Slice(s.entries, func(i, k int) bool {
		a, b := s.entries[i], s.entries[k]
		by := compareLabels(s.of(a), s.of(b))
		return by < 0 || by == 0 && a.id < b.id
	})
}

func (s *Sorted) of(e sortedEntry) []SymbolPair { return s.pairs[e.first:e.end:e.end] }

// Len returns how many series entries there are left, those that are one counted each.
func (s *Sorted) Len() int { return len(s.entries) - s.next }

// Next moves to the next series; false: there is none.
func (s *Sorted) Next() bool {
	if s.next == len(s.entries) {
		return false
	}
	s.labels, s.ids = s.of(s.entries[s.next]), s.ids[:0]
	for s.next < len(s.entries) && compareLabels(s.of(s.entries[s.next]), s.labels) == 0 {
		if id := s.entries[s.next].id; len(s.ids) == 0 || s.ids[len(s.ids)-1] != id {
			s.ids = append(s.ids, id)
		}
		s.next++
	}
	return true
}

// Labels returns the labels of the series. They stay as they are for ever.
func (s *Sorted) Labels() []SymbolPair { return s.labels }

// IDs returns the entries that the series is made of, ascending, valid until the next Next.
func (s *Sorted) IDs() []uint64 { return s.ids }

// Lanes puts the chunks of a series entry into lists. In each of them chunks ascend and none
// overlaps another one. Where several lists have a sample at one time, that of the first list
// counts. Chunks that are in order are one list, the one that was given. A chunk that is listed
// twice is taken once.
func Lanes(cs []ChunkMeta) [][]ChunkMeta {
	if ascend(cs) {
		return [][]ChunkMeta{cs}
	}
	cs = slices.Clone(cs)
	// Not by package slices, whose sort is made anew for each type (TestSmallestProgram).
	sort.SliceStable(cs, func(i, k int) bool {
		a, b := cs[i], cs[k]
		return cmp.Or(cmp.Compare(a.MinT, b.MinT), cmp.Compare(a.MaxT, b.MaxT), cmp.Compare(a.Ref, b.Ref)) < 0
	})
	cs = slices.Compact(cs)
	var lanes []*lane
	first := minheap.Heap[*lane]{Less: (*lane).endsBefore}
	for _, c := range cs {
		if len(lanes) > 0 && first.Items[0].end() < c.MinT {
			l := first.Items[0]
			l.chunks = append(l.chunks, c)
			first.Fix()
			continue
		}
		l := &lane{len(lanes), []ChunkMeta{c}}
		lanes = append(lanes, l)
		first.Push(l)
	}
	out := make([][]ChunkMeta, len(lanes))
	for i, l := range lanes {
		out[i] = l.chunks
	}
	return out
}

// lane is one of the lists that Lanes makes. By pointers, as those of other heaps are: one for
// numbers would be compiled anew (TestSmallestProgram).
type lane struct {
	number int
	chunks []ChunkMeta
}

func (l *lane) end() int64 { return l.chunks[len(l.chunks)-1].MaxT }

func (l *lane) endsBefore(other *lane) bool {
	a, b := l.end(), other.end()
	return a < b || a == b && l.number < other.number
}

// ascend reports whether chunks are in order and none overlaps another one.
func ascend(cs []ChunkMeta) bool {
	for i := 1; i < len(cs); i++ {
		if cs[i].MinT <= cs[i-1].MaxT {
			return false
		}
	}
	return true
}
