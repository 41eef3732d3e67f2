package wal

import (
	"encoding/binary"
	"io"
	"runtime"
	"time"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/fileutil"
)

const (
	// maxGroupBytes bounds what one write carries unless a single commit is larger.
	// Beyond a MiB a write costs by the byte, and its commits only wait for each other.
	maxGroupBytes = 1 << 20
	// maxFrameSize in bytes: type, three uvarints, checksum.
	maxFrameSize = 1 + 3*10 + crcSize
)

// leader is what the leading goroutine works with; it goes from one to the next.
type leader struct {
	off     int64                // end of the last whole commit in the current segment, bytes
	first   int64                // end of its header
	behind  fileutil.WriteBehind // of the segment
	cut     bool                 // the file may be longer than off: cut it before the next write
	buf     []byte               // what the next write carries
	frame   []byte
	group   []*Commit     // taken from the queue, in order
	ends    []int64       // where the commits in buf end in the segment
	pending int           // index in group of the first commit in buf
	spare   fileutil.File // the next segment, created but without a whole header

	header    header // of the segment
	lastFrame uint32 // checksum of its last frame, 0 if it has none
	told      uint64 // the watermark as its header or its last full frame says it
	short     int    // frames since then that do not
	expiry    *segmentExpiry

	lastSize int           // commits of the last group
	lastSync time.Duration // how long its sync took
}

// Write brings an enqueued commit, whose bodies are complete, into the log. It
// returns when the commit is written and, under SyncCommit, synced.
//
// Errors: ErrNotCommitted with the cause (ErrDiskFull if it is that; ErrPoisoned if the
// log is): the commit is not in the log. ErrIndeterminate, which comes with
// ErrPoisoned: it was written, but not synced. When a commit fails, all that are
// behind it in the queue fail, too. After an error the owner undoes what it prepared
// in memory and calls Settle. Otherwise Commit.Apply has been called, and maybe those of other commits: the caller
// holds no lock that they take.
func (l *Log) Write(c *Commit) error {
	if !c.rotate {
		c.encode(l.comp)
	}
	l.mu.Lock()
	switch c.state {
	case stateDone: // failed together with one in front of it
		l.mu.Unlock()
		return c.err
	case stateIdle:
		l.mu.Unlock()
		panic("BUG: write of a commit that was not enqueued")
	}
	c.state = stateReady
	l.queued.Add(1)
	if l.mu.leading || l.mu.head != c {
		l.mu.Unlock()
		<-c.wake
		if c.state == stateDone {
			if c.err == nil && !l.leaderApplies() {
				c.apply()
			}
			return c.err
		}
		l.mu.Lock()
	}
	l.mu.leading = true
	poison := l.mu.poisoned
	l.mu.Unlock()
	l.leadGroup(c, poison)
	return c.err
}

// leadGroup writes the ready commits at the front of the queue, of which own is the
// first, and passes the lead on. poison is why the log may not be written any more.
func (l *Log) leadGroup(own *Commit, poison error) {
	if poison == nil {
		l.gather()
	}
	l.takeGroup()
	g := &l.lead
	out := outcome{err: poison}
	if poison == nil {
		out.stood, out.err = l.writeGroup()
	}
	if out.stood > 0 && l.opts.Sync.mode == ModeCommit {
		start := time.Now()
		out.unsynced = l.sync(l.written.Load())
		g.lastSync = time.Since(start)
		if out.unsynced == nil {
			l.noteAtOnce() // before anybody is told
		}
	}
	l.finishGroup(own, out)
}

// outcome is what became of a group.
type outcome struct {
	stood    int   // so many of its commits are whole in the log
	err      error // why the next one is not, nor what is queued behind it
	unsynced error // why those that stand may not survive
}

// gather lets the writers of the last group come back with their next commits, so
// that they share a sync instead of taking turns: without it one of them goes ahead
// alone each time, and the others wait for two syncs. It waits for as many as there
// were last time, but never longer than half a sync. Alone, a writer never waits.
// BenchmarkSyncCommit pays for it.
func (l *Log) gather() {
	g := &l.lead
	if l.opts.Sync.mode != ModeCommit || g.lastSize < 2 {
		return
	}
	start := time.Now()
	for int(l.queued.Load()) < g.lastSize && time.Since(start) < g.lastSync/2 {
		runtime.Gosched()
	}
}

