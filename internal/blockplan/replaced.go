package blockplan

import (
	"slices"

	"github.com/oklog/ulid/v2"

	"github.com/seed347100a3/tsdb/internal/blockdir"
)

// Replaced returns the blocks that went into others that are loaded: what a merge
// that was interrupted before its end leaves. Whoever lists a block as its parent must cover
// its times, and a chain of parents must begin at a block that nobody lists: so blocks that
// claim each other all stay.
func Replaced(blocks []blockdir.Meta) map[ulid.ULID]bool {
	at := make(map[ulid.ULID]int, len(blocks))
	listed := make(map[ulid.ULID]bool) // by a block that it went into
	for i := range blocks {
		at[blocks[i].ULID] = i
		for _, k := range parents(blocks, i) {
			listed[blocks[k].ULID] = true
		}
	}
	gone := make(map[ulid.ULID]bool)
	var todo []int
	for i := range blocks {
		if !listed[blocks[i].ULID] {
			todo = append(todo, parents(blocks, i)...)
		}
	}
	for len(todo) > 0 {
		id := blocks[todo[0]].ULID
		todo = todo[1:]
		if !gone[id] {
			gone[id] = true
			todo = append(todo, parents(blocks, at[id])...)
		}
	}
	return gone
}

// parents returns which blocks went into block i.
//
//go:noinline
func parents(blocks []blockdir.Meta, i int) (at []int) {
	for k := range blocks {
		if wentInto(&blocks[k], &blocks[i]) {
			at = append(at, k)
		}
	}
	return at
}

// wentInto reports whether a block was merged into another one, which covers its times:
// directly, as its parent, or on the way, as all that went into it went into the other
// one, too. Of a chain of merges a block in the middle may be gone already.
func wentInto(old, m *blockdir.Meta) bool {
	if old.ULID == m.ULID || old.MinTime < m.MinTime || old.MaxTime > m.MaxTime {
		return false
	}
	for _, p := range m.Compaction.Parents {
		if p.ULID == old.ULID {
			return true
		}
	}
	if old.Compaction.Level >= m.Compaction.Level || len(old.Compaction.Sources) == 0 {
		return false
	}
	for _, id := range old.Compaction.Sources {
		if !slices.Contains(m.Compaction.Sources, id) {
			return false
		}
	}
	return true
}
