// Package compact carries out a merge of blocks. It sees whether there is room, works in the
// background and at a bounded rate, names the results, and lets blocks rest whose merge failed. The
// samples are written by package blockmerge. Which blocks to merge, when, and what becomes of the
// inputs is for its caller.
package compact

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/oklog/ulid/v2"
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/background"
	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/blockmerge"
	"github.com/seed347100a3/tsdb/internal/blockplan"
	"github.com/seed347100a3/tsdb/internal/clock"
	"github.com/seed347100a3/tsdb/internal/diskspace"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/pace"
	"github.com/seed347100a3/tsdb/internal/rules"
)

// Compactor merges blocks: one merge a call, what and when is its caller's decision. It is
// safe for concurrent use as long as no block is in two merges at a time.
type Compactor struct {
	Config
	// Shares is what the retention rules decide about, in the blocks that there are.
	Shares  *rules.Shares
	limiter *pace.Limiter // nil: none
	rest    blockplan.Rest
}

// Config is what a Compactor works with.
type Config struct {
	FS             fileutil.FS
	Dir            string // the data directory
	Clock          clock.Clock
	Background     *background.Runner
	BytesPerSecond int64 // that all merges write together; 0: no bound
	// Limiter, if it is not nil, takes the place of BytesPerSecond: others share it.
	Limiter         *pace.Limiter
	SamplesPerChunk int  // of chunks that are written anew
	NewestFirst     bool // of samples at one time the one that was written last counts
	Rules           []rules.RetentionRule
}

// Result is what became of a merge.
type Result struct {
	Meta   blockdir.Meta // of the new block
	Bytes  int64         // that it has on disk
	Counts blockmerge.Counts
}

// New returns a Compactor.
func New(c Config) *Compactor {
	limiter := c.Limiter
	if limiter == nil {
		limiter = pace.New(c.Clock, c.BytesPerSecond)
	}
	return &Compactor{Config: c, Shares: rules.NewShares(c.Rules), limiter: limiter}
}

// Resting tells whether a block was in a merge that failed a while ago.
func (c *Compactor) Resting(id ulid.ULID) bool { return c.rest.Resting(id, c.Clock.Now()) }

// Forget lets all blocks be merged at once, as when somebody asks for it.
func (c *Compactor) Forget() { c.rest.Forget() }

// PublishFunc publishes a block that is finished. inPlace: it takes the place of the inputs of the
// merge. It is nil where nothing is left of them: they are to go (MarkDeletable).
type PublishFunc func(w *blockdir.Writer, inPlace bool) error

// Merge writes the samples of blocks, which the caller keeps open and gives in the order of
// the plan, as one new block. The inputs stay; they may go once the new block is loaded.
// What is deleted of them while Merge runs is not deleted of the result: the caller keeps
// deletes away, or applies them again: publish is called with the finished block, and
// publishes it. Samples that foreign inputs have outside of their bounds
// go into blocks of their own, which are published before.
//
// When Merge returns nil, the block is on stable storage, checked. On an error there is no
// block, and nothing is left behind that opening the database would not remove. Errors:
// blockdir.ErrEmpty, when no sample was left, and publish was told so; those of publish;
// wal.ErrDiskFull, with numbers, before anything is written or when the disk fills up
// meanwhile; encbuf.ErrCorrupt, with the file of an input that is damaged; the context's. Behind
// an error other than the context's and a refusal for lack of room, the inputs rest
// (blockplan.Rest).
func (c *Compactor) Merge(ctx context.Context, of []blockmerge.Input, publish PublishFunc) (Result, error) {
	inputs := make([]*blockdir.Dir, len(of))
	for i, in := range of {
		inputs[i] = in.Dir
	}
	purpose, bytes := fmt.Sprintf("merge %d blocks from %s on", len(inputs), inputs[0].Meta().ULID), inputBytes(inputs)
	if err := diskspace.Check(c.FS, c.Dir, purpose, bytes); err != nil {
		return Result{}, err
	}
	var result Result
	fsys := pace.FS(ctx, c.FS, c.limiter) // until ctx ends, not until work in the background does: that may publish
	err := c.Background.Run(ctx, func(ctx context.Context) (err error) {
		result, err = c.write(ctx, fsys, of, c.results(inputs), publish)
		return err
	})
	c.Note(ctx, inputs, err)
	return result, diskspace.WhileWriting(c.FS, c.Dir, purpose, bytes, err)
}

