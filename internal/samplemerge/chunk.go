package samplemerge

import (
	"math"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/tombstones"
)

// Chunk is samples of one source side by side, with what of them counts. Either they are encoded,
// or somebody has decoded or merged them: then they are in Samples, and Encoding and Data mean
// nothing.
type Chunk struct {
	Encoding   chunkenc.Encoding
	Data       []byte
	Samples    *chunkenc.Batch
	MinT, MaxT int64 // closed bounds of its samples: one outside of them is damage
	Bounds
}

// Whole reports whether all samples count.
func (c *Chunk) Whole() bool { return c.Bounds.Whole(c.MinT, c.MaxT) }

// first and last are bounds of the samples that count.
func (c *Chunk) first() int64 { return max(c.MinT, c.From) }
func (c *Chunk) last() int64  { return min(c.MaxT, c.To) }

// Bounds say which samples count: those from From to To, both included, that are not deleted.
type Bounds struct {
	From, To int64
	Deleted  tombstones.Intervals
}

// Everything is bounds that leave nothing out.
func Everything() Bounds { return Bounds{From: math.MinInt64, To: math.MaxInt64} }

// Shows reports whether a sample at t counts.
func (b *Bounds) Shows(t int64) bool {
	return t >= b.From && t <= b.To && (len(b.Deleted) == 0 || !b.Deleted.Covers(t))
}

// Whole reports whether all samples from minT to maxT count.
func (b *Bounds) Whole(minT, maxT int64) bool {
	return minT >= b.From && maxT <= b.To && !b.Deleted.Overlaps(minT, maxT)
}

// Hides reports whether no sample from minT to maxT counts.
func (b *Bounds) Hides(minT, maxT int64) bool {
	return maxT < b.From || minT > b.To || b.From > b.To ||
		len(b.Deleted) > 0 && b.Deleted.CoversRange(max(minT, b.From), min(maxT, b.To))
}

// Clip takes the samples that do not count out of a run, whose times ascend.
func (b *Bounds) Clip(run *chunkenc.Batch) {
	ts := run.T
	if len(ts) == 0 {
		return
	}
	deleted, last := b.Deleted.From(ts[0]), ts[len(ts)-1]
	if ts[0] >= b.From && last <= b.To && (len(deleted) == 0 || deleted[0].Mint > last) {
		return
	}
	kept := 0
	for i, t := range ts {
		for len(deleted) > 0 && deleted[0].Maxt < t {
			deleted = deleted[1:]
		}
		if t < b.From || t > b.To || len(deleted) > 0 && deleted[0].Contains(t) {
			continue
		}
		run.Move(kept, i)
		kept++
	}
	run.Cut(kept)
}
