package tsdb_test

import (
	"fmt"
	"maps"
	"slices"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/labels"
)

// sampleKey names a sample: the times of a series ascend, so there is one at most.
type sampleKey struct {
	ls labels.Labels
	t  int64
}

func (r row) key() sampleKey { return sampleKey{r.ls, r.T} }

// effects are what blocks have, and have not, beside what the log says: it is on stable
// storage when it is acknowledged, whatever becomes of the log. They are not changed any
// more.
type effects struct {
	removed map[sampleKey]bool // deleted from blocks, or gone with an old block
	extra   []row              // backfilled
	ended   map[sampleKey]bool // maybe in the block of series that ended, and maybe in the head
}

// without returns effects by which more samples are gone.
func (e *effects) without(keys []sampleKey) *effects {
	next := *e
	next.removed = withKeys(e.removed, keys)
	return &next
}

// with returns effects by which there are more samples.
func (e *effects) with(rows []row) *effects {
	next := *e
	next.extra = append(slices.Clip(e.extra), rows...)
	return &next
}

// withEnded returns effects by which series have ended, with these samples.
func (e *effects) withEnded(keys []sampleKey) *effects {
	next := *e
	next.ended = withKeys(e.ended, keys)
	return &next
}

// withKeys returns a set with more samples. That of before stays as it is.
func withKeys(set map[sampleKey]bool, keys []sampleKey) map[sampleKey]bool {
	next := maps.Clone(set)
	if next == nil {
		next = map[sampleKey]bool{}
	}
	for _, k := range keys {
		next[k] = true
	}
	return next
}

// group is samples that an operation removes, or brings, in one place: from one block, or
// with one. While it is under way all of them may be there, or none.
type group []sampleKey

func keysOf(groups []group) (keys []sampleKey) {
	for _, g := range groups {
		keys = append(keys, g...)
	}
	return keys
}

// byRange returns a group for each range of time that becomes a block.
func byRange(keys []sampleKey) (groups []group) {
	of := map[int64]group{}
	window := crashRange.Milliseconds()
	for _, k := range keys {
		i := k.t / window
		if k.t%window < 0 {
			i--
		}
		of[i] = append(of[i], k)
	}
	for _, g := range of {
		groups = append(groups, g)
	}
	return groups
}

// settle finds out which groups are there, and returns the effects that follow. want is
// what there is if all of them are.
func (e *effects) settle(groups []group, want *content, got map[labels.Labels][]point) (*effects, error) {
	if len(groups) == 0 {
		return e, nil
	}
	there, expected := keysOfContent(got), keysOfContent(want.series)
	for i, g := range groups {
		var gone, kept []sampleKey
		for _, k := range g {
			if !expected[k] {
				continue
			}
			if there[k] {
				kept = append(kept, k)
			} else {
				gone = append(gone, k)
			}
		}
		if len(gone) > 0 && len(kept) > 0 {
			return nil, errors.Errorf("of place %d of %d a part is there: %.200s but not %.200s", i, len(groups), fmt.Sprint(kept), fmt.Sprint(gone))
		}
		e = e.without(gone)
	}
	return e, nil
}

func keysOfContent(series map[labels.Labels][]point) map[sampleKey]bool {
	all := map[sampleKey]bool{}
	for ls, ps := range series {
		for _, p := range ps {
			all[sampleKey{ls, p.T}] = true
		}
	}
	return all
}
