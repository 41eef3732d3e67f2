package tsdb_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/sweep"
)

// agedDisk is how large a small disk is, in bytes. Half of it is less than the samples of a day.
const agedDisk = 2 << 20

// What is full is freed by retention, by who filled it, or by a larger disk; then everything goes
// on.
func TestKill_OnASmallDisk_NothingGoesThatTheBytesAllow(t *testing.T) {
	t.Parallel()
	for i := range killCount(2) {
		disk := mountSmall(t, agedDisk)
		b := ballast{T: t, path: filepath.Join(disk, "ballast")}
		a := newAged(t, filepath.Join(disk, "data"), uint64(20+i), tsdb.BlockOptions{Retention: 24 * time.Hour, RetentionPercent: 50})
		a.limit = agedDisk / 2
		a.ballast = func(a *aged, left int64) {
			if left >= 0 {
				b.fill(left)
			} else if _, err := os.Stat(b.path); err == nil {
				b.free()
			}
		}
		a.enlarge = func() { enlarge(t, disk, 8*agedDisk) }
		if sweep.Whole() {
			a.must = func(n *agedCount) bool { return n.full > 0 && n.paid > 0 }
		}
		a.run(killCount(20))
		require.True(t, !sweep.Whole() || a.count.full > 0, "the disk was never full")
		require.True(t, !sweep.Whole() || a.count.paid > 0, "nothing went for the bytes")
	}
}
