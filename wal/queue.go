package wal

import (
	"sync"
	"sync/atomic"
)

// commitQueue are the commits that are enqueued and not written yet, in the order of their
// sequence numbers, and why no more are taken. The owner of the commit at the front leads.
//
// Its lock is a leaf, and never held during I/O.
type commitQueue struct {
	mu struct {
		sync.Mutex
		idle       sync.Cond // signalled when nobody leads and the queue is empty
		head, tail *Commit
		leading    bool          // somebody writes, or was woken to
		nextSeq    uint64        // of the next commit that is enqueued
		unsettled  int           // failed commits whose owners have not called Settle
		settled    chan struct{} // closed when unsettled falls to zero; nil if it is zero
		refused    error         // why the last write failed; nil after a success
		poisoned   error         // sticky
		closed     bool
	}
	ready atomic.Int32 // commits in the queue whose owners wait; the leader takes
}

func (q *commitQueue) init(nextSeq uint64) {
	q.mu.idle.L = &q.mu.Mutex
	q.mu.nextSeq = nextSeq
}

// add gives a commit its number and its place.
func (q *commitQueue) add(c *Commit) error {
	q.mu.Lock()
	err := q.refusalLocked()
	if err == nil {
		q.addLocked(c)
	}
	q.mu.Unlock() // not by a defer, as in finish: one percent of a small commit (BenchmarkCommit)
	return err
}

func (q *commitQueue) addLocked(c *Commit) {
	if !c.rotate {
		c.seq = q.mu.nextSeq
		q.mu.nextSeq++
	}
	c.state, c.next = stateQueued, nil
	if q.mu.tail == nil {
		q.mu.head = c
	} else {
		q.mu.tail.next = c
	}
	q.mu.tail = c
}

func (q *commitQueue) refusalLocked() error {
	switch {
	case q.mu.closed:
		return ErrClosed
	case q.mu.poisoned != nil:
		return q.mu.poisoned
	case q.mu.unsettled > 0:
		return ErrRetry
	default:
		return nil
	}
}

// arrive says that a commit is complete, and waits until it is written by somebody else, has
// failed, or is at the front with nobody leading: then its owner leads. poison is why the log
// may not be written any more.
func (q *commitQueue) arrive(c *Commit) (leads bool, poison error) {
	q.mu.Lock()
	switch c.state {
	case stateDone: // failed together with one in front of it
		q.mu.Unlock()
		return false, nil
	case stateIdle:
		q.mu.Unlock()
		panic("BUG: write of a commit that was not enqueued")
	}
	c.state = stateReady
	q.ready.Add(1)
	if q.mu.leading || q.mu.head != c {
		q.mu.Unlock()
		<-c.wake
		if c.state == stateDone {
			return false, nil
		}
		q.mu.Lock()
	}
	q.mu.leading = true
	poison = q.mu.poisoned
	q.mu.Unlock()
	return true, poison
}

// take moves ready commits from the front of the queue into a group.
func (q *commitQueue) take(group []*Commit) []*Commit {
	size := int64(0)
	q.mu.Lock()
	for c := q.mu.head; c != nil && c.state == stateReady && size < maxGroupBytes; c = q.mu.head {
		group = append(group, c)
		if q.mu.head = c.next; q.mu.head == nil {
			q.mu.tail = nil
			break // how long the last one is does not matter
		}
		size += c.end(0, maxFrameSize)
	}
	q.mu.Unlock()
	q.ready.Add(-int32(len(group)))
	return group
}

// outcome is what became of a group.
type outcome struct {
	stood    int    // so many of its commits are whole in the log
	err      error  // why the next one is not, nor what is queued behind it
	unsynced error  // why those that stand may not survive
	written  uint64 // the number of the last commit that is in the log
}

// stands says that there are commits that are written and, if they have to be, synced.
func (o *outcome) stands() bool { return o.stood > 0 && o.unsynced == nil }

