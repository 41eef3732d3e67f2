package blockplan

import (
	"math"
	"slices"
	"sort"
	"time"

	"github.com/oklog/ulid/v2"
)

// Retention by rules keeps different series for different times. What is too old goes when blocks
// are merged, and else when all that a rule decides about in a block is: then the block is written
// anew without, once for each rule at most, or goes if nothing else is in it. So a sample is there
// for no more than its duration and the length of its block.

// KeptFrom returns the first instant that each duration keeps, counted back from where the state
// says; math.MinInt64: all of them.
func (s *RetentionState) KeptFrom(durations []time.Duration) []int64 {
	from := s.CountedFrom()
	if behind := s.Behind.Milliseconds(); from >= math.MinInt64+behind {
		from -= behind
	}
	kept := make([]int64, len(durations))
	for i, d := range durations {
		// Less than a millisecond is rounded up: a limit that is too short by its unit must not
		// become none.
		length := max(d.Milliseconds(), 1)
		if kept[i] = math.MinInt64; d > 0 && from >= math.MinInt64+length {
			kept[i] = from - length + 1
		}
	}
	return kept
}

// Aged is what retention makes of blocks at one moment.
type Aged struct {
	Gone    map[ulid.ULID]Reason // as a whole
	Rewrite []ulid.ULID          // series of them are too old, by rules; the oldest first
}

// Fewer is how many blocks are kept, or are left as they are, that b takes.
func (a *Aged) Fewer(b *Aged) int {
	return len(b.Gone) - len(a.Gone) + max(0, len(b.Rewrite)-len(a.Rewrite))
}

// ByBytes reports whether a block goes for its bytes.
func (a *Aged) ByBytes() bool {
	for _, why := range a.Gone {
		if why == ReasonBytes {
			return true
		}
	}
	return false
}

// Age applies limits, and in the place of the duration among them those of rules, of which the last
// one is that of what no rule chooses. A single one is that of the limits. has is that of ByRules.
func Age(s RetentionState, limits RetentionLimits, durations []time.Duration, has func(ulid.ULID) []bool) Aged {
	if len(durations) < 2 {
		return Aged{Gone: Obsolete(s, limits)}
	}
	limits.Duration = 0
	gone, rewrite := ByRules(&s, s.KeptFrom(durations), has)
	a := Aged{Gone: obsoleteBeside(&s, limits, gone)}
	for _, id := range rewrite {
		if a.Gone[id] == 0 {
			a.Rewrite = append(a.Rewrite, id)
		}
	}
	return a
}

// ByRules returns blocks that are too old as a whole, and blocks with series that are, oldest
// first. keptFrom[i] is the first instant that rule i keeps (KeptFrom). has(id)[i]: rule i decides
// about a series of the block; nil: pass over the block. It is called only where that matters. The
// newest block does not go as a whole.
func ByRules(s *RetentionState, keptFrom []int64, has func(ulid.ULID) []bool) (gone, rewrite []ulid.ULID) {
	blocks := slices.Clone(s.Blocks)
	sort.Slice(blocks, func(i, k int) bool { return newestFirst(&blocks[k], &blocks[i]) < 0 })
	least, most := slices.Min(keptFrom), slices.Max(keptFrom)
	for i := range blocks {
		m := &blocks[i].Meta
		if m.MaxTime > most {
			break // and so do the others, which end later
		}
		some, all := true, true
		if m.MaxTime > least {
			shares := has(m.ULID)
			some, all = false, shares != nil
			for k, share := range shares {
				some = some || share && m.MaxTime <= keptFrom[k]
				all = all && (!share || m.MaxTime <= keptFrom[k])
			}
		}
		switch newest := i == len(blocks)-1; {
		case all && !newest:
			gone = append(gone, m.ULID)
		case some && !all:
			rewrite = append(rewrite, m.ULID)
		}
	}
	return gone, rewrite
}
