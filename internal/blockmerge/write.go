// Package blockmerge writes the samples of several blocks as one block, or as a few that lie beside
// each other. It knows how series of several blocks become one, what of a chunk passes as it is,
// and which sample counts where two have the same time: that of the first input. It does not know
// which blocks to merge, how much room there is, what the result says of itself, or what becomes of
// its inputs: that is the root's.
//
// Write is safe for concurrent use. It reads its inputs, which nobody may close meanwhile; what is
// deleted of them meanwhile is not deleted of the result.
package blockmerge

import (
	"context"
	"math"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/tombstones"
)

// Target is where a merge writes, and how.
type Target struct {
	FS              fileutil.FS
	Dir             string // the data directory
	SamplesPerChunk int    // of chunks that are written anew
}

// Block is one of the blocks that a merge makes.
type Block struct {
	Meta   blockdir.Meta // what the block says of itself; with its counts, once it was written
	Bytes  int64         // that it has on disk
	Counts Counts
	Empty  bool // no sample was left, and there is no block

	// Writer has the block under a temporary name, finished: to publish, or to abort.
	Writer *blockdir.Writer
}

// Counts tell what became of the chunks of the inputs.
type Counts struct {
	Passed    uint64 // chunks written as they were read
	Joined    uint64 // small chunks written together with a neighbour
	Reencoded uint64 // chunks read for their samples: overlapping, or deleted or out of bounds in part
	Dropped   uint64 // chunks without a sample to keep, or equal to another one
}

// Input is a block that is to go into a merge.
type Input struct {
	Dir *blockdir.Dir
	// KeepFrom says from which time on the samples of a series are kept, by its id in the block. A
	// chunk that ends before is left out, and none is cut. nil: all are kept.
	KeepFrom func(id uint64) int64
}

// Whole returns blocks as inputs of which everything is kept.
func Whole(dirs []*blockdir.Dir) []Input {
	inputs := make([]Input, len(dirs))
	for i, d := range dirs {
		inputs[i].Dir = d
	}
	return inputs
}

// input is a block that goes into a merge, with what is deleted of it.
type input struct {
	dir      *blockdir.Dir
	keepFrom func(id uint64) int64
	deleted  *tombstones.Set // a snapshot: what is deleted later is not applied
}

// Write writes the samples of blocks, in the order of the plan, into a block for each of metas:
// those in its bounds that are kept and not deleted. On stable storage, and read back, each waits
// for its name. On an error nothing is left behind that opening the database would not remove.
// Errors: encbuf.ErrCorrupt, with the file of an input that is damaged;
// chunkenc.ErrUnknownEncoding, with the file, where a merge would have to look into a chunk that
// it cannot read; those of the file system; the context's.
func Write(ctx context.Context, t Target, of []Input, metas ...blockdir.Meta) ([]Block, error) {
	inputs := make([]input, len(of))
	for i, in := range of {
		inputs[i] = input{dir: in.Dir, keepFrom: in.KeepFrom, deleted: in.Dir.Tombstones()}
	}
	blocks := make([]Block, len(metas))
	for i := range blocks {
		blocks[i].Meta = metas[i]
		if err := blocks[i].write(ctx, t, inputs); err != nil {
			return nil, fileutil.JoinErrors(err, Abort(blocks))
		}
	}
	return blocks, nil
}

// Abort removes what was written of blocks that have no name yet.
func Abort(blocks []Block) error {
	var errs []error
	for i := range blocks {
		if blocks[i].Writer != nil {
			errs = append(errs, blocks[i].Writer.Abort())
		}
	}
	return fileutil.JoinErrors(errs...)
}

// write writes a block up to its name.
func (b *Block) write(ctx context.Context, t Target, inputs []input) (err error) {
	b.Writer, err = blockdir.Create(t.FS, t.Dir, b.Meta.ULID, blockdir.WriterOptions{Warm: areWarm(inputs)})
	if err != nil {
		return err
	}
	// A block's times are half-open, its samples' closed: the last instant is the one
	// before the end.
	b.Counts, err = mergeSeries(ctx, b.Writer, inputs, b.Meta.MinTime, lastInstant(b.Meta.MaxTime), t.SamplesPerChunk)
	if err != nil {
		return err
	}
	b.Bytes = b.Writer.Size()
	meta, err := b.Writer.Finish(ctx, b.Meta)
	if errors.Is(err, blockdir.ErrEmpty) {
		b.Empty, b.Bytes = true, 0
		return nil
	}
	if err == nil {
		b.Meta = meta
	}
	return err
}

// lastInstant returns the last one before maxt.
func lastInstant(maxt int64) int64 { return max(maxt, math.MinInt64+1) - 1 }

// areWarm tells whether the page cache has most of the chunks of some blocks: queries read them,
// and will read what takes their place.
func areWarm(inputs []input) bool {
	var cached, all int64
	for _, in := range inputs {
		cached += in.dir.CachedBytes()
		all += in.dir.Chunks().Size()
	}
	return 2*cached > all
}

// Add adds those of another block.
func (c *Counts) Add(o Counts) {
	c.Passed += o.Passed
	c.Joined += o.Joined
	c.Reencoded += o.Reencoded
	c.Dropped += o.Dropped
}
