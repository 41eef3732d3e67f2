package memseries

import (
	"iter"

	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/labels"
)

// labelSets is what the series are called: their label pairs, which of them have one, and
// which has a whole set of labels. What ends in Locked is called under the directory's
// creation lock.
type labelSets struct {
	postings *index.MemPostings
	tables   [tableCount]table
	pairs    pairArena

	interned struct { // guarded by the creation lock
		last  []labels.Label // of the series that was added last
		pairs []index.Pair
	}
}

func (l *labelSets) table(hash uint64) *table { return &l.tables[hash%tableCount] }

// pairsOf returns the label pairs of a series, sorted by label name.
func (l *labelSets) pairsOf(s *Series) []index.Pair { return l.pairs.at(s.pairs, int(s.npairs)) }

// find returns the series with these labels, nil if there is none.
func (l *labelSets) find(ls labels.Labels, hash uint64, pages *pageTable) *Series {
	var found *Series
	l.table(hash).find(hash, func(ref uint64) bool {
		s := pages.byRef(ref)
		if s == nil || s.hash != hash || !l.has(s, ls) {
			return false
		}
		found = s
		return true
	})
	return found
}

// has reports whether these are the labels of s.
func (l *labelSets) has(s *Series, ls labels.Labels) bool {
	if ls.Len() != int(s.npairs) {
		return false
	}
	pairs := l.pairsOf(s)
	i := 0
	for own := range ls.All() {
		name, value := l.postings.Label(pairs[i])
		if own.Value != value || own.Name != name {
			return false
		}
		i++
	}
	return true
}

// internLocked returns the pairs of labels, good until the next call. Series that are
// created one after the other differ in few labels, so most stand where the one before had
// them, and cost a comparison instead of a search (BenchmarkOpenSnapshot).
func (l *labelSets) internLocked(ls labels.Labels) []index.Pair {
	last, pairs := l.interned.last, l.interned.pairs
	i := 0
	for own := range ls.All() {
		if i == len(last) {
			last, pairs = append(last, labels.Label{}), append(pairs, 0)
		}
		if last[i] != own {
			pairs[i] = l.postings.Intern(own.Name, own.Value)
			last[i].Name, last[i].Value = l.postings.Label(pairs[i]) // whose strings stay, others may not
		}
		i++
	}
	l.interned.last, l.interned.pairs = last[:i], pairs[:i]
	return pairs[:i]
}

// forgetInternedLocked makes internLocked look for each pair: the numbers that it has may be
// given to others.
func (l *labelSets) forgetInternedLocked() {
	l.interned.last, l.interned.pairs = l.interned.last[:0], l.interned.pairs[:0]
}

// removeLocked takes removed refs out of the lists of pairs. Pairs may go with them, and be
// given out again for other labels.
func (l *labelSets) removeLocked(removed func(ref uint64) bool, pairs []index.Pair) {
	l.forgetInternedLocked()
	l.postings.Remove(removed, pairs...)
}

// removeSomeLocked is removeLocked for a part of the pairs, behind which others follow.
func (l *labelSets) removeSomeLocked(removed func(ref uint64) bool, pairs []index.Pair) {
	l.forgetInternedLocked()
	l.postings.RemoveSome(removed, pairs...)
}

// While some pairs are taken out of the postings nobody creates series. cleanLen is how many
// refs their lists may have, which is some ten milliseconds, if they are not one list alone; and
// cleanPair is what a pair costs besides, in refs (BenchmarkRemoveIdle: the longest creation of a
// series beside it took 400 ms when it was done for 32,768 pairs at once, 70 ms now).
const (
	cleanLen  = 1 << 19
	cleanPair = 16
)

// splitByLists splits pairs by how long their lists are.
func (l *labelSets) splitByLists(pairs []index.Pair) iter.Seq[[]index.Pair] {
	return func(yield func([]index.Pair) bool) {
		from, size := 0, 0
		for i, p := range pairs {
			n := l.postings.Count(p) + cleanPair
			if i > from && size+n > cleanLen {
				if !yield(pairs[from:i]) {
					return
				}
				from, size = i, 0
			}
			size += n
		}
		if from < len(pairs) {
			yield(pairs[from:])
		}
	}
}

// sizeBytes returns what symbols, postings and tables take, without the pairs of the series.
func (l *labelSets) sizeBytes() int64 {
	n := l.postings.SizeBytes()
	for i := range l.tables {
		n += l.tables[i].sizeBytes()
	}
	return n
}
