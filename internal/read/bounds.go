package read

import (
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/tombstones"
)

// bounds is what a reader may see of a series.
type bounds struct {
	mint, maxt int64
	deleted    tombstones.Intervals
}

// clip takes the samples that are outside out of a run, whose times ascend.
func (b *bounds) clip(run *chunkenc.Batch) {
	n := 0
	for i, t := range run.T {
		if t >= b.mint && t <= b.maxt && (len(b.deleted) == 0 || !b.deleted.Covers(t)) {
			run.Move(n, i)
			n++
		}
	}
	run.Cut(n)
}

// shows reports whether a sample at t may be seen.
func (b *bounds) shows(t int64) bool {
	return t >= b.mint && t <= b.maxt && (len(b.deleted) == 0 || !b.deleted.Covers(t))
}

// hides reports whether no sample from minT to maxT may be seen.
func (b *bounds) hides(minT, maxT int64) bool {
	minT, maxT = max(minT, b.mint), min(maxT, b.maxt)
	return minT > maxT || len(b.deleted) > 0 && b.deleted.CoversRange(minT, maxT)
}
