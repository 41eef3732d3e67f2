package read

import (
	"context"
	"maps"
	"slices"

	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/labels"
)

// labelNames returns the names that visible matching series have, sorted.
func (r *blockReader) labelNames(ctx context.Context, ms []*labels.Matcher, passed *[]error) ([]string, error) {
	if r.Dir.Disordered() {
		return labelsOfSet(ctx, r, ms, passed, func(l labels.Label) (string, bool) { return l.Name, true })
	}
	if len(ms) == 0 && r.all() {
		return r.Dir.Index().LabelNames(ctx)
	}
	return r.labelsOfSelected(ctx, ms, func(p index.SymbolPair) uint32 { return p.Name }, "", passed)
}

// labelValues returns the values of name that visible matching series have, sorted.
func (r *blockReader) labelValues(ctx context.Context, name string, ms []*labels.Matcher, passed *[]error) ([]string, error) {
	if r.Dir.Disordered() {
		return labelsOfSet(ctx, r, ms, passed, func(l labels.Label) (string, bool) { return l.Value, l.Name == name })
	}
	if len(ms) == 0 && r.all() {
		return r.Dir.Index().LabelValues(ctx, name)
	}
	return r.labelsOfSelected(ctx, ms, func(p index.SymbolPair) uint32 { return p.Value }, name, passed)
}

// labelsOfSelected collects one side of each label of selected series; with a name, of
// the labels with that name.
func (r *blockReader) labelsOfSelected(ctx context.Context, ms []*labels.Matcher, side func(index.SymbolPair) uint32, name string, passed *[]error) ([]string, error) {
	cursor, err := r.selectSeries(ctx, ms, true, passed)
	if err != nil {
		return nil, err
	}
	wanted := map[uint32]bool{} // symbols of names, and whether it is the one
	picked := map[uint32]struct{}{}
	var prober sampleProber
	var fresh []uint32
	for {
		next, err := cursor.next(ctx)
		if err != nil {
			return nil, err
		}
		if next == nil {
			break
		}
		s := next.(*blockSeries)
		fresh = fresh[:0]
		for _, p := range s.own {
			ok, known := wanted[p.Name]
			if !known {
				if ok, err = r.isNamed(p.Name, name); err != nil {
					return nil, err
				}
				wanted[p.Name] = ok
			}
			if _, has := picked[side(p)]; ok && !has {
				fresh = append(fresh, side(p))
			}
		}
		if len(fresh) == 0 || !s.known && !prober.hasSample(s.open(prober.src)) {
			continue
		}
		for _, n := range fresh {
			picked[n] = struct{}{}
		}
	}
	return r.strings(picked)
}

// isNamed reports whether a symbol is a name; an empty name is any.
func (r *blockReader) isNamed(symbol uint32, name string) (bool, error) {
	text, err := r.symbol(symbol)
	return name == "" || text == name, err
}

// strings returns symbols in their order, which is that of their numbers.
func (r *blockReader) strings(picked map[uint32]struct{}) ([]string, error) {
	list := make([]string, 0, len(picked))
	for _, n := range slices.Sorted(maps.Keys(picked)) {
		s, err := r.symbol(n)
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}
