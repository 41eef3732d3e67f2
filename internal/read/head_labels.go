package read

import (
	"context"
	"slices"

	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/labels"
)

// labelNames returns the names that visible matching series have, sorted.
func (r *headReader) labelNames(ctx context.Context, ms []*labels.Matcher, _ *[]error) ([]string, error) {
	if len(ms) > 0 {
		return r.labelsOfSelected(ctx, ms, func(name, _ string) (string, bool) { return name, true })
	}
	names := r.Series.Postings().LabelNames(r.keepPresent(ctx))
	return names, ctx.Err()
}

// keepPresent tells which label pairs have a series with a sample that may be seen. When the
// context ends it says yes to all that is left, which is quick, and the caller drops the result.
func (r *headReader) keepPresent(ctx context.Context) func(index.Pair, index.Postings) bool {
	i := 0
	p := headProber{r: r}
	return func(_ index.Pair, refs index.Postings) bool {
		for refs.Next() {
			if i++; i%pollEvery == 0 && ctx.Err() != nil {
				return true
			}
			if s := r.Series.ByRef(refs.At()); s != nil && p.has(s) {
				return true
			}
		}
		return false
	}
}

// labelValues returns the values of name that visible matching series have, sorted.
func (r *headReader) labelValues(ctx context.Context, name string, ms []*labels.Matcher, _ *[]error) ([]string, error) {
	if len(ms) > 0 {
		return r.labelsOfSelected(ctx, ms, func(n, value string) (string, bool) { return value, n == name })
	}
	values := r.Series.Postings().LabelValues(name, r.keepPresent(ctx))
	return values, ctx.Err()
}

// labelsOfSelected collects something of each label of each selected series.
func (r *headReader) labelsOfSelected(ctx context.Context, ms []*labels.Matcher, pick func(name, value string) (string, bool)) ([]string, error) {
	series, _, err := r.selected(ctx, ms)
	if err != nil {
		return nil, err
	}
	seen := map[index.Pair]struct{}{}
	picked := map[string]struct{}{}
	prober := headProber{r: r}
	var fresh []index.Pair
	for i, s := range series {
		if i%pollEvery == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		fresh = fresh[:0]
		for _, p := range r.Series.Pairs(s) {
			if _, ok := seen[p]; !ok {
				fresh = append(fresh, p)
			}
		}
		if len(fresh) == 0 || !prober.has(s) {
			continue
		}
		for _, p := range fresh {
			seen[p] = struct{}{}
			if v, ok := pick(r.Series.Postings().Label(p)); ok {
				picked[v] = struct{}{}
			}
		}
	}
	list := make([]string, 0, len(picked))
	for v := range picked {
		list = append(list, v)
	}
	slices.Sort(list)
	return list, ctx.Err()
}

// headProber is sampleProber for series of the head, one by one. It remembers those without a
// sample, as they are asked for once for each of their labels.
type headProber struct {
	r      *headReader
	p      sampleProber
	absent map[*memseries.Series]struct{}
}

// has reports whether a series has a sample that may be seen.
func (p *headProber) has(s *memseries.Series) bool {
	if known := p.r.presence(s); known != memseries.Possible {
		return known == memseries.Present
	}
	if _, ok := p.absent[s]; ok {
		return false
	}
	src := p.r.chunksIn(p.p.src)
	p.r.Past.Excerpt(s, p.r.mint, p.r.maxt, &src.own)
	src.begin(s, &src.own)
	has := p.p.hasSample(src)
	if !has {
		if p.absent == nil {
			p.absent = map[*memseries.Series]struct{}{}
		}
		p.absent[s] = struct{}{}
	}
	return has
}

// appendPairs appends the labels of a series of a head.
func appendPairs(dst []labels.Label, series *memseries.Directory, s *memseries.Series) []labels.Label {
	for _, p := range series.Pairs(s) {
		name, value := series.Postings().Label(p)
		dst = append(dst, labels.Label{Name: name, Value: value})
	}
	return dst
}

// appendPairKeys appends the number of each label pair of a series.
func appendPairKeys(dst []uint64, series *memseries.Directory, s *memseries.Series) []uint64 {
	for _, p := range series.Pairs(s) {
		dst = append(dst, uint64(p))
	}
	return dst
}

// appendPairText appends name and value of the label pair with a number.
func appendPairText(dst []byte, series *memseries.Directory, key uint64) ([]byte, int, error) {
	name, value := series.Postings().Label(index.Pair(key))
	return append(append(dst, name...), value...), len(name), nil
}