// takeGroup moves ready commits from the front of the queue into the group.
func (l *Log) takeGroup() {
	g := &l.lead
	g.group = g.group[:0]
	size := int64(0)
	l.mu.Lock()
	for c := l.mu.head; c != nil && c.state == stateReady && size < maxGroupBytes; c = l.mu.head {
		size += c.end(0, maxFrameSize)
		g.group = append(g.group, c)
		if l.mu.head = c.next; l.mu.head == nil {
			l.mu.tail = nil
		}
	}
	l.mu.Unlock()
	l.queued.Add(-int32(len(g.group)))
}

// writeGroup writes the group and returns how many of its commits are whole in the
// log, and why the next one is not.
func (l *Log) writeGroup() (stood int, err error) {
	g := &l.lead
	g.buf, g.ends, g.pending = g.buf[:0], g.ends[:0], 0
	if err := l.retryCut(); err != nil {
		return 0, err
	}
	for i, c := range g.group {
		if c.err != nil {
			stood, err := l.flush(i)
			return stood, fileutil.JoinErrors(err, c.err)
		}
		if c.rotate || l.mustRotate(c) {
			if stood, err := l.flush(i); err != nil {
				return stood, err
			}
			if err := l.rotate(c); err != nil {
				return i, err
			}
		}
		if !c.rotate {
			l.appendCommit(c)
		}
		g.ends = append(g.ends, g.end())
	}
	return l.flush(len(g.group))
}

// end returns where buf ends in the segment.
func (g *leader) end() int64 { return g.off + int64(len(g.buf)) }

// mustRotate says that c does not fit into the rest of the segment. A segment takes at
// least one commit, however large.
func (l *Log) mustRotate(c *Commit) bool {
	off := l.lead.end()
	return off > l.lead.first && c.end(off, maxFrameSize) > l.opts.SegmentSize
}

// appendCommit appends the commit's records and frame to buf.
func (l *Log) appendCommit(c *Commit) {
	g := &l.lead
	for i := range c.stored[:c.n] {
		s := &c.stored[i]
		g.buf = appendRecord(g.buf, g.end(), s.kind, s.data)
	}
	g.frameOf(c, l.synced.Load())
	c.frameSum = binary.BigEndian.Uint32(g.frame[len(g.frame)-crcSize:])
	g.buf = appendRecord(g.buf, g.end(), CompressionNone, g.frame)
	g.expiry.note(c)
}

// maxShort is how many short frames may follow each other: what says where the watermark is must
// not be in one place only, where damage takes it away.
const maxShort = 63

// frameOf makes the frame of a commit. That of a single record is short if nothing but its number is
// new, which saves four bytes of 53.
func (g *leader) frameOf(c *Commit, synced uint64) {
	if c.n == 1 && synced == g.told && g.short < maxShort {
		g.short++
		g.frame = appendShortFrame(g.frame[:0], c.seq, c.sum)
		return
	}
	g.told, g.short = synced, 0
	g.frame = appendFrame(g.frame[:0], frame{seq: c.seq, records: uint64(c.n), lag: c.seq - synced}, c.sum)
}

// flush writes buf, which holds the commits of the group before next, and returns how
// many commits of the group are whole in the log. After a failed or short write those
// that went out whole stand, and the file is cut behind them.
func (l *Log) flush(next int) (stood int, err error) {
	g := &l.lead
	if len(g.buf) == 0 {
		g.pending, g.ends = next, g.ends[:0]
		return next, nil
	}
	n, err := l.file.Write(g.buf)
	if err == nil && n < len(g.buf) {
		err = io.ErrShortWrite
	}
	l.stats.writes.Add(1)
	wrote := g.off + int64(max(n, 0))
	stood = g.pending
	for _, end := range g.ends {
		if end > wrote {
			break
		}
		l.stats.bytes.Add(uint64(end - g.off))
		g.off = end
		if c := g.group[stood]; !c.rotate {
			g.lastFrame = c.frameSum
		}
		stood++
	}
	if stood > g.pending {
		l.written.Store(max(l.written.Load(), g.group[stood-1].seq))
	}
	g.buf, g.ends, g.pending = trimBuffer(g.buf), g.ends[:0], stood
	if err == nil {
		l.startWriteback()
		return stood, nil
	}
	g.cut, g.short = true, maxShort // a full frame may be among what is cut
	err = errors.WithMessagef(err, "write log segment %s", segmentName(l.Segment()))
	return stood, fileutil.JoinErrors(err, l.retryCut())
}

