package backfill

import "math"

// noBorder is the border of a directory without a head: nothing lies beyond it.
const noBorder = math.MaxInt64

// part is one block to write: some of a window of the store, closed.
type part struct {
	window     int64
	mint, maxt int64
}

// cuts say where windows are cut into blocks.
type cuts struct {
	wide   int64 // width of windows
	narrow int64 // width of blocks
	least  int64 // the same beyond the edges
	edges  edges
}

// edges are the times at which blocks are cut.
type edges struct {
	// head is from when on the samples of a head count: noBorder without a head.
	head int64
	// now is the clock's. What lies beyond both is of the future of the head: blocks have the least
	// width there, or they would overlap all that the head is written to for a long time.
	now int64
}

// width returns how wide a block is that begins at t, and the first edge behind t.
func (e edges) width(t, narrow, least int64) (width, edge int64) {
	ahead := max(e.head, e.now)
	switch {
	case t < e.head:
		return narrow, e.head
	case t < ahead:
		return narrow, ahead
	default:
		return least, noBorder
	}
}

// widest is the longest of ranges that is not longer than the data, or the first.
func widest(ranges []int64, mint, maxt int64) int64 {
	span := uint64(maxt) - uint64(mint)
	for i := len(ranges) - 1; i > 0; i-- {
		if uint64(ranges[i])-1 <= span {
			return ranges[i]
		}
	}
	return ranges[0]
}

// plan cuts windows, which have samples from mint to maxt, into blocks, and at the edges.
func (c cuts) plan(windows []int64, mint, maxt int64) []part {
	var plan []part
	for _, window := range windows {
		end := min(LastOf(window, c.wide), maxt)
		for t := max(FirstOf(window, c.wide), mint); ; {
			width, edge := c.edges.width(t, c.narrow, c.least)
			last := min(LastOf(WindowOf(t, width), width), end)
			if t < edge && edge <= last {
				last = edge - 1
			}
			plan = append(plan, part{window, t, last})
			if last == end {
				break
			}
			t = last + 1
		}
	}
	return plan
}