// inputBytes is how much the inputs of a merge have on disk. Its result has about as much, or less.
func inputBytes(inputs []*blockdir.Dir) (n int64) {
	for _, d := range inputs {
		n += d.SizeBytes()
	}
	return n
}

// write does the work of Merge.
func (c *Compactor) write(ctx context.Context, fsys fileutil.FS, inputs []blockmerge.Input, results []blockdir.Meta, publish PublishFunc) (Result, error) {
	target := blockmerge.Target{FS: fsys, Dir: c.Dir, SamplesPerChunk: c.SamplesPerChunk}
	blocks, err := blockmerge.Write(ctx, target, c.byAge(inputs), results...)
	if err != nil {
		return Result{}, diskspace.Full(err)
	}
	result := Result{Meta: blocks[0].Meta}
	for i := range blocks {
		result.Bytes += blocks[i].Bytes
		result.Counts.Add(blocks[i].Counts)
	}
	// The one that takes the place of the inputs comes last: there is no moment at which a sample
	// is in no block.
	for i := len(blocks) - 1; i >= 0; i-- {
		w := blocks[i].Writer
		if blocks[i].Empty {
			if w = nil; i > 0 {
				continue
			}
		}
		if err := publish(w, i == 0); err != nil {
			return Result{}, diskspace.Full(fileutil.JoinErrors(err, blockmerge.Abort(blocks)))
		}
	}
	if blocks[0].Empty {
		return Result{}, blockdir.ErrEmpty
	}
	return result, nil
}

// byAge returns the inputs in the order in which they count.
func (c *Compactor) byAge(inputs []blockmerge.Input) []blockmerge.Input {
	inputs = slices.Clone(inputs)
	metas := make([]blockdir.Meta, len(inputs))
	for i, in := range inputs {
		metas[i] = in.Dir.Meta()
	}
	blockdir.SortByAge(len(inputs), func(i int) *blockdir.Meta { return &metas[i] }, func(i, k int) {
		metas[i], metas[k] = metas[k], metas[i]
		inputs[i], inputs[k] = inputs[k], inputs[i]
	})
	if c.NewestFirst {
		slices.Reverse(inputs)
	}
	return inputs
}

// results returns what the blocks say of themselves that a merge makes: the one that takes the
// place of its inputs, and those for what lies outside of their bounds.
func (c *Compactor) results(inputs []*blockdir.Dir) []blockdir.Meta {
	metas := make([]blockdir.Meta, len(inputs))
	for i, d := range inputs {
		metas[i] = d.Meta()
	}
	meta := blockplan.Merged(blockdir.NewOwnULID(c.Clock.Now(), endOfOrdinary(metas)), metas)
	early, late := meta.MinTime, meta.MaxTime
	for _, d := range inputs {
		from, to := d.Reach()
		early, late = min(early, from), max(late, to)
	}
	all := append([]blockdir.Meta{meta}, blockplan.Outside(meta, early, late)...)
	for i := range all[1:] {
		all[i+1].ULID = blockdir.NewULID(c.Clock.Now())
	}
	return all
}

// endOfOrdinary returns where the blocks end that say where the head begins.
func endOfOrdinary(metas []blockdir.Meta) int64 {
	end := int64(math.MinInt64)
	for i := range metas {
		if m := &metas[i]; !blockdir.BesideHead(m) {
			end = max(end, m.MaxTime)
		}
	}
	return end
}

// MarkDeletable notes in all blocks that nothing is left of them: they go at the next chance if
// they cannot go now.
func MarkDeletable(dirs []*blockdir.Dir) error {
	for _, d := range dirs {
		if err := d.SetMeta(func(m *blockdir.Meta) { m.Compaction.Deletable = true }); err != nil {
			return errors.WithMessagef(err, "mark block %s as deletable", d.Meta().ULID)
		}
	}
	return nil
}

// Note lets blocks rest whose merge failed.
func (c *Compactor) Note(ctx context.Context, dirs []*blockdir.Dir, err error) {
	if ctx.Err() != nil {
		return
	}
	ids := make([]ulid.ULID, len(dirs))
	for i, d := range dirs {
		ids[i] = d.Meta().ULID
	}
	if err == nil || errors.Is(err, blockdir.ErrEmpty) {
		c.rest.Merged(ids)
	} else {
		c.rest.Failed(ids, c.Clock.Now())
	}
}
