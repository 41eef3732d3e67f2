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

const endsEarly = "chunk ends before it begins"

// breaks returns which rule the next series breaks, nothing if it is good. Its labels
// are symbols.
func (o *seriesOrder) breaks(ls []SymbolPair, cs []ChunkMeta) string {
	for _, c := range cs {
		if c.MaxT < c.MinT {
			return endsEarly
		}
	}
	if reason := o.relied(ls, cs); reason != "" {
		return reason
	}
	ref, any := o.ref, o.any
	for _, c := range cs {
		if any && uint64(c.Ref) <= ref {
			return "chunk refs do not ascend"
		}
		ref, any = uint64(c.Ref), true
	}
	return ""
}

// relied returns which of the rules that readers rely on the next series breaks. In which order
// chunks lie in their files is none of them.
func (o *seriesOrder) relied(ls []SymbolPair, cs []ChunkMeta) string {
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
	for i := 1; i < len(cs); i++ {
		if cs[i].MinT <= cs[i-1].MaxT {
			return "chunks overlap"
		}
	}
	return ""
}

// accept makes a series the one before the next.
func (o *seriesOrder) accept(ls []SymbolPair, cs []ChunkMeta) {
	o.acceptLabels(ls)
	if len(cs) > 0 {
		o.ref = uint64(cs[len(cs)-1].Ref)
	}
}

func (o *seriesOrder) acceptLabels(ls []SymbolPair) {
	o.any = true
	o.labels = append(o.labels[:0], ls...)
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
