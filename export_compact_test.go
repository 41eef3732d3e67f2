package tsdb

import (
	"context"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/seed347100a3/tsdb/internal/blockdir"
)

// What tests of plans, merges and retention need.

// PlanMerge, MergedMeta, BlockRanges and ObsoleteBlocks are the decisions, pure functions.
var (
	PlanMerge      = planMerge
	MergedMeta     = mergedMeta
	BlockRanges    = blockRanges
	ObsoleteBlocks = obsoleteBlocks
	MergeBackoff   = mergeBackoff
)

// What those take and give.
type (
	RetentionState  = retentionState
	RetentionLimits = retentionLimits
	SizedBlock      = sizedBlock
	ObsoleteReason  = obsoleteReason
	MergeCounts     = mergeCounts
	MergeResult     = mergeResult
)

// Reasons of ObsoleteBlocks.
const (
	ReasonReplaced  = reasonReplaced
	ReasonDeletable = reasonDeletable
	ReasonDuration  = reasonDuration
	ReasonBytes     = reasonBytes
)

// MergeReserveBytes is what a merge wants free beside its result.
const MergeReserveBytes = mergeReserveBytes

// Compactor merges blocks without a database around it.
type Compactor struct{ c *compactor }

// NewCompactor returns one that writes into dir.
func NewCompactor(fsys FS, dir string, c Clock, bytesPerSecond int64, samplesPerChunk int) Compactor {
	return Compactor{newCompactor(fsys, dir, c, bytesPerSecond, samplesPerChunk)}
}

// Merge, Resting and Forget are those of the type behind.
func (c Compactor) Merge(ctx context.Context, inputs []*blockdir.Dir) (MergeResult, error) {
	return c.c.merge(ctx, inputs)
}

func (c Compactor) Resting(id ulid.ULID) bool { return c.c.resting(id) }
func (c Compactor) Forget()                   { c.c.forget() }

// NewULID names a block that is made at a time.
func NewULID(now time.Time) ulid.ULID { return newULID(now) }
