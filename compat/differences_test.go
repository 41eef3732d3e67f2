package compat

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// cleanedAway deletes all of the newest block and some of the head, and has the block's
// space back: nothing says any more that the log's older samples are in a block.
func cleanedAway(t *testing.T, open opener) *world {
	w := newWorld(t, open, plan{Seed: seed(t, 3500), Series: 60})
	w.append(20, 9*hour)
	w.e.compact()
	require.NotEmpty(t, metasOf(t, w.dir))
	w.delete(worldStart+3*hour, worldStart+19*hour, everything)
	w.e.cleanTombstones()
	w.check("cleaned")
	return w
}

// When the newest block is deleted and cleaned away, its samples come back in the
// reference at the next start, from what is left of the log. Ours stay deleted, for
// readers of both sides.
func TestDifference_NewestBlockCleanedAway_StaysDeleted(t *testing.T) {
	w := cleanedAway(t, openTheirBlocks)
	w.e.close()
	w.e = openTheirBlocks(t, w.dir)
	require.Greater(t, w.e.dump().samples(), w.want.samples(), "the reference has learned it: this is no difference any more")

	w = cleanedAway(t, openOurBlocks)
	w.reopen()
	w.crash()
	w.append(5, hour)
	w.reopen()
	w.e.close()
	requireAllRead(t, 0, left{dir: w.dir, want: w.want})
}
