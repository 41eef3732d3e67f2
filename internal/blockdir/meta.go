package blockdir

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/seed347100a3/tsdb/internal/clock"
)

// metaVersion is the version of meta files. 2 was written by Prometheus 2.1 by mistake.
const (
	metaVersion    = 1
	metaVersionBug = 2
)

// Hints about where the samples of a block come from. A block with one of them says nothing
// about how far the head was written to blocks.
const (
	HintFromOutOfOrder     = "from-out-of-order"
	HintFromStaleSeries    = "from-stale-series"
	HintFromSelectedSeries = "from-selected-series"
)

// Meta is what a block says of itself. Its slices and maps are never changed in place.
type Meta struct {
	ULID ulid.ULID // its name, also the directory's
	// MinTime and MaxTime are half-open bounds in milliseconds: samples satisfy
	// MinTime <= t < MaxTime. Invariant: MinTime <= MaxTime.
	MinTime, MaxTime int64
	Stats            Stats
	Compaction       Compaction
	Version          int // 1

	// Extra has the fields that this version does not know, as they were read; they are
	// written back.
	Extra Extra
}

// Stats are counts of what is in a block. Blocks of old writers lack some: they are 0.
type Stats struct {
	NumSamples          uint64
	NumFloatSamples     uint64
	NumHistogramSamples uint64
	NumSeries           uint64
	NumChunks           uint64
	NumTombstones       uint64 // intervals in the tombstones file
}

// Compaction is the origin of a block.
type Compaction struct {
	Level   int         // 1: straight from the head
	Sources []ulid.ULID // level-1 blocks that went in, itself for one of level 1; sorted
	// Deletable: merging the block gave nothing, so it can go.
	Deletable bool
	// Parents are the blocks that went in directly. Once this block is loaded they go.
	Parents []Parent
	// Failed: merging it failed, and the planner stays away from its range.
	Failed bool
	Hints  []string // sorted
}

// Parent is a block that went into another one.
type Parent struct {
	ULID             ulid.ULID
	MinTime, MaxTime int64 // half-open
}

// Extra has unknown fields of the meta file by the object that they are in.
type Extra struct {
	Meta, Stats, Compaction map[string]json.RawMessage
}

// HasHint tells whether the block carries a hint.
//
//go:noinline
func (m *Meta) HasHint(hint string) bool { return slices.Contains(m.Compaction.Hints, hint) }

// BesideHead reports whether a block may hold a part of the samples of its times only, so
// that the log still counts there.
func BesideHead(m *Meta) bool {
	return m.HasHint(HintFromOutOfOrder) || m.HasHint(HintFromStaleSeries) || m.HasHint(HintFromSelectedSeries)
}

// CompareStart orders blocks by start, then by name: the order in which they are listed.
func CompareStart(a, b *Meta) int {
	return cmp.Or(cmp.Compare(a.MinTime, b.MinTime), a.ULID.Compare(b.ULID))
}

// FromFuture reports whether a block begins more than maxFuture ahead of both the clock and its own
// creation. Such a block is no flushed head, so the log still counts. A negative maxFuture: never.
func FromFuture(m *Meta, c clock.Clock, maxFuture time.Duration) bool {
	if maxFuture < 0 || BesideHead(m) {
		return false
	}
	return m.MinTime > max(clock.UnixMilli(c), int64(m.ULID.Time()))+maxFuture.Milliseconds()
}

// SortByAge puts blocks, in the order of CompareStart, into that in which their samples count where
// several have one time: those of series that ended come before the others, which may have samples
// of later series with their labels, and those of late samples behind them. Of both kinds the one
// with the newest source is last.
func SortByAge(n int, meta func(i int) *Meta, swap func(i, k int)) {
	for i := 1; i < n; i++ { // they are few, and mostly all are of one age
		for k := i; k > 0; k-- {
			a, b := meta(k-1), meta(k)
			if x, y := a.age(), b.age(); x < y || x == y && (x == 0 || a.newestSource().Compare(b.newestSource()) <= 0) {
				break
			}
			swap(k-1, k)
		}
	}
}

// age is negative for a block of series that ended, and positive for one of late samples.
func (m *Meta) age() int {
	switch {
	case m.HasHint(HintFromStaleSeries):
		return -1
	case m.HasHint(HintFromOutOfOrder):
		return 1
	default:
		return 0
	}
}

// newestSource returns the name of the newest block that the block was made of.
func (m *Meta) newestSource() ulid.ULID {
	newest := m.ULID
	if n := len(m.Compaction.Sources); n > 0 {
		newest = m.Compaction.Sources[0]
		for _, id := range m.Compaction.Sources[1:] {
			if id.Compare(newest) > 0 {
				newest = id
			}
		}
	}
	return newest
}

// NewLateULID names a block of late samples, or of series that ended, that ends at maxt: behind all
// such blocks that are there, by whatever clock.
func NewLateULID(now time.Time, maxt int64, there []Meta) ulid.ULID {
	id := NewOwnULID(now, maxt)
	for i := range there {
		if m := &there[i]; m.age() != 0 && m.newestSource().Compare(id) >= 0 {
			id = NewOwnULID(time.UnixMilli(int64(m.newestSource().Time())+1), maxt)
		}
	}
	return id
}
