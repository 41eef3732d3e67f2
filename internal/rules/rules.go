// Package rules knows which retention rule decides about each series of a block: the first one
// whose matchers choose it. It reads indexes and no samples, and does not know what time it is, nor
// what becomes of what is too old: that is for package blockplan, and for who merges.
//
// Everything here is safe for concurrent use. Blocks that are given must stay open meanwhile.
package rules

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/labels"
)

// RetentionRule says for how long the series are kept that all its matchers choose.
type RetentionRule struct {
	Matchers []*labels.Matcher // none: every series
	Duration time.Duration     // of data behind the newest sample; 0 or less: without limit
}

// maxRules bounds how often the index of a block is asked.
const maxRules = 256

// Check returns an error if rules cannot be applied; name is what the caller calls them.
func Check(list []RetentionRule, name string) error {
	if len(list) > maxRules {
		return errors.Errorf("%s has %d rules, want at most %d", name, len(list), maxRules)
	}
	for i, r := range list {
		if slices.Contains(r.Matchers, nil) {
			return errors.Errorf("%s: rule %d has a matcher that is nil", name, i)
		}
	}
	return nil
}

// Durations returns for how long each rule keeps what it decides about, and, as the last one, for
// how long that is kept which no rule chooses.
//
//go:noinline
func Durations(list []RetentionRule, rest time.Duration) []time.Duration {
	all := make([]time.Duration, len(list)+1)
	for i := range list {
		all[i] = list[i].Duration
	}
	all[len(list)] = rest
	return all
}

// Longest returns the longest of these durations that are limits, 0 if none is: until it has
// passed, something is kept that a wrong clock could take.
//
//go:noinline
func Longest(list []RetentionRule, rest time.Duration) time.Duration {
	longest := max(rest, 0)
	for i := range list {
		longest = max(longest, list[i].Duration)
	}
	return longest
}

// Decided says which rule decides about each series of a block.
type Decided struct {
	chosen [][]uint64 // by rule, the ids of the series that it chooses, ascending
	series []int      // by rule, about how many it decides; the last: about how many none does
}

// Decide asks the index of a block. Errors are those of the index, and the context's.
func Decide(ctx context.Context, dir *blockdir.Dir, list []RetentionRule) (*Decided, error) {
	d := &Decided{chosen: make([][]uint64, len(list)), series: make([]int, len(list)+1)}
	left, err := dir.Index().NumSeries()
	if err != nil {
		return nil, err
	}
	for i, r := range list {
		if left == 0 {
			break // what is behind a rule for everything decides about nothing
		}
		ids, err := dir.Index().Select(ctx, r.Matchers...)
		if err != nil {
			return nil, err
		}
		own := 0
		for _, id := range ids {
			if d.ruleBefore(id, i) == i {
				own++
			}
		}
		d.chosen[i], d.series[i] = ids, own
		left -= own
	}
	d.series[len(list)] = left
	return d, nil
}

// Rule returns which rule decides about a series; as many as there are: none does.
func (d *Decided) Rule(id uint64) int { return d.ruleBefore(id, len(d.chosen)) }

// ruleBefore returns the first of the rules before end that chooses a series; end: none does.
func (d *Decided) ruleBefore(id uint64, end int) int {
	for i, ids := range d.chosen[:end] {
		if _, ok := slices.BinarySearch(ids, id); ok {
			return i
		}
	}
	return end
}

// KeepFrom returns from which time on a merge keeps the samples of each series, by the times from
// which on each rule does; nil: nothing of the block is before.
func (d *Decided) KeepFrom(from []int64) func(id uint64) int64 {
	for i, n := range d.series {
		if n > 0 && from[i] > math.MinInt64 {
			return func(id uint64) int64 { return from[d.Rule(id)] }
		}
	}
	return nil
}

// Shares remembers for each block which rules decide about some of its series. Blocks do not
// change, so each is asked once.
type Shares struct {
	rules []RetentionRule
	mu    struct {
		sync.Mutex
		of map[ulid.ULID][]bool
	}
}

// NewShares returns what knows of no block yet.
func NewShares(list []RetentionRule) *Shares {
	s := &Shares{rules: list}
	s.mu.of = make(map[ulid.ULID][]bool)
	return s
}

// Of returns for each rule, and for none as the last one, whether it decides about a series of the
// block. Errors are those of Decide.
func (s *Shares) Of(ctx context.Context, dir *blockdir.Dir) ([]bool, error) {
	id := dir.Meta().ULID
	s.mu.Lock()
	has := s.mu.of[id]
	s.mu.Unlock()
	if has != nil {
		return has, nil
	}
	d, err := Decide(ctx, dir, s.rules)
	if err != nil {
		return nil, errors.WithMessagef(err, "apply retention rules to block %s", id)
	}
	has = make([]bool, len(d.series))
	for i, n := range d.series {
		has[i] = n > 0
	}
	s.mu.Lock()
	s.mu.of[id] = has
	s.mu.Unlock()
	return has, nil
}

// Forget forgets the blocks that are not there any more.
func (s *Shares) Forget(isThere func(ulid.ULID) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.mu.of {
		if !isThere(id) {
			delete(s.mu.of, id)
		}
	}
}
