package remote

import (
	"context"
	"hash/maphash"
	"slices"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
)

// Namesakes are stored series that get the same labels when the external ones are added: one of
// them stores an external label with just its value, the other one has none of that name. They are
// answered as one series. Few databases have any, so nearly always one look into the index is all
// that it takes.

// namesakes knows the labels, external ones included, that more than one series of a query has, by
// their hashes: memory is needed only for series that store an external label with its value.
type namesakes struct {
	ext    external
	seed   maphash.Seed
	hashes map[uint64]struct{}
}

// findNamesakes looks for the namesakes of a query. Nil are none.
func findNamesakes(ctx context.Context, q *openQuery, ext external) (*namesakes, error) {
	if owns, err := q.anyOwns(ctx, ext); err != nil || !owns {
		return nil, err
	}
	n := &namesakes{ext: ext, seed: maphash.MakeSeed(), hashes: map[uint64]struct{}{}}
	owners := map[uint64]struct{}{}
	err := n.each(ctx, q, true, func(hash uint64) {
		if _, twice := owners[hash]; twice {
			n.hashes[hash] = struct{}{}
		}
		owners[hash] = struct{}{}
	})
	if err != nil || len(owners) == 0 {
		return nil, err
	}
	err = n.each(ctx, q, false, func(hash uint64) {
		if _, twice := owners[hash]; twice {
			n.hashes[hash] = struct{}{}
		}
	})
	if err != nil || len(n.hashes) == 0 {
		return nil, err
	}
	return n, nil
}

// anyOwns reports whether a series of the snapshot stores an external label with its value,
// whatever the query asks for.
func (q *openQuery) anyOwns(ctx context.Context, ext external) (bool, error) {
	for _, l := range ext {
		set := q.Select(ctx, oneByOne, labels.Equal(l.Name, l.Value))
		if set.Next() {
			return true, nil
		}
		if set.Err() != nil {
			return false, set.Err()
		}
	}
	return false, nil
}

// each calls f with the hash of the labels of each series that stores an external label with its
// value, or of each one that does not.
func (n *namesakes) each(ctx context.Context, q *openQuery, owning bool, f func(hash uint64)) error {
	var own, all []labels.Label
	set := q.selectSeries(ctx)
	for set.Next() {
		if err := ctx.Err(); err != nil {
			return err
		}
		own = set.At().AppendLabels(own[:0])
		if n.ext.ownedBy(own) == owning {
			all = n.ext.merge(all[:0], own)
			f(n.hash(all))
		}
	}
	return set.Err()
}

func (n *namesakes) hash(ls []labels.Label) uint64 {
	var h maphash.Hash
	h.SetSeed(n.seed)
	for _, l := range ls {
		h.WriteString(l.Name)
		h.WriteByte(0xff) // no UTF-8 has it
		h.WriteString(l.Value)
		h.WriteByte(0xff)
	}
	return h.Sum64()
}

// ownedBy reports whether one of the external labels is among those of a series.
func (ext external) ownedBy(series []labels.Label) bool {
	return slices.ContainsFunc(ext, func(l labels.Label) bool { return slices.Contains(series, l) })
}

// group returns all series of the query that are answered with these labels, in the order of what
// is stored, nil if it is but one; skip says that they were answered with the first of them. own
// are the stored labels of the series that is to be answered.
func (n *namesakes) group(ctx context.Context, q *openQuery, own, all []labels.Label) (group []*tsdb.Series, skip bool, err error) {
	if n == nil {
		return nil, false, nil
	}
	if _, shared := n.hashes[n.hash(all)]; !shared {
		return nil, false, nil
	}
	ms := slices.Clone(q.matchers)
	for _, l := range all {
		if !slices.Contains(n.ext, l) {
			ms = append(ms, labels.Equal(l.Name, l.Value))
		}
	}
	var room, merged []labels.Label
	for s, err := range q.Select(ctx, nil, ms...).All() {
		if err != nil {
			return nil, false, err
		}
		room = s.AppendLabels(room[:0])
		merged = n.ext.merge(merged[:0], room)
		if !slices.Equal(merged, all) {
			continue
		}
		if len(group) == 0 && !slices.Equal(room, own) {
			return nil, true, nil
		}
		group = append(group, s)
	}
	if len(group) == 1 {
		return nil, false, nil
	}
	return group, false, nil
}
