package blockplan

import (
	"slices"
	"sort"

	"github.com/oklog/ulid/v2"

	"github.com/seed347100a3/tsdb/internal/blockdir"
)

// Merged returns what the block merged of inputs says of itself, without counts.
// Its parents are in the order of the inputs.
func Merged(id ulid.ULID, inputs []blockdir.Meta) blockdir.Meta {
	out := blockdir.Meta{ULID: id, MinTime: inputs[0].MinTime, MaxTime: inputs[0].MaxTime, Version: inputs[0].Version}
	c := &out.Compaction
	outOfOrder := true
	for _, in := range inputs {
		out.MinTime = min(out.MinTime, in.MinTime)
		out.MaxTime = max(out.MaxTime, in.MaxTime)
		c.Level = max(c.Level, in.Compaction.Level)
		c.Sources = append(c.Sources, in.Compaction.Sources...)
		c.Parents = append(c.Parents, blockdir.Parent{ULID: in.ULID, MinTime: in.MinTime, MaxTime: in.MaxTime})
		outOfOrder = outOfOrder && in.HasHint(blockdir.HintFromOutOfOrder)
		for _, hint := range in.Compaction.Hints {
			if hint == blockdir.HintFromStaleSeries || hint == blockdir.HintFromSelectedSeries {
				c.Hints = append(c.Hints, hint)
			}
		}
	}
	if outOfOrder {
		// The hint says that the head may hold samples as old as these. That the head has
		// let go of the time of one input in order is true of the result as well.
		c.Hints = append(c.Hints, blockdir.HintFromOutOfOrder)
	}
	c.Level++
	sort.Slice(c.Sources, func(i, k int) bool { return c.Sources[i].Compare(c.Sources[k]) < 0 })
	c.Sources = slices.Compact(c.Sources)
	sort.Slice(c.Hints, func(i, k int) bool { return c.Hints[i] < c.Hints[k] }) // not by package slices: 13 kB for strings
	c.Hints = slices.Compact(c.Hints)
	return out
}

// Outside returns what blocks say of themselves that take what lies before and behind the result of
// a merge of blocks whose chunks reach from early to before late; mostly there is nothing. They
// have no names yet, and say nothing about the head.
//
// Chunks of a foreign block may reach over its bounds. What lies outside goes into a block of its
// own, which will be merged with the one that it reaches into: if the result were wider instead, it
// would overlap its neighbour, and merges would go on until all blocks are one.
func Outside(result blockdir.Meta, early, late int64) (parts []blockdir.Meta) {
	if early < result.MinTime {
		parts = append(parts, beside(early, result.MinTime))
	}
	if late > result.MaxTime {
		parts = append(parts, beside(result.MaxTime, late))
	}
	return parts
}

// beside is what a block says of itself that has samples from mint to before maxt, and says nothing
// about the head.
func beside(mint, maxt int64) (m blockdir.Meta) {
	m.MinTime, m.MaxTime = mint, maxt
	m.Compaction.Hints = []string{blockdir.HintFromOutOfOrder}
	return m
}
