package blockplan

import (
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
)

const (
	// minRest and maxRest bound how long blocks rest whose merge failed; each failure doubles
	// it. The first retry costs little; a merge that fails for good costs one attempt an hour.
	minRest = time.Minute
	maxRest = time.Hour
)

// Rest is the blocks whose merge failed. They rest for a while, in memory only.
type Rest struct {
	mu struct {
		sync.Mutex
		failed map[ulid.ULID]failure
	}
}

// failure is how often in a row merges of a block failed, and until when it rests.
type failure struct {
	times int
	until time.Time
}

// Resting tells whether a block was in a merge that failed a while ago. Plans leave it
// alone until then.
func (r *Rest) Resting(id ulid.ULID, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	f, ok := r.mu.failed[id]
	left := f.until.Sub(now)
	// More than the longest rest is left when the clock was set back.
	return ok && left > 0 && left <= maxRest
}

// Failed lets blocks rest whose merge failed now.
func (r *Rest) Failed(ids []ulid.ULID, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.failed == nil {
		r.mu.failed = make(map[ulid.ULID]failure)
	}
	for _, id := range ids {
		f := r.mu.failed[id]
		f.times++
		f.until = now.Add(restOf(f.times))
		r.mu.failed[id] = f
	}
}

// Merged forgets that merges of blocks failed before: one did not.
func (r *Rest) Merged(ids []ulid.ULID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range ids {
		delete(r.mu.failed, id)
	}
}

// Forget lets all blocks be merged at once, as when somebody asks for it.
func (r *Rest) Forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.failed = nil
}

// restOf is how long blocks rest whose merge has failed so many times.
func restOf(times int) time.Duration {
	d := minRest
	for ; times > 1 && d < maxRest; times-- {
		d *= 2
	}
	return min(d, maxRest)
}
