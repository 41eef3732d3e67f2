package ship

import (
	"fmt"
	"log/slog"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
)

// Options are about a Shipper. The zero value of each field but Labels means its default.
type Options struct {
	// Labels are the external labels: Thanos adds them to each series of the blocks. At least one;
	// no two databases that upload to a bucket may have the same.
	Labels labels.Labels
	// Compacted: merged blocks are uploaded, too, if nothing of what they were made of was. For
	// directories that were there before the Shipper. Default: blocks of level 1 only.
	Compacted bool
	// FS has the data directory. Default: the operating system's.
	FS tsdb.FS
	// Logger is told of each block that is uploaded, of each that will not be, and of errors in
	// Run. Default: none.
	Logger *slog.Logger
}

func (o Options) withDefaults() (Options, error) {
	if o.FS == nil {
		o.FS = tsdb.DefaultOptions().FS
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Labels.IsEmpty() {
		return o, errors.WithMessage(ErrLabels, "ship: Thanos wants one at least")
	}
	if err := o.Labels.Validate(); err != nil {
		return o, errors.Wrapf(ErrLabels, "ship: %v", err)
	}
	return o, nil
}

// Prepare returns options to open a database with whose blocks are shipped, from those that it
// would have otherwise: blocks that are to be uploaded still are not merged, and retention keeps
// them, even if a limit is exceeded. Each is held as soon as it is there, and uploaded by Run at
// once. What is in Stats.Skipped waits for nothing: when retention takes it, Stats.Lost and the
// log tell. Keep, MayMerge and OnBlock of the options are called, too; an OnBlock that is slow
// delays the uploads of later blocks.
func (s *Shipper) Prepare(o *tsdb.Options) *tsdb.Options {
	c := tsdb.Options{}
	if o != nil {
		c = *o
	}
	keep, may, told := c.Blocks.Keep, c.Blocks.MayMerge, c.Blocks.OnBlock
	c.Blocks.Keep = func(m tsdb.BlockMeta) bool {
		if s.Keep(m) || keep != nil && keep(m) {
			return true
		}
		s.tellLost(m)
		return false
	}
	c.Blocks.MayMerge = func(m tsdb.BlockMeta) bool { return s.mayMerge(m) && (may == nil || may(m)) }
	c.Blocks.OnBlock = func(m tsdb.BlockMeta) {
		s.sight(m)
		if told != nil {
			told(m)
		}
	}
	return &c
}

// mayMerge is the opposite of Keep; and while it is not written down what is uploaded, blocks wait:
// after a kill the bucket is asked for them by their names.
func (s *Shipper) mayMerge(m tsdb.BlockMeta) bool { return !s.unsaved.Load() && !s.Keep(m) }

// mergeFactor is how many blocks a merge puts together at least, by their times.
const mergeFactor = 3

// mergesBlocks says which option makes a database merge blocks, or write them anew, and what it is to
// be; nothing if it does neither.
func mergesBlocks(o *tsdb.Options) string {
	switch {
	case o.Blocks.MaxRange/mergeFactor >= o.Blocks.Range:
		return fmt.Sprintf("BlockOptions.MaxRange is %v, want less than three times Range, %v", o.Blocks.MaxRange, o.Blocks.Range)
	case o.Head.OutOfOrderWindow > 0:
		return fmt.Sprintf("HeadOptions.OutOfOrderWindow is %v, want 0", o.Head.OutOfOrderWindow)
	case len(o.Blocks.RetentionRules) > 0:
		return "there are BlockOptions.RetentionRules, want none"
	}
	return ""
}

// removesBlocks tells whether retention may remove a block.
func removesBlocks(o *tsdb.BlockOptions) bool {
	return o.Retention > 0 || o.RetentionBytes > 0 || o.RetentionPercent > 0 || len(o.RetentionRules) > 0
}
