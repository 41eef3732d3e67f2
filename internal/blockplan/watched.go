package blockplan

import (
	"math"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/horizon"
)

// Look looks at the clock for a Watch, and returns how far retention stays behind it. A clock that
// was set, and set right again since, leaves no doubt.
func Look(w *horizon.Watch, s *RetentionState) (behind time.Duration) {
	t := s.CountedFrom()
	if t == math.MinInt64 {
		return 0
	}
	if behind = w.Look(t); behind == 0 {
		w.Note(0, 0)
	}
	return behind
}

// AgeWatched is Age by no more time than has passed, as a Watch knows. It is told how many blocks
// are kept for that.
func AgeWatched(w *horizon.Watch, s RetentionState, limits RetentionLimits, durations []time.Duration, has func(ulid.ULID) []bool) Aged {
	byClock := Age(s, limits, durations, has)
	if s.Behind = Look(w, &s); s.Behind == 0 {
		return byClock
	}
	aged := Age(s, limits, durations, has)
	w.Note(aged.Fewer(&byClock), s.Behind)
	return aged
}

// Leaving returns the blocks that go as a whole, without those that a limit takes and keep keeps;
// nil keeps none.
func (a *Aged) Leaving(blocks []SizedBlock, keep func(blockdir.Meta) bool) (ids []ulid.ULID) {
	for _, b := range blocks {
		if why := a.Gone[b.Meta.ULID]; why != 0 && (keep == nil || !why.ByLimit() || !keep(b.Meta)) {
			ids = append(ids, b.Meta.ULID)
		}
	}
	return ids
}

// deadLogShare is how much of the limit of all bytes the log may take, as a part of it, before a
// truncation leaves nothing in it that a block has: retention must not take blocks away to pay
// for that. Below it, copying less is worth more.
const deadLogShare = 1.0 / 32

// LogIsDear reports whether the log takes so much of what retention by bytes allows that none of
// it may be dead.
func LogIsDear(l RetentionLimits, fsys fileutil.FS, dir, logDir string) (bool, error) {
	limits, err := OnDisk(l, fsys, dir)
	if err != nil || limits.Bytes <= 0 {
		return false, err
	}
	size, err := fileutil.TreeSize(fsys, logDir)
	return float64(size) > deadLogShare*float64(limits.Bytes), err
}