// finish tells the owners of commits that failed, passes the lead on and says whether somebody
// has it. rest are the commits that are written, linked to each other, without the leader's own.
func (q *commitQueue) finish(own *Commit, group []*Commit, out *outcome) (rest *Commit, passed bool) {
	q.mu.Lock()
	switch {
	case out.unsynced != nil:
		doubt := indeterminate(out.unsynced)
		for _, c := range group[:out.stood] {
			q.doneLocked(c, doubt, c == own)
		}
		out.err = out.unsynced
	case out.stood > 0:
		rest = linkDone(group[:out.stood])
	}
	if out.err == nil {
		q.mu.refused = nil
	} else {
		q.failLocked(group[out.stood:], own, NotCommitted(out.err))
		q.mu.nextSeq = out.written + 1
	}
	clear(group)
	passed = q.passLeadLocked()
	q.mu.Unlock()
	return rest, passed
}

// linkDone marks commits as written, of which the leader's own is the first, and returns the others
// linked to each other, as the group belongs to the next leader soon.
func linkDone(group []*Commit) (rest *Commit) {
	for i := len(group) - 1; i >= 0; i-- {
		c := group[i]
		c.state, c.err, c.next = stateDone, nil, nil
		if i > 0 {
			c.next, rest = rest, c
		}
	}
	return rest
}

// failLocked fails the commits given and all that are queued. Their sequence numbers
// are free again; nobody gets one before all are settled.
func (q *commitQueue) failLocked(group []*Commit, own *Commit, err error) {
	q.mu.refused = err
	for _, c := range group {
		q.doneLocked(c, err, c == own)
	}
	for c := q.mu.head; c != nil; {
		next := c.next
		if c.state == stateReady {
			q.ready.Add(-1)
		}
		q.doneLocked(c, err, false)
		c = next
	}
	q.mu.head, q.mu.tail = nil, nil
}

// doneLocked ends a commit that failed and wakes its owner if that waits; the leader's own does
// not.
//
//go:noinline
func (q *commitQueue) doneLocked(c *Commit, err error, own bool) {
	waiting := c.state == stateReady && !own
	c.state, c.err, c.next = stateDone, err, nil
	if q.mu.unsettled == 0 {
		q.mu.settled = make(chan struct{})
	}
	q.mu.unsettled++
	if waiting {
		c.wake <- struct{}{}
	}
}

// passLeadLocked wakes the owner of the commit at the front if that is ready, and says whether it
// did; otherwise it leads when it calls Write. After it the leader's state is another's.
func (q *commitQueue) passLeadLocked() bool {
	if c := q.mu.head; c != nil && c.state == stateReady {
		c.wake <- struct{}{}
		return true
	}
	q.mu.leading = false
	if q.mu.head == nil {
		q.mu.idle.Broadcast()
	}
	return false
}

// settle is Log.Settle.
func (q *commitQueue) settle(c *Commit) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if c.state != stateDone || c.err == nil {
		return
	}
	c.state = stateIdle
	if q.mu.unsettled--; q.mu.unsettled == 0 {
		close(q.mu.settled)
		q.mu.settled = nil
	}
}

// unsettled returns what is closed when all failed commits are settled; nil if they are.
func (q *commitQueue) unsettled() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.mu.settled
}

// poison makes the log read-only because of cause, unless it is already, and returns
// the error that says so. A nil cause only asks.
func (q *commitQueue) poison(cause error) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.mu.poisoned == nil && cause != nil {
		q.mu.poisoned = Poisoned(cause)
	}
	return q.mu.poisoned
}

// refusal is why the last write failed, or no other may follow.
func (q *commitQueue) refusal() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.mu.poisoned != nil {
		return q.mu.poisoned
	}
	return q.mu.refused
}

// retry is Log.Retry.
func (q *commitQueue) retry() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.mu.poisoned == nil {
		q.mu.refused = nil
	}
	return q.mu.poisoned
}

// alive returns an error if the log is poisoned or closed.
func (q *commitQueue) alive() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.mu.poisoned == nil && q.mu.closed {
		return ErrClosed
	}
	return q.mu.poisoned
}

// close takes no more commits and waits for those that it has. It returns ErrClosed if it was
// called before.
func (q *commitQueue) close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.mu.closed {
		return ErrClosed
	}
	q.mu.closed = true
	for q.mu.leading || q.mu.head != nil {
		q.mu.idle.Wait()
	}
	return nil
}
