package late

import (
	"math"

	"github.com/seed347100a3/tsdb/internal/memseries"
)

// BlockRange returns what a block of late samples covers that has one at t, [mint, end), when the
// head begins at start and newest is the newest late sample: the aligned range of width r that t
// lies in, but for what is on the other side of start, and behind start no more than there are
// samples.
//
// So it never reaches over the end of an ordinary block, not after the next flush either. Merged
// with that it would say that all of its range is in blocks, and who merges so without asking where
// the head begins, as other engines do, would lose samples of the head. Blocks that have samples of
// one time overlap, and all that overlap are merged together: so which of them is newer is known
// (blockdir.SortByAge).
func BlockRange(t, start, newest, r int64) (mint, end int64) {
	mint, end = alignedRange(t, r)
	if t < start {
		return mint, min(end, start)
	}
	return max(mint, start), min(end, newest+1)
}

// alignedRange returns the aligned range of width r that t lies in.
func alignedRange(t, r int64) (mint, end int64) {
	rest := t % r
	if rest < 0 {
		rest += r
	}
	if mint = memseries.NoTime + 1; t >= mint+rest {
		mint = t - rest
	}
	if end = math.MaxInt64; t <= end-(r-rest) {
		end = t + (r - rest)
	}
	return mint, end
}
