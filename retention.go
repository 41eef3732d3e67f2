package tsdb

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/oklog/ulid/v2"
)

// retentionLimits say how much is kept. The zero value keeps everything.
type retentionLimits struct {
	Duration time.Duration // of data behind the newest sample; 0 or less: no limit
	Bytes    int64         // of blocks and head; 0 or less: no limit
}

// retentionState is what the limits are applied to.
type retentionState struct {
	Blocks    []sizedBlock // all that are loaded, in any order
	HeadBytes int64        // of the log, the head-chunk files and the head's snapshots
	// NewestT is the time of the newest sample of the head, math.MinInt64 if it has
	// none; NowT is what the clock shows. Both in milliseconds.
	NewestT, NowT int64
	Behind        time.Duration // how much of the way to these is in doubt
}

// countedFrom is the time that a duration is counted back from, in milliseconds: the newest
// sample or the clock, whichever is less. A clock that is ahead deletes nothing, and neither does
// a sample that is. It is math.MinInt64 if there is no sample.
func (s retentionState) countedFrom() int64 {
	newest := s.NewestT
	for _, b := range s.Blocks {
		newest = max(newest, b.Meta.MaxTime-1)
	}
	return min(newest, s.NowT)
}

// sizedBlock is a block and its size on disk.
type sizedBlock struct {
	Meta  BlockMeta
	Bytes int64
}

// obsoleteReason is why a block goes.
type obsoleteReason uint8

// Reasons, the strongest first: a block gets the first one that holds.
const (
	reasonReplaced  obsoleteReason = iota + 1 // it went into another block
	reasonDeletable                           // merging it gave nothing
	reasonDuration
	reasonBytes
)

// String returns the reason as the log shows it.
func (r obsoleteReason) String() string {
	switch r {
	case reasonReplaced:
		return "replaced"
	case reasonDeletable:
		return "empty"
	case reasonDuration:
		return "duration"
	case reasonBytes:
		return "bytes"
	default:
		return "none"
	}
}

// obsoleteBlocks says which blocks may go and why. Nothing is cut inside a block: one
// stays as long as any of it may be inside the limits.
func obsoleteBlocks(s retentionState, limits retentionLimits) map[ulid.ULID]obsoleteReason {
	gone := replacedBlocks(s.Blocks)
	note := func(m BlockMeta, why obsoleteReason) {
		if gone[m.ULID] == 0 {
			gone[m.ULID] = why
		}
	}
	// What goes anyway must not count against the rest.
	var kept []sizedBlock
	for _, b := range s.Blocks {
		if b.Meta.Compaction.Deletable {
			note(b.Meta, reasonDeletable)
		}
		if gone[b.Meta.ULID] == 0 {
			kept = append(kept, b)
		}
	}
	sort.Slice(kept, func(i, k int) bool { return newestFirst(kept[i], kept[k]) < 0 })
	for _, b := range beyondDuration(kept, s, limits.Duration) {
		note(b.Meta, reasonDuration)
	}
	for _, b := range beyondBytes(kept, s, limits.Bytes) {
		note(b.Meta, reasonBytes)
	}
	return gone
}

// newestFirst orders blocks by their end, the newest first.
func newestFirst(a, b sizedBlock) int {
	return cmp.Or(cmp.Compare(b.Meta.MaxTime, a.Meta.MaxTime), compareULID(b.Meta.ULID, a.Meta.ULID))
}

// beyondDuration returns the blocks all of whose samples are older than d. The newest block
// stays in any case.
func beyondDuration(blocks []sizedBlock, s retentionState, d time.Duration) []sizedBlock {
	if d <= 0 || len(blocks) == 0 {
		return nil
	}
	horizon := s.countedFrom()
	if behind := s.Behind.Milliseconds(); horizon >= math.MinInt64+behind {
		horizon -= behind
	}
	// Blocks count in milliseconds. Less than one is rounded up: a limit that is too
	// short by its unit must not become none.
	length := max(d.Milliseconds(), 1)
	if horizon < math.MinInt64+length {
		return nil
	}
	keep := horizon - length + 1 // the first instant that is younger than the limit
	for i := 1; i < len(blocks); i++ {
		if blocks[i].Meta.MaxTime <= keep {
			return blocks[i:]
		}
	}
	return nil
}

// retentionBytes returns how many bytes blocks and head may have on a device of a size, which is
// 0 if nobody knows it; 0 or less: no limit.
func retentionBytes(disk int64, o BlockOptions) int64 {
	switch {
	case o.RetentionPercent <= 0 || disk <= 0:
		return o.RetentionBytes
	case o.RetentionPercent >= 100:
		return disk
	default:
		return max(int64(float64(disk)*o.RetentionPercent/100), 1)
	}
}

// beyondBytes returns the block that brings the sum of the sizes over the limit, counted
// from the head to the oldest block, and all older ones.
func beyondBytes(blocks []sizedBlock, s retentionState, limit int64) []sizedBlock {
	if limit <= 0 {
		return nil
	}
	left := limit - s.HeadBytes
	for i, b := range blocks {
		if left < b.Bytes {
			return blocks[i:]
		}
		left -= b.Bytes
	}
	return nil
}

// replacedBlocks returns the blocks that went into others that are loaded: what a merge
// that was interrupted before its end leaves. Whoever lists a block as its parent must cover
// its times, and a chain of parents must begin at a block that nobody lists: so blocks that
// claim each other all stay.
func replacedBlocks(blocks []sizedBlock) map[ulid.ULID]obsoleteReason {
	byID := make(map[ulid.ULID]BlockMeta, len(blocks))
	for _, b := range blocks {
		byID[b.Meta.ULID] = b.Meta
	}
	parents := func(m BlockMeta) (ids []ulid.ULID) {
		for _, b := range blocks {
			if wentInto(b.Meta, m) {
				ids = append(ids, b.Meta.ULID)
			}
		}
		return ids
	}
	listed := make(map[ulid.ULID]bool)
	for _, b := range blocks {
		for _, id := range parents(b.Meta) {
			listed[id] = true
		}
	}
	gone := make(map[ulid.ULID]obsoleteReason)
	var todo []ulid.ULID
	for _, b := range blocks {
		if !listed[b.Meta.ULID] {
			todo = append(todo, parents(b.Meta)...)
		}
	}
	for len(todo) > 0 {
		id := todo[0]
		todo = todo[1:]
		if gone[id] == 0 {
			gone[id] = reasonReplaced
			todo = append(todo, parents(byID[id])...)
		}
	}
	return gone
}

// wentInto reports whether a block was merged into another one, which covers its times:
// directly, as its parent, or on the way, as all that went into it went into the other
// one, too. Of a chain of merges a block in the middle may be gone already.
func wentInto(old, m BlockMeta) bool {
	if old.ULID == m.ULID || old.MinTime < m.MinTime || old.MaxTime > m.MaxTime {
		return false
	}
	for _, p := range m.Compaction.Parents {
		if p.ULID == old.ULID {
			return true
		}
	}
	if old.Compaction.Level >= m.Compaction.Level || len(old.Compaction.Sources) == 0 {
		return false
	}
	for _, id := range old.Compaction.Sources {
		if !slices.Contains(m.Compaction.Sources, id) {
			return false
		}
	}
	return true
}
