package rules

import (
	"context"
	"hash/maphash"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/internal/blockdir"
)

// Share is what one rule lets go of.
type Share struct {
	Blocks                 int    // that have some of it
	Series, Samples, Bytes uint64 // a series is counted once, whatever blocks it is in; bytes are those of chunks
}

// Counter adds up what rules let go of, block after block. It is for one goroutine.
type Counter struct {
	Shares []Share // by rule; the last: what none chooses
	rules  []RetentionRule
	seed   maphash.Seed
	seen   []map[uint64]struct{} // hashes of label sets
	labels []index.SymbolPair
	chunks []index.ChunkMeta
	buf    []byte
}

// NewCounter returns a Counter that has seen no block.
func NewCounter(list []RetentionRule) *Counter {
	c := &Counter{rules: list, Shares: make([]Share, len(list)+1), seen: make([]map[uint64]struct{}, len(list)+1), seed: maphash.MakeSeed()}
	for i := range c.seen {
		c.seen[i] = make(map[uint64]struct{})
	}
	return c
}

// pollEvery is how many series are counted between two looks at the context.
const pollEvery = 256

// Add counts what goes of a block, by the times from which on each rule keeps; whole: all of it.
// Chunks are read for the number of their samples. What is deleted of them counts.
func (c *Counter) Add(ctx context.Context, dir *blockdir.Dir, from []int64, whole bool) error {
	decided, err := Decide(ctx, dir, c.rules)
	if err != nil {
		return err
	}
	ids, err := dir.Index().Select(ctx)
	if err != nil {
		return err
	}
	before := make([]uint64, len(c.Shares))
	for i := range c.Shares {
		before[i] = c.Shares[i].Samples
	}
	for n, id := range ids {
		if n%pollEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		i := decided.Rule(id)
		if err := c.series(dir, id, i, from[i], whole); err != nil {
			return errors.WithMessagef(err, "block %s", dir.Meta().ULID)
		}
	}
	for i := range c.Shares {
		if c.Shares[i].Samples > before[i] {
			c.Shares[i].Blocks++
		}
	}
	return nil
}

func (c *Counter) series(dir *blockdir.Dir, id uint64, rule int, from int64, whole bool) (err error) {
	if c.labels, c.chunks, err = dir.Index().Series(id, c.labels[:0], c.chunks[:0]); err != nil {
		return err
	}
	share, gone := &c.Shares[rule], false
	for _, m := range c.chunks {
		if !whole && m.MaxT >= from {
			continue
		}
		enc, data, err := dir.Chunks().Read(m.Ref, c.buf)
		if err != nil {
			return err
		}
		c.buf, gone = data, true
		share.Samples += uint64(enc.NumSamples(data))
		share.Bytes += uint64(len(data))
	}
	if !gone {
		return nil
	}
	text, err := dir.Index().AppendLabels(nil, c.labels)
	if err != nil {
		return err
	}
	hash := maphash.Bytes(c.seed, text)
	if _, known := c.seen[rule][hash]; !known {
		c.seen[rule][hash] = struct{}{}
		share.Series++
	}
	return nil
}