// trimBuffer empties a buffer and drops one that a huge commit made.
func trimBuffer(b []byte) []byte {
	if cap(b) > 4*maxGroupBytes {
		return nil
	}
	return b[:0]
}

// retryCut cuts what a failed write left behind the last whole commit, if anything.
// The leader calls it, or Close when there is none any more.
func (l *Log) retryCut() error {
	g := &l.lead
	if !g.cut {
		return nil
	}
	if err := l.file.Truncate(g.off); err != nil {
		return errors.WithMessagef(err, "cut log segment %s", segmentName(l.Segment()))
	}
	g.cut = false
	return nil
}

// finishGroup tells the owners what became of their commits, passes the lead on and applies what is written.
func (l *Log) finishGroup(own *Commit, out outcome) {
	g := &l.lead
	g.lastSize = len(g.group)
	l.stats.group(g.group[:out.stood])
	var rest *Commit // behind own, in the log
	stands := out.stood > 0 && out.unsynced == nil
	l.mu.Lock()
	switch {
	case out.unsynced != nil:
		doubt := indeterminate(out.unsynced)
		for _, c := range g.group[:out.stood] {
			l.doneLocked(c, doubt, c == own)
		}
		out.err = out.unsynced
	case stands:
		rest = linkDone(g.group[:out.stood])
	}
	if out.err == nil {
		l.mu.refused = nil
	} else {
		l.failLocked(g.group[out.stood:], own, NotCommitted(out.err))
	}
	clear(g.group)
	passed := l.passLeadLocked()
	l.mu.Unlock()
	switch {
	case !stands:
	case l.leaderApplies():
		if passed {
			runtime.Gosched() // to the next leader: the disk has nothing to do until it syncs
		}
		own.apply()
		rest.wakeAll((*Commit).apply)
	default:
		rest.wakeAll(func(*Commit) {})
		own.apply()
	}
}

// leaderApplies says that the leader applies its group. Those that a sync wakes all at once would mostly find that it is not
// their turn yet, and be woken twice (BenchmarkSyncCommit). Without a sync groups are small, and their owners quicker than one goroutine.
func (l *Log) leaderApplies() bool { return l.opts.Sync.mode == ModeCommit }

func (c *Commit) apply() {
	if c.Apply != nil {
		c.Apply()
	}
}

// linkDone marks commits as written, of which the leader's own is the first, and returns the others linked to each other, as the
// group belongs to the next leader soon.
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

// wakeAll wakes the owners of linked commits, each behind a call of first.
func (c *Commit) wakeAll(first func(*Commit)) {
	for c != nil {
		next := c.next // the owner may use c again once it is awake
		c.next = nil
		first(c)
		c.wake <- struct{}{}
		c = next
	}
}

// failLocked fails the commits given and all that are queued. Their sequence numbers
// are free again; nobody gets one before all are settled.
func (l *Log) failLocked(group []*Commit, own *Commit, err error) {
	l.mu.refused = err
	for _, c := range group {
		l.doneLocked(c, err, c == own)
	}
	for c := l.mu.head; c != nil; {
		next := c.next
		if c.state == stateReady {
			l.queued.Add(-1)
		}
		l.doneLocked(c, err, false)
		c = next
	}
	l.mu.head, l.mu.tail = nil, nil
	l.mu.nextSeq = l.written.Load() + 1
}

// doneLocked ends a commit that failed and wakes its owner if that waits; the leader's own does
// not.
func (l *Log) doneLocked(c *Commit, err error, own bool) {
	waiting := c.state == stateReady && !own
	c.state, c.err, c.next = stateDone, err, nil
	if l.mu.unsettled == 0 {
		l.mu.settled = make(chan struct{})
	}
	l.mu.unsettled++
	if waiting {
		c.wake <- struct{}{}
	}
}

// passLeadLocked wakes the owner of the commit at the front if that is ready, and says whether it did;
// otherwise it leads when it calls Write. After it the leader's state is another's.
func (l *Log) passLeadLocked() bool {
	if c := l.mu.head; c != nil && c.state == stateReady {
		c.wake <- struct{}{}
		return true
	}
	l.mu.leading = false
	if l.mu.head == nil {
		l.mu.idle.Broadcast()
	}
	return false
}
