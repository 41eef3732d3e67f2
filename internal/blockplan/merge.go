// Package blockplan says which blocks to merge next, and which may go. Decisions are pure
// functions over what blocks say of themselves; beside them it keeps what plans pass over: blocks
// that somebody works on (Busy), and those whose merge failed a while ago (Rest). It opens no
// file, and does not know what becomes of a plan.
//
// Functions are safe for concurrent use, and so are Busy and Rest; nothing that is given is
// changed.
package blockplan

import (
	"slices"
	"sort"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/seed347100a3/tsdb/internal/blockdir"
)

// rangeStep is how many times longer the blocks of the next level are.
const rangeStep = 3

// Ranges returns the lengths of blocks by level in milliseconds, ascending: base,
// then three times as much each as long as it is not above longest. There is always the
// first.
func Ranges(base, longest time.Duration) []int64 {
	ranges := []int64{base.Milliseconds()}
	for r := base.Milliseconds(); r <= longest.Milliseconds()/rangeStep; {
		r *= rangeStep
		ranges = append(ranges, r)
	}
	return ranges
}

// Block is a block as plans see it.
type Block struct {
	Meta blockdir.Meta
	// Unmarked: it lies beside the head, and its meta file does not say so, as the mark could not
	// be written.
	Unmarked bool
}

// Next says which blocks to merge next, by their start; none: nothing is due. blocks are all that
// there are, sorted by start (blockdir.CompareStart), and the head begins at start. ranges are
// the lengths of blocks by level (Ranges). A plan with a block for which busy is true
// is passed over, because somebody else works on it or it failed a moment ago; the
// others go on.
//
// Blocks beside the head that end after it begins are merged with each other only: the result says
// no more about the head than they do. The result of merging one with an ordinary block is an
// ordinary block, and its end would say that the head's samples up to there are in blocks. The next
// open would drop them. So those wait until the head is written that far.
//
// Blocks of stale and of selected series stay apart from the rest, and come after it.
func Next(blocks []Block, start int64, ranges []int64, busy func(ulid.ULID) bool) []blockdir.Meta {
	behind, beside := splitByHead(blocks, start)
	busyOrBeside := busy
	if n, m := len(behind), len(beside); n > 0 && m > 0 && blockdir.CompareStart(&behind[n-1], &beside[m-1]) < 0 {
		// The newest block of all is left alone, and it is not an ordinary one.
		newest := beside[m-1].ULID
		behind = append(behind, beside[m-1])
		busyOrBeside = func(id ulid.ULID) bool { return id == newest || busy(id) }
	}
	if plan := planMerge(behind, ranges, busyOrBeside); len(plan) > 0 {
		return plan
	}
	return planMerge(beside, ranges, busy)
}

// splitByHead splits blocks into those behind the head, and those that lie beside it and end after
// it begins. One without a mark is in neither: the result of its merge would have none.
func splitByHead(blocks []Block, start int64) (behind, beside []blockdir.Meta) {
	for i := range blocks {
		b := &blocks[i]
		switch {
		case !blockdir.BesideHead(&b.Meta) || b.Meta.MaxTime <= start:
			behind = append(behind, b.Meta)
		case !b.Unmarked:
			beside = append(beside, b.Meta)
		}
	}
	return behind, beside
}

// planMerge is Next of blocks that are all behind the head, or all beside it, in any order.
func planMerge(metas []blockdir.Meta, ranges []int64, busy func(ulid.ULID) bool) []blockdir.Meta {
	for _, blocks := range planClasses(metas) {
		if plan := planClass(blocks, ranges, busy); len(plan) > 0 {
			return plan
		}
	}
	return nil
}

// planClasses splits blocks into those that may be merged with each other, each class
// sorted by start.
func planClasses(metas []blockdir.Meta) (classes [3][]blockdir.Meta) {
	for i := range metas {
		class := 0
		if m := &metas[i]; m.HasHint(blockdir.HintFromStaleSeries) {
			class = 1
		} else if m.HasHint(blockdir.HintFromSelectedSeries) {
			class = 2
		}
		classes[class] = append(classes[class], metas[i])
	}
	for _, blocks := range classes {
		sort.Slice(blocks, func(i, k int) bool { return blockdir.CompareStart(&blocks[i], &blocks[k]) < 0 })
	}
	return classes
}

// planClass plans blocks that may be merged with each other, sorted by start.
func planClass(blocks []blockdir.Meta, ranges []int64, busy func(ulid.ULID) bool) []blockdir.Meta {
	isBusy := func(plan []blockdir.Meta) bool {
		for i := range plan {
			if busy(plan[i].ULID) {
				return true
			}
		}
		return false
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
func planOverlap(blocks []blockdir.Meta, isBusy func([]blockdir.Meta) bool) []blockdir.Meta {
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
func planRange(blocks []blockdir.Meta, r int64, isBusy func([]blockdir.Meta) bool) []blockdir.Meta {
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
		failed := slices.ContainsFunc(group, func(m blockdir.Meta) bool { return m.Compaction.Failed })
		if n > 1 && complete && !failed && !isBusy(group) {
			return group
		}
		blocks = blocks[n:]
	}
	return nil
}

// inWindow returns how many of the blocks lie in the aligned window of length r in which
// the first one starts; 0 if that one does not.
func inWindow(blocks []blockdir.Meta, r int64) int {
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
func planTombstones(blocks []blockdir.Meta, ranges []int64, isBusy func([]blockdir.Meta) bool) []blockdir.Meta {
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
