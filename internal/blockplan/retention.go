package blockplan

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// RetentionLimits say how much is kept. The zero value keeps everything.
type RetentionLimits struct {
	Duration time.Duration // of data behind the newest sample, if no retention rule is about it; 0 or less: no limit
	Bytes    int64         // of blocks and head; 0 or less: no limit
	// Percent of the disk takes the place of Bytes where the size of the disk is known. 0 or
	// less: no limit; at most 100.
	Percent float64
}

// CheckLimits returns an error if no disk has the percentage of the limits; name is what the caller
// calls it.
func CheckLimits(l RetentionLimits, name string) error {
	if math.IsNaN(l.Percent) || math.IsInf(l.Percent, 0) || l.Percent > 100 {
		return errors.Errorf("%s is %v, want a number of at most 100", name, l.Percent)
	}
	return nil
}

// RetentionState is what the limits are applied to.
type RetentionState struct {
	Blocks    []SizedBlock // all that are loaded, in any order
	HeadBytes int64        // of the log, the head-chunk files and the head's snapshots
	// NewestT is the time of the newest sample of the head, math.MinInt64 if it has
	// none; NowT is what the clock shows. Both in milliseconds.
	NewestT, NowT int64
	Behind        time.Duration // how much of the way to these is in doubt
}

// CountedFrom is the time that a duration is counted back from, in milliseconds: the newest
// sample or the clock, whichever is less. A clock that is ahead deletes nothing, and neither does
// a sample that is. It is math.MinInt64 if there is no sample.
//
//go:noinline
func (s RetentionState) CountedFrom() int64 {
	newest := s.NewestT
	for i := range s.Blocks {
		newest = max(newest, s.Blocks[i].Meta.MaxTime-1)
	}
	return min(newest, s.NowT)
}

// SizedBlock is a block and its size on disk.
type SizedBlock struct {
	Meta  blockdir.Meta
	Bytes int64
}

// Reason is why a block goes.
type Reason uint8

// Reasons, the strongest first: a block gets the first one that holds.
const (
	ReasonReplaced  Reason = iota + 1 // it went into another block
	ReasonDeletable                   // merging it gave nothing
	ReasonDuration
	ReasonBytes
)

// ByLimit reports whether a limit is the reason: the samples are in no other block.
func (r Reason) ByLimit() bool { return r == ReasonDuration || r == ReasonBytes }

// String returns the reason as the log shows it.
func (r Reason) String() string {
	switch r {
	case ReasonReplaced:
		return "replaced"
	case ReasonDeletable:
		return "empty"
	case ReasonDuration:
		return "duration"
	case ReasonBytes:
		return "bytes"
	default:
		return "none"
	}
}

// OnDisk returns limits with the Bytes that their Percent of the disk of a directory comes to.
func OnDisk(l RetentionLimits, fsys fileutil.FS, dir string) (RetentionLimits, error) {
	if l.Percent <= 0 {
		return l, nil
	}
	_, disk, err := fileutil.DiskSpace(fsys, dir)
	if err != nil && !errors.Is(err, fileutil.ErrUnsupported) {
		return l, errors.WithMessage(err, "ask for disk space")
	}
	l.Bytes = LimitBytes(disk, l.Percent, l.Bytes)
	return l, nil
}

// Obsolete says which blocks may go and why. Nothing is cut inside a block: one
// stays as long as any of it may be inside the limits, of which Percent is not looked at (OnDisk).
func Obsolete(s RetentionState, limits RetentionLimits) map[ulid.ULID]Reason {
	return obsoleteBeside(&s, limits, nil)
}

// obsoleteBeside is Obsolete where it is known of some blocks that they are too old.
func obsoleteBeside(s *RetentionState, limits RetentionLimits, tooOld []ulid.ULID) map[ulid.ULID]Reason {
	gone := make(map[ulid.ULID]Reason)
	for id := range Replaced(metasOf(s.Blocks)) {
		gone[id] = ReasonReplaced
	}
	note := func(blocks []SizedBlock, why Reason) {
		for i := range blocks {
			if id := blocks[i].Meta.ULID; gone[id] == 0 {
				gone[id] = why
			}
		}
	}
	// What goes anyway must not count against the rest.
	var kept []SizedBlock
	for i := range s.Blocks {
		m := &s.Blocks[i].Meta
		if m.Compaction.Deletable {
			note(s.Blocks[i:i+1], ReasonDeletable)
		}
		if slices.Contains(tooOld, m.ULID) {
			note(s.Blocks[i:i+1], ReasonDuration)
		}
		if gone[m.ULID] == 0 {
			kept = append(kept, s.Blocks[i])
		}
	}
	sort.Slice(kept, func(i, k int) bool { return newestFirst(&kept[i], &kept[k]) < 0 })
	note(beyondDuration(kept, s, limits.Duration), ReasonDuration)
	note(beyondBytes(kept, s, limits.Bytes), ReasonBytes)
	return gone
}

func metasOf(blocks []SizedBlock) []blockdir.Meta {
	metas := make([]blockdir.Meta, len(blocks))
	for i := range blocks {
		metas[i] = blocks[i].Meta
	}
	return metas
}

// newestFirst orders blocks by their end, the newest first.
func newestFirst(a, b *SizedBlock) int {
	return cmp.Or(cmp.Compare(b.Meta.MaxTime, a.Meta.MaxTime), b.Meta.ULID.Compare(a.Meta.ULID))
}

// beyondDuration returns the blocks all of whose samples are older than d. The newest block
// stays in any case.
func beyondDuration(blocks []SizedBlock, s *RetentionState, d time.Duration) []SizedBlock {
	keep := s.KeptFrom([]time.Duration{d})[0]
	for i := 1; i < len(blocks); i++ {
		if blocks[i].Meta.MaxTime <= keep {
			return blocks[i:]
		}
	}
	return nil
}

// LimitBytes returns how many bytes blocks and head may have on a device of diskBytes, which is 0
// if nobody knows it: percent of them where both are known, else bytes. 0 or less: no limit.
func LimitBytes(diskBytes int64, percent float64, bytes int64) int64 {
	switch {
	case percent <= 0 || diskBytes <= 0:
		return bytes
	case percent >= 100:
		return diskBytes
	default:
		return max(int64(float64(diskBytes)*percent/100), 1)
	}
}

// beyondBytes returns the block that brings the sum of the sizes over the limit, counted
// from the head to the oldest block, and all older ones.
func beyondBytes(blocks []SizedBlock, s *RetentionState, limit int64) []SizedBlock {
	if limit <= 0 {
		return nil
	}
	left := limit - s.HeadBytes
	for i := range blocks {
		if left < blocks[i].Bytes {
			return blocks[i:]
		}
		left -= blocks[i].Bytes
	}
	return nil
}
