package tsdb

import (
	"context"
	"math"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/blockdir"
)

// mergedPart is one of the blocks that a merge makes: as a rule there is one. Chunks of a foreign block
// may reach over its bounds. What lies outside goes into a block of its own, which will be merged with
// the one that it reaches into: if the result were wider instead, it would overlap its neighbour, and
// merges would go on until all blocks are one.
type mergedPart struct {
	meta   BlockMeta // what the block says of itself; as it was written, once it was
	w      *blockdir.Writer
	bytes  int64
	counts mergeCounts
	empty  bool // no sample was left
}

// outside returns parts for what lies before and behind the result of a merge; mostly none. They say
// nothing about the head.
func (c *compactor) outside(result BlockMeta, dirs []*blockdir.Dir) (parts []mergedPart) {
	early, late := result.MinTime, result.MaxTime
	for _, d := range dirs {
		from, to := d.Reach()
		early, late = min(early, from), max(late, to)
	}
	if early < result.MinTime {
		parts = append(parts, mergedPart{meta: c.besideMeta(early, result.MinTime)})
	}
	if late > result.MaxTime {
		parts = append(parts, mergedPart{meta: c.besideMeta(result.MaxTime, late)})
	}
	return parts
}

// besideMeta is what a block says of itself that has samples from mint to before maxt, and says nothing
// about the head.
func (c *compactor) besideMeta(mint, maxt int64) (m BlockMeta) {
	m.ULID, m.MinTime, m.MaxTime = blockdir.NewULID(c.clock.Now()), mint, maxt
	m.Compaction.Hints = []string{blockdir.HintFromOutOfOrder}
	return m
}

// writePart writes a block up to its name.
func (c *compactor) writePart(ctx context.Context, fsys FS, dirs []*blockdir.Dir, p *mergedPart) (err error) {
	inputs := make([]mergeInput, len(dirs))
	for i, d := range dirs {
		inputs[i] = mergeInput{dir: d, deleted: d.Tombstones()}
	}
	p.w, err = blockdir.Create(fsys, c.dir, p.meta.ULID, blockdir.WriterOptions{Warm: areWarm(dirs)})
	if err != nil {
		return err
	}
	// A block's times are half-open, its samples' closed: the last instant is the one
	// before the end.
	p.counts, err = mergeBlocks(ctx, p.w, inputs, p.meta.MinTime, lastInstant(p.meta.MaxTime), c.samplesPerChunk)
	if err != nil {
		return err
	}
	p.bytes = p.w.Size()
	meta, err := p.w.Finish(ctx, p.meta)
	if errors.Is(err, blockdir.ErrEmpty) {
		p.empty, p.bytes = true, 0
		return nil
	}
	if err == nil {
		p.meta = meta
	}
	return err
}

// lastInstant returns the last one before maxt.
func lastInstant(maxt int64) int64 { return max(maxt, math.MinInt64+1) - 1 }

// abortParts removes what was written of blocks that have no name yet.
func abortParts(parts []mergedPart) (err error) {
	for i := range parts {
		if parts[i].w != nil {
			err = joinAbort(err, parts[i].w.Abort())
		}
	}
	return err
}

func (c *mergeCounts) add(o mergeCounts) {
	c.Passed += o.Passed
	c.Joined += o.Joined
	c.Reencoded += o.Reencoded
	c.Dropped += o.Dropped
}
