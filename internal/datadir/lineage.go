package datadir

import (
	"math"
	"slices"

	"github.com/oklog/ulid/v2"

	"github.com/seed347100a3/tsdb/internal/blockdir"
)

// Lineage is what blocks were made of.
type Lineage struct {
	ids, sources map[ulid.ULID]bool
	parents      []blockdir.Parent
	mint         int64 // where the oldest of them begins; math.MaxInt64: there is none
}

// NewLineage returns that of no block.
//
//go:noinline
func NewLineage() *Lineage {
	return &Lineage{ids: map[ulid.ULID]bool{}, sources: map[ulid.ULID]bool{}, mint: math.MaxInt64}
}

// Add notes that a block is there.
//
//go:noinline
func (l *Lineage) Add(m *blockdir.Meta) {
	l.mint = min(l.mint, m.MinTime)
	l.ids[m.ULID] = true
	l.parents = append(l.parents, m.Compaction.Parents...)
	for _, p := range m.Compaction.Parents {
		l.ids[p.ULID] = true
	}
	for _, id := range m.Compaction.Sources {
		l.sources[id] = true
	}
}

// Has reports whether the blocks have what can be had of another one: they are it, were
// made of it, or of all that it was made of, as long as it says what that is.
//
//go:noinline
func (l *Lineage) Has(m Missing) bool {
	if l.ids[m.ID] || l.sources[m.ID] {
		return true
	}
	for _, id := range m.Sources {
		if !l.sources[id] {
			return false
		}
	}
	return len(m.Sources) > 0
}

// hasAnew reports whether one of the blocks was made of one that was never listed, and had all
// times of another one. So an engine leaves it that writes a block anew, without what was deleted,
// and merges the result.
func (l *Lineage) hasAnew(m Missing, listed map[ulid.ULID]bool) bool {
	return slices.ContainsFunc(l.parents, func(p blockdir.Parent) bool {
		return !listed[p.ULID] && p.MinTime <= m.Mint && m.Maxt < p.MaxTime
	})
}
