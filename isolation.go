package tsdb

import (
	"cmp"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// isolation decides which commits a reader sees. Commits are published in sequence
// order, each as a whole; a reader's snapshot is the newest one published when it
// was opened. The series keep what open snapshots need (memseries, marks).
type isolation struct {
	published atomic.Uint64 // newest commit that readers see
	floor     atomic.Uint64 // no snapshot below it is open or will be opened
	oldest    atomic.Uint64 // number of the oldest open snapshot, or of the next one

	mu struct {
		sync.Mutex
		done    map[uint64]struct{} // applied, waiting for older ones
		inOrder sync.Cond
		waiting int
		open    []*snapshot // as they were opened, and so ascending by seq
		opened  uint64      // snapshots so far
	}
}

// snapshot is what one Querier sees: all commits up to seq.
type snapshot struct {
	seq    uint64
	number uint64 // ascending from 1
	start  int64  // where the head began then: it reads nothing of the head before
	opened time.Time
}

func newIsolation(published uint64) *isolation {
	iso := &isolation{}
	iso.mu.done = map[uint64]struct{}{}
	iso.mu.inOrder.L = &iso.mu.Mutex
	iso.published.Store(published)
	iso.setFloorLocked() // nobody else has it yet
	return iso
}

// publish makes an applied commit visible as soon as all commits before it are.
func (iso *isolation) publish(seq uint64) {
	iso.mu.Lock()
	defer iso.mu.Unlock()
	if seq != iso.published.Load()+1 {
		iso.mu.done[seq] = struct{}{}
		return
	}
	for {
		next := seq + 1
		if _, ok := iso.mu.done[next]; !ok {
			break
		}
		delete(iso.mu.done, next)
		seq = next
	}
	iso.published.Store(seq)
	iso.setFloorLocked()
	if iso.mu.waiting > 0 {
		iso.mu.inOrder.Broadcast()
	}
}

// waitPublished returns when commit seq, which is applied, is visible.
func (iso *isolation) waitPublished(seq uint64) {
	if iso.published.Load() >= seq {
		return
	}
	iso.mu.Lock()
	defer iso.mu.Unlock()
	for iso.published.Load() < seq {
		iso.mu.waiting++
		iso.mu.inOrder.Wait()
		iso.mu.waiting--
	}
}

// oldestStart returns where the head begins for the oldest open snapshot; now, if none is
// open.
func (iso *isolation) oldestStart(now int64) int64 {
	iso.mu.Lock()
	defer iso.mu.Unlock()
	for _, sn := range iso.mu.open {
		now = min(now, sn.start)
	}
	return now
}

// setFloorLocked: the oldest open snapshot, or what the next one will be.
func (iso *isolation) setFloorLocked() {
	floor, oldest := iso.published.Load(), iso.mu.opened+1
	if len(iso.mu.open) > 0 {
		floor, oldest = min(floor, iso.mu.open[0].seq), iso.mu.open[0].number
	}
	iso.floor.Store(floor)
	iso.oldest.Store(oldest)
}

// acquire opens a snapshot of all that is published, with a head that begins at start.
func (iso *isolation) acquire(now time.Time, start int64) *snapshot {
	iso.mu.Lock()
	defer iso.mu.Unlock()
	iso.mu.opened++
	sn := &snapshot{seq: iso.published.Load(), number: iso.mu.opened, start: start, opened: now}
	iso.mu.open = append(iso.mu.open, sn) // published never falls, so this keeps the order
	iso.setFloorLocked()
	return sn
}

// release closes a snapshot and reports whether the floor rose, so that marks below
// it can be swept.
func (iso *isolation) release(sn *snapshot) bool {
	iso.mu.Lock()
	defer iso.mu.Unlock()
	if i := slices.Index(iso.mu.open, sn); i >= 0 {
		iso.mu.open = slices.Delete(iso.mu.open, i, i+1)
	}
	before := iso.floor.Load()
	iso.setFloorLocked()
	return iso.floor.Load() > before
}

// settleFor bounds how long settle waits. Most queries take a few milliseconds.
const settleFor = 20 * time.Millisecond

// settle returns when nobody reads any more who does so now, or after settleFor. Maintenance
// that holds on to retired files until then closes them itself; the last query would have to
// unmap them, and free up to some hundred megabytes of page cache, on its way out.
//
// It gives its turn away until then: no clock that a test has stopped keeps it waiting.
func (iso *isolation) settle() {
	next := iso.nextNumber()
	for begun := time.Now(); iso.oldest.Load() < next && time.Since(begun) < settleFor; {
		runtime.Gosched()
	}
}

// nextNumber returns the number of the next snapshot: all that are open now are below it.
func (iso *isolation) nextNumber() uint64 {
	iso.mu.Lock()
	defer iso.mu.Unlock()
	return iso.mu.opened + 1
}

// Within implements memseries.Snapshots.
func (iso *isolation) Within(lo, hi uint64) bool {
	if iso.published.Load() < hi {
		return true
	}
	iso.mu.Lock()
	defer iso.mu.Unlock()
	i, _ := slices.BinarySearchFunc(iso.mu.open, lo, func(sn *snapshot, lo uint64) int { return cmp.Compare(sn.seq, lo) })
	return i < len(iso.mu.open) && iso.mu.open[i].seq < hi
}

// openSnapshots returns how many snapshots are open and since when the oldest is.
func (iso *isolation) openSnapshots() (n int, oldest time.Time) {
	iso.mu.Lock()
	defer iso.mu.Unlock()
	if len(iso.mu.open) > 0 {
		oldest = iso.mu.open[0].opened
	}
	return len(iso.mu.open), oldest
}
