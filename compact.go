package tsdb

import (
	"context"
	stderrors "errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/background"
	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/clock"
	"github.com/seed347100a3/tsdb/internal/diskspace"
	"github.com/seed347100a3/tsdb/internal/pace"
)

const (
	// minMergeBackoff and maxMergeBackoff bound how long blocks rest whose merge failed;
	// each failure doubles it. The first retry costs little; a merge that fails for
	// good costs one attempt an hour.
	minMergeBackoff = time.Minute
	maxMergeBackoff = time.Hour
)

// compactor merges blocks: one merge a call, what and when is its caller's decision. It is
// safe for concurrent use as long as no block is in two merges at a time.
type compactor struct {
	fs              FS
	dir             string // the data directory
	clock           clock.Clock
	limiter         *pace.Limiter // nil: none
	samplesPerChunk int           // of chunks that are written anew

	mu struct {
		sync.Mutex
		failed map[ulid.ULID]mergeFailure // by block that was in a failed merge
	}
}

// mergeFailure is how often in a row merges of a block failed, and until when it rests.
type mergeFailure struct {
	times int
	until time.Time
}

// mergeResult is what became of a merge.
type mergeResult struct {
	Meta   BlockMeta // of the new block
	Bytes  int64     // that it has on disk
	Counts mergeCounts
}

func newCompactor(fsys FS, dir string, c clock.Clock, bytesPerSecond int64, samplesPerChunk int) *compactor {
	return &compactor{fs: fsys, dir: dir, clock: c, limiter: pace.New(c, bytesPerSecond), samplesPerChunk: samplesPerChunk}
}

// resting tells whether a block was in a merge that failed a while ago. Plans leave it
// alone until then.
func (c *compactor) resting(id ulid.ULID) bool {
	now := c.clock.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	f, ok := c.mu.failed[id]
	left := f.until.Sub(now)
	// More than the longest rest is left when the clock was set back.
	return ok && left > 0 && left <= maxMergeBackoff
}

// forget lets all blocks be merged at once, as when somebody asks for it.
func (c *compactor) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.failed = nil
}

// publishFunc publishes a block that is finished. inPlace: it takes the place of the inputs of the merge.
type publishFunc func(w *blockdir.Writer, inPlace bool) error

// merge writes the samples of inputs, which the caller keeps open and gives in the order of
// the plan, as one new block. The inputs stay; they may go once the new block is loaded.
// What is deleted of them while merge runs is not deleted of the result: the caller keeps
// deletes away, or applies them again: publish is called with the finished block, and
// publishes it; nil does no more than that. Samples that foreign inputs have outside of their bounds
// go into blocks of their own, which are published before.
//
// When merge returns nil, the block is on stable storage, checked. On an error there is no
// block, and nothing is left behind that opening the database would not remove. Errors:
// blockdir.ErrEmpty, when no sample was left, the inputs being marked as deletable then;
// ErrDiskFull, with numbers, before anything is written or when the disk fills up
// meanwhile; ErrCorrupt, with the file of an input that is damaged; the context's. Behind
// an error other than the context's and a refusal for lack of room, the inputs rest
// (see resting).
func (c *compactor) merge(ctx context.Context, inputs []*blockdir.Dir, publish publishFunc) (mergeResult, error) {
	purpose, bytes := fmt.Sprintf("merge %d blocks from %s on", len(inputs), inputs[0].Meta().ULID), inputBytes(inputs)
	if err := diskspace.Check(c.fs, c.dir, purpose, bytes); err != nil {
		return mergeResult{}, err
	}
	var result mergeResult
	fsys := pace.FS(ctx, c.fs, c.limiter) // until ctx ends, not until work in the background does: that may publish
	err := background.Run(ctx, c.clock, func(ctx context.Context) (err error) {
		result, err = c.write(ctx, fsys, inputs, publish)
		return err
	})
	if errors.Is(err, blockdir.ErrEmpty) {
		if markErr := markDeletable(inputs); markErr != nil {
			err = markErr
		}
	}
	c.note(ctx, inputs, err)
	return result, diskspace.WhileWriting(c.fs, c.dir, purpose, bytes, err)
}

