package isolation

import (
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed347100a3/tsdb/internal/clock"
)

// Commits decides which commits a reader sees. They are published in sequence order, each
// as a whole; a reader's snapshot is the newest one published when it was opened. The
// series keep what open snapshots need (memseries, marks).
type Commits struct {
	published atomic.Uint64 // newest commit that readers see
	floor     atomic.Uint64 // no snapshot below it is open or will be opened

	mu struct {
		sync.Mutex
		done    map[uint64]struct{} // applied, waiting for older ones
		inOrder sync.Cond
		waiting int
		open    []*Snapshot // as they were opened, and so ascending by seq
		opened  uint64      // how many there were
	}
}

// Snapshot is what one reader sees: all commits up to a sequence number.
type Snapshot struct {
	seq    uint64
	number uint64 // of those that were opened, from 1
	start  int64  // where the head began then: it reads nothing of the head before
	opened time.Time
	gone   chan struct{} // guarded by Commits: is closed by Release; nil while nobody waits for that
}

// Seq returns the sequence number of the newest commit that is seen.
func (sn *Snapshot) Seq() uint64 { return sn.seq }

// New returns commits of which all up to a sequence number are published.
func New(published uint64) *Commits {
	c := &Commits{}
	c.mu.done = map[uint64]struct{}{}
	c.mu.inOrder.L = &c.mu.Mutex
	c.published.Store(published)
	c.setFloorLocked() // nobody else has it yet
	return c
}

// Published returns the sequence number of the newest commit that readers see.
func (c *Commits) Published() uint64 { return c.published.Load() }

// Floor returns a sequence number that no open snapshot is below, and none will be.
func (c *Commits) Floor() uint64 { return c.floor.Load() }

// Publish makes an applied commit visible as soon as all commits before it are.
func (c *Commits) Publish(seq uint64) {
	c.mu.Lock()
	if seq != c.published.Load()+1 {
		c.mu.done[seq] = struct{}{}
	} else {
		c.publishLocked(seq)
	}
	c.mu.Unlock() // not by a defer: half a percent of a small commit (BenchmarkAppendCommit)
}

// publishLocked makes the next commit visible, and those behind it that waited for it.
func (c *Commits) publishLocked(seq uint64) {
	for {
		next := seq + 1
		if _, ok := c.mu.done[next]; !ok {
			break
		}
		delete(c.mu.done, next)
		seq = next
	}
	c.published.Store(seq)
	c.setFloorLocked()
	if c.mu.waiting > 0 {
		c.mu.inOrder.Broadcast()
	}
}

// WaitPublished returns when commit seq, which is applied, is visible.
func (c *Commits) WaitPublished(seq uint64) {
	if c.published.Load() >= seq {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.published.Load() < seq {
		c.mu.waiting++
		c.mu.inOrder.Wait()
		c.mu.waiting--
	}
}

// Waiting returns how many wait until a commit is visible.
func (c *Commits) Waiting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.waiting
}

// OldestStart returns where the head begins for the oldest open snapshot; now, if none is
// open.
func (c *Commits) OldestStart(now int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, sn := range c.mu.open {
		now = min(now, sn.start)
	}
	return now
}

// setFloorLocked: the oldest open snapshot, or what the next one will be.
func (c *Commits) setFloorLocked() {
	floor := c.published.Load()
	if len(c.mu.open) > 0 {
		floor = min(floor, c.mu.open[0].seq)
	}
	c.floor.Store(floor)
}

// Acquire opens a snapshot of all that is published, with a head that begins at start.
func (c *Commits) Acquire(now time.Time, start int64) *Snapshot {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.opened++
	sn := &Snapshot{seq: c.published.Load(), number: c.mu.opened, start: start, opened: now}
	c.mu.open = append(c.mu.open, sn) // published never falls, so this keeps the order
	c.setFloorLocked()
	return sn
}

// Release closes a snapshot and reports whether the floor rose, so that marks below
// it can be swept.
func (c *Commits) Release(sn *Snapshot) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.Index(c.mu.open, sn); i >= 0 {
		c.mu.open = slices.Delete(c.mu.open, i, i+1)
		if sn.gone != nil {
			close(sn.gone)
		}
	}
	before := c.floor.Load()
	c.setFloorLocked()
	return c.floor.Load() > before
}

// settleFor bounds how long Settle waits. Most queries take a few milliseconds.
const settleFor = 20 * time.Millisecond

// Settle returns when nobody reads any more who does so now, or after 20 ms. Maintenance
// that holds on to retired files until then closes them itself; the last query would have to
// unmap them, and free up to some hundred megabytes of page cache, on its way out.
//
// The system's clock ends the wait: one that a test has stopped keeps nobody waiting.
func (c *Commits) Settle() {
	late := clock.System.NewTicker(settleFor)
	defer late.Stop()
	for _, sn := range c.reading() {
		select {
		case <-sn.gone:
		case <-late.C():
			return
		}
	}
}

// reading returns the open snapshots, whose Release tells.
func (c *Commits) reading() []*Snapshot {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, sn := range c.mu.open {
		if sn.gone == nil {
			sn.gone = make(chan struct{})
		}
	}
	return slices.Clone(c.mu.open)
}

// Within implements memseries.Snapshots.
func (c *Commits) Within(lo, hi uint64) bool {
	if c.published.Load() < hi {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	i := sort.Search(len(c.mu.open), func(i int) bool { return c.mu.open[i].seq >= lo })
	return i < len(c.mu.open) && c.mu.open[i].seq < hi
}

// Opened returns how many snapshots were opened so far.
func (c *Commits) Opened() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.opened
}

// AllClosed reports whether the first n snapshots that were opened are closed.
func (c *Commits) AllClosed(n uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.mu.open) == 0 || c.mu.open[0].number > n
}

// Open returns how many snapshots are open and since when the oldest is.
func (c *Commits) Open() (n int, oldest time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.mu.open) > 0 {
		oldest = c.mu.open[0].opened
	}
	return len(c.mu.open), oldest
}
