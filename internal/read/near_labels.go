package read

import (
	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/labels"
)

// nearLabels are the labels of the last series of a set whose series are transient. The next one in
// order has most of them, mostly at the same places, so only the others are looked up
// (BenchmarkRead and BenchmarkReadHead of package remote). K is what a place calls a label:
// index.Pair in the head, index.SymbolPair in a block.
type nearLabels[K comparable] struct {
	keys   []K
	labels []labels.Label // with an empty name: nothing was looked up yet
}

// fit returns room for so many labels, with what the series before has there.
func (n *nearLabels[K]) fit(many int) ([]K, []labels.Label) {
	for len(n.keys) < many {
		var none K
		n.keys, n.labels = append(n.keys, none), append(n.labels, labels.Label{})
	}
	return n.keys[:many], n.labels[:many]
}

// appendHeadLabels appends the labels that pairs of a head stand for.
func appendHeadLabels(dst []labels.Label, near *nearLabels[index.Pair], pairs []index.Pair, m *index.MemPostings) []labels.Label {
	keys, ls := near.fit(len(pairs))
	for i, p := range pairs {
		if keys[i] != p || ls[i].Name == "" {
			keys[i] = p
			ls[i].Name, ls[i].Value = m.Label(p)
		}
	}
	return append(dst, ls...)
}

// appendBlockLabels appends the labels that pairs of symbols of a block stand for.
func appendBlockLabels(dst []labels.Label, near *nearLabels[index.SymbolPair], pairs []index.SymbolPair, symbols *ownSymbols, r *index.Reader) ([]labels.Label, error) {
	keys, ls := near.fit(len(pairs))
	for i, p := range pairs {
		if keys[i] == p && ls[i].Name != "" {
			continue
		}
		var err error
		next := labels.Label{Name: ls[i].Name}
		if keys[i].Name != p.Name || next.Name == "" {
			if next.Name, err = symbols.symbol(r, p.Name); err != nil {
				return dst, err
			}
		}
		if next.Value, err = symbols.symbol(r, p.Value); err != nil {
			return dst, err
		}
		keys[i], ls[i] = p, next
	}
	return append(dst, ls...), nil
}
