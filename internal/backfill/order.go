package backfill

import (
	"cmp"
	"math"
	"slices"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/memseries"
)

// Duplicates says what becomes of samples of one series that have one time and different
// values. Exact repeats are always stored once.
type Duplicates uint8

// What there is to choose from. First and last are meant in the order of Append.
const (
	DuplicatesError Duplicates = iota // they are an error
	KeepFirst
	KeepLast
)

// unorderedShare is which part of the memory the samples of one series may take when
// they are not in the order of time: sorting them needs as much again.
const unorderedShare = 8

// sorter puts samples of a series in order of time, and keeps one of each time.
type sorter struct {
	rule     Duplicates
	dropped  int64    // samples that went because another has their time, and not their value
	conflict error    // the first of these, if they are an error
	scratch  []sample // of a series that is being sorted
}

// late decides about a sample that is not newer than the newest of its series, and says
// whether it is kept.
func (s *sorter) late(sr *series, w *memseries.WideSample) (keep bool, err error) {
	if w.T == sr.lastT {
		switch {
		case w.Sum == sr.last:
			return false, nil
		case s.rule == DuplicatesError:
			return false, ErrDuplicate
		case s.rule == KeepFirst:
			s.dropped++
			return false, nil
		}
	}
	return true, nil
}

// sort puts the samples of a series into the order of time, where they are in the arena. It
// returns how many went.
func (s *sorter) sort(sr *series, in *arena, beside *pages) (gone int) {
	if !sr.run.unordered {
		return 0
	}
	same := sameFloat
	if sr.run.wide {
		same = func(a, b sample) bool { return beside.at(a).Sum == beside.at(b).Sum }
	}
	xs := s.scratch[:0]
	for c := sr.run.cursor(); c.left > 0; c.skip() {
		xs = append(xs, c.peek(in))
	}
	s.scratch = xs
	sortByTime(xs)
	kept, conflicts, at := settle(xs, s.rule, same)
	s.dropped += int64(conflicts)
	if conflicts > 0 && s.rule == DuplicatesError && s.conflict == nil {
		s.conflict = errors.WithMessagef(ErrDuplicate, "series %v at time %d", sr.ls, at)
	}
	c := sr.run.cursor()
	for _, x := range kept {
		*c.slot(in) = x
		c.skip()
	}
	sr.run.num, sr.run.unordered = uint32(len(kept)), false
	return len(xs) - len(kept)
}

// sortByTime keeps the order of samples with the same time. What was written newest first
// is turned round.
func sortByTime(xs []sample) {
	if newestFirst(xs) {
		slices.Reverse(xs)
		return
	}
	slices.SortStableFunc(xs, func(a, b sample) int { return cmp.Compare(a.t, b.t) })
}

func newestFirst(xs []sample) bool {
	for i := 1; i < len(xs); i++ {
		if xs[i].t >= xs[i-1].t {
			return false
		}
	}
	return true
}

// settle keeps one of the samples of each time, in the order of time. It returns how many
// it dropped whose value is another than the kept one's, and the time of the first.
func settle(xs []sample, d Duplicates, same func(a, b sample) bool) (kept []sample, conflicts int, at int64) {
	kept = xs[:0]
	for start := 0; start < len(xs); {
		end := start + 1
		for end < len(xs) && xs[end].t == xs[start].t {
			end++
		}
		one := xs[start]
		if d == KeepLast {
			one = xs[end-1]
		}
		for _, x := range xs[start:end] {
			if math.Float64bits(x.v) == math.Float64bits(one.v) || same(x, one) {
				continue
			}
			if conflicts++; conflicts == 1 {
				at = x.t
			}
		}
		kept = append(kept, one)
		start = end
	}
	return kept, conflicts, at
}

// sameFloat compares bits: a NaN equals itself, and no other one.
func sameFloat(a, b sample) bool { return math.Float64bits(a.v) == math.Float64bits(b.v) }
