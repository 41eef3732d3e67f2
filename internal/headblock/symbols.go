package headblock

import (
	"encoding/binary"
	"slices"
	"sort"

	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/foreground"
	"github.com/seed347100a3/tsdb/internal/memseries"
)

// usedSymbol is a string that some label pair needs.
type usedSymbol struct {
	prefix uint64 // its first eight bytes, which decide most comparisons
	s      string
	pair   index.Pair
	isName bool
}

func newUsedSymbol(s string, p index.Pair, isName bool) usedSymbol {
	var first [8]byte
	copy(first[:], s)
	return usedSymbol{binary.BigEndian.Uint64(first[:]), s, p, isName}
}

// symbolOrder sorts symbols, without an instance of the generic sort, which is 19 kB of the least
// program. Others go first now and then.
type symbolOrder struct {
	used []usedSymbol
	way  *foreground.Poll
}

func (o *symbolOrder) Len() int      { return len(o.used) }
func (o *symbolOrder) Swap(i, k int) { o.used[i], o.used[k] = o.used[k], o.used[i] }

func (o *symbolOrder) Less(i, k int) bool {
	if !o.way.Step(waySteps) {
		return false // the end is near, in whatever order
	}
	a, b := &o.used[i], &o.used[k]
	if a.prefix != b.prefix {
		return a.prefix < b.prefix
	}
	return a.s < b.s
}

// writeSymbols writes the symbol table of some series and returns the symbols of each of
// their label pairs, by number of the pair.
func writeSymbols(w *blockdir.Writer, series *memseries.Directory, found []*memseries.Series, way *foreground.Poll) ([]index.SymbolPair, error) {
	marks, n := usedPairs(series, found, way)
	used, names := usedSymbols(series, marks, n, way)
	sort.Sort(&symbolOrder{used, way})
	pairs := make([]index.SymbolPair, len(marks))
	for i, n := 0, uint32(0); i < len(used); n++ {
		if !way.Step(pollEvery) {
			return nil, way.Err()
		}
		s := used[i].s
		if err := w.AddSymbol(s); err != nil {
			return nil, err
		}
		for ; i < len(used) && used[i].s == s; i++ {
			if used[i].isName {
				names[s] = n
			} else {
				pairs[used[i].pair].Value = n
			}
		}
	}
	for i := range used {
		if !way.Step(waySteps) {
			break
		}
		if !used[i].isName {
			name, _ := series.Postings().Label(used[i].pair)
			pairs[used[i].pair].Name = names[name]
		}
	}
	return pairs, way.Err()
}

// usedPairs marks the label pairs of some series by their numbers, and counts them.
func usedPairs(series *memseries.Directory, found []*memseries.Series, way *foreground.Poll) (marks []bool, n int) {
	last := index.Pair(0)
	for _, s := range found {
		if !way.Step(pollEvery) {
			break
		}
		last = max(last, slices.Max(series.Pairs(s)))
	}
	marks = make([]bool, int(last)+1)
	for _, s := range found {
		if !way.Step(pollEvery) {
			break
		}
		for _, p := range series.Pairs(s) {
			if !marks[p] {
				marks[p] = true
				n++
			}
		}
	}
	return marks, n
}

// fewNames is how many names of labels there mostly are.
const fewNames = 64

// usedSymbols returns the values of n label pairs, a value for each of them, and their
// names, each once and as keys, too.
func usedSymbols(series *memseries.Directory, marks []bool, n int, way *foreground.Poll) (used []usedSymbol, names map[string]uint32) {
	used = make([]usedSymbol, 0, n+fewNames)
	names = map[string]uint32{}
	for i, marked := range marks {
		if !way.Step(pollEvery) {
			break
		}
		if !marked {
			continue
		}
		p := index.Pair(i)
		name, value := series.Postings().Label(p)
		used = append(used, newUsedSymbol(value, p, false))
		if _, ok := names[name]; !ok {
			names[name] = 0
			used = append(used, newUsedSymbol(name, p, true))
		}
	}
	return used, names
}