// inputBytes is how much the inputs of a merge have on disk. Its result has about as much, or less.
func inputBytes(inputs []*blockdir.Dir) (n int64) {
	for _, d := range inputs {
		n += d.SizeBytes()
	}
	return n
}

// write does the work of merge.
func (c *compactor) write(ctx context.Context, fsys FS, dirs []*blockdir.Dir, publish publishFunc) (mergeResult, error) {
	if publish == nil {
		publish = func(w *blockdir.Writer, _ bool) error { return w.Publish() }
	}
	metas := make([]BlockMeta, len(dirs))
	for i, d := range dirs {
		metas[i] = d.Meta()
	}
	meta := mergedMeta(newOwnULID(c.clock.Now(), endOfOrdinary(metas)), metas)
	parts := append([]mergedPart{{meta: meta}}, c.outside(meta, dirs)...)
	result := mergeResult{}
	for i := range parts {
		p := &parts[i]
		if err := c.writePart(ctx, fsys, dirs, p); err != nil {
			return mergeResult{}, diskspace.Full(joinAbort(err, abortParts(parts)))
		}
		result.Bytes += p.bytes
		result.Counts.add(p.counts)
	}
	result.Meta = parts[0].meta
	// The one that takes the place of the inputs comes last: there is no moment at which a sample is
	// in no block.
	for i := len(parts) - 1; i >= 0; i-- {
		if parts[i].empty {
			continue
		}
		if err := publish(parts[i].w, i == 0); err != nil {
			return mergeResult{}, diskspace.Full(joinAbort(err, abortParts(parts)))
		}
	}
	if parts[0].empty {
		return mergeResult{}, blockdir.ErrEmpty
	}
	return result, nil
}

// endOfOrdinary returns where the blocks end that say where the head begins.
func endOfOrdinary(metas []BlockMeta) int64 {
	end := int64(math.MinInt64)
	for _, m := range metas {
		if !blockdir.BesideHead(m) {
			end = max(end, m.MaxTime)
		}
	}
	return end
}

// areWarm tells whether the page cache has most of the chunks of some blocks: queries read them, and
// will read what takes their place.
func areWarm(dirs []*blockdir.Dir) bool {
	var cached, all int64
	for _, d := range dirs {
		cached += d.CachedBytes()
		all += d.Chunks().Size()
	}
	return 2*cached > all
}

// joinAbort adds what went wrong while the rest was removed.
func joinAbort(err, abort error) error {
	if abort == nil {
		return err
	}
	return stderrors.Join(err, abort)
}

// markDeletable notes in all blocks that nothing is left of them.
func markDeletable(dirs []*blockdir.Dir) error {
	for _, d := range dirs {
		if err := d.SetMeta(func(m *blockdir.Meta) { m.Compaction.Deletable = true }); err != nil {
			return errors.WithMessagef(err, "mark block %s as deletable", d.Meta().ULID)
		}
	}
	return nil
}

// note lets blocks rest whose merge failed.
func (c *compactor) note(ctx context.Context, dirs []*blockdir.Dir, err error) {
	if ctx.Err() != nil {
		return
	}
	now := c.clock.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range dirs {
		id := d.Meta().ULID
		if err == nil || errors.Is(err, blockdir.ErrEmpty) {
			delete(c.mu.failed, id)
			continue
		}
		if c.mu.failed == nil {
			c.mu.failed = make(map[ulid.ULID]mergeFailure)
		}
		f := c.mu.failed[id]
		f.times++
		f.until = now.Add(mergeBackoff(f.times))
		c.mu.failed[id] = f
	}
}

// mergeBackoff is how long blocks rest whose merge has failed so many times.
func mergeBackoff(times int) time.Duration {
	d := minMergeBackoff
	for ; times > 1 && d < maxMergeBackoff; times-- {
		d *= 2
	}
	return min(d, maxMergeBackoff)
}

// newOwnULID names a block of the head, or of such blocks, that ends at maxt. Its time is not
// before that, or it would look like one of the future that somebody else has made.
func newOwnULID(now time.Time, maxt int64) ulid.ULID {
	if end := time.UnixMilli(maxt); end.After(now) {
		now = end
	}
	return blockdir.NewULID(now)
}
