package tsdb

import (
	"bytes"
	"cmp"
	"slices"
	"sort"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/seed347100a3/tsdb/internal/blockdir"
)

// rangeStep is how many times longer the blocks of the next level are.
const rangeStep = 3

// blockRanges returns the lengths of blocks by level in milliseconds, ascending: base,
// then three times as much each as long as it is not above longest. There is always the
// first.
func blockRanges(base, longest time.Duration) []int64 {
	ranges := []int64{base.Milliseconds()}
	for r := base.Milliseconds(); r <= longest.Milliseconds()/rangeStep; {
		r *= rangeStep
		ranges = append(ranges, r)
	}
	return ranges
}

// planMerge says which blocks to merge next, by their start; none: nothing is due. ranges are
// the lengths of blocks by level (blockRanges). A plan with a block for which busy is true
// is passed over, because somebody else works on it or it failed a moment ago; the
// others go on.
//
// Blocks of stale and of selected series stay apart from the rest, and come after it.
func planMerge(metas []BlockMeta, ranges []int64, busy func(ulid.ULID) bool) []BlockMeta {
	if busy == nil {
		busy = func(ulid.ULID) bool { return false }
	}
	for _, blocks := range planClasses(metas) {
		if plan := planClass(blocks, ranges, busy); len(plan) > 0 {
			return plan
		}
	}
	return nil
}

// planClasses splits blocks into those that may be merged with each other, each class
// sorted by start.
func planClasses(metas []BlockMeta) (classes [3][]BlockMeta) {
	for _, m := range metas {
		class := 0
		if m.HasHint(blockdir.HintFromStaleSeries) {
			class = 1
		} else if m.HasHint(blockdir.HintFromSelectedSeries) {
			class = 2
		}
		classes[class] = append(classes[class], m)
	}
	for _, blocks := range classes {
		sort.Slice(blocks, func(i, k int) bool { return compareStart(blocks[i], blocks[k]) < 0 })
	}
	return classes
}

// compareStart orders blocks by start, then by name: the order in which they are read and
// merged.
func compareStart(a, b BlockMeta) int {
	return cmp.Or(cmp.Compare(a.MinTime, b.MinTime), compareULID(a.ULID, b.ULID))
}

func compareULID(a, b ulid.ULID) int { return bytes.Compare(a[:], b[:]) }

// planClass plans blocks that may be merged with each other, sorted by start.
func planClass(blocks []BlockMeta, ranges []int64, busy func(ulid.ULID) bool) []BlockMeta {
	isBusy := func(plan []BlockMeta) bool {
		return slices.ContainsFunc(plan, func(m BlockMeta) bool { return busy(m.ULID) })
	}
	if plan := planOverlap(blocks, isBusy); len(plan) > 0 || len(blocks) == 0 || len(ranges) == 0 {
		return plan
	}
	// The newest block stays as it is: what comes next may belong to it.
	blocks = blocks[:len(blocks)-1]
	for _, r := range ranges[1:] {
		if plan := planRange(blocks, r, isBusy); len(plan) > 0 {
			return plan
		}
	}
	return planTombstones(blocks, ranges, isBusy)
}

// planOverlap returns the first run of blocks in which each begins before the ones in
// front of it have ended. Overlapping blocks make every query merge samples, so they come
// first, and the newest block may be among them.
func planOverlap(blocks []BlockMeta, isBusy func([]BlockMeta) bool) []BlockMeta {
	for len(blocks) > 0 {
		n, end := 1, blocks[0].MaxTime
		for n < len(blocks) && blocks[n].MinTime < end {
			end = max(end, blocks[n].MaxTime)
			n++
		}
		if n > 1 && !isBusy(blocks[:n]) {
			return blocks[:n]
		}
		blocks = blocks[n:]
	}
	return nil
}

// planRange returns the first group of blocks in one aligned window of length r that is
// complete: it fills the window, or newer blocks tell that nothing will come.
func planRange(blocks []BlockMeta, r int64, isBusy func([]BlockMeta) bool) []BlockMeta {
	if len(blocks) == 0 {
		return nil
	}
	newest := blocks[len(blocks)-1].MinTime
	for len(blocks) > 0 {
		n := inWindow(blocks, r)
		if n == 0 { // it reaches over its window and stays as it is
			blocks = blocks[1:]
			continue
		}
		group := blocks[:n]
		first, last := group[0], group[n-1]
		complete := last.MaxTime-first.MinTime == r || last.MaxTime <= newest
		failed := slices.ContainsFunc(group, func(m BlockMeta) bool { return m.Compaction.Failed })
		if n > 1 && complete && !failed && !isBusy(group) {
			return group
		}
		blocks = blocks[n:]
	}
	return nil
}

// inWindow returns how many of the blocks lie in the aligned window of length r in which
// the first one starts; 0 if that one does not.
func inWindow(blocks []BlockMeta, r int64) int {
	first := blocks[0].MinTime
	left := r - floorMod(first, r)
	n := 0
	// Differences instead of the window's end, which may be beyond int64.
	for n < len(blocks) && uint64(blocks[n].MaxTime)-uint64(first) <= uint64(left) {
		n++
	}
	return n
}

// floorMod returns t modulo r, never negative.
func floorMod(t, r int64) int64 {
	m := t % r
	if m < 0 {
		m += r
	}
	return m
}

// deletedShare is how much of a large block must be deleted to write it anew: intervals
// for each series.
const deletedShare = 0.05

// planTombstones returns a block that is worth writing anew only to get rid of what is
// deleted. Small ones will be merged before long, so only those go that are deleted as
// a whole; a small one that is not ends the search, because older blocks are not smaller.
func planTombstones(blocks []BlockMeta, ranges []int64, isBusy func([]BlockMeta) bool) []BlockMeta {
	for i := len(blocks) - 1; i >= 0; i-- {
		m := blocks[i]
		deleted, series := m.Stats.NumTombstones, m.Stats.NumSeries
		if uint64(m.MaxTime)-uint64(m.MinTime) < uint64(ranges[len(ranges)/2]) {
			if deleted == 0 || deleted < series {
				return nil
			}
		} else if float64(deleted)/(float64(series)+1) <= deletedShare {
			continue
		}
		if alone := blocks[i : i+1]; !isBusy(alone) {
			return alone
		}
	}
	return nil
}

// mergedMeta returns what the block merged of inputs says of itself, without counts.
// Its parents are in the order of the inputs.
func mergedMeta(id ulid.ULID, inputs []BlockMeta) BlockMeta {
	out := BlockMeta{ULID: id, MinTime: inputs[0].MinTime, MaxTime: inputs[0].MaxTime, Version: inputs[0].Version}
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
	sort.Slice(c.Sources, func(i, k int) bool { return compareULID(c.Sources[i], c.Sources[k]) < 0 })
	c.Sources = slices.Compact(c.Sources)
	slices.Sort(c.Hints)
	c.Hints = slices.Compact(c.Hints)
	return out
}
