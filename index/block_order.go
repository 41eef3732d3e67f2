package index

// seriesOrder are the rules that the series of a block obey, one after the other. The
// writer keeps to them and Verify makes sure of them; whoever merges blocks relies on
// them.
type seriesOrder struct {
	emptyFirst bool         // symbol 0 is the empty string
	any        bool         // a series was accepted
	labels     []SymbolPair // of the series before
	ref        uint64       // of its last chunk
}

// breaks returns which rule the next series breaks, nothing if it is good. Its labels
// are symbols.
func (o *seriesOrder) breaks(ls []SymbolPair, cs []ChunkMeta) string {
	for i, l := range ls {
		if i > 0 && ls[i-1].Name >= l.Name {
			return "label names do not ascend"
		}
		if l.Value == 0 && o.emptyFirst {
			return "a label value is empty"
		}
	}
	if o.any && compareLabels(o.labels, ls) >= 0 {
		return "label set does not ascend"
	}
	ref, any := o.ref, o.any
	for i, c := range cs {
		switch {
		case c.MaxT < c.MinT:
			return "chunk ends before it begins"
		case i > 0 && c.MinT <= cs[i-1].MaxT:
			return "chunks overlap"
		case any && uint64(c.Ref) <= ref:
			return "chunk refs do not ascend"
		}
		ref, any = uint64(c.Ref), true
	}
	return ""
}

// accept makes a series the one before the next.
func (o *seriesOrder) accept(ls []SymbolPair, cs []ChunkMeta) {
	o.any = true
	o.labels = append(o.labels[:0], ls...)
	if len(cs) > 0 {
		o.ref = uint64(cs[len(cs)-1].Ref)
	}
}

// compareLabels orders label sets of one block as package labels does.
func compareLabels(a, b []SymbolPair) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			if pairKey(a[i]) < pairKey(b[i]) {
				return -1
			}
			return 1
		}
	}
	return len(a) - len(b)
}
