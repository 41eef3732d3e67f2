package index

import (
	"math"
	"sort"
)

// perPart is about how many items are sorted at once. Up to twice as many are not split. They need
// a hundred bytes each: as much as the rest of an answer to a remote read.
const perPart = 1 << 13

// sampledPerPart is how many items of each part are looked at to say where it ends: then few parts
// have twice as many as the mean.
const sampledPerPart = 32

// SortByLabelsInParts is SortByLabels with scratch memory for some thousand items and two bytes
// for each of the others, in place of a hundred; it takes up to twice as long
// (BenchmarkSortByLabels). A sample of the items says where parts of about the same size end, and
// each part is sorted by itself.
//
// W. D. Frazer and A. C. McKellar, Samplesort: a sampling approach to minimal storage tree sorting,
// JACM 17 (1970).
func SortByLabelsInParts[T any](m *MemPostings, items []T, pairs func(T) []Pair) {
	sortBy(m, items, pairs, perPart)
}

// sortParts sorts about so many items at once.
func sortParts[T any](o *order, items []T, pairs func(T) []Pair, atOnce int) {
	if len(items) <= 2*atOnce {
		sortAtOnce(o, items, pairs)
		return
	}
	parts := splitItems(o, items, pairs, atOnce)
	// The longest one first: what it needs is enough for the others.
	longest := 0
	for i, part := range parts {
		if len(part) > len(parts[longest]) {
			longest = i
		}
	}
	parts[0], parts[longest] = parts[longest], parts[0]
	for _, part := range parts {
		if len(part) < len(items) {
			sortParts(o, part, pairs, atOnce)
		} else { // all labels of the sample are equal
			sortAtOnce(o, part, pairs)
		}
	}
}

// splitItems brings items into parts that follow each other.
func splitItems[T any](o *order, items []T, pairs func(T) []Pair, atOnce int) [][]T {
	count := min(len(items)/atOnce, math.MaxUint16)
	sample := make([]T, 0, min(count*sampledPerPart, len(items)))
	for i := range cap(sample) {
		sample = append(sample, items[portion(len(items), i, cap(sample))])
	}
	sortAtOnce(o, sample, pairs)
	borders := make([][]Pair, count-1) // the first of each part but the first one
	for i := range borders {
		borders[i] = pairs(sample[portion(len(sample), i+1, count)])
	}
	partOf, ends := make([]uint16, len(items)), make([]int, count)
	for i, item := range items {
		of := pairs(item)
		part := sort.Search(len(borders), func(i int) bool { return o.of.compare(borders[i], of) > 0 })
		partOf[i] = uint16(part)
		ends[part]++
	}
	next, sum := make([]int, count), 0
	parts := make([][]T, count)
	for part, n := range ends {
		next[part] = sum
		parts[part] = items[sum : sum+n]
		sum += n
		ends[part] = sum
	}
	for part, end := range ends {
		for at := next[part]; at < end; at = next[part] {
			to := partOf[at]
			there := next[to]
			items[at], items[there] = items[there], items[at]
			partOf[at], partOf[there] = partOf[there], partOf[at]
			next[to]++
		}
	}
	return parts
}

// portion returns n*i/of, also where the product does not fit an int of 32 bits.
func portion(n, i, of int) int { return int(uint64(n) * uint64(i) / uint64(of)) }
