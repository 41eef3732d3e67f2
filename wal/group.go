package wal

import (
	"path/filepath"
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
	group []*Commit // taken from the queue, in order
	out   logWriter

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
// in memory and calls Settle. Otherwise Commit.Apply has been called, and maybe those of other
// commits: the caller holds no lock that they take.
func (l *Log) Write(c *Commit) error {
	if !c.rotate {
		c.encode(l.comp)
	}
	leads, poison := l.queue.arrive(c)
	switch {
	case leads:
		l.leadGroup(c, poison)
	case c.err == nil && !l.leaderApplies():
		c.apply()
	}
	return c.err
}

// leadGroup writes the ready commits at the front of the queue, of which own is the
// first, and passes the lead on. poison is why the log may not be written any more.
func (l *Log) leadGroup(own *Commit, poison error) {
	g := &l.lead
	syncs := l.opts.Sync.mode == ModeCommit
	if poison == nil && syncs {
		g.gather(&l.queue)
	}
	g.group = l.queue.take(g.group[:0])
	out := outcome{err: poison}
	if poison == nil {
		out.stood, out.err = l.writeGroup()
	}
	if out.stood > 0 && syncs {
		start := time.Now()
		out.unsynced = l.open.sync(l.open.written.Load())
		g.lastSync = time.Since(start)
		if out.unsynced == nil {
			l.reach.noteAtOnce() // before anybody is told
		}
	}
	out.written = l.open.written.Load()
	l.finishGroup(own, &out)
}

// gather lets the writers of the last group come back with their next commits, so
// that they share a sync instead of taking turns: without it one of them goes ahead
// alone each time, and the others wait for two syncs. It waits for as many as there
// were last time, but never longer than half a sync. Alone, a writer never waits.
// BenchmarkSyncCommit pays for it.
func (g *leader) gather(q *commitQueue) {
	if g.lastSize < 2 {
		return
	}
	start := time.Now()
	for int(q.ready.Load()) < g.lastSize && time.Since(start) < g.lastSync/2 {
		runtime.Gosched()
	}
}

// writeGroup writes the group and returns how many of its commits are whole in the
// log, and why the next one is not.
func (l *Log) writeGroup() (stood int, err error) {
	group, out := l.lead.group, &l.lead.out
	if err := out.cut(); err != nil {
		return 0, err
	}
	for i, c := range group {
		if c.err != nil {
			n, err := out.flush(group[stood:i])
			return stood + n, fileutil.JoinErrors(err, c.err)
		}
		if c.rotate || out.mustRotate(c) {
			n, err := out.flush(group[stood:i])
			if stood += n; err != nil {
				return stood, err
			}
			if err := l.rotate(c); err != nil {
				return stood, err
			}
		}
		out.append(c)
	}
	n, err := out.flush(group[stood:])
	return stood + n, err
}

// rotate begins the next segment, in which c is the first commit: sync the old one,
// create the new one with its header, sync the directory. The leader calls it with
// nothing left to flush.
//
// When the new segment cannot be made the old one stays current, and the next commit
// that needs to rotate tries again. A failed sync or close poisons the log.
func (l *Log) rotate(c *Commit) error {
	if l.opts.Sync.mode != ModeNever {
		if err := l.open.sync(l.open.written.Load()); err != nil {
			return err
		}
	}
	out := &l.lead.out
	old, lastFrame := l.open.file, out.cur.lastFrame
	nextSeq := c.seq
	if c.rotate {
		nextSeq = l.open.written.Load() + 1
	}
	if err := out.create(l.Segment()+1, nextSeq); err != nil {
		return err
	}
	l.reach.note()
	h := out.cur.header
	c.start = Start{Segment: l.Segment(), NextSeq: h.nextSeq, NextRef: h.nextRef, LastFrame: lastFrame}
	if l.opts.Sync.mode == ModeNever {
		return nil // open.older has it
	}
	if err := old.Close(); err != nil {
		return l.queue.poison(errors.WithMessagef(err, "close log segment %s", filepath.Base(old.Name())))
	}
	return nil
}

// finishGroup tells the owners what became of their commits, passes the lead on and applies
// what is written.
func (l *Log) finishGroup(own *Commit, out *outcome) {
	group := l.lead.group // the next leader's, once the lead is passed
	l.lead.lastSize = len(group)
	l.stats.group(group[:out.stood])
	rest, passed := l.queue.finish(own, group, out)
	switch {
	case !out.stands():
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

// leaderApplies says that the leader applies its group. Those that a sync wakes all at once
// would mostly find that it is not their turn yet, and be woken twice (BenchmarkSyncCommit).
// Without a sync groups are small, and their owners quicker than one goroutine.
func (l *Log) leaderApplies() bool { return l.opts.Sync.mode == ModeCommit }

func (c *Commit) apply() {
	if c.Apply != nil {
		c.Apply()
	}
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
